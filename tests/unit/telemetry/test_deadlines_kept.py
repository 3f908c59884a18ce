"""Deadlines of moves that run on an embedded core: whether they hold, and what would do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.deadlines import holds
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.replicas.expected_end_values import DeadlineCheck, ExpectedEnd
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.telemetry.sampling.forecaster import Forecaster
from kshunt.backend.telemetry.stuck.diagnosis import diagnose
from tests.support.embedded.core import MB, SmallCluster
from tests.support.operations.stuck import Observer

ID = "op"
SIZE = 300 * MB
PARTITIONS = 4
SLOW = 4 * MB


@dataclass
class Move:
    """A topic's four partitions go from brokers 1 and 2 to 1 and 3, as one operation."""

    throttle: int | None = SLOW
    written: float = 0.0
    deadline_s: float = 200.0
    held: bool = False

    def __post_init__(self) -> None:
        self.cluster = SmallCluster()
        self.cluster.start()
        self.cluster.create("t", *[(1, 2)] * PARTITIONS)
        self.cluster.fill("t", SIZE, self.written)
        self.core = self.cluster.core
        self.eye, self.forecaster = Eye(self.cluster.core), Forecaster()
        for _ in range(5):
            self.look()
        targets = {TopicPartition("t", n): (1, 3) for n in range(PARTITIONS)}
        rate = UNTHROTTLED if self.throttle is None else self.throttle
        decision = reassign_partitions(
            self.core.image, targets, throttle_bytes_per_s=rate, remove_throttle=False
        )
        self.core.commit(decision)
        self.began_ms = self.core.now_ms
        self.deadline_ms = self.began_ms + round(self.deadline_s * 1000)

    def look(self) -> ExpectedEnd | None:
        """A second passes."""
        running = []
        if hasattr(self, "deadline_ms"):
            names = frozenset(TopicPartition("t", n) for n in range(PARTITIONS))
            running = [RunningOperation(ID, names, (), None, self.held, self.deadline_ms)]
        return self.eye.look(self.forecaster, running)

    def after(self, seconds: int) -> ExpectedEnd:
        """What is expected then."""
        for _ in range(seconds):
            end = self.look()
        assert end is not None
        return end

    def throttle_at(self, rate: int) -> None:
        """All brokers have this rate."""
        rates = {
            "leader_replication_throttled_rate": str(rate),
            "follower_replication_throttled_rate": str(rate),
        }
        for broker in (1, 2, 3):
            self.cluster.set(ResourceType.BROKER, str(broker), **rates)

    def ended_s(self) -> float:
        """When it was over."""
        while self.core.image.is_moving:
            self.look()
            assert self.core.now_ms < self.began_ms + 3_600_000, "it does not end"
        return (self.core.now_ms - self.began_ms) / 1000


class Eye(Observer):
    """Looks once a second, and forecasts what it sees."""

    def look(self, forecaster: Forecaster, running: list[RunningOperation]) -> ExpectedEnd | None:
        self.core.advance(self.core.now_ms + 1_000)
        self.ticks += 1
        snapshot = self._snapshot()
        watched = self._watch.update(snapshot)
        causes = diagnose(snapshot, watched, []).causes
        snapshot = replace(snapshot, replicas=replace(snapshot.replicas, cause=causes))
        made = forecaster.update(snapshot, watched.keys, watched.written_bytes_per_s, running)
        return made.ends.get(ID)


def check_of(end: ExpectedEnd) -> DeadlineCheck:
    assert end.deadline is not None
    return end.deadline


@pytest.mark.slow
@pytest.mark.parametrize("written", [0.0, 0.2 * MB])
def test_a_move_that_is_too_slow_is_in_time_at_the_rate_that_is_named(written: float) -> None:
    move = Move(written=written)
    late = check_of(move.after(20))
    assert (late.at_ms, late.holds) == (move.deadline_ms, False)
    assert late.needs_bytes_per_s is not None
    assert late.needs_bytes_per_s > SLOW
    move.throttle_at(late.needs_bytes_per_s)
    # The range is wide at first, as the end has just moved.
    assert check_of(move.after(70)).holds
    assert move.ended_s() <= move.deadline_s


def test_a_move_that_is_in_time_needs_no_other_rate() -> None:
    move = Move(throttle=30 * MB)
    end = move.after(15)
    assert check_of(end) == DeadlineCheck(move.deadline_ms, True)
    assert holds(end, move.deadline_ms)
    assert move.ended_s() <= move.deadline_s


def test_what_holds_is_said_of_the_late_end_of_the_range() -> None:
    end = Move(throttle=30 * MB).after(15)
    assert end.p50_s is not None
    assert end.p90_s is not None
    middle_ms, late_ms = (end.at_ms + round(1000 * one) for one in (end.p50_s, end.p90_s))
    assert not holds(end, middle_ms)
    assert holds(end, late_ms)


@pytest.mark.slow
def test_a_throttle_that_producers_use_up_never_ends_and_the_rate_that_would_do_is_named() -> None:
    move = Move(throttle=2 * MB, written=0.6 * MB, deadline_s=600.0)
    end = move.after(120)
    late = check_of(end)
    assert end.never == PARTITIONS
    assert late.holds is False
    assert late.needs_bytes_per_s is not None
    move.throttle_at(late.needs_bytes_per_s)
    assert move.ended_s() <= move.deadline_s


def test_no_throttle_does_where_the_deadline_is_over() -> None:
    late = check_of(Move(deadline_s=10.0).after(20))
    assert (late.holds, late.needs_bytes_per_s) == (False, None)


def test_a_move_without_a_throttle_has_none_to_raise() -> None:
    move = Move(throttle=None, deadline_s=5.0)
    late = check_of(move.after(8))
    assert (late.holds, late.needs_bytes_per_s) == (False, None)


@pytest.mark.parametrize(("before", "after"), [(4 * MB, 24 * MB), (24 * MB, 4 * MB)])
def test_a_forecast_is_of_the_new_rate_as_soon_as_it_is_set(before: int, after: int) -> None:
    """What was seen under the former rate says nothing of it: the end jumps once, and stays."""
    move = Move(throttle=before)
    move.after(20)
    move.throttle_at(after)
    changed_s = (move.core.now_ms - move.began_ms) / 1000
    told = []
    for _ in range(16):
        end = move.after(2)
        assert end.model_s is not None, "the throttle is known, so the end is"
        told.append((end.at_ms - move.began_ms) / 1000 + end.model_s)
        assert end.watched_s <= (move.core.now_ms - move.began_ms) / 1000 - changed_s
    truth = move.ended_s()
    # A snapshot may have been taken just before the rate was set.
    assert told[1:] == pytest.approx([truth] * len(told[1:]), rel=0.2)
