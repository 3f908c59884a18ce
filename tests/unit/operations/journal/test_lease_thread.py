"""Heartbeats continue while a backend's event loop is held up, and end if it never comes back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import JournalFenced, NotActive
from kshunt.backend.operations.lease.lease import LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import STUCK_S, BackendIdentity, LeaseManager
from kshunt.backend.operations.lease.own_event_loop import apart
from tests.support.operations.journal import Where, embedded_cluster, journal
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0
BUSY_S = 1.0
"""How long a thread that is held up computes, and so competes with others for the interpreter."""
TERMS = LeaseTimes(beat_s=0.5, act_within_s=8.0, silence_s=9.0, gap_s=6.0)
QUICK = LeaseTimes(beat_s=0.4, act_within_s=1.5, silence_s=2.0, gap_s=1.5)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Where]:
    with embedded_cluster() as cluster:
        yield cluster


@asynccontextmanager
async def running_manager(
    where: Where, topic: str, name: str, terms: LeaseTimes, stuck_s: float = STUCK_S
) -> AsyncIterator[LeaseManager]:
    """A backend that wants to act."""
    me = BackendIdentity(name, "host", f"unix:/run/{name}.sock", 1)
    async with journal(where, topic, name) as its:
        lease_manager = LeaseManager(its, me, SystemClock(), terms=terms, stuck_s=stuck_s)
        lease_manager.want()
        task = asyncio.create_task(lease_manager.run())
        try:
            yield lease_manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class StandBy:
    """Another backend, on a thread of its own, that wants to act."""

    def __init__(self, where: Where, topic: str, terms: LeaseTimes) -> None:
        self._where, self._topic, self._terms = where, topic, terms
        self.follows = threading.Event()
        self.acted = threading.Event()

    async def run(self) -> None:
        async with running_manager(self._where, self._topic, "two", self._terms) as lease_manager:
            while True:
                if lease_manager.active is not None:
                    self.follows.set()
                if lease_manager.duty is LeaseState.ACT:
                    self.acted.set()
                await SystemClock().wait_s(0.05)


def hold_up(seconds: float, until: threading.Event) -> None:
    """Keep this thread from its event loop: by a computation, then by a call that blocks."""
    end_s = time.monotonic() + BUSY_S
    while time.monotonic() < end_s and not until.is_set():
        sum(range(1_000))
    until.wait(seconds - BUSY_S)


@pytest.mark.slow
async def test_a_lease_outlives_an_event_loop_that_is_held_up(embedded: Where) -> None:
    topic = embedded.topic()
    other = StandBy(embedded, topic, TERMS)
    async with running_manager(embedded, topic, "one", TERMS) as one:
        await wait_until_async(lambda: one.duty is LeaseState.ACT, DEADLINE_S, "it acts")
        async with apart(other.run, "other"):
            await wait_until_async(other.follows.is_set, DEADLINE_S, "the other one follows")
            hold_up(TERMS.silence_s * 1.5, until=other.acted)
            assert one.duty is LeaseState.ACT
            one.require()
            await one.append({"operation/a": {}})
            assert not other.acted.is_set()


@pytest.mark.slow
async def test_a_loop_that_does_not_come_back_loses_its_lease(
    embedded: Where, caplog: pytest.LogCaptureFixture
) -> None:
    topic = embedded.topic()
    other = StandBy(embedded, topic, QUICK)
    async with running_manager(embedded, topic, "one", QUICK, stuck_s=1.0) as one:
        await wait_until_async(lambda: one.duty is LeaseState.ACT, DEADLINE_S, "it acts")
        async with apart(other.run, "other"):
            await wait_until_async(other.follows.is_set, DEADLINE_S, "the other one follows")
            hold_up(DEADLINE_S, until=other.acted)
            assert other.acted.is_set()
            assert one.duty is LeaseState.PAUSE
            with pytest.raises((NotActive, JournalFenced)):
                await one.append({"operation/a": {}})
            await wait_until_async(lambda: one.duty is LeaseState.FOLLOW, DEADLINE_S, "it follows")
    assert "has not answered for 1 s" in caplog.text


async def test_work_on_a_thread_of_its_own_ends_with_its_reader() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with apart(work, "work"):
        await wait_until_async(begun.is_set, DEADLINE_S, "it runs")
    assert ended.is_set()


async def test_what_fails_on_a_thread_of_its_own_is_raised() -> None:
    async def work() -> None:
        raise NotActive("no")

    with pytest.raises(NotActive, match="no"):
        async with apart(work, "work") as end:
            await wait_until_async(end.done, DEADLINE_S, "it ended")
