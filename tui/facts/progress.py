"""How far an operation is: its partitions joined with the rows of the snapshot.

Arrays of each operation are made once. For each snapshot, the code reads its rows a few times,
whatever the size of the plan.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.moves.plan_places import (
    PLANS_KEPT,
    PlanArrays,
    members_of,
    places_of,
    plan_arrays,
    rows_among,
)
from kshunt.tui.facts.moves.waiting_copies import waiting_copies
from kshunt.tui.facts.snapshot_facts import Facts, known_sum


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a whole operation: what it has copied, what it copies, and what waits for its turn."""

    arrived: int = 0
    """Replicas that were copied and are in sync."""
    replicas: int = 0
    """Replicas that it copies, copied or will copy."""
    left_bytes: int = UNKNOWN
    """What is still to be copied, as far as is known."""
    left_unknown: int = 0
    """Replicas that do not say how much they lack, and that wait and are of unknown size."""
    copy_bytes: int = UNKNOWN
    """What is copied and what is left together, as far as is known."""
    end: ExpectedEnd | None = None
    """When all of it will be done, what waits included; None where the backend does not say."""
    waiting: int = 0
    """Partitions that wait for their turn."""
    more_bytes: int = 0
    """At most so much more is left, as `left_unknown` replicas lack; UNKNOWN: nobody can tell."""

    @property
    def at_least(self) -> bool:
        """True where there is more to copy than `left_bytes` says."""
        return self.left_unknown > 0

    @property
    def done_bytes(self) -> int:
        """What is copied; UNKNOWN where that is not known."""
        return UNKNOWN if self.copy_bytes < 0 else self.copy_bytes - self.left_bytes


class _ById:
    """An operation as a key. What it moves never changes; another cluster may have its id."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def __hash__(self) -> int:
        return hash(self.operation.id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ById)
            and other.operation.id == self.operation.id
            and other.operation.partitions == self.operation.partitions
            and other.operation.details.rollback_plan == self.operation.details.rollback_plan
        )


def originals(operation: Operation) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Where an operation's partitions were before it, as far as the backend says."""
    return _originals(_ById(operation))


