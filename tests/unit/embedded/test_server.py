"""The listener itself: order, limits, endings, faults; each over a real socket."""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from kshunt.backend.embedded.net.api import WireReply
from kshunt.backend.embedded.net.faults import Faults
from kshunt.backend.embedded.net.server import BrokerServer, RequestContext, ServerLimits
from kshunt.backend.wire import kip_requests
from tests.support.embedded.connection import (
    DEADLINE_S,
    DESCRIBE_CLUSTER,
    METADATA,
    PRODUCE,
    connected,
)
from tests.support.waiting import wait_until_async

NOT_CONTROLLER = 41

Answer = Callable[[RequestContext, Any], Awaitable[Any]]


class ManualClock:
    """A clock that a test moves: `pass_time` ends every wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._passed = asyncio.Event()

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    async def wait_s(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self._passed.wait()

    def pass_time(self) -> None:
        self._passed.set()


async def empty_metadata(context: RequestContext, message: Any) -> Any:
    return MetadataResponse(version=context.version)


@asynccontextmanager
async def serving(answer: Answer = empty_metadata, **more: Any) -> AsyncIterator[BrokerServer]:
    """A listener that answers Metadata in this way."""
    handlers = more.pop("handlers", {METADATA: answer})
    server = BrokerServer(1, handlers, **more)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace_s=0.1)


async def served(server: BrokerServer) -> bool:
    """Whether a new client gets an answer."""
    async with connected(server) as client:
        client.ask(99)
        correlation_id, _ = await client.answer()
        return correlation_id == 99


class HeldHandler:
    """A handler whose answers wait until the test releases each."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self._open: dict[int, asyncio.Event] = {}

    async def __call__(self, context: RequestContext, message: Any) -> Any:
        number = context.header.correlation_id
        self.started.append(number)
        await self._event(number).wait()
        return MetadataResponse(version=context.version)

    def let(self, number: int) -> None:
        self._event(number).set()

    def _event(self, number: int) -> asyncio.Event:
        return self._open.setdefault(number, asyncio.Event())

    async def reached(self, *numbers: int) -> None:
        await wait_until_async(
            lambda: self.started == list(numbers), DEADLINE_S, f"{numbers} were started"
        )


async def test_one_request_of_a_connection_is_handled_at_a_time() -> None:
    handler = HeldHandler()
    async with serving(handler) as server, connected(server) as client:
        client.ask(1)
        client.ask(2)
        await handler.reached(1)
        assert await other_is_served(server, handler)
        assert handler.started == [1, 99]
        handler.let(1)
        handler.let(2)
        assert [(await client.answer())[0] for _ in range(2)] == [1, 2]


async def other_is_served(server: BrokerServer, handler: HeldHandler) -> bool:
    handler.let(99)
    return await served(server)


async def test_requests_that_overlap_are_answered_in_order() -> None:
    handler = HeldHandler()
    limits = ServerLimits(max_in_flight=3)
    async with serving(handler, limits=limits) as server, connected(server) as client:
        for number in (1, 2, 3, 4):
            client.ask(number)
        await handler.reached(1, 2, 3)
        for number in (3, 2, 1):
            handler.let(number)
        assert [(await client.answer())[0] for _ in range(3)] == [1, 2, 3]
        await handler.reached(1, 2, 3, 4)
        handler.let(4)
        assert (await client.answer())[0] == 4


async def test_no_answer_bytes_and_errors() -> None:
    async def produce(context: RequestContext, message: Any) -> None:
        return None

    async def metadata(context: RequestContext, message: Any) -> bytes:
        return b"as it is"

    async def elsewhere(context: RequestContext, message: Any) -> Any:
        raise WireReply(NOT_CONTROLLER, "ask another")

    handlers = {PRODUCE: produce, METADATA: metadata, kip_requests.DELETE_PARTITIONS_KEY: elsewhere}
    async with serving(handlers=handlers) as server, connected(server) as client:
        client.ask(1, PRODUCE, version=3)
        client.ask(2, METADATA, version=12)
        client.ask(3, kip_requests.DELETE_PARTITIONS_KEY, version=0)
        assert await client.answer() == (2, b"\x00as it is")
        number, body = await client.answer()
        failed = kip_requests.DeletePartitionsResponse.decode(body[1:], version=0)
        assert (number, failed.error_code, failed.error_message) == (
            3,
            NOT_CONTROLLER,
            "ask another",
        )


