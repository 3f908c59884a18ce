"""Operations on an embedded core, forecast while they run as a backend forecasts them.

To the simulated operations of the back-test come caps, under which moves wait for their turn, and
moves of somebody else. A backend begins waiting moves about once a second, and so does an operation
here. No time passes but the core's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.forecast.ranges import QUANTILES
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import FOLLOWER_REPLICAS, LEADER_REPLICAS, Move
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.telemetry.sampling.forecaster import NOTHING, CopyForecast, Forecaster
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from kshunt.backend.telemetry.stuck.diagnosis import diagnose
from tests.support.operations.stuck import configure
from tests.support.pipeline.simulated_operations import GIVEN_UP, LONGEST_S, Eye, Operation

ID = "op"
BEGINS_EVERY_MS = 1_000
"""So often moves that wait find a place that has become free."""
UNRANGED: Floats = np.zeros(QUANTILES)
"""Quantiles of no calibration: an end is the model's own, and a range is nothing."""
_NAMES: Final = {
    "kill": "a broker restarted",
    "restart": "a broker restarted",
    "slow broker": "a broker or link was slow",
    "slow link": "a broker or link was slow",
    "other moves": "other moves at the same time",
}
"""What can happen to an operation, but for what producers and throttles do."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was known of an operation at one moment; times in seconds since it began."""

    at_s: float
    remaining_bytes: int
    """What its replicas lack, those of moves that wait included."""
    end: ExpectedEnd | None
    copies: CopyForecast
    """Of the replicas that were copied then."""


@dataclass(frozen=True, slots=True)
class Watched:
    """An operation that was run."""

    seed: int
    took_s: float | None
    """None where it was given up."""
    looks: tuple[Look, ...]
    throttled_s: tuple[float, ...] = ()
    """When somebody changed its throttle."""
    happened: frozenset[str] = frozenset()
    """What made it harder to forecast: how producers wrote, and what was done or failed."""

    def altered(self, from_s: float, to_s: float) -> bool:
        """Whether somebody changed its throttle in between, so that a forecast was void.

        A change and the look before it have the same time.
        """
        return any(from_s <= at_s < to_s for at_s in self.throttled_s)


class ForecastEye(Eye):
    """Looks as a sampler does, and forecasts what it sees."""

    def __init__(
        self,
        core: Core,
        operations: Mapping[TopicPartition, str],
        quantiles: Callable[[], Floats] = lambda: UNRANGED,
    ) -> None:
        super().__init__(core, operations)
        self._forecaster = Forecaster(quantiles)

    def forecast(self, running: Sequence[RunningOperation] = ()) -> tuple[Snapshot, CopyForecast]:
        """Brokers are asked; what they say that matters, and what is expected of it."""
        self.ticks += 1
        snapshot = self._snapshot()
        waiting = [move.partition for one in running for move in one.waiting]
        part = focused(snapshot, concerned_rows(snapshot, (), waiting))
        watched = self._watch.update(part)
        causes = diagnose(part, watched, []).causes
        part = replace(part, replicas=replace(part.replicas, cause=causes))
        written = watched.written_bytes_per_s
        return part, self._forecaster.update(part, watched.keys, written, running)


