"""How a command line names a cluster, and an address to serve at."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from kshunt.backend.errors import ConfigError

PORT_MAX: Final = 65_535
ZOOKEEPER_SCHEME: Final = "zookeeper://"
"""Before what `--zookeeper` names, where it takes the place of brokers."""
ZOOKEEPER_WARNING = (
    "Warning: --zookeeper is deprecated and will be removed in a future version; "
    "--bootstrap-server replaces it."
)
"""KIP-179 and KIP-183 want it on standard error."""


def zookeeper_address(connect: str) -> str:
    """What takes the place of the brokers' addresses.

    Raises:
        ConfigError: it is no `host:port,host:port/chroot`.
    """
    check_connect(connect.strip())
    return f"{ZOOKEEPER_SCHEME}{connect.strip()}"


def check_connect(connect: str) -> None:
    """Whether it can be meant as a `zookeeper.connect`.

    Raises:
        ConfigError: a server has no port, or the chroot is none.
    """
    servers, slash, chroot = connect.partition("/")
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()):
            raise ConfigError(
                f"'{server}' is not the address of a ZooKeeper server.",
                advice="Write host:port,host:port/chroot, as in zookeeper.connect.",
            )
    if slash and (not chroot or chroot[0] == "/" or chroot[-1] == "/" or "//" in chroot):
        raise ConfigError(f"'/{chroot}' is not a valid chroot.", advice="Write host:port/chroot.")


def without_secrets(text: str) -> str:
    """An address, or several, as it may be shown: without passwords and values of parameters.

    What is left out is `…`: all before an `@`, values in a query (`?token=…`), and parameters of
    Spark Connect (`sc://host:15002/;token=…`).
    """
    for pattern, shown in _SECRET_PARTS:
        text = re.sub(pattern, shown, text)
    return text


_SECRET_PARTS: Final = (
    (r"(?<=://)[^/?#\s]*@", "…@"),
    (r"(?<![^\s,])[^\s,/@]*:[^\s,/@]*@(?=[^\s,/@]*:\d)", "…@"),
    (r"([?&;][^=?&;#\s]+)=[^&;#\s]*", r"\1=…"),
)


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address.

    Raises:
        ConfigError: it is none.
    """
    host, colon, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not digits or int(port) > PORT_MAX:
        raise ConfigError(f"'{address}' is not in the form HOST:PORT.")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