async def test_a_handler_that_fails_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(context: RequestContext, message: Any) -> Any:
        if context.header.correlation_id == 1:
            raise ZeroDivisionError("by accident")
        return MetadataResponse(version=context.version)

    async with serving(broken) as server, connected(server) as other:
        other.ask(5)
        assert (await other.answer())[0] == 5
        async with connected(server) as client:
            client.ask(1)
            client.ask(2)
            assert await client.ends() == b""
        other.ask(6)
        assert (await other.answer())[0] == 6
    (record,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        struct.pack(">i", 2) + b"\x00\x03",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_frame_closes_the_connection(sent: bytes) -> None:
    async with serving() as server:
        async with connected(server) as client:
            client.writer.write(sent)
            assert await client.ends() == b""
        assert await served(server)


async def test_the_size_of_a_frame_is_a_setting() -> None:
    limits = ServerLimits(frame_bytes_max=64)
    async with serving(limits=limits) as server, connected(server) as client:
        client.ask(1)
        assert (await client.answer())[0] == 1
        client.send(bytes(65))
        assert await client.ends() == b""


async def test_a_client_that_closes_within_a_frame_is_forgotten() -> None:
    async with serving() as server:
        async with connected(server) as client:
            client.writer.write(struct.pack(">i", 1000) + b"beginning")
            client.writer.write_eof()
            assert await client.ends() == b""
        await wait_until_async(lambda: server.connections == 0, DEADLINE_S, "it is forgotten")


async def test_a_silent_client_and_one_that_fetches_nothing_are_closed() -> None:
    async def large(context: RequestContext, message: Any) -> bytes:
        return bytes(32 * 1024 * 1024)

    limits = ServerLimits(idle_s=0.05, close_s=0.05, send_buffer_bytes=1024)
    async with serving(large, limits=limits) as server:
        async with connected(server) as silent:
            assert await silent.ends() == b""
        async with connected(server) as deaf:
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            deaf.ask(1)
            await wait_until_async(lambda: server.connections == 0, DEADLINE_S, "it is closed")


async def test_more_connections_than_allowed_are_reset() -> None:
    async with serving(limits=ServerLimits(connections_max=1)) as server:
        async with connected(server) as first:
            first.ask(1)
            await first.answer()
            async with connected(server) as second:
                with pytest.raises(ConnectionResetError):
                    await second.ends()
        await wait_until_async(lambda: server.connections == 0, DEADLINE_S, "the first is gone")
        assert await served(server)


async def test_stopping_answers_what_was_asked_and_starts_again_on_its_port() -> None:
    handler = HeldHandler()
    async with serving(handler) as server:
        async with connected(server) as busy, connected(server) as idle:
            busy.ask(1)
            await handler.reached(1)
            stopping = asyncio.create_task(server.stop(grace_s=DEADLINE_S))
            assert await idle.ends() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", server.port)
            handler.let(1)
            assert (await busy.answer())[0] == 1
            assert await busy.ends() == b""
            await stopping
        port = server.port
        assert await server.start() == port
        handler.let(99)
        assert await served(server)


async def test_stopping_does_not_wait_longer_than_it_is_told() -> None:
    handler = HeldHandler()
    async with serving(handler) as server, connected(server) as client:
        client.ask(1)
        await handler.reached(1)
        await server.stop(grace_s=0.01)
        assert await client.ends() == b""
        assert server.connections == 0


async def test_a_cut_resets_in_the_middle_of_one_answer() -> None:
    async def large(context: RequestContext, message: Any) -> bytes:
        return bytes(1000)

    faults = Faults()
    async with serving(large, faults=faults) as server:
        faults.cut(DESCRIBE_CLUSTER)
        assert await served(server)
        faults.cut(METADATA)
        async with connected(server) as client:
            client.ask(1)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client.answer()
        assert await served(server)


async def test_a_stalled_broker_is_silent_and_then_goes_on() -> None:
    faults = Faults()
    async with serving(faults=faults) as server, connected(server) as client:
        client.ask(1)
        await client.answer()
        faults.stall()
        assert faults.stalled
        client.ask(2)
        waiting = asyncio.create_task(client.answer())
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        faults.resume()
        assert (await waiting)[0] == 2


async def test_answers_can_be_delayed() -> None:
    clock, faults = ManualClock(), Faults(delay_s=7.0)
    async with serving(faults=faults, clock=clock) as server, connected(server) as client:
        client.ask(1)
        await wait_until_async(lambda: clock.waits == [7.0], DEADLINE_S, "the answer waits")
        clock.pass_time()
        assert (await client.answer())[0] == 1


async def test_connections_can_be_refused_and_reset() -> None:
    faults = Faults()
    async with serving(faults=faults) as server, connected(server) as client:
        client.ask(1)
        await client.answer()
        await server.reset_connections()
        with pytest.raises(ConnectionResetError):
            await client.ends()
        faults.refuse = True
        async with connected(server) as refused:
            with pytest.raises(ConnectionResetError):
                await refused.ends()
        faults.heal()
        assert await served(server)


@pytest.mark.parametrize("turns", range(6))
async def test_stopping_while_a_connection_is_accepted_leaves_nothing_open(turns: int) -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: failures.append(about))
    async with serving() as server:
        with socket.create_connection(("127.0.0.1", server.port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop(grace_s=0.0)
            await asyncio.sleep(0)
    assert failures == []


async def test_a_handler_knows_who_asks() -> None:
    seen: list[RequestContext] = []

    async def remember(context: RequestContext, message: Any) -> Any:
        seen.append(context)
        return MetadataResponse(version=context.version)

    async with serving(remember) as server, connected(server) as client:
        client.ask(1, version=4)
        await client.answer()
        (context,) = seen
        assert (context.broker_id, context.version, context.connection) == (1, 4, 1)
        assert context.peer == client.writer.get_extra_info("sockname")
