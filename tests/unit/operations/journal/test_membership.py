"""A backend's seat: before the cluster is known, while it acts, and while another one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.errors import (
    ClusterUnreachable,
    JournalFenced,
    JournalUnavailable,
    NotActive,
)
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.journal.entries import Body, JournalState
from kshunt.backend.operations.journal.port import Repairs
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.lease.lease_manager import PAUSED_S
from kshunt.backend.operations.lease.membership import Membership
from tests.support.operations.journal_memory import (
    MemoryJournal,
    MemoryLog,
    TestClock,
    self_of,
)


@dataclass(eq=False)
class Seat:
    """A backend's membership, and what it was given."""

    log: MemoryLog
    clock: TestClock
    name: str = "one"
    silent: int = 0
    """How often the cluster does not say who it is."""
    asked: int = 0
    opened: list[tuple[str, str]] = field(default_factory=list)
    told: list[LeaseState] = field(default_factory=list)
    journal: MemoryJournal | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        self.membership = Membership(
            self._cluster_id, self._open, self_of(self.name), self.clock, self._changed
        )

    async def _cluster_id(self) -> str:
        self.asked += 1
        if self.asked <= self.silent:
            raise ClusterUnreachable("Nobody answered.")
        return "here"

    def _open(self, cluster_id: str, backend: str) -> MemoryJournal:
        self.opened.append((cluster_id, backend))
        self.journal = MemoryJournal(self.log, self.clock, backend)

        async def close() -> None:
            self.closed = True

        self.journal.close = close  # type: ignore[method-assign]
        return self.journal

    def _changed(self, duty: LeaseState, state: JournalState) -> None:
        self.told.append(duty)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Membership]:
        """While it runs."""
        task = asyncio.create_task(self.membership.run())
        try:
            yield self.membership
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def acting(membership: Membership, clock: TestClock) -> None:
    ready = asyncio.create_task(membership.ready(30.0))
    await clock.until(ready.done)
    await ready


def seat(name: str = "one", log: MemoryLog | None = None, clock: TestClock | None = None) -> Seat:
    return Seat(log or MemoryLog(), clock or TestClock(), name)


async def test_before_the_cluster_is_known_nothing_may_be_changed() -> None:
    here = seat()
    membership = here.membership
    assert (membership.duty, membership.state) == (LeaseState.FOLLOW, JournalState())
    assert (membership.lease_manager, membership.active, membership.actor) == (None, None, None)
    assert (membership.remarks, membership.repairs) == ((), Repairs())
    assert membership.patience_s == 0.0
    with pytest.raises(NotActive, match=r"reached yet\. Nothing was changed; try again\."):
        membership.require()
    with pytest.raises(NotActive, match="has not been reached yet"):
        await membership.append({"operation/a": {}})
    membership.guard()
    await membership.release()


async def test_a_cluster_that_is_silent_is_asked_once_a_second() -> None:
    here = seat()
    here.silent = 3
    async with here.taken() as membership:
        for seconds, asked in ((0.5, 1), (0.6, 2), (1.0, 3), (1.0, 4)):
            await here.clock.passes(seconds)
            assert here.asked == asked
        assert here.opened == [("here", "one")]
        assert membership.lease_manager is not None


async def test_who_waits_for_a_cluster_gives_up_after_its_time() -> None:
    here = seat()
    ready = asyncio.create_task(here.membership.ready(2.0))
    other = asyncio.create_task(here.membership.other(2.0))
    await here.clock.passes(1.5)
    assert not ready.done()
    assert not other.done()
    await here.clock.passes(1.0)
    assert await other is None
    with pytest.raises(NotActive, match="has not been reached yet"):
        await ready


async def test_a_backend_that_is_alone_acts_and_writes() -> None:
    here = seat()
    async with here.taken() as membership:
        await acting(membership, here.clock)
        assert membership.duty is LeaseState.ACT
        assert here.told[-1] is LeaseState.ACT
        membership.require()
        membership.guard()
        await membership.append({"operation/a": {"x": 1}})
        assert "operation/a" in here.log.committed.entries
        assert membership.state is here.log.committed
        assert await membership.other(1.0) is None
    await membership.release()
    assert here.closed


