"""Connections to brokers: kafka-python's, on its own I/O thread, awaited from asyncio.

Goals: a broker that is dead or stopped delays only the calls addressed to it. Every call ends by
its deadline. The caller learns immediately that a broker refuses its principal. A broker that
returns is reached again within a second.

Constraints: kafka-python's connection closes itself when a request times out, and every other
request on it fails with it; its manager retries for as long as it is let.

Algorithm: one connection an address and lane, made when first needed. Reads and writes have lanes
of their own, so that a read that times out cannot make a write's fate unknown. A request's
deadline on the connection is never before that of a request ahead of it, because a broker
answers in order. When a short call behind a long one is overdue, only its caller gives it up.
After a failed attempt the broker is left alone for a moment (doubling up to a second). Calls
meanwhile fail immediately with the reason of that failure.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    RequestTimedOutError,
)
from kafka.future import Future as KafkaFuture
from kafka.net.connection import KafkaConnection
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from kshunt.backend.admin.rpc.error_mapping import (
    BrokerDown,
    BrokerName,
    ConnectionRefused,
    TlsListener,
    whole_call_error,
)
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.errors import BrokerUnreachable, KshuntError
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

if TYPE_CHECKING:
    from kshunt.backend.admin.security.oauth import TokenSource

Lane: TypeAlias = Literal["read", "write"]
Address: TypeAlias = tuple[str, int]


def lane_of(*, validate_only: bool) -> Lane:
    """Where a change goes: one that is only checked changes nothing, and needs no lease."""
    return "read" if validate_only else "write"


_Target: TypeAlias = tuple[Any, ...]
"""One answer of `socket.getaddrinfo`."""

BACKOFF_S_MIN: Final = 0.05
BACKOFF_S_MAX: Final = 1.0
SETUP_TIMEOUT_S: Final = 4.0
"""Connecting, TLS and SASL together; less than the default deadline of `connect`."""
IN_FLIGHT_MAX: Final = 64
"""Requests that wait for one connection's answers."""
PAUSE_POLL_S: Final = 0.02
_SOCKET_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
)
_CLOSED: Final = "this client has been closed"
_TLS_ALERT: Final = b"\x15\x03"
"""First bytes of a TLS alert record; as a Kafka frame it would be 350 MB long."""


def silence_clients() -> None:
    """Keep kafka-python's log away from the terminal.

    At debug level it would hold what is sent for authentication; above that it repeats what the
    errors of the calls say already.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)


class _ClosedAtOnce(KafkaTCPTransport):  # type: ignore[misc]
    def close(self) -> None:
        """Close the socket now, also where a request still waits to be sent.

        kafka-python sends it first. Connections are closed before their I/O thread ends, so that
        would never happen, and the socket would stay open.
        """
        self._write_buffer.clear()
        super().close()


class _PlainTransport(_ClosedAtOnce):
    async def handshake_by(self, _timeout_at: float) -> None:
        """Nothing to do."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()
        if received.startswith(_TLS_ALERT):
            return b"", TlsListener("the listener expects TLS")
        return received, _after(received, error)


