"""How a command line names a cluster, and an address to serve at."""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.errors import ConfigError


def cluster_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the flags that name a cluster."""
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        required=required,
        help="brokers of the cluster to connect to",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="Kafka client properties (security), as Kafka's own tools take them",
    )


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address.

    Raises:
        ConfigError: it is none.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"'{address}' is no HOST:PORT.")
    return host.strip("[]"), int(port)


def loopback(address: str) -> tuple[str, int]:
    """Host and port of a loopback address.

    Raises:
        ConfigError: it is no address, or one that others could reach.
    """
    host, port = host_and_port(address)
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"{host} is not a loopback address, and `kshunt web` has no authentication.",
            advice="Serve on 127.0.0.1 and reach it through an SSH tunnel.",
        )
    return host, port
