"""Forecasts of operations are kept on their way, and how they turned out with their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kshunt.backend.domain.forecast.scoring.kept_forecasts import POINTS, KeptForecast, VoidReason
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.core.known_operations import known_operations
from kshunt.backend.operations.journal.entries import EntryKind, forecasts_key
from kshunt.backend.operations.journal.port import retired
from kshunt.backend.operations.ownership.cells import RateKey
from kshunt.backend.operations.throttles.sampler_needs import RunningOperations
from kshunt.backend.telemetry.sampling.forecaster import Forecaster
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from kshunt.backend.telemetry.stuck.diagnosis import diagnose
from tests.support.operations.engine_backend import Backend
from tests.support.operations.engine_world import BROKER
from tests.support.operations.story import MB, Story, cancel
from tests.support.operations.stuck import Observer

pytestmark = pytest.mark.slow

State = OperationState
PLAN = {"big-0": (3, 4), "big-1": (4, 5)}
RATE = MB
SECONDS_MAX = 600


class ForecastStory(Story):
    """A story whose backend sees forecasts, as a sampler makes them, once a second."""

    def __init__(self) -> None:
        super().__init__()
        self.world.cluster.create("big", (1, 2), (2, 1))
        self.world.cluster.fill("big", 100 * MB)
        self._eye = _ForecastObserver(self)
        self.sample: Snapshot | None = None
        self.world.latest = lambda: self.sample

    def look(self, seconds: int = 1) -> None:
        """Let `seconds` seconds pass, each with a snapshot, a tick of the engine and a look."""
        for _ in range(seconds):
            self.sample = self._eye.snapshot()
            self.tick()
            self.world.run(self.backend.forecasts.look())

    def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(SECONDS_MAX):
            if reached():
                return
            self.look()
        raise AssertionError(self.backend.registry.known)

    def kept(self, answer: ChangeAnswer) -> tuple[KeptForecast, ...]:
        return self.backend.registry.forecasts(answer.operation_id or "")

    def ended(self, answer: ChangeAnswer) -> Operation:
        self.until(lambda: self.operation(answer).state.ended)
        return self.operation(answer)

    def forecast_lines(self) -> list[str]:
        rows = read_audit(self.world.state)
        return [row.outcome for row in rows if getattr(row, "event", None) == "forecast"]  # type: ignore[union-attr]


class _ForecastObserver(Observer):
    def __init__(self, story: ForecastStory) -> None:
        super().__init__(story.world.cluster.core)
        self._story = story
        self._forecaster = Forecaster()

    def snapshot(self) -> Snapshot:
        self.core.advance(self.core.now_ms + 1_000)
        self.ticks += 1
        whole = self._snapshot()
        running = RunningOperations(self._story.backend.registry)()
        waiting = [move.partition for one in running for move in one.waiting]
        part = focused(whole, concerned_rows(whole, (), waiting))
        watched = self._watch.update(part)
        causes = diagnose(part, watched, []).causes
        part = replace(part, replicas=replace(part.replicas, cause=causes))
        made = self._forecaster.update(part, watched.keys, watched.written_bytes_per_s, running)
        return replace(whole, expected_ends=made.ends)


@pytest.fixture
def told() -> Iterator[ForecastStory]:
    made = ForecastStory()
    yield made
    made.world.close()


def test_an_operation_that_ends_has_a_forecast_for_each_point_and_how_it_turned_out(
    told: ForecastStory,
) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    assert told.ended(answer).state is State.DONE
    kept = told.kept(answer)
    assert [one.point for one in kept] == list(POINTS)
    assert all(one.void is None and one.actual_s is not None for one in kept)
    ends_ms = {one.made_ms + round((one.actual_s or 0) * 1000) for one in kept}
    assert len(ends_ms) == 1, "one end, whenever the forecast was made"
    assert all(one.of_bytes >= 200 * MB for one in kept)
    assert [1 - one.left_bytes / one.of_bytes >= one.point for one in kept] == [True] * len(kept)
    assert known_operations(told.world.state).forecasts == {answer.operation_id: kept}
    first, *_, tally = told.forecast_lines()
    assert first.startswith("at 5 %: done about ")
    assert "limit: " in first
    assert tally == f"right {sum(bool(one.right) for one in kept)} of {len(POINTS)}"
    assert len(told.forecast_lines()) == len(POINTS) + 1


def test_the_journal_is_written_at_points_of_the_way_only(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    written: list[int] = []
    told.world.committed = lambda before, after: written.append(before.forecasts != after.forecasts)
    told.ended(answer)
    assert sum(written) == len(POINTS) + 1


def test_forecasts_of_an_operation_that_is_cancelled_do_not_count(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 3)
    cancel(told, *PLAN)
    assert told.ended(answer).state is State.CANCELLED
    assert [one.void for one in told.kept(answer)] == [VoidReason.NOT_COMPLETED] * 3
    assert told.forecast_lines()[-1] == "3 void"


def test_forecasts_of_an_operation_that_is_cancelled_in_part_do_not_count(
    told: ForecastStory,
) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 2)
    cancel(told, "big-0")
    assert told.ended(answer).state is State.PARTLY_CANCELLED
    assert all(one.void is not None for one in told.kept(answer))


def test_a_forecast_is_void_once_somebody_changes_the_throttle(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 3)
    told.world.set(BROKER, "4", RateKey.FOLLOWER, str(2 * RATE))
    told.look()
    assert [one.void for one in told.kept(answer)] == [VoidReason.THROTTLE_CHANGED] * 3
    told.ended(answer)
    kept = told.kept(answer)
    assert [one.point for one in kept] == list(POINTS)
    assert [one.void for one in kept[3:]] == [None] * 3, "later ones knew of it"
    assert told.forecast_lines()[-1].endswith("of 3, 3 void")


def test_a_throttle_that_is_changed_at_another_broker_voids_nothing(told: ForecastStory) -> None:
    told.world.cluster.create("c", (1, 2))
    answer = told.start({"c-0": (1, 2)} | {"big-0": (2, 4)}, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 2)
    told.world.set(BROKER, "5", RateKey.FOLLOWER, str(2 * RATE))
    told.look(3)
    assert not any(one.void for one in told.kept(answer))


def test_a_forecast_is_void_once_somebody_pauses_the_operation(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 2)
    id = answer.operation_id or ""
    told.world.run(told.backend.operation_control.pause(id, Change()))
    assert [one.void for one in told.kept(answer)] == [VoidReason.PAUSED] * 2
    told.look(30)
    assert len(told.kept(answer)) == 2, "what is held is not forecast"


def test_a_backend_that_takes_over_goes_on_where_the_other_one_stopped(
    told: ForecastStory,
) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 3)
    before = told.kept(answer)
    told.backend.alive = False
    told.world.cluster.pass_s(20)
    told.backend = Backend(told.world, "two")
    assert told.kept(answer) == before
    assert told.ended(answer).state is State.DONE
    kept = told.kept(answer)
    assert [one.point for one in kept] == list(POINTS)
    assert all(one.of_bytes >= before[0].of_bytes for one in kept), "the way is the same"
    assert [one.void for one in kept] == [None] * len(POINTS)


def test_a_backend_that_takes_over_sees_that_the_throttle_changed_before_it(
    told: ForecastStory,
) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 2)
    told.backend.alive = False
    told.world.set(BROKER, "4", RateKey.FOLLOWER, str(2 * RATE))
    told.backend = Backend(told.world, "two")
    told.look()
    assert [one.void for one in told.kept(answer)] == [VoidReason.THROTTLE_CHANGED] * 2


def test_throttles_that_were_not_read_yet_void_nothing(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.until(lambda: len(told.kept(answer)) == 2)
    told.backend = Backend(told.world, "two")
    assert told.sample is not None
    unread = replace(told.sample.throttles, rates={}, replicas={})
    told.sample = replace(told.sample, throttles=unread)
    told.world.run(told.backend.forecasts.look())
    assert not any(one.void for one in told.kept(answer))


def test_a_journal_without_forecasts_is_read(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    assert not told.world.state.of(EntryKind.FORECASTS)
    told.backend = Backend(told.world, "two")
    assert told.kept(answer) == ()
    told.until(lambda: bool(told.kept(answer)))


def test_forecasts_are_forgotten_with_their_operation(told: ForecastStory) -> None:
    answer = told.start(PLAN, throttle_bytes_per_s=RATE)
    told.ended(answer)
    gone = retired(told.world.state, lambda entry: True, operations_kept=0)
    assert forecasts_key(answer.operation_id or "") in gone
