"""How a reassignment ended: where each partition is, and the state that says so.

Goals
    `done` is said only where the plan is carried out. What an operator cancelled, what somebody
    else cancelled and what somebody else moved elsewhere are told apart, and counted.
Constraints
    Pure. Brokers learn of a move's end some moments after the controller, so a partition may be
    described as it was before. An end that such a description could feign is not certain.
Algorithm
    Each partition is put into the first of six classes that fits. They are: refused, deleted,
    moving, arrived (its replicas are the target), returned (they are the original ones, in any
    order), elsewhere. A partition that has replicas of the target and of the original list is on
    its way in that description. The state follows from the classes and from what was cancelled
    here.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import PartitionState, TopicPartition
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

State = OperationState


class PartitionEnd(enum.Enum):
    """Where a partition of the plan is."""

    REFUSED = "refused"
    DELETED = "deleted"
    MOVING = "moving"
    """By somebody else's move, as this one is over; or not described as it is yet."""
    ARRIVED = "arrived"
    RETURNED = "returned"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Ending:
    """How an operation ended."""

    state: OperationState
    words: str
    certain: bool
    """False where a broker that is behind could describe it so."""


def ending_of(
    work: ReassignmentWork,
    states: Mapping[TopicPartition, PartitionState],
    moving: Collection[TopicPartition],
) -> Ending:
    """The end of an operation of which nothing is in flight any more.

    Args:
        states: its partitions as they are described; deleted ones are absent.
        moving: its partitions that somebody else's move moves.
    """
    places = {p: _place(p, move, work, states, moving) for p, move in work.moves.items()}
    state = _state(work, places)
    all_ended = all(
        place
        in (PartitionEnd.ARRIVED, PartitionEnd.RETURNED, PartitionEnd.REFUSED, PartitionEnd.DELETED)
        for place in places.values()
    )
    certain = state in (State.DONE, State.FAILED) or (state is State.CANCELLED and all_ended)
    return Ending(state, _words(work, places, states), certain)


def _place(
    partition: TopicPartition,
    move: Move,
    work: ReassignmentWork,
    states: Mapping[TopicPartition, PartitionState],
    moving: Collection[TopicPartition],
) -> PartitionEnd:
    if partition in work.refused:
        return PartitionEnd.REFUSED
    if partition not in states:
        return PartitionEnd.DELETED
    replicas, target, current = states[partition].replicas, move.target, move.current
    if partition in moving:
        return PartitionEnd.MOVING
    if replicas == target:
        return PartitionEnd.ARRIVED
    if set(replicas) == set(current):
        return PartitionEnd.RETURNED
    return PartitionEnd.MOVING if set(replicas) >= {*target, *current} else PartitionEnd.ELSEWHERE


def _state(work: ReassignmentWork, places: Mapping[TopicPartition, PartitionEnd]) -> OperationState:
    if work.failed:
        return State.FAILED
    wanted = {p: place for p, place in places.items() if place is not PartitionEnd.REFUSED}
    arrived = [p for p, place in wanted.items() if place is PartitionEnd.ARRIVED]
    there = [p for p, place in wanted.items() if place is not PartitionEnd.DELETED]
    cancelled = work.cancelled & wanted.keys()
    if len(arrived) == len(there):
        everything_deleted = not there and not cancelled
        return State.FAILED if everything_deleted and not work.adopted else State.DONE
    if cancelled and arrived:
        return State.PARTLY_CANCELLED
    if work.all_cancelled:
        return State.CANCELLED
    if work.adopted:
        # The person who started these moves may change them; only their throttle was ours.
        return State.DONE
    elsewhere = {PartitionEnd.ELSEWHERE, PartitionEnd.MOVING} & set(wanted.values())
    return State.SUPERSEDED if elsewhere else State.CANCELLED_ELSEWHERE


def _words(
    work: ReassignmentWork,
    places: Mapping[TopicPartition, PartitionEnd],
    states: Mapping[TopicPartition, PartitionState],
) -> str:
    """`5 of 7 where the plan wants them, 2 cancelled`."""

    def at(*wanted: PartitionEnd, cancelled: bool) -> list[TopicPartition]:
        return [
            p for p, one in places.items() if one in wanted and (p in work.cancelled) is cancelled
        ]

    arrived = [p for p, one in places.items() if one is PartitionEnd.ARRIVED]
    words = [f"{len(arrived)} of {len(places)} where the plan wants them"]
    if work.refused:
        words.append(f"{len(work.refused)} refused")
    if deleted := at(PartitionEnd.DELETED, cancelled=False):
        words.append(f"{len(deleted)} deleted")
    if back := [p for p in work.cancelled if places.get(p) is not PartitionEnd.ARRIVED]:
        words.append(f"{len(back)} cancelled")
    if late := [p for p in work.cancelled if places.get(p) is PartitionEnd.ARRIVED]:
        words.append(f"{len(late)} arrived before they could be cancelled")
    if returned := at(PartitionEnd.RETURNED, cancelled=False):
        words.append(f"{len(returned)} cancelled by somebody else")
    if moved := at(PartitionEnd.ELSEWHERE, PartitionEnd.MOVING, cancelled=False):
        named = listed([f"{p} is {list(states[p].replicas)}" for p in moved], 3)
        words.append(f"{len(moved)} moved by somebody else: {named}")
    return ", ".join(words)
