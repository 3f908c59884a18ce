"""Which connections a backend holds, and which it gives up when there are too many.

Goals
    Clients that say nothing, or too little, never keep out one that sends its request immediately.
    One peer cannot take the places of all others. The backend keeps descriptors for its own files
    and brokers.
Constraints
    Nothing is known of a client before its first request is read. Many clients may share one
    address, so a limit that only refuses would let one of them lock out the others.
Algorithm
    A peer is an IPv4 address, the first 64 bits of an IPv6 address, or the user id on a
    Unix-domain socket. A new connection over a limit takes the place of another one: of the same
    peer where the peer has too many, else of the peer that has the most. The one that has got
    least far goes first (`Phase`), and of those the oldest. A request that is being answered keeps
    its place. Where nobody can go, the new connection is refused.
"""

from __future__ import annotations

import enum
import ipaddress
import resource
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from kshunt.backend.limits import LIMITS, Limits

_UCRED: Final = struct.Struct("3i")
"""Process, user and group id of a socket's peer (unix(7), SO_PEERCRED)."""


class Phase(enum.IntEnum):
    """How far a connection has got; the lowest is given up first."""

    HANDSHAKE = 0
    """TLS is not settled yet."""
    HEAD = 1
    """The head of a request is not complete, or its refused body still arrives."""
    IDLE = 2
    """Between two requests."""
    BODY = 3
    """The body of a request is not complete."""
    STALLED = 4
    """The client does not read the answer."""
    ANSWER = 5
    """A request is being answered; this one is never given up."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be."""

    in_all: int
    per_peer: int
    handshakes: int
    """Of TLS, at the same time."""
    handshakes_per_peer: int

    @classmethod
    def of(cls, descriptors: int, limits: Limits = LIMITS) -> ConnectionLimits:
        """For a process that may open `descriptors` files (RLIMIT_NOFILE); half are its own."""
        in_all = max(8, min(limits.connections, descriptors // 2))
        per_peer = min(limits.connections_per_peer, in_all // 2)
        handshakes = min(limits.handshakes, per_peer)
        return cls(in_all, per_peer, handshakes, max(1, handshakes // 2))

    @classmethod
    def here(cls) -> ConnectionLimits:
        """For this process."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        unlimited = descriptors == resource.RLIM_INFINITY
        return cls.of(2 * LIMITS.connections if unlimited else descriptors)


class ApiConnection(Protocol):
    """One connection."""

    @property
    def peer(self) -> str:
        """Who it is from; see `peer_of`."""

    @property
    def phase(self) -> Phase:
        """How far it has got."""

    def drop(self) -> None:
        """Close it immediately."""


class Connections:
    """Those that are open, oldest first."""

    def __init__(self, room: ConnectionLimits) -> None:
        self.room = room
        self.given_up = 0
        """Connections that were closed for the sake of others."""
        self.refused = 0
        """Connections that found no place."""
        self._by_peer: dict[str, dict[ApiConnection, None]] = {}
        self._shaking: dict[ApiConnection, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def make_room(self, peer: str, *, handshake: bool) -> bool:
        """Give up what has to go for one more of a peer; False where nothing can go."""
        mine = self._by_peer.get(peer, {})
        if len(mine) >= self.room.per_peer and not self._give_up(mine):
            return self._refuse()
        if self._count >= self.room.in_all and not self._give_up(self._largest()):
            return self._refuse()
        if handshake:
            self._make_room_to_shake(peer)
        return True

    def _largest(self) -> Iterable[ApiConnection]:
        return max(self._by_peer.values(), key=len)

    def _make_room_to_shake(self, peer: str) -> None:
        mine = [one for one in self._shaking if one.peer == peer]
        if len(mine) >= self.room.handshakes_per_peer:
            self._drop(mine[0])
        elif len(self._shaking) >= self.room.handshakes:
            self._drop(next(iter(self._shaking)))

    def _refuse(self) -> bool:
        self.refused += 1
        return False

    def _give_up(self, among: Iterable[ApiConnection]) -> bool:
        found = first_to_go(among)
        if found is not None:
            self._drop(found)
        return found is not None

    def _drop(self, connection: ApiConnection) -> None:
        self.given_up += 1
        self.remove(connection)
        connection.drop()

    def add(self, connection: ApiConnection) -> None:
        """One that was accepted."""
        self._by_peer.setdefault(connection.peer, {})[connection] = None
        self._count += 1
        if connection.phase is Phase.HANDSHAKE:
            self._shaking[connection] = None

    def handshake_ended(self, connection: ApiConnection) -> None:
        """The connection has ended its TLS handshake, or needs no handshake."""
        self._shaking.pop(connection, None)

    def remove(self, connection: ApiConnection) -> None:
        """One that is closed; it may be gone already."""
        self._shaking.pop(connection, None)
        mine = self._by_peer.get(connection.peer, {})
        if connection in mine:
            del mine[connection]
            self._count -= 1
            if not mine:
                del self._by_peer[connection.peer]


def first_to_go(connections: Iterable[ApiConnection]) -> ApiConnection | None:
    """Of connections, oldest first, the one to give up; None where each has to stay."""
    found, lowest = None, Phase.ANSWER
    for connection in connections:
        phase = connection.phase
        if phase < lowest:
            found, lowest = connection, phase
    return found


def peer_of(connected: socket.socket, address: object) -> str:
    """Who is at the other end, for counting."""
    if connected.family == socket.AF_UNIX:
        if not hasattr(socket, "SO_PEERCRED"):
            return "this host"
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _, user, _ = _UCRED.unpack(credentials)
        return f"uid {user}"
    host = str(address[0]) if isinstance(address, tuple) else str(address)
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        if mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
        found = mapped
    return str(found)
