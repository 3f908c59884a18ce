"""Which other backends a request is sent to, and by which way.

Goals
    The journal says where the backend that acts is. It cannot make this backend connect to
    anything that is not a backend of this cluster.
Constraints
    A path of a socket, and a loopback address, mean something on their own host only. A process
    of another user must not be able to take a backend's place.
Algorithm
    An address is used where it is
    1. `unix:PATH` on this host, a socket and not a link, which belongs to this user, and whose
       listening process runs as this user (SO_PEERCRED, asked of the very connection), or
    2. `http` or `https` to a loopback address on this host, or
    3. `https` to an address that `--peers` names; its certificate is checked.
    In addition, the answer has to be signed: see `kshunt.backend.api.forwarding.signatures`.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import stat
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from kshunt.backend.api.client.sending.transport import trusted
from kshunt.backend.errors import ConfigError
from kshunt.backend.operations.journal.entries import Heartbeat
from kshunt.backend.operations.lease.lease_manager import BackendIdentity

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9.:\[\]_-]+")
_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user, group."""
_CONNECTED: Final = "connection.connect_unix_socket.complete"


class ForeignSocket(OSError):
    """A process of another user listens on a socket."""


def peers_of(texts: Sequence[str]) -> frozenset[Origin]:
    """The addresses that `--peers` names.

    Raises:
        ConfigError: one is no address of another host's backend.
    """
    found = set()
    for text in (word.strip() for each in texts for word in each.split(",")):
        origin = origin_of(text)
        if origin is None or origin[0] != "https":
            raise ConfigError(
                f"--peers '{text}' must be like https://kshunt2.example.org:8095.",
                advice="Name the other backends of this cluster by the https address of their "
                "--listen. Backends on this host are found automatically.",
            )
        found.add(origin)
    return frozenset(found)


def origin_of(address: str) -> Origin | None:
    """The parts of a backend's address; None if it is not valid or has more parts."""
    scheme, colon, authority = address.partition("://")
    if not colon or scheme not in _PORTS or not _AUTHORITY.fullmatch(authority):
        return None
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (scheme, host.rstrip("."), port or _PORTS[scheme]) if host else None


def unreachable(me: BackendIdentity, other: Heartbeat, peers: Collection[Origin] = ()) -> str:
    """Why another backend's address is not used here; empty where it is.

    Args:
        me: this backend.
        other: the one that acts, by its heartbeat.
        peers: what `--peers` names.
    """
    if other.address.startswith("unix:"):
        return _elsewhere(me, other, "that is a socket of its own host") or _socket_fault(
            other.address.removeprefix("unix:")
        )
    origin = origin_of(other.address)
    if origin is None:
        return "that is not the address of a backend"
    if _is_own(origin[1]):
        return _elsewhere(me, other, "that address can only be reached on its own host")
    if origin[0] != "https":
        return "plain http is used only within a host"
    return "" if origin in peers else f"--peers of {me.backend} on {me.host} does not name it"


def _elsewhere(me: BackendIdentity, other: Heartbeat, why: str) -> str:
    return "" if me.shares_host_with(other) else f"{why}, but this backend runs on {me.host}"


def _socket_fault(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        return "that is not the address of a backend"
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        # Its backend may have ended a moment ago: to connect says so.
        return ""
    except OSError as error:
        return f"it cannot be reached ({error.strerror})"
    if not stat.S_ISSOCK(found.st_mode):
        return "that file is not a socket"
    if found.st_uid != os.geteuid():
        return "that socket belongs to another user"
    return ""


def _is_own(host: str) -> bool:
    """Whether a host's name or address means the machine that it is used on."""
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def reached_at(address: str) -> tuple[str, httpx.AsyncBaseTransport]:
    """The URL of a backend, and what carries requests there."""
    if address.startswith("unix:"):
        # No TLS runs over the socket.
        path = address.removeprefix("unix:")
        return "http://kshunt", httpx.AsyncHTTPTransport(uds=path, verify=False)
    verify = trusted() if address.startswith("https:") else False
    return address, httpx.AsyncHTTPTransport(verify=verify)


async def check_listener(event: str, about: Mapping[str, Any]) -> None:
    """Ends a request before it is sent, where another user's process listens on the socket.

    A trace function of httpx.

    Raises:
        ForeignSocket: it does.
    """
    if event != _CONNECTED:
        return
    connection = about["return_value"].get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED"):
        # Elsewhere than on Linux the folder of the socket is what there is.
        return
    size = _CREDENTIALS.size
    _, uid, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    if uid != os.geteuid():
        raise ForeignSocket(f"a process of user {uid} listens there")
