"""Flags of `kshunt serve` that say who is let in."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kshunt.backend.access import socket_mode
from kshunt.backend.access.cluster_keys import (
    KEYS_VARIABLE,
    ClusterKeys,
    default_path,
    named_path,
    read_or_make_keys,
)
from kshunt.backend.access.roles import Role, role_of
from kshunt.backend.clock import Clock
from kshunt.backend.errors import BadInput, ConfigError

if TYPE_CHECKING:
    from kshunt.backend.access.oidc import ClaimsCheck
    from kshunt.backend.access.tokens import TokenFile

_TOGETHER: Final = ("oidc_issuer", "oidc_audience", "oidc_keys")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    socket_mode.add_options(parser)
    group = parser.add_argument_group("who may connect to a TCP port")
    group.add_argument(
        "--tls-certificate",
        metavar="FILE",
        type=Path,
        help="PEM file with the certificate and its chain",
    )
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="PEM, without a passphrase")
    group.add_argument(
        "--tokens", metavar="FILE", type=Path, help="file of valid tokens; see kshunt tokens"
    )
    group.add_argument(
        "--oidc-issuer", metavar="URL", help="accept tokens from this identity provider"
    )
    group.add_argument(
        "--oidc-audience", metavar="NAME", help="the name of this backend at that provider"
    )
    group.add_argument(
        "--oidc-keys",
        metavar="FILE|URL",
        help="the keys of the provider: a JWKS file, or an https address",
    )
    group.add_argument(
        "--oidc-role-claim",
        metavar="CLAIM",
        default="roles",
        help="the claim that holds the roles, as realm_access.roles (default roles)",
    )
    group.add_argument(
        "--oidc-role",
        metavar="VALUE=ROLE",
        action="append",
        default=[],
        help="map a value of that claim to viewer, operator or admin (default: the same names)",
    )
    backends = parser.add_argument_group("what the backends of a cluster share")
    backends.add_argument(
        "--cluster-keys",
        metavar="FILE",
        type=Path,
        help="keys by which the backends identify each other; created if missing (default "
        f"{KEYS_VARIABLE}, or a file of the cluster in $XDG_STATE_HOME/kshunt/keys)",
    )
    backends.add_argument(
        "--peers",
        metavar="URL[,...]",
        action="append",
        default=[],
        help="backends of this cluster on other hosts; changes may be forwarded to them",
    )


def keys_of(
    options: argparse.Namespace, cluster_id: str, environment: Mapping[str, str] = os.environ
) -> ClusterKeys:
    """The keys that the backends of a cluster share; they are made where there are none.

    Args:
        options: of a parser with `add_options`.
        cluster_id: the cluster's own id, which names the file where nobody names one.
        environment: the process's variables.

    Raises:
        ConfigError: the file cannot be read, made or trusted.
    """
    named = named_path(options.cluster_keys, environment)
    return read_or_make_keys(named or default_path(cluster_id, environment))


def credentials_of(options: argparse.Namespace, clock: Clock) -> list[TokenFile | ClaimsCheck]:
    """What callers are asked for; empty: nothing.

    Raises:
        ConfigError: a flag lacks another one, or cannot be meant.
    """
    found: list[TokenFile | ClaimsCheck] = []
    if options.tokens is not None:
        from kshunt.backend.access.tokens import TokenFile

        found.append(TokenFile(options.tokens, clock))
    given = [name for name in _TOGETHER if getattr(options, name)]
    if given and len(given) < len(_TOGETHER):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in _TOGETHER)
        raise ConfigError(f"{flags} must be given together; nothing was started.")
    if given:
        from kshunt.backend.access.oidc import ClaimsCheck, Provider

        roles = _roles(options.oidc_role)
        provider = Provider(
            options.oidc_issuer,
            options.oidc_audience,
            _keys(options.oidc_keys),
            options.oidc_role_claim,
            **({"roles": roles} if roles else {}),
        )
        found.append(ClaimsCheck(provider, clock))
    return found


def _roles(texts: Sequence[str]) -> dict[str, Role]:
    found = {}
    for text in texts:
        value, equals, role = text.rpartition("=")
        if not value or not equals:
            raise ConfigError(f"--oidc-role '{text}' is not like kafka-oncall=operator.")
        try:
            found[value] = role_of(role)
        except BadInput as error:
            raise ConfigError(f"--oidc-role: {error}") from None
    return found


def _keys(where: str) -> str:
    """The path or address of the keys; whoever could change them on their way could let in anybody.

    Raises:
        ConfigError: it is an address without TLS, but for this machine's own.
    """
    if "://" not in where:
        return where
    url = urlsplit(where)
    local = url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost", "::1")
    if url.scheme != "https" and not local:
        raise ConfigError(f"--oidc-keys {where} is not an https address.")
    return where
