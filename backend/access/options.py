"""Flags of `kshunt serve` that say who is let in."""

from __future__ import annotations

import os
from argparse import Namespace
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
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Flag
from kshunt.backend.errors import BadInput

if TYPE_CHECKING:
    from kshunt.backend.access.oidc import ClaimsCheck
    from kshunt.backend.access.tokens import TokenFile

_TOGETHER: Final = ("oidc_issuer", "oidc_audience", "oidc_keys")


_PORT: Final = "who may connect to a TCP port"
_BACKENDS: Final = "what the backends of a cluster share"
FLAGS: Final = (
    *socket_mode.FLAGS,
    Flag(
        "tls-certificate",
        "PEM file with the certificate and its chain.",
        "FILE",
        value=Path,
        group=_PORT,
    ),
    Flag("tls-key", "PEM, without a passphrase.", "FILE", value=Path, group=_PORT),
    Flag("tokens", "File of valid tokens; see kshunt tokens.", "FILE", value=Path, group=_PORT),
    Flag("oidc-issuer", "Accept tokens from this identity provider.", "URL", group=_PORT),
    Flag("oidc-audience", "The name of this backend at that provider.", "NAME", group=_PORT),
    Flag(
        "oidc-keys",
        "The keys of the provider: a JWKS file, or an https address.",
        "FILE|URL",
        group=_PORT,
    ),
    Flag(
        "oidc-role-claim",
        "The claim that holds the roles, as realm_access.roles.",
        "CLAIM",
        default="roles",
        group=_PORT,
    ),
    Flag(
        "oidc-role",
        "Map a value of that claim to viewer, operator or admin (default: the same names).",
        "VALUE=ROLE",
        repeatable=True,
        group=_PORT,
    ),
    Flag(
        "cluster-keys",
        "Keys by which the backends identify each other; created if missing (default: a file of "
        "the cluster in $XDG_STATE_HOME/kshunt/keys).",
        "FILE",
        value=Path,
        variable=KEYS_VARIABLE,
        group=_BACKENDS,
    ),
    Flag(
        "peers",
        "Backends of this cluster on other hosts; changes may be forwarded to them.",
        "URL[,...]",
        repeatable=True,
        group=_BACKENDS,
    ),
)


def keys_of(
    options: Namespace, cluster_id: str, environment: Mapping[str, str] = os.environ
) -> ClusterKeys:
    """The keys that the backends of a cluster share; they are made where there are none.

    Args:
        options: what was read of `FLAGS`.
        cluster_id: the cluster's own id, which names the file where nobody names one.
        environment: the process's variables.

    Raises:
        ConfigError: the file cannot be read, made or trusted.
    """
    named = named_path(options.cluster_keys, environment)
    return read_or_make_keys(named or default_path(cluster_id, environment))


def credentials_of(options: Namespace, clock: Clock) -> list[TokenFile | ClaimsCheck]:
    """What callers are asked for; empty: nothing.

    Raises:
        UsageError: a flag lacks another one, or cannot be meant.
    """
    found: list[TokenFile | ClaimsCheck] = []
    if options.tokens is not None:
        from kshunt.backend.access.tokens import TokenFile

        found.append(TokenFile(options.tokens, clock))
    given = [name for name in _TOGETHER if getattr(options, name)]
    if given and len(given) < len(_TOGETHER):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in _TOGETHER)
        raise UsageError(f"{flags} must be given together; nothing was started.")
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
            raise UsageError(f"--oidc-role '{text}' is not like kafka-oncall=operator.")
        try:
            found[value] = role_of(role)
        except BadInput as error:
            raise UsageError(f"--oidc-role: {error}") from None
    return found


def _keys(where: str) -> str:
    """The path or address of the keys.

    An attacker who could change the keys on their way could let in anybody.

    Raises:
        ConfigError: it is an address without TLS, but for this machine's own.
    """
    if "://" not in where:
        return where
    url = urlsplit(where)
    local = url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost", "::1")
    if url.scheme != "https" and not local:
        raise UsageError(f"--oidc-keys {where} is not an https address.")
    return where
