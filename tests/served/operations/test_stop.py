"""SIGTERM in the middle of an operation: what clients see, what is left, and who continues it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendUnreachable
from kshunt.backend.settings import Settings
from kshunt.backend.telemetry.recording.recorder import RecorderStatus
from tests.support.embedded.background import running
from tests.support.faults.kills import (
    SLOW,
    Ground,
    client_of,
    embedded,
    ended,
    hurry,
    problems_of,
    read,
    start,
)
from tests.support.faults.kills import moves as moves_of
from tests.support.operations.journal_memory import MemoryJournal, MemoryLog, TestClock
from tests.support.paths import ROOT
from tests.support.ports import free_ports
from tests.support.recording.samples import Row, snapshot
from tests.support.serving import serve_process
from tests.support.waiting import wait_until, wait_until_async

DEADLINE_S = 60.0
STOP_S = 30.0
"""`TimeoutStopSec` of the systemd unit; one to two seconds are usual."""


def say(text: str) -> None:
    """For who reads along."""
    sys.stdout.write(f"{text}\n")


class Reader:
    """Reads a stream in a thread, and remembers how it ended."""

    def __init__(self, read: Callable[[Reader], None]) -> None:
        self.count = 0
        self.end = ""
        self._thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self._thread.start()

    def _run(self, read: Callable[[Reader], None]) -> None:
        try:
            read(self)
        except (httpx.HTTPError, BackendUnreachable, OSError, pa.ArrowInvalid) as error:
            self.end = repr(error)
        else:
            self.end = "in order"

    def join(self) -> None:
        self._thread.join(DEADLINE_S)


def snapshots(url: str) -> Callable[[Reader], None]:
    """As the dashboard reads them."""

    def follow(reader: Reader) -> None:
        with BackendClient(url) as client:
            for _ in client.snapshots():
                reader.count += 1

    return follow


def raw(url: str, path: str) -> Callable[[Reader], None]:
    """As any client reads it, to whom a body that is cut off is an error."""

    def follow(reader: Reader) -> None:
        with httpx.stream("GET", f"{url}{path}", timeout=DEADLINE_S) as answer:
            for _ in answer.iter_raw():
                reader.count += 1

    return follow


def frames(url: str) -> Callable[[Reader], None]:
    """As Arrow itself reads them, to which a stream without an end is cut off."""

    def follow(reader: Reader) -> None:
        with httpx.stream("GET", f"{url}/v1/replicas/stream", timeout=DEADLINE_S) as answer:
            content = bytearray()
            for part in answer.iter_raw():
                content += part
                reader.count += 1
        assert content.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
        with pa.ipc.open_stream(bytes(content)) as stream:
            assert stream.read_all().num_rows

    return follow


def left_in_order(ground: Ground) -> None:
    """The journal is whole: every record is readable, nobody holds the lease, the move is there."""
    state = ground.journalled(ground.records())
    assert not state.unreadable
    assert state.heartbeat is None
    # What is seen without regard to transactions is the same: none was left open.
    assert len(ground.records(committed=False)) == len(ground.records())
    assert [one for one in ground.unsettled(ground.records()) if one.startswith("operation")]


async def test_a_stop_in_mid_operation_leaves_all_in_order(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    async with embedded("stop") as ground:
        before = ground.seen()
        with serve_process(ground.servers, tmp_path / "first", "--listen", f"127.0.0.1:{port}") as (
            process
        ):
            async with httpx.AsyncClient(base_url=url, timeout=DEADLINE_S) as client:
                operation = await start(client, ground)
            follow = [snapshots(url), frames(url), raw(url, "/v1/events")]
            readers = [Reader(one) for one in follow]
            wait_until(lambda: all(one.count for one in readers), DEADLINE_S, "all of them read")
            began_s = time.monotonic()
            process.send_signal(signal.SIGTERM)
            said = _answers(url)
            code = process.wait(STOP_S)
            stopped_s = time.monotonic() - began_s
            for one in readers:
                one.join()
        assert code == 0
        assert [one.end for one in readers] == ["in order"] * 3
        # While it still answered it said that it stops, and streams were open meanwhile.
        assert said == ["it was told to stop"]
        left_in_order(ground)
        began_s = time.monotonic()
        with serve_process(ground.servers, tmp_path / "next.sock"):
            async with client_of(tmp_path / "next.sock") as client:

                async def goes_on() -> bool:
                    found = await read(client, "/v1/backend")
                    moves = [one["state"] for one in await moves_of(client)]
                    return (found["duty"], moves) == ("act", ["running"])

                await wait_until_async(goes_on, DEADLINE_S, "the next backend goes on")
                went_on_s = time.monotonic() - began_s
                await hurry(client)
                assert await ended(client, operation) == "done"
        wanted = {0: (3, 2), 1: (2, 3), 2: (1, 2)}
        assert await problems_of(ground, before, wanted) == []
    say(f"stopped in {stopped_s:.1f} s; a next backend goes on after {went_on_s:.1f} s")


def _answers(url: str) -> list[str]:
    """Ask `/readyz` until nobody answers; what failed, as long as somebody did."""
    failed: dict[str, None] = {}
    with httpx.Client(base_url=url, timeout=DEADLINE_S) as client:
        while True:
            try:
                answer = client.get("/readyz")
            except httpx.TransportError:
                return list(failed)
            document = answer.json()
            assert (answer.status_code == 503) == (not document["ready"])
            failed |= {one["words"]: None for one in document["checks"] if not one["ok"]}


async def test_a_backend_that_stands_by_goes_on_at_once(tmp_path: Path) -> None:
    async with embedded("stand-by") as ground:
        first, second = tmp_path / "first.sock", tmp_path / "second.sock"
        with serve_process(ground.servers, first) as process, serve_process(ground.servers, second):
            async with client_of(first) as client, client_of(second) as other:
                operation = await start(client, ground)

                async def follows() -> bool:
                    found = (await read(other, "/v1/operations"))["operations"]
                    return any(one["id"] == operation for one in found)

                await wait_until_async(follows, DEADLINE_S, "the other one has read it")
                process.send_signal(signal.SIGTERM)
                assert process.wait(STOP_S) == 0
                left_s = time.monotonic()

                async def is_active() -> bool:
                    return bool((await read(other, "/v1/backend"))["duty"] == "act")

                await wait_until_async(is_active, DEADLINE_S, "the other one acts")
                say(f"one that stands by acts after {time.monotonic() - left_s:.1f} s")
                await hurry(other)
                assert await ended(other, operation) == "done"


def test_a_stream_that_nobody_reads_does_not_hold_up_the_end(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serve_process(cluster.bootstrap_servers, path) as process,
        BackendClient(f"unix:{path}") as client,
    ):
        stream = client.snapshots()
        next(stream)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        stream.close()
    assert not path.exists()


def test_a_fault_in_compiled_code_leaves_the_place_of_each_thread(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serve_process(cluster.bootstrap_servers, path) as process,
    ):
        process.send_signal(signal.SIGSEGV)
        assert process.wait(STOP_S) == -signal.SIGSEGV
    log = path.with_suffix(".log").read_text()
    assert "Fatal Python error: Segmentation fault" in log
    assert "Thread 0x" in log


async def test_who_presses_ctrl_c_again_gets_an_end_in_order_all_the_same(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    async with embedded("impatient") as ground:
        with (
            serve_process(
                *(ground.servers, tmp_path / "k", "--listen", f"127.0.0.1:{port}")
            ) as process,
            BackendClient(url) as client,
            socket.create_connection(("127.0.0.1", port)) as half,
        ):
            client.throttles.alter_rates(
                {3: ThrottledRate(SLOW, SLOW)}, Change(who="ada", reason="x")
            )
            # Its end takes longer than the notice: what was asked here never comes to an end.
            half.sendall(
                b"POST /v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
            )
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not _ready(url), DEADLINE_S, "it says that it stops")
            process.send_signal(signal.SIGINT)
            log = tmp_path / "k.log"
            wait_until(lambda: "Shutting down" in log.read_text(), DEADLINE_S, "it stops")
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_S) == 0
        assert ground.journalled(ground.records()).heartbeat is None


async def test_a_stop_ends_at_whatever_moment_it_meets_a_snapshot() -> None:
    settings, clock = Settings("127.0.0.1:1"), TestClock()
    for steps in range(12):
        kept = MemoryLog()
        backend = Backend(
            *(settings, KafkaAdmin(settings), clock),
            partial(_journal, kept, clock),
        )
        await backend.start()
        for _ in range(5):
            await asyncio.sleep(0)
        await backend.hub.publish(snapshot([Row(0, 1)], version=1))
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_S):
            await backend.stop()


def _journal(kept: MemoryLog, clock: TestClock, _: str, name: str) -> MemoryJournal:
    return MemoryJournal(kept, clock, name)


class Failing:
    """A recorder that ends with an error immediately."""

    status = RecorderStatus()

    async def run(self) -> None:
        raise RuntimeError("of a disk")


async def test_a_part_that_has_failed_is_named_and_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings("127.0.0.1:1")
    clock, kept = TestClock(), MemoryLog()
    backend = Backend(
        *(settings, KafkaAdmin(settings), clock),
        partial(_journal, kept, clock),
        record=lambda hub, moving, ended: Failing(),
    )
    await backend.start()
    await wait_until_async(lambda: "recorder" in caplog.text, DEADLINE_S, "it is said")
    await backend.stop()
    assert "of a disk" in caplog.text


def _ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=DEADLINE_S).status_code == 200
    return False


def test_the_units_time_to_stop_is_what_is_kept_to() -> None:
    unit = (ROOT / "examples" / "kshunt.service").read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("TimeoutStopSec=")]
    assert float(line.removeprefix("TimeoutStopSec=")) == STOP_S
