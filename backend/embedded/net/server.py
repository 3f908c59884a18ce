"""A broker's listener: Kafka's framing over TCP on loopback, one port a broker.

Goals: any client of Kafka is served as a real broker would serve it; whatever a client sends,
only its own connection can suffer.

Constraints: answers leave in the order of their requests. A connection may hold at most one
frame of the largest size and `send_buffer_bytes` of answers, and a silent one ends.

Algorithm: a connection has one task that reads frames and one task a request. A request may
start only while fewer than `max_in_flight` are unanswered, and its answer waits for the one
before it. Kafka's own broker reads the next request of a connection only when the one before is
answered, so 1 is the default. With more, the handlers of one connection overlap, but still start
in order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.embedded.net.api import (
    ApiTable,
    WireClose,
    WireReply,
    WireRequest,
    WireRequestHeader,
)
from kshunt.backend.embedded.net.faults import Faults
from kshunt.backend.embedded.net.frame_check import BadFrame
from kshunt.backend.embedded.net.sasl import FRAME_BYTES_MAX, SaslSession
from kshunt.backend.embedded.security.principals import ANONYMOUS
from kshunt.backend.embedded.security.sasl_plain import PlainUsers
from kshunt.backend.wire.api_keys import API_VERSIONS_KEY, SASL_AUTHENTICATE_KEY

LOOPBACK: Final = "127.0.0.1"

_LENGTH_BYTES: Final = 4
_READ_BUFFER_BYTES: Final = 256 * 1024
_LINGER_NONE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing then resets the connection."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one listener allows. The defaults of a setting of Kafka's are Kafka's."""

    frame_bytes_max: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`."""
    idle_s: float = 600.0
    """`connections.max.idle.ms`: the longest wait for a request, or for a client to take its
    answer."""
    connections_max: int = 1024
    """More are reset."""
    max_in_flight: int = 1
    """Requests of one connection that are handled at a time."""
    send_buffer_bytes: int = 1024 * 1024
    """Bytes of answers that wait in this process for a client to take them."""
    close_s: float = 1.0
    """How long a client may take to fetch what was sent to it before the connection ended."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Where a request came from."""

    broker_id: int
    """Who was asked."""
    header: WireRequestHeader
    connection: int
    """Counts the connections of the listener; one number is one client."""
    peer: tuple[str, int]
    principal: str = ANONYMOUS
    """Who asks, as Kafka writes it: `User:alice`."""

    @property
    def version(self) -> int:
        """The version of the request and of its answer."""
        return self.header.api_version


class Handler(Protocol):
    """Answers the requests of one API."""

    async def __call__(self, context: RequestContext, message: Any) -> Any | bytes | None:
        """The response message, its encoded body, or None where the API has no answer (acks=0).

        Raises:
            WireReply: the whole request fails with a code of Kafka's.
            WireClose: the connection ends without an answer.
        """
        ...


class _Close(Exception):
    """This connection ends here; the reason is logged."""


class BrokerServer:
    """Listens for one broker. One instance belongs to one event loop."""

    def __init__(
        self,
        broker_id: int,
        handlers: Mapping[int, Handler],
        *,
        native: bool = True,
        limits: ServerLimits | None = None,
        faults: Faults | None = None,
        clock: Clock | None = None,
        users: PlainUsers | None = None,
    ) -> None:
        """`handlers` by API key; ApiVersions is answered from them. `native`: see `ApiTable`.

        With `users` clients have to authenticate by SASL/PLAIN; else they are anonymous.

        Raises:
            ValueError: a handler is for an API that there is not.
        """
        self.broker_id = broker_id
        self.table = ApiTable(handlers, native=native)
        self.handlers = handlers
        self.limits = limits or ServerLimits()
        self.faults = faults or Faults()
        self.clock = clock or SystemClock()
        self.users = users
        self.port = 0
        """Known once it was started, and kept for the next start."""
        self._listener: asyncio.Server | None = None
        self._accepting = False
        self._connections: dict[asyncio.Task[None], _KafkaConnection] = {}
        self._accepted = 0

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    async def start(self, port: int = 0) -> int:
        """Listen, and return the port: `port`, or that of the last start, or a free one.

        Raises:
            OSError: the port is taken.
        """
        self._accepting = True
        self._listener = await asyncio.start_server(
            self._accept, LOOPBACK, port or self.port, limit=_READ_BUFFER_BYTES, backlog=512
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self.port

    async def stop(self, grace_s: float = 1.0) -> None:
        """Stop listening, answer what was asked already if that takes no longer, and close.

        It may be started again, on the same port.
        """
        self._accepting = False
        listener, self._listener = self._listener, None
        if listener is not None:
            await _close_listener(listener)
        for connection in self._connections.values():
            connection.finish()
        if self._connections:
            await asyncio.wait(self._connections, timeout=grace_s)
        await self._cancel_all()
        if listener is not None:
            await listener.wait_closed()
        # What was reset is closed only when the loop comes round; it may end after this.
        await asyncio.sleep(0)

    async def reset_connections(self) -> None:
        """Reset every connection, as the crash of a broker does; it still listens."""
        for connection in self._connections.values():
            connection.reset()
        await self._cancel_all()

    async def _cancel_all(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        full = len(self._connections) >= self.limits.connections_max
        if full or self.faults.refuse or not self._accepting:
            _reset(writer)
            return
        self._accepted += 1
        connection = _KafkaConnection(self, reader, writer, self._accepted)
        task = asyncio.create_task(connection.run())
        self._connections[task] = connection
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._connections[task]


class _KafkaConnection:
    """One client's connection."""

    def __init__(
        self,
        server: BrokerServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
    ) -> None:
        self._server = server
        self._limits = server.limits
        self._reader = reader
        self._writer = writer
        self._number = number
        self._peer: tuple[str, int] = writer.get_extra_info("peername") or ("", 0)
        self._places = asyncio.Semaphore(server.limits.max_in_flight)
        self._reading: asyncio.Task[None] | None = None
        self._finishing = False
        self._sasl = None if server.users is None else SaslSession(server.users)
        self._principal = ANONYMOUS
        writer.transport.set_write_buffer_limits(high=server.limits.send_buffer_bytes)

    async def run(self) -> None:
        """Serve until the client goes, breaks the protocol, or is not wanted any more."""
        try:
            async with asyncio.TaskGroup() as group:
                self._reading = group.create_task(self._read(group))
                if self._finishing:
                    self._reading.cancel()
        except* (_Close, OSError) as ended:
            # OSError: the client went away, or took too long (TimeoutError).
            _log.debug("%s: closed: %s", self, ended.exceptions[0])
        finally:
            await self._hang_up()

    def finish(self) -> None:
        """Read no more; end when the last answer is out."""
        self._finishing = True
        if self._reading is not None:
            self._reading.cancel()

    def reset(self) -> None:
        """Drop the connection on the spot."""
        _reset(self._writer)

    def __str__(self) -> str:
        return f"broker {self._server.broker_id}, connection {self._number}"

    async def _read(self, group: asyncio.TaskGroup) -> None:
        before: asyncio.Task[None] | None = None
        while True:
            await self._places.acquire()
            frame = await self._frame()
            if frame is None:
                return
            before = group.create_task(self._serve(frame, before))

    async def _frame(self) -> bytes | None:
        """The next frame without its length; None when the client closes, in a frame or not.

        Raises:
            _Close: the length is none that a broker takes.
            TimeoutError: the client was silent for too long.
        """
        await self._server.faults.before_reading()
        try:
            async with asyncio.timeout(self._limits.idle_s):
                head = await self._reader.readexactly(_LENGTH_BYTES)
                size = int.from_bytes(head, "big", signed=True)
                if not 0 < size <= self._frame_bytes_max():
                    raise _Close(f"a frame of {size} bytes")
                return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return None

    def _frame_bytes_max(self) -> int:
        most = self._limits.frame_bytes_max
        return most if self._sasl is None else min(most, FRAME_BYTES_MAX)

    async def _serve(self, frame: bytes, before: asyncio.Task[None] | None) -> None:
        """Handle one request, and answer it after the one before."""
        answer, api_key = await self._answer(frame)
        if before is not None:
            await before
        if answer is not None:
            await self._server.faults.before_answering(self._server.clock)
            await self._send(answer, cut=self._server.faults.takes_cut(api_key))
        if self._sasl is not None and self._sasl.failed:
            raise _Close("the client did not authenticate")
        self._places.release()

    async def _answer(self, frame: bytes) -> tuple[bytes | None, int]:
        """The whole answer to a frame, if it gets one, and the key of its API.

        Raises:
            _Close: the frame is no request, or its handler failed.
        """
        try:
            if self._sasl is not None and self._sasl.expects_bare_token:
                return self._admitted(
                    self._sasl, self._sasl.bare_token(frame)
                ), SASL_AUTHENTICATE_KEY
            request = self._server.table.decode(frame)
            return await self._handled(request), request.api.key
        except (BadFrame, WireClose) as bad:
            raise _Close(str(bad)) from None
        # The edge of a connection: whatever a request makes fail, only its client may notice.
        except Exception:  # noqa: BLE001
            _log.exception("%s: it is closed, as its request could not be handled", self)
            raise _Close("a handler failed") from None

    async def _handled(self, request: WireRequest) -> bytes | None:
        if request.api.key == API_VERSIONS_KEY:
            return self._server.table.api_versions(request)
        if self._sasl is not None:
            return self._admitted(self._sasl, self._sasl.answer(request))
        handler = self._server.handlers[request.api.key]
        broker_id = self._server.broker_id
        context = RequestContext(
            broker_id, request.header, self._number, self._peer, self._principal
        )
        try:
            reply = await handler(context, request.message)
        except WireReply as refused:
            return request.error(refused)
        return None if reply is None else request.answer(reply)

    def _admitted(self, sasl: SaslSession, answer: bytes) -> bytes:
        """The answer itself; with it a client that has authenticated is let in."""
        if sasl.principal is not None:
            self._principal, self._sasl = sasl.principal, None
        return answer

    async def _send(self, answer: bytes, *, cut: bool) -> None:
        self._writer.write(answer[: len(answer) // 2] if cut else answer)
        async with asyncio.timeout(self._limits.idle_s):
            await self._writer.drain()
        if cut:
            self.reset()
            raise _Close("reset in the middle of an answer, as a fault")

    async def _hang_up(self) -> None:
        """Close; a client that does not fetch what it was sent is reset in the end."""
        self._writer.close()
        try:
            async with asyncio.timeout(self._limits.close_s):
                await self._writer.wait_closed()
        except OSError:
            self.reset()
        except asyncio.CancelledError:
            self.reset()
            raise


async def _close_listener(listener: asyncio.Server) -> None:
    """Close, once what was accepted already has its transport: Python 3.11 leaks it otherwise."""
    for one in listener.sockets:
        asyncio.get_running_loop().remove_reader(one.fileno())
    await asyncio.sleep(0)
    listener.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without a word: the client gets a reset."""
    connected: socket.socket | None = writer.get_extra_info("socket")
    if connected is not None and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    writer.transport.abort()
