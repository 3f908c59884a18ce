"""Flags that name a cluster or a backend, as all commands have them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import without_secrets, zookeeper_address
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Flag

ZOOKEEPER_HELP: Final = (
    "Deprecated; use --bootstrap-server. The ZooKeeper of the cluster, as in zookeeper.connect."
)
_CLIENT: Final = "with --backend, or a context that names one"

BOOTSTRAP_SERVER: Final = Flag(
    "bootstrap-server", "Brokers of the cluster to connect to first.", "HOST:PORT[,...]"
)
COMMAND_CONFIG: Final = Flag(
    "command-config",
    "Kafka client properties (security), in the format of Kafka's own tools.",
    "FILE",
    value=Path,
)
BACKEND: Final = Flag(
    "backend",
    "Use this shared kshunt backend instead.",
    "unix:PATH|http://HOST:PORT",
)
ZOOKEEPER: Final = Flag("zookeeper", ZOOKEEPER_HELP, "HOST:PORT[,...]")
ZK_CONFIG: Final = Flag(
    "zk-tls-config-file",
    "For --zookeeper: file with zookeeper.ssl.* as in a broker's, "
    "zookeeper.digest=USER:PASSWORD, and the properties of a Kafka client for the brokers.",
    "FILE",
    value=Path,
)
CONTEXT: Final = Flag(
    "context",
    "A cluster or backend that the configuration names; see kshunt config.",
    "NAME",
    variable="KSHUNT_CONTEXT",
)
_NAME_BROKERS: Final = (BOOTSTRAP_SERVER.name, ZOOKEEPER.name, "bootstrap-controller")
CLUSTER_FLAGS: Final = (BOOTSTRAP_SERVER, COMMAND_CONFIG, ZOOKEEPER, ZK_CONFIG)
CLIENT_FLAGS: Final = (
    Flag(
        "token-file",
        "The token; a file that only you may read.",
        "FILE",
        variable="KSHUNT_TOKEN_FILE",
        group=_CLIENT,
    ),
    Flag(
        "token-command",
        "A program that prints the token, such as a keyring's; it runs without a shell.",
        "COMMAND",
        variable="KSHUNT_TOKEN_COMMAND",
        group=_CLIENT,
    ),
    Flag(
        "ca-file",
        "PEM: authorities for the backend's certificate, instead of the system's.",
        "FILE",
        variable="KSHUNT_CA_FILE",
        group=_CLIENT,
    ),
    Flag(
        "tls-server-name",
        "The name in the backend's certificate, if the address has another name.",
        "NAME",
        variable="KSHUNT_TLS_SERVER_NAME",
        group=_CLIENT,
    ),
)
"""What a client shows to a backend, and believes of it."""
BACKEND_FLAGS: Final = (BACKEND, CONTEXT, *CLIENT_FLAGS)
"""What each command has that asks a backend."""
JSON: Final = Flag("json", "Print JSON, errors too.")


def alias_of_command_config(name: str) -> Flag:
    """`--command-config` under the name that one of Kafka's tools has for it."""
    return COMMAND_CONFIG._replace(name=name, also=(COMMAND_CONFIG.name,))


def take_zookeeper(options: argparse.Namespace) -> bool:
    """Put what `--zookeeper` names into the place of the brokers; whether it was given.

    Raises:
        UsageError: the flags exclude each other.
    """
    check_zk_config(options.given, COMMAND_CONFIG.name)
    if options.zookeeper is None:
        return False
    if options.bootstrap_server is not None:
        raise UsageError("please don't specify both --zookeeper and --bootstrap-server")
    options.bootstrap_server = zookeeper_address(options.zookeeper)
    options.command_config = options.zk_tls_config_file or options.command_config
    return True


def check_one_cluster(given: Mapping[str, str], *, may_lack: bool = False) -> None:
    """Whether the flags name exactly one cluster or backend; `may_lack`: or none.

    Raises:
        UsageError: they do not, its flag has no value, or `COMMAND_CONFIG` is not for it.
    """
    ways = [flag.name for flag in (BOOTSTRAP_SERVER, ZOOKEEPER, BACKEND) if flag.name in given]
    if len(ways) > 1 or not (ways or may_lack):
        raise UsageError("give either --bootstrap-server, --backend or --context")
    if ways and not given[ways[0]].strip():
        raise UsageError(f"--{ways[0]} needs a value.")
    check_command_config(given)


def cluster_address(given: Mapping[str, str]) -> str:
    """The brokers that are named, or what takes their place where ZooKeeper is; or empty."""
    if "zookeeper" in given:
        return zookeeper_address(given["zookeeper"])
    return given.get("bootstrap-server", "")


def check_zk_config(given: Mapping[str, str], instead: str = "") -> None:
    """Check that `ZK_CONFIG` fits the other flags; it takes the place of the flag `instead`.

    Raises:
        UsageError: it does not.
    """
    if ZK_CONFIG.name not in given:
        return
    if "zookeeper" not in given:
        raise UsageError(f"--{ZK_CONFIG.name} needs --zookeeper")
    if instead in given:
        raise UsageError(f"--{ZK_CONFIG.name} replaces --{instead}")


def check_command_config(given: Mapping[str, str]) -> None:
    """Whether `COMMAND_CONFIG` is for brokers that are named here.

    Raises:
        UsageError: it is not.
    """
    has_brokers = BACKEND.name not in given and not given.keys().isdisjoint(_NAME_BROKERS)
    if COMMAND_CONFIG.name in given and not has_brokers:
        raise UsageError(
            "--command-config needs --bootstrap-server; a backend has its own configuration",
            advice="Leave out --command-config, or name the brokers instead of the backend.",
        )


def backend_address(given: Mapping[str, str]) -> str:
    """The address of a shared backend, or empty.

    Raises:
        UsageError: it is no such address.
    """
    address = given.get("backend", "")
    if "@" in address and "://" in address:
        raise UsageError(
            f"--backend {without_secrets(address)} holds a password; give a token by --token-file"
        )
    if address and not address.startswith(("unix:/", "http://", "https://")):
        raise UsageError(
            f"'{address}' is not the address of a backend; write unix:/path/to.sock or "
            "http://host:port"
        )
    return address
