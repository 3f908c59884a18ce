"""Where a cluster is first asked for: the bootstrap servers."""

from __future__ import annotations

from kshunt.backend.admin.rpc.connections import Address
from kshunt.backend.errors import ConfigError


def bootstrap_addresses(servers: str) -> tuple[Address, ...]:
    """Hosts and ports of `host:port,host:port`; an IPv6 host is in brackets.

    Raises:
        ConfigError: an entry has no port.
    """
    found = []
    for entry in filter(None, map(str.strip, servers.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()):
            raise ConfigError(f"'{entry}' is not a bootstrap server.", advice="Write host:port.")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ConfigError("No bootstrap server is given.", advice="Write host:port,host:port.")
    return tuple(dict.fromkeys(found))
