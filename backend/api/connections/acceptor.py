"""Accepts connections within limits, and survives what makes accepting fail.

asyncio's own loop tries again immediately when the process has no descriptor left, and logs each
try. It also waits a minute for a TLS handshake, and counts nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from kshunt.backend.api.connections.connection_limits import Connections, Phase, peer_of
from kshunt.backend.api.connections.http_protocol import DeadlineProtocol
from kshunt.backend.limits import LIMITS

log = logging.getLogger(__name__)

BURST: Final = 32
"""The acceptor takes this many connections before others get their turn on the event loop."""
BACK_OFF_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Waits after failures that follow each other; the last one repeats."""
SHUTDOWN_S: Final = 2.0
"""A client may take this long to confirm the end of TLS."""
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\n"
    b"content-length: 0\r\n\r\n"
)


class Accepted:
    """One connection; a `kshunt.backend.api.connections.connection_limits.ApiConnection`."""

    def __init__(self, peer: str, plain: socket.socket, protocol: DeadlineProtocol) -> None:
        self._peer = peer
        self._plain = plain
        self._protocol = protocol
        self.task: asyncio.Task[None] | None = None
        self.begun = False
        """Whether the event loop has taken the socket over."""

    @property
    def peer(self) -> str:
        """Who it is from."""
        return self._peer

    @property
    def phase(self) -> Phase:
        """How far it has got."""
        return self._protocol.phase if self._protocol.connected else Phase.HANDSHAKE

    def drop(self) -> None:
        """Close it immediately."""
        if self._protocol.connected:
            self._protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()
            if not self.begun:
                self._plain.close()


class Acceptor:
    """Accepts on one listening socket, until it is closed; in uvicorn's terms, a server."""

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        make_protocol: Callable[[], DeadlineProtocol],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._make_protocol = make_protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._failures = 0
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more, and end handshakes."""
        self._loop.remove_reader(self._listener.fileno())
        if self._again is not None:
            self._again.cancel()
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return once nothing of it runs any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(BURST):
            try:
                plain, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._back_off(error)
                return
            self._failures = 0
            self._take(plain, address)

    def _back_off(self, error: OSError) -> None:
        """Wait a little: nothing here can be done about a lack of descriptors or memory."""
        wait_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        log.warning("Connections cannot be accepted: %s.", error.strerror or error)
        self._loop.remove_reader(self._listener.fileno())
        self._again = self._loop.call_later(wait_s, self._resume)

    def _resume(self) -> None:
        self._again = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _take(self, plain: socket.socket, address: object) -> None:
        plain.setblocking(False)
        try:
            peer = peer_of(plain, address)
        except OSError:
            plain.close()
            return
        if not self._connections.make_room(peer, handshake=self._tls is not None):
            self._refuse(plain, peer)
            return
        protocol = self._make_protocol()
        connection = Accepted(peer, plain, protocol)
        protocol.when_connected = lambda: self._connections.handshake_ended(connection)
        protocol.when_lost = lambda: self._connections.remove(connection)
        self._connections.add(connection)
        connection.task = self._loop.create_task(self._connect(plain, protocol, connection))
        self._tasks.add(connection.task)
        connection.task.add_done_callback(self._tasks.discard)

    def _refuse(self, plain: socket.socket, peer: str) -> None:
        log.warning("Too many connections: rejected one from %s.", peer)
        with plain, contextlib.suppress(OSError):
            if self._tls is None:
                plain.send(_FULL)

    async def _connect(
        self, plain: socket.socket, protocol: DeadlineProtocol, connection: Accepted
    ) -> None:
        connection.begun = True
        tls = {} if self._tls is None else _TLS_TIMES
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, plain, ssl=self._tls, **tls)
        except OSError as error:
            # Of a handshake that failed or took too long; a scanner makes many.
            log.debug("A connection failed before its first request: %s", error)
        finally:
            if not protocol.connected:
                protocol.when_lost()


_TLS_TIMES: Final = {
    "ssl_handshake_timeout": LIMITS.handshake_s,
    "ssl_shutdown_timeout": SHUTDOWN_S,
}