async def test_a_second_backend_follows_and_knows_the_first() -> None:
    first = seat("one")
    second = seat("two", first.log, first.clock)
    async with first.taken() as one, second.taken() as two:
        await acting(one, first.clock)
        await first.clock.until(lambda: two.actor is not None)
        assert two.actor is not None
        assert (two.actor.backend, two.duty) == ("one", LeaseState.FOLLOW)
        assert two.active == two.actor
        assert two.patience_s > 0
        with pytest.raises(NotActive):
            two.require()
        with pytest.raises(NotActive):
            two.guard()
        with pytest.raises(NotActive):
            await two.append({"operation/b": {}})
        asked = asyncio.create_task(two.other(5.0))
        await first.clock.until(asked.done)
        other = await asked
        assert other is not None
        assert other.backend == "one"
        assert one.actor is None


async def paused(here: Seat) -> None:
    """The journal acknowledges nothing until the lease is over."""
    here.log.failing["append"] = JournalUnavailable("No answer.", written=False)
    await here.clock.until(lambda: here.membership.duty is LeaseState.PAUSE)


async def test_a_request_waits_for_a_late_heartbeat() -> None:
    here = seat()
    async with here.taken() as membership:
        await acting(membership, here.clock)
        await paused(here)
        with pytest.raises(NotActive):
            membership.require()
        write = asyncio.create_task(membership.append({"operation/a": {}}))
        await here.clock.passes(3.0)
        assert not write.done()
        here.log.failing.clear()
        await here.clock.until(write.done)
        await write
        assert "operation/a" in here.log.committed.entries


async def test_a_request_does_not_wait_for_ever_for_a_late_heartbeat() -> None:
    here = seat()
    async with here.taken() as membership:
        await acting(membership, here.clock)
        await paused(here)
        write = asyncio.create_task(membership.append({"operation/a": {}}))
        took_s = await here.clock.until(write.done)
        assert PAUSED_S <= took_s <= PAUSED_S + 1
        with pytest.raises(NotActive, match="Nothing was changed"):
            await write


async def test_a_paused_request_writes_nothing_once_another_has_taken_over() -> None:
    first = seat("one")
    async with first.taken() as one:
        await acting(one, first.clock)
        await paused(first)
        write = asyncio.create_task(one.append({"operation/a": {}}))
        await first.clock.passes(0.5)
        first.log.failing["append"] = JournalFenced("It is fenced.")
        await first.clock.until(write.done)
        with pytest.raises(NotActive):
            await write
        assert "operation/a" not in first.log.committed.entries


async def test_effects_that_follow_a_slow_write_are_not_refused() -> None:
    here = seat()
    registry = Registry(here.clock, lambda operation: None, here.membership)
    async with here.taken() as membership:
        await acting(membership, here.clock)
        assert here.journal is not None
        quick = here.journal.append

        async def slow(
            entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
        ) -> None:
            """Everything that is written at this time takes longer than a lease lasts."""
            await here.clock.wait_s(8.0)
            await quick(entries, replacing=replacing)

        here.journal.append = slow  # type: ignore[method-assign]
        begin = asyncio.create_task(registry.begin(OperationKind.REASSIGN, "a move"))
        await here.clock.until(lambda: membership.duty is LeaseState.PAUSE)
        here.journal.append = quick  # type: ignore[method-assign]
        await here.clock.until(begin.done)
        assert registry.get((await begin).id) is not None
        registry.require()


async def test_what_an_operator_should_know_of_the_journal_is_said() -> None:
    here = seat()
    async with here.taken() as membership:
        await acting(membership, here.clock)
        assert here.journal is not None
        here.journal.remarks = ("it is slow",)
        here.journal.repairs = Repairs(adopted=2)
        assert membership.remarks == ("it is slow",)
        assert membership.repairs == Repairs(adopted=2)