class OperationEye(ForecastEye):
    """Looks at one operation, and begins more of its moves."""

    def __init__(self, operation: WatchedOperation, until: float | None) -> None:
        super().__init__(operation.core, operation.begun)
        self._operation = operation
        self._until = until
        self.looks: list[Look] = []

    def look(self, seconds: float) -> None:
        """Time passes, and brokers are asked."""
        core, operation = self.core, self._operation
        until_ms = core.now_ms + round(seconds * 1000)
        while core.now_ms < until_ms:
            core.advance(min(core.now_ms + BEGINS_EVERY_MS, until_ms))
            operation.start_more()
        if self._is_past():
            self.looks.append(
                Look(operation.elapsed_s(), operation.remaining_bytes(), None, NOTHING)
            )
            return
        running = []
        if operation.begun:
            partitions, waiting = operation.operations.keys(), operation.waiting_moves()
            running = [RunningOperation(ID, partitions, waiting, operation.caps, held=False)]
        _, made = self.forecast(running)
        if operation.began_ms is not None:
            left, at_s = operation.remaining_bytes(), operation.elapsed_s()
            self.looks.append(Look(at_s, left, made.ends.get(ID), made))

    def _is_past(self) -> bool:
        """Whether a former look was the last one whose forecast is wanted."""
        if self._until is None or not self.looks:
            return False
        # Where more is left later than ever before, the point was reached earlier than it seemed.
        left = [look.remaining_bytes for look in self.looks]
        return min(left) <= (1 - self._until) * max(left)


