"""Backends that keep their leases in a cluster: in one process, and in several."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.errors import JournalFenced, JournalUnavailable, NotActive
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.operations.journal.entries import BACKEND_KEY, JournalState, operation_key
from kshunt.backend.operations.journal.records import signed
from kshunt.backend.operations.lease.lease import LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import BackendIdentity, LeaseManager
from tests.support.access.keys import KEYS
from tests.support.operations.journal import DEADLINE_S, Where, journal, raw_producer, written_by
from tests.support.waiting import wait_until, wait_until_async

# Each starts servers of its own, which takes seconds.
pytestmark = pytest.mark.slow

QUICK = LeaseTimes(beat_s=0.4, act_within_s=1.5, silence_s=2.0, gap_s=1.5)


# --- the lease manager


@asynccontextmanager
async def running_manager(
    where: Where, topic: str, name: str, terms: LeaseTimes
) -> AsyncIterator[LeaseManager]:
    """A backend that keeps its lease; at the end it is gone, and has told nobody."""
    me = BackendIdentity(name, "host", f"unix:/run/{name}.sock", 1)
    async with journal(where, topic, name) as its:
        lease_manager = LeaseManager(its, me, SystemClock(), terms=terms)
        lease_manager.want()
        task = asyncio.create_task(lease_manager.run())
        try:
            yield lease_manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until_active(lease_manager: LeaseManager) -> None:
    await wait_until_async(lambda: lease_manager.duty is LeaseState.ACT, DEADLINE_S, "it acts")


async def who_appends(managers: Sequence[LeaseManager]) -> LeaseManager:
    """The one that acts, once it has written: until then it may have been fenced unawares."""
    while True:
        for lease_manager in managers:
            with suppress(NotActive, JournalFenced, JournalUnavailable):
                await lease_manager.append({"operation/a": {}})
                return lease_manager
        await SystemClock().wait_s(0.05)


async def test_of_two_stand_bys_one_takes_over_and_the_other_follows(where: Where) -> None:
    topic = where.topic()
    both = 0

    def settled(managers: Sequence[LeaseManager]) -> bool:
        nonlocal both
        active = [
            lease_manager for lease_manager in managers if lease_manager.duty is LeaseState.ACT
        ]
        both += len(active) > 1
        seen = {lease_manager.active for lease_manager in managers}
        return len(active) == 1 and len(seen) == 1

    async with (
        running_manager(where, topic, "one", QUICK) as one,
        journal(where, topic, "other") as other,
    ):
        await until_active(one)
        async with (
            running_manager(where, topic, "two", QUICK) as two,
            running_manager(where, topic, "three", QUICK) as three,
        ):
            await wait_until_async(lambda: settled((one, two, three)), DEADLINE_S, "all see one")
            await other.open()
            await wait_until_async(
                lambda: one.duty is not LeaseState.ACT, DEADLINE_S, "one is fenced"
            )
            await wait_until_async(lambda: settled((one, two, three)), DEADLINE_S, "one acts again")
            winner = await who_appends((one, two, three))
            losers = [
                lease_manager for lease_manager in (one, two, three) if lease_manager is not winner
            ]
            for loser in losers:
                with pytest.raises(NotActive, match="Nothing was changed"):
                    await loser.append({"operation/b": {}})
    assert both == 0


async def test_a_backend_that_ends_in_order_is_followed_at_once(embedded: Where) -> None:
    topic = embedded.topic()
    slow = LeaseTimes(beat_s=1.0, act_within_s=50.0, silence_s=60.0)
    async with journal(embedded, topic, "one") as its:
        told: list[LeaseState] = []
        one = LeaseManager(
            its,
            BackendIdentity("one", "h", "a", 1),
            SystemClock(),
            lambda duty, state: told.append(duty),
            slow,
        )
        task = asyncio.create_task(one.run())
        await one.ready(DEADLINE_S)
        await until_active(one)
        async with running_manager(embedded, topic, "two", slow) as two:
            await wait_until_async(lambda: two.active is not None, DEADLINE_S, "two sees one")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await one.release()
            await until_active(two)
            assert told[-1] is LeaseState.ACT
            assert one.duty is LeaseState.FOLLOW


async def test_nobody_takes_over_from_a_heartbeat_that_cannot_be_read(embedded: Where) -> None:
    topic = embedded.topic()
    async with journal(embedded, topic) as one:
        await one.open()
    producer = raw_producer(embedded)
    newer = signed({"format": 9, "cluster_id": embedded.cluster_id, "key": BACKEND_KEY}, 1, KEYS)
    producer.produce(topic, newer, BACKEND_KEY.encode(), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    async with running_manager(embedded, topic, "one", QUICK) as lease_manager:
        await wait_until_async(
            lambda: lease_manager.duty is LeaseState.BLOCKED, DEADLINE_S, "it is blocked"
        )
        with pytest.raises(NotActive, match="format 9"):
            lease_manager.require()


# --- two processes


@contextmanager
def cluster_process() -> Iterator[str]:
    command = [sys.executable, "-m", "kshunt", "cluster", "--control-port", "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split()
            assert ready[:1] == ["ready"]
            yield ready[1]
        finally:
            process.kill()


class Backend:
    """A process that acts whenever it may; what it says is read as it comes."""

    def __init__(self, servers: str, name: str) -> None:
        command = [sys.executable, "-m", "tests.contract.test_lease_manager", servers, name]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.said: list[tuple[str, float]] = []
        """What it said, and when by the monotonic clock of the machine."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                what, when = line.split()
                self.said.append((what, float(when)))

    def says(self, what: str, after: float = 0.0) -> float:
        """When it first said this after a time; waits for it."""

        def found() -> list[float]:
            return [when for said, when in self.said if said == what and when > after]

        wait_until(found, DEADLINE_S, f"it says {what}")
        return found()[0]