class _TlsTransport(_ClosedAtOnce, KafkaSSLTransport):  # type: ignore[misc]
    async def handshake_by(self, timeout_at: float) -> None:
        """The TLS handshake, with the deadline that kafka-python's has not."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)
            else:
                return

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()
        return received, _after(received, error)


def _after(received: bytes, error: Exception | None) -> Exception | None:
    """The error of a read that also brought bytes is left for the next read to find.

    A broker says why it refuses us and closes; kafka-python would drop what it said.
    """
    return None if received else error


class _Connection(KafkaConnection):  # type: ignore[misc]
    def data_received(self, data: bytes) -> None:
        """Close on an answer that kafka-python cannot decode; it would wait for ever."""
        try:
            super().data_received(data)
        except (ValueError, IndexError, KeyError, TypeError, struct.error) as malformed:
            self.close(KafkaProtocolError(f"unreadable answer: {malformed}"))


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python's view of a token source."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source

    def token(self) -> str:
        """The current token."""
        return self._source.token().value

    def extensions(self) -> Mapping[str, str]:
        """SASL extensions (KIP-342)."""
        return self._source.extensions


@dataclass(slots=True)
class _Slot:
    """The connection to one address in one lane. Used on the I/O thread only."""

    address: Address
    connection: Any = None
    failures: int = 0
    retry_at: float = 0.0
    error: BaseException = field(default_factory=KafkaConnectionError)


class BrokerConnections:
    """Every connection of one `KafkaAdmin`."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        frame_bytes_max: int,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` is asked right before anything is sent that changes the cluster."""
        self._config = config
        self._guard = guard
        self._settings: dict[str, Any] = {
            **config.kafka_python,
            "receive_message_max_bytes": frame_bytes_max,
            "max_in_flight_requests_per_connection": IN_FLIGHT_MAX,
        }
        if config.tokens is not None:
            self._settings["sasl_oauth_token_provider"] = _Tokens(config.tokens)
        self._net = NetworkSelector(client_id=config.client_id)
        self._slots: dict[tuple[Address, Lane], _Slot] = {}
        self._addresses: dict[int, Address] = {}
        self._resolved: dict[Address, Sequence[_Target]] = {}
        self._started = self._closed = False

    def learn(self, brokers: Mapping[int, Address]) -> None:
        """Take the brokers' addresses as the cluster gives them."""
        self._addresses = dict(brokers)

    @property
    def known(self) -> Mapping[int, Address]:
        """Addresses of the brokers that the cluster listed last."""
        return self._addresses

    async def call(
        self,
        broker: BrokerName,
        request: RawRequest,
        *,
        timeout_s: float,
        lane: Lane = "read",
    ) -> RawAnswer:
        """Send a request to one broker and wait for its answer.

        Raises:
            BrokerUnreachable: it did not answer in time, or it cannot be connected to.
            NotAuthorized: it refuses our credentials.
            NotSupported: it does not have the call.
            ConfigError: it speaks another security protocol.
        """
        address = self._address_of(broker)
        deadline = time.monotonic() + timeout_s
        async with self._reaching(broker, address, timeout_s):
            try:
                return await self._call_once(address, lane, request, deadline)
            except (RequestTimedOutError, KafkaConnectionError):
                # The connection has gone, perhaps because another call's time was up. To read
                # again does no harm.
                if lane != "read":
                    raise
            return await self._call_once(address, lane, request, deadline)

    async def highest_version(self, broker: BrokerName, api_key: int, *, timeout_s: float) -> int:
        """The highest version of an API that one broker advertises, or -1 if it has none.

        Asks nothing of a broker that was reached before; its ApiVersions are those of the
        connection for reads.

        Raises:
            As `call`.
        """
        address = self._address_of(broker)
        async with self._reaching(broker, address, timeout_s):
            await self._resolve_once(address)
            version: int = await self._on_io_thread(self._advertised, address, api_key)
            return version

    def _address_of(self, broker: BrokerName) -> Address:
        address = broker if isinstance(broker, tuple) else self._addresses.get(broker)
        if address is None:
            down = BrokerDown(f"Broker {broker} is not among the cluster's live brokers.")
            raise _about(broker, down)
        return address

    @asynccontextmanager
    async def _reaching(
        self, broker: BrokerName, address: Address, timeout_s: float
    ) -> AsyncIterator[None]:
        """What is done inside ends in time, and fails with an error of ours."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._config.tokens is not None and not self._config.tokens.ready:
                    # Here and not on the I/O thread, where a slow endpoint would stop everything.
                    await asyncio.to_thread(self._config.tokens.token)
                yield
        except TimeoutError:
            words = f"{_name(broker, address)} did not answer within {timeout_s:g} s."
            raise _about(broker, BrokerUnreachable(words, waited_s=timeout_s)) from None
        except (KafkaError, OSError) as error:
            failed = whole_call_error(error, broker, address, self._config.security_protocol)
            raise _about(broker, failed) from error

    async def _call_once(
        self, address: Address, lane: Lane, request: RawRequest, deadline: float
    ) -> RawAnswer:
        await self._resolve_once(address)
        if lane == "write":
            self._guard()
        answer: RawAnswer = await self._on_io_thread(self._send, address, lane, request, deadline)
        return answer

    async def _resolve_once(self, address: Address) -> None:
        if address not in self._resolved:
            self._resolved[address] = await _resolve(address)

    async def close(self) -> None:
        """Close every connection and end the I/O thread. Calls that wait fail; later ones too."""
        first, self._closed = not self._closed, True
        if self._started and first:
            await self._hand_over(self._close_connections)
        await asyncio.to_thread(self._net.close)

    # What follows runs on the I/O thread, except these two, which get it there.

    async def _on_io_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        # What got there during `close` would open a socket that nothing closes, or start the
        # I/O thread again.
        if self._closed:
            raise KafkaConnectionError(_CLOSED)
        return await self._hand_over(function, *args)

    async def _hand_over(self, function: Callable[..., Any], *args: Any) -> Any:
        self._net.start()
        self._started = True
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()

        def fulfil(set_outcome: Callable[[Any], None], value: Any) -> None:
            if not outcome.done():
                set_outcome(value)

        def hand_back(set_outcome: Callable[[Any], None], value: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(fulfil, set_outcome, value)

        future: KafkaFuture = self._net.call_soon_with_future(function, *args)
        future.add_callback(lambda value: hand_back(outcome.set_result, value))
        future.add_errback(lambda error: hand_back(outcome.set_exception, _failure(error)))
        return await outcome

    async def _send(
        self, address: Address, lane: Lane, request: RawRequest, deadline: float
    ) -> RawAnswer:
        connection = self._connection(address, lane)
        # A broker that throttles us (KIP-219) is left alone until it has had its rest.
        while connection.connected and connection.paused and time.monotonic() < deadline:
            await self._net.sleep(PAUSE_POLL_S)
        ahead = (timeout_at for _, _, _, timeout_at, _ in connection.in_flight_requests)
        timeout_s = max(deadline, *ahead, 0.0) - time.monotonic()
        answer: RawAnswer = await connection.send_request(request, timeout_s * 1000)
        return answer

    async def _advertised(self, address: Address, api_key: int) -> int:
        connection = self._connection(address, "read")
        await connection.init_future
        _, highest = connection.broker_version_data.api_versions.get(api_key, (-1, -1))
        return int(highest)

    def _connection(self, address: Address, lane: Lane) -> Any:
        slot = self._slots.setdefault((address, lane), _Slot(address))
        if slot.connection is not None and not slot.connection.closed:
            return slot.connection
        if time.monotonic() < slot.retry_at:
            raise slot.error
        slot.connection = _Connection(self._net, node_id=lane, **self._settings)
        self._net.call_soon(lambda: self._connect(slot))
        return slot.connection

    async def _connect(self, slot: _Slot) -> None:
        connection = slot.connection
        timeout_at = time.monotonic() + SETUP_TIMEOUT_S
        transport = None
        try:
            transport = await self._transport(slot.address, timeout_at)
            await transport.handshake_by(timeout_at)
            connection.connection_made(transport)
            transport = None
            await connection.initialize(timeout_at)
            await connection.init_future
        except (KafkaError, KshuntError, OSError, ValueError) as error:
            slot.failures += 1
            backoff_s = min(BACKOFF_S_MIN * 2 ** (slot.failures - 1), BACKOFF_S_MAX)
            slot.error, slot.retry_at = error, time.monotonic() + backoff_s
            connection.close(error)
        else:
            slot.failures = 0
        finally:
            if transport is not None:
                transport.close()

    async def _transport(self, address: Address, timeout_at: float) -> Any:
        refused: BaseException = KafkaConnectionError("its name does not resolve")
        # Taken out, so that a failure has the name resolved afresh the next time.
        for target in self._resolved.pop(address, ()):
            try:
                opened = await self._connected(target, timeout_at)
            except (KafkaError, OSError) as error:
                refused = error
                continue
            self._resolved[address] = (target,)
            host, context = address[0], self._config.ssl_context
            if context is None:
                return _PlainTransport(self._net, opened, host=host)
            return _TlsTransport(self._net, opened, host=host, ssl_context=context)
        raise refused

    async def _connected(self, target: _Target, timeout_at: float) -> socket.socket:
        family, kind, protocol, _, address = target
        opening = socket.socket(family, kind, protocol)
        try:
            opening.setblocking(False)
            for option in _SOCKET_OPTIONS:
                opening.setsockopt(*option)
            problem = opening.connect_ex(address)
            if problem == errno.EINPROGRESS:
                await self._net.wait_write(opening, timeout_at=timeout_at)
                problem = opening.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if problem:
                raise ConnectionRefused(os.strerror(problem).lower())
        except BaseException:
            opening.close()
            raise
        return opening

    def _close_connections(self) -> None:
        for slot in self._slots.values():
            if slot.connection is not None:
                slot.connection.close()
        self._slots.clear()


async def _resolve(address: Address) -> Sequence[_Target]:
    """What a name stands for. Not left to kafka-python, which would stop its I/O thread for it."""
    host, port = address
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _failure(error: BaseException) -> BaseException:
    """Why a call failed; kafka-python ends what still waits at its close by a GeneratorExit."""
    return KafkaConnectionError(_CLOSED) if isinstance(error, GeneratorExit) else error


def _about(broker: BrokerName, error: KshuntError) -> KshuntError:
    """The error, which says whose call failed."""
    error.broker = broker if isinstance(broker, int) else None
    return error


def _name(broker: BrokerName, address: Address) -> str:
    host, port = address
    return f"{host}:{port}" if isinstance(broker, tuple) else f"Broker {broker} ({host}:{port})"
