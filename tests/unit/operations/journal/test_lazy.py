"""Who takes over when, on a clock of the test: only a backend with something to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.errors import (
    JournalUnavailable,
    JournalUnusable,
    KshuntError,
    NotActive,
    NotActiveYet,
    NotAuthorized,
)
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    EntryKind,
    Heartbeat,
    JournalState,
    Unreadable,
)
from kshunt.backend.operations.lease.lease import LeaseState, ProcessTime
from kshunt.backend.operations.lease.lease_manager import BackendIdentity, LeaseManager
from tests.support.operations.journal_memory import MemoryLog, TestClock, keeping, self_of

Value = TypeVar("Value")


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def one(log: MemoryLog, clock: TestClock) -> AsyncIterator[LeaseManager]:
    async with keeping(log, clock, "one") as lease_manager:
        yield lease_manager


async def meanwhile(clock: TestClock, call: Coroutine[Any, Any, Value]) -> Value:
    """What a call returns, while time passes."""
    task = asyncio.ensure_future(call)
    await clock.until(task.done)
    return await task


def old_heartbeat() -> Heartbeat:
    """Of a backend that may be long gone."""
    return Heartbeat("old", "host", "unix:/run/old.sock", 1, 5, "boot")


def any_operation(state: JournalState) -> bool:
    return bool(state.of(EntryKind.OPERATION))


async def test_who_only_looks_leaves_no_trace(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    await clock.passes(60)
    assert one.duty is LeaseState.IDLE
    assert await meanwhile(clock, one.other(5)) is None
    assert (log.epoch, log.writers) == (0, [])
    with pytest.raises(NotActiveYet, match="is not active yet") as refused:
        one.require()
    assert refused.value.retriable


async def test_the_first_change_waits_for_little(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    await clock.until(lambda: one.duty is LeaseState.IDLE)
    began_s = clock.seconds
    await meanwhile(clock, one.ready(5))
    assert clock.seconds - began_s < 0.5
    one.require()
    await clock.passes(30)
    assert (one.duty, log.epoch) == (LeaseState.ACT, 1)


async def test_what_is_unfinished_finds_somebody(log: MemoryLog, clock: TestClock) -> None:
    async with keeping(log, clock, "one", any_operation) as one:
        await clock.passes(10)
        assert one.duty is LeaseState.IDLE
        log.put("gone", {"operation/a": {}})
        await clock.until(lambda: one.duty is LeaseState.ACT)
    log.put("gone", {"operation/a": None, BACKEND_KEY: None})
    async with keeping(log, clock, "two", any_operation) as two:
        await clock.passes(30)
        assert two.duty is LeaseState.IDLE


async def test_nobody_takes_over_from_a_dead_backend_without_need(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    log.put("old", {BACKEND_KEY: old_heartbeat().body()})
    await clock.until(lambda: one.duty is LeaseState.FOLLOW)
    assert 5.5 < await clock.until(lambda: one.duty is LeaseState.IDLE) < 7
    await meanwhile(clock, one.ready(5))
    assert log.epoch == 1


async def test_an_old_heartbeat_is_given_the_time_that_silence_takes(
    log: MemoryLog, clock: TestClock
) -> None:
    log.put("old", {BACKEND_KEY: old_heartbeat().body()})
    async with keeping(log, clock, "one") as one:
        await clock.until(lambda: one.duty is LeaseState.FOLLOW)
        with pytest.raises(NotActiveYet, match="not active yet") as late:
            await meanwhile(clock, one.ready(1))
        assert late.value.active is None
        asked = asyncio.create_task(one.other(10))
        await meanwhile(clock, one.ready(10))
        assert await asked is None
        assert log.epoch == 1


async def test_the_backend_that_acts_is_named(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    await meanwhile(clock, one.ready(5))
    async with keeping(log, clock, "two") as two:
        found = await meanwhile(clock, two.other(10))
        assert found is not None
        assert replace(found, beat_ms=0) == self_of("one").heartbeat(moment(0))
        with pytest.raises(NotActive, match="one on host is the active backend") as refused:
            await meanwhile(clock, two.ready(10))
        assert refused.value.active is not None
        assert refused.value.active.backend == "one"
        assert 0 < two.patience_s <= 6
        assert (one.duty, log.epoch) == (LeaseState.ACT, 1)
        assert await meanwhile(clock, one.other(5)) is None


def moment(seconds: float) -> ProcessTime:
    return ProcessTime(seconds, round(seconds * 1000))


async def test_who_has_just_begun_to_act_is_not_fenced(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    """Kafka acknowledges a heartbeat before it shows it to readers."""
    async with keeping(log, clock, "two") as two:
        await clock.until(lambda: two.duty is LeaseState.IDLE)
        log.shown = JournalState()
        await meanwhile(clock, one.ready(5))
        two.want()
        await clock.passes(1)
        log.shown = None
        with pytest.raises(NotActive) as refused:
            await meanwhile(clock, two.ready(5))
        assert refused.value.active is not None
        assert (one.duty, log.epoch) == (LeaseState.ACT, 1)


async def test_who_acted_before_takes_over_again(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    await meanwhile(clock, one.ready(5))
    async with keeping(log, clock, "two") as two:
        log.epoch += 1
        two.want()
        await clock.until(lambda: two.duty is LeaseState.ACT)
        await clock.until(lambda: one.duty is LeaseState.FOLLOW)
    await clock.until(lambda: one.duty is LeaseState.ACT)


async def test_a_take_over_that_failed_is_tried_again_soon(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    log.failing["open"] = JournalUnavailable("No answer.")
    one.want()
    await clock.passes(3)
    assert one.duty is not LeaseState.ACT
    log.failing.clear()
    assert await clock.until(lambda: one.duty is LeaseState.ACT) < 2


@pytest.mark.parametrize("call", ["open", "follow"])
async def test_what_an_operator_must_help_is_said_and_tried_again(
    log: MemoryLog, clock: TestClock, one: LeaseManager, call: str
) -> None:
    refusal: KshuntError = NotAuthorized("Not you.", advice="Needs Write.")
    log.failing[call] = refusal
    for _ in range(2):
        with pytest.raises(NotAuthorized, match="Needs Write"):
            await meanwhile(clock, one.ready(30))
    assert (one.duty, one.trouble) == (LeaseState.BLOCKED, refusal)
    with pytest.raises(NotActive, match="Not you"):
        one.require()
    log.failing.clear()
    began_s = clock.seconds
    await meanwhile(clock, one.ready(30))
    assert clock.seconds - began_s < 1
    assert one.trouble is None


async def test_a_backend_whose_journal_is_gone_acts_no_more(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    await meanwhile(clock, one.ready(5))
    log.failing["append"] = log.failing["follow"] = JournalUnusable("The topic is gone.")
    with pytest.raises(JournalUnusable):
        await one.append({"operation/a": {}})
    assert one.duty is LeaseState.BLOCKED
    await clock.passes(20)
    with pytest.raises(NotActive, match="topic is gone"):
        one.require()
    assert log.epoch == 1


async def test_a_heartbeat_that_cannot_be_read_is_not_waited_for(
    log: MemoryLog, clock: TestClock, one: LeaseManager
) -> None:
    newer = Unreadable(BACKEND_KEY, UnreadableReason.NEWER, "It has format 9.")
    log.committed = JournalState({}, {BACKEND_KEY: newer})
    await clock.until(lambda: one.duty is LeaseState.BLOCKED)
    with pytest.raises(NotActive, match="format 9"):
        await meanwhile(clock, one.ready(50))
    assert log.epoch == 0


def test_a_path_is_good_on_one_host_only() -> None:
    here = BackendIdentity.here("one", "unix:/run/one.sock", 1)
    assert here.host
    assert here.shares_host_with(BackendIdentity.here("two", "", 1).heartbeat(moment(5)))
    for other in (replace(here, host="there"), replace(here, boot_id="another")):
        assert not here.shares_host_with(other.heartbeat(moment(5)))