class WatchedOperation(Operation):
    """One operation; see the module's text."""

    def __init__(self, seed: int, longest_s: float, until: float | None = None) -> None:
        """See `watched`."""
        super().__init__(seed, longest_s)
        self._until = until

    def elapsed_s(self) -> float:
        """Since it began."""
        assert self.began_ms is not None
        return (self.core.now_ms - self.began_ms) / 1000

    def run(self) -> Watched:
        """From a while before it until it is over, or is given up."""
        self._draw()
        self._build()
        for _ in range(4):
            self._look()
        self._begin()
        while self.running:
            elapsed_s = (self.core.now_ms - self._since_ms) / 1000
            if elapsed_s > GIVEN_UP * self.seconds:
                break
            self._meanwhile(elapsed_s)
            self._look()
        took_s = (self.core.now_ms - self._since_ms) / 1000
        ended_s = None if self.running else took_s
        throttled_s, happened = tuple(self._throttled_s), frozenset(self._happened())
        return Watched(self.seed, ended_s, tuple(self._eye.looks), throttled_s, happened)

    def _happened(self) -> Iterator[str]:
        """See `Watched`."""
        yield f"writes: {self.writing}"
        yield from self._met
        if self.caps is not None:
            yield "caps on moves"
        if self._throttled_s:
            yield "throttle changed"
        if len(self._throttled_s) > 1:
            yield "throttle changed twice or more"

    @property
    def running(self) -> bool:
        """Whether one of its partitions moves, or will."""
        return bool(self.waiting) or any(
            topic.name == self.topic for topic, _, _ in self.core.image.moving()
        )

    def waiting_moves(self) -> tuple[Move, ...]:
        """Those that have not begun."""
        return tuple(
            Move(one, self.placed[one.partition], self.targets[one.partition])
            for one in self.waiting
        )

    def remaining_bytes(self) -> int:
        """What its replicas lack by now."""
        plane, left = self.core.plane, 0
        sizes = plane.replication.sizes()
        for topic, number, state in self.core.image.moving():
            held = plane.held((topic.topic_id, number))
            if topic.name == self.topic and held is not None and state.leader in held.replicas:
                full = int(sizes[held.replicas[state.leader]])
                left += sum(
                    max(full - int(sizes[held.replicas[b]]), 0)
                    for b in state.adding
                    if b in held.replicas
                )
        return left + sum(round(self.sizes[one.partition]) for one in self.waiting)

    def _draw(self) -> None:
        super()._draw()
        self.caps: MoveCaps | None = None
        if self.partitions >= 6 and self.dice.random() < 0.35:
            self.caps = MoveCaps(self.dice.choice((1, 2, 3)), 50)
        if self.dice.random() < 0.25:
            self.events.append((self.dice.uniform(0.1, 0.8) * self.seconds, "other moves"))
            self.events.sort()

    def _build(self) -> None:
        self.waiting: list[TopicPartition] = []
        self.began_ms: int | None = None
        self._throttled_s: list[float] = []
        self._met: set[str] = set()
        super()._build()
        found = self.core.image.topic(self.topic)
        assert found is not None
        self.placed = {number: state.replicas for number, state in found.partitions.items()}
        self._eye = OperationEye(self, self._until)
        self.eye = self._eye

    def _begin(self) -> None:
        """Begin all moves together, or under caps the largest first, after the throttle is set."""
        self._since_ms = self.core.now_ms
        self.began_ms = self._since_ms
        if self.caps is None:
            super()._begin()
            return
        if self.throttle is not None:
            moves = [
                (number, self.placed[number], target) for number, target in enumerate(self.targets)
            ]
            lists = {
                LEADER_REPLICAS: [(n, b) for n, current, _ in moves for b in current],
                FOLLOWER_REPLICAS: [
                    (n, b) for n, current, target in moves for b in target if b not in current
                ],
            }
            values = {
                key: ",".join(f"{number}:{broker}" for number, broker in pairs)
                for key, pairs in lists.items()
            }
            configure(self.core, ResourceType.TOPIC, self.topic, values)
            self._throttle(self.throttle)
        self.begun.update(self.operations)
        self.waiting = sorted(self.operations, key=lambda one: -self.sizes[one.partition])
        self.start_more()

    def start_more(self) -> None:
        """Moves whose brokers have places."""
        if self.caps is None or not self.waiting:
            return
        taken: dict[int, int] = {}
        for _, _, state in self.core.image.moving():
            for broker in {state.leader, *state.adding}:
                taken[broker] = taken.get(broker, 0) + 1
        for one in tuple(self.waiting):
            number = one.partition
            found = self.core.image.partition(self.topic, number)
            assert found is not None
            new = set(self.targets[number]) - set(self.placed[number])
            brokers = {found.leader, *new}
            up = all(self.core.plane.is_up(broker) for broker in new)
            if not up or any(taken.get(b, 0) >= self.caps.per_broker for b in brokers):
                continue
            decision = reassign_partitions(
                self.core.image,
                {one: self.targets[number]},
                throttle_bytes_per_s=UNTHROTTLED,
                remove_throttle=False,
            )
            if self.core.commit(decision).results[0].ok:
                self.waiting.remove(one)
                for broker in brokers:
                    taken[broker] = taken.get(broker, 0) + 1

    def _throttle(self, rate: float) -> None:
        super()._throttle(rate)
        if self.began_ms is not None and self.core.now_ms > self.began_ms:
            self._throttled_s.append((self.core.now_ms - self.began_ms) / 1000)

    def _happen(self, what: str, elapsed_s: float) -> None:
        if name := _NAMES.get(what):
            self._met.add(name)
        if what != "other moves":
            super()._happen(what, elapsed_s)
            return
        topic, dice = f"other-{self.seed}", self.dice
        everyone = range(1, self.brokers + 1)
        placed = [tuple(dice.sample(everyone, 2)) for _ in range(3)]
        self.cluster.create(topic, *placed)
        self.cluster.fill(topic, dice.uniform(0.02, 0.15) * sum(self.sizes) / 3)
        targets = {
            TopicPartition(topic, number): (
                replicas[0],
                dice.choice([b for b in everyone if b not in replicas]),
            )
            for number, replicas in enumerate(placed)
        }
        rate = UNTHROTTLED if self.rate is None else int(self.rate)
        self.core.commit(
            reassign_partitions(
                self.core.image, targets, throttle_bytes_per_s=rate, remove_throttle=False
            )
        )


def watched(seed: int, longest_s: float = LONGEST_S, until: float | None = None) -> Watched:
    """One operation of this seed, run to its end; forecast until so much was copied, if named."""
    return WatchedOperation(seed, longest_s, until).run()


def watched_all(
    seeds: Sequence[int], longest_s: float = LONGEST_S, processes: int = 1
) -> list[Watched]:
    """Those of all these seeds."""
    if processes == 1:
        return [watched(seed, longest_s) for seed in seeds]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(watched, seeds, [longest_s] * len(seeds)))