@lru_cache(PLANS_KEPT)
def _originals(key: _ById) -> dict[TopicPartition, tuple[int, ...]]:
    plan = key.operation.details.rollback_plan or {}
    return {
        TopicPartition(entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for entry in plan.get("partitions", ())
    }


@lru_cache(PLANS_KEPT)
def _plan(key: _ById) -> PlanArrays:
    return plan_arrays(key.operation.partitions, originals(key.operation))


def operation_rows(facts: Facts, operation: Operation) -> NDArray[np.bool_]:
    """The rows of an operation's partitions."""
    if not operation.partitions:
        return np.zeros(len(facts.rows), np.bool_)
    return rows_among(facts, members_of(facts, places_of(facts, _plan(_ById(operation)))))


def moving_first(facts: Facts, operation: Operation, most: int) -> list[TopicPartition]:
    """At most `most` of an operation's partitions, those that move before the others."""
    if not operation.partitions:
        return []
    places = places_of(facts, _plan(_ById(operation)))
    moving = np.zeros(len(places), np.bool_)
    known = places >= 0
    moving[known] = facts.moving[facts.starts[places[known]]]
    order = np.argsort(~moving, kind="stable")[:most]
    return [operation.partitions[int(place)] for place in order]


def unstarted(facts: Facts, operations: Iterable[Operation]) -> set[TopicPartition]:
    """Partitions that wait for their turn in an operation: still where they were before it.

    One by one: for a thread, where plans are large.
    """
    moving = set(facts.moving_partitions)
    return {
        partition
        for operation in operations
        if operation.waiting and not operation.state.ended
        for partition, before in originals(operation).items()
        if partition not in moving and set(facts.replicas_of(partition)) == set(before)
    }


def cancellable(facts: Facts, operations: Iterable[Operation]) -> set[TopicPartition]:
    """Partitions that move, and those that wait for their turn in these operations.

    What waits would start after everything else was cancelled.
    """
    return unstarted(facts, operations).union(facts.moving_partitions)


def foreign_moves(facts: Facts, operations: Iterable[Operation]) -> int:
    """Partitions that move and that no operation here owns, while throttles are set."""
    if not facts.moving.any() or not throttled(facts):
        return 0
    moving = facts.moving[facts.starts].copy()
    for operation in operations:
        if not operation.state.ended and operation.partitions:
            moving &= ~members_of(facts, places_of(facts, _plan(_ById(operation))))
    return int(moving.sum())


def held(operation: Operation) -> bool:
    """True where its copies stand still on purpose, so that nobody knows its end."""
    return operation.state in (OperationState.PAUSED, OperationState.PAUSING)


def all_held(facts: Facts, operations: Iterable[Operation]) -> bool:
    """Whether everything that moves belongs to operations that are held."""
    moving = facts.moving[facts.starts].copy()
    if not moving.any():
        return False
    for operation in operations:
        if held(operation) and operation.partitions:
            moving &= ~members_of(facts, places_of(facts, _plan(_ById(operation))))
    return not moving.any()


def throttled(facts: Facts) -> bool:
    """Whether any rate or list is set."""
    throttles = facts.snapshot.throttles
    rates = (one.rate for one in throttles.rates.values())
    return bool(throttles.replicas) or any(
        rate.leader_bytes_per_s is not None or rate.follower_bytes_per_s is not None
        for rate in rates
    )


def progress_of(facts: Facts, operation: Operation) -> Progress | None:
    """How far an operation is; None where it has ended, or moves nothing."""
    if operation.state.ended or not operation.partitions or operation.details.shrink is not None:
        return None
    plan = _plan(_ById(operation))
    places = places_of(facts, plan)
    mine = rows_among(facts, members_of(facts, places))
    rows = facts.rows
    copied = _copying(facts, plan, places, mine)
    arrived = _new(facts, plan, places, mine & ~facts.moving)
    left, left_unknown = known_sum(rows.lag_bytes[copied])
    present = rows.size_bytes[copied | arrived]
    here = int(present[present >= 0].sum())
    waits = waiting_copies(facts, operation)
    if len(waits.broker):
        left = max(left, 0) + waits.left_bytes
    return Progress(
        arrived=int(arrived.sum()) + int((copied & rows.in_isr).sum()),
        replicas=int(arrived.sum()) + int(copied.sum()) + len(waits.broker),
        left_bytes=left,
        left_unknown=left_unknown + waits.unknown,
        more_bytes=UNKNOWN if waits.unknown else unsaid_bytes(facts, copied),
        copy_bytes=UNKNOWN if left < 0 else left + here,
        end=facts.snapshot.expected_ends.get(operation.id),
        waiting=operation.waiting,
    )


class MoveState(enum.Enum):
    """How far one partition of an operation is."""

    WAITS = enum.auto()
    MOVES = enum.auto()
    THERE = enum.auto()


def move_states(
    facts: Facts, operation: Operation
) -> dict[TopicPartition, tuple[MoveState, float]]:
    """Of each partition of which that is known, and how much of what moves is copied: 0 to 1.

    One by one: for a thread, where plans are large.
    """
    waiting = {
        TopicPartition(entry["topic"], entry["partition"])
        for entry in (operation.details.waiting_plan or {}).get("partitions", ())
    }
    found, before = {}, originals(operation)
    for partition in operation.partitions:
        span = facts.rows_of(*partition)
        if span and facts.moving[span.start]:
            found[partition] = (MoveState.MOVES, _copied_share(facts, span))
        elif partition in waiting:
            found[partition] = (MoveState.WAITS, 0.0)
        elif partition in before and set(facts.replicas_of(partition)) != set(before[partition]):
            found[partition] = (MoveState.THERE, 1.0)
    return found


def _copied_share(facts: Facts, span: range) -> float:
    """How much a partition's new replicas have; NaN where they do not say."""
    rows = facts.rows
    places = [place for place in span if rows.adding[place]]
    here, left = rows.size_bytes[places], rows.lag_bytes[places]
    if not places or (here < 0).any() or (left < 0).any():
        return math.nan
    return float(here.sum()) / max(float(here.sum() + left.sum()), 1.0)


def unsaid_bytes(facts: Facts, copied: NDArray[np.bool_]) -> int:
    """At most so much is lacked by those of some rows that do not say how much they lack.

    UNKNOWN where a leader does not say how much it has.
    """
    unsaid = np.flatnonzero(copied & (facts.rows.lag_bytes < 0))
    if not len(unsaid):
        return 0
    sizes = facts.leader_sizes[np.searchsorted(facts.starts, unsaid, side="right") - 1]
    return UNKNOWN if (sizes < 0).any() else int(sizes.sum())


def copied_rows(facts: Facts, operation: Operation) -> NDArray[np.bool_]:
    """The rows that an operation copies, and those that it has copied; none where it has ended."""
    if operation.state.ended or not operation.partitions:
        return np.zeros(len(facts.rows), np.bool_)
    plan = _plan(_ById(operation))
    places = places_of(facts, plan)
    mine = rows_among(facts, members_of(facts, places))
    return _copying(facts, plan, places, mine) | _new(facts, plan, places, mine & ~facts.moving)


def _copying(
    facts: Facts, plan: PlanArrays, places: NDArray[np.int64], mine: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The rows that an operation copies, of partitions that move.

    Where another tool has submitted a move a second time, Kafka says of no replica that it is
    being added. Those that were not there before the operation are copied all the same.
    """
    moving = mine & facts.moving
    return (facts.rows.adding & mine) | _new(facts, plan, places, moving & ~facts.rows.removing)


def _new(
    facts: Facts, plan: PlanArrays, places: NDArray[np.int64], rows: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of these rows, those of replicas that were not there before the operation."""
    if not len(plan.broker) or not rows.any():
        return np.zeros(len(rows), np.bool_)
    entries = np.repeat(np.arange(len(facts.starts), dtype=np.int64), facts.row_counts)
    codes = (entries << 32) | facts.rows.broker
    before = (places[plan.entry] << 32) | plan.broker
    # A partition of which it is not known where it was tells nothing.
    known = members_of(facts, places[np.unique(plan.entry)])
    return rows & rows_among(facts, known) & ~np.isin(codes, before)