@contextmanager
def backend(servers: str, name: str) -> Iterator[Backend]:
    made = Backend(servers, name)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(DEADLINE_S)


def test_a_backend_that_was_stopped_changes_nothing_after_the_take_over() -> None:
    with cluster_process() as servers, backend(servers, "one") as one:
        one.says("effect")
        with backend(servers, "two") as two:
            two.says("follow")
            one.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            took_s = two.says("effect") - stopped
            one.process.send_signal(signal.SIGCONT)
            one.says("follow", after=stopped)
            two.says("effect", after=time.monotonic())
            assert one.process.poll() is None
        assert took_s < 10.0, f"the take-over took {took_s:.1f} s"
        assert not [when for said, when in one.said if said == "effect" and when > stopped]
        writers = written_by(servers, JOURNAL_TOPIC)
        assert "two" in writers
        assert "one" not in writers[writers.index("two") :]


async def act(servers: str, name: str) -> None:
    """The process of `Backend`: append an intent, look at the lease, have an effect, and so on."""
    clock = SystemClock()
    about: Any = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=DEADLINE_S)
    its = TopicJournal(
        servers,
        client_config({}),
        cluster_id=about.cluster_id,
        writer=name,
        clock=clock,
        keys=KEYS,
    )
    lease_manager = LeaseManager(
        its, BackendIdentity(name, "host", "address", clock.now_ms()), clock, say_duty
    )
    lease_manager.want()
    run = asyncio.create_task(lease_manager.run())
    while not run.done():
        try:
            await lease_manager.append({operation_key(name): {"at_ms": clock.now_ms()}})
            lease_manager.require()
            say("effect")
        except (NotActive, JournalFenced, JournalUnavailable):
            pass
        await clock.wait_s(0.02)
    run.result()


def say_duty(duty: LeaseState, _state: JournalState) -> None:
    say(duty.value)


def say(what: str) -> None:
    sys.stdout.write(f"{what} {time.monotonic()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(act(*sys.argv[1:]))
