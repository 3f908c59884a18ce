"""How far a plan has come: the rows of `--progress`, in KIP-179's words, and of `--verify`.

Pure, and without arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
    is_being_deleted,
)
from kshunt.backend.domain.cluster.partition_modes import leaving_words
from kshunt.backend.domain.reassignment.answers import (
    LogDirRow,
    ProgressRow,
    VerifyRow,
    VerifyState,
)
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.reassignment.progress_words import STILL_IN_PROGRESS
from kshunt.backend.domain.replicas.stuck_causes import Replica, Stuck
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text

IN_SYNC: Final = "In sync"
UNKNOWN_TOPIC: Final = "Unknown topic"
UNKNOWN_PARTITION: Final = "Unknown partition"
UNKNOWN_BROKER: Final = "Unknown broker"
NOT_HOSTED: Final = "Broker does not host this partition"
UNKNOWN_LAG: Final = "Unknown lag"
"""Begins the status of a replica that exists and of which nobody knows how far it is."""
WAITING: Final = "Waiting: the move has not begun"


def progress_rows(
    plan: ReassignmentPlan,
    states: Mapping[TopicPartition, PartitionState],
    brokers: Collection[int],
    lags: Mapping[tuple[TopicPartition, int], int | None],
    silent: Collection[int] = (),
) -> tuple[ProgressRow, ...]:
    """One row a replica that the plan names, in the plan's order.

    `states` holds every partition of the plan's topics, and `brokers` the ids of those that are up.
    `lags` holds the messages that a replica is behind its leader, with None or nothing where that
    is not known. `silent` brokers are up, and did not say.
    """
    topics = {partition.topic for partition in states}
    known = set(brokers).union(*(state.replicas for state in states.values()))
    reached = set(brokers).difference(silent)
    rows = []
    for partition, target in plan.replicas.items():
        for broker in target:
            status = _astray(partition, broker, topics, states, known)
            if status:
                rows.append(
                    ProgressRow(
                        *(partition.topic, partition.partition, broker, status, None),
                        in_sync=False,
                        matches=False,
                    )
                )
            else:
                lag = lags.get((partition, broker))
                rows.append(_hosted_row(states[partition], broker, lag, reached))
    return tuple(rows)


def _astray(
    partition: TopicPartition,
    broker: int,
    topics: Collection[str],
    states: Mapping[TopicPartition, PartitionState],
    known: Collection[int],
) -> str:
    """Why the cluster has no such replica, or nothing if it has."""
    if partition.topic not in topics:
        return UNKNOWN_TOPIC
    if partition not in states:
        return UNKNOWN_PARTITION
    if broker not in known:
        return UNKNOWN_BROKER
    return "" if broker in states[partition].replicas else NOT_HOSTED


def _hosted_row(
    state: PartitionState, broker: int, lag: int | None, reached: Collection[int]
) -> ProgressRow:
    if lag is None:
        status = f"{UNKNOWN_LAG}: {_why_unknown(state, broker, reached)}"
        return ProgressRow(
            state.partition.topic, state.partition.partition, broker, status, None, in_sync=False
        )
    in_sync = broker in state.isr
    # Two brokers are asked one after the other, so a follower may seem to be ahead.
    lag = max(lag, 0)
    status = IN_SYNC if in_sync else f"Behind: {lag} messages behind"
    return ProgressRow(
        state.partition.topic, state.partition.partition, broker, status, lag, in_sync
    )


def _why_unknown(state: PartitionState, broker: int, reached: Collection[int]) -> str:
    if is_being_deleted(state):
        return leaving_words(state.mode)
    if broker not in reached:
        return f"broker {broker} does not answer"
    if state.leader == NO_BROKER:
        return "the partition has no leader"
    if state.leader not in reached:
        return f"leader {state.leader} does not answer"
    return f"broker {broker} has not reported an offset yet"


def with_turns(
    rows: Iterable[ProgressRow], waiting: Collection[TopicPartition]
) -> tuple[ProgressRow, ...]:
    """The rows; those of replicas that a waiting move will create say so, and are as planned."""
    return tuple(
        replace(row, status=WAITING, matches=True)
        if row.status == NOT_HOSTED and row.name in waiting
        else row
        for row in rows
    )


def with_causes(
    rows: Iterable[ProgressRow], stuck: Mapping[Replica, Stuck]
) -> tuple[ProgressRow, ...]:
    """The rows with what a backend that watches them knows of those that are stuck."""
    return tuple(_with_cause(row, stuck.get((row.name, row.broker))) for row in rows)


def _with_cause(row: ProgressRow, why: Stuck | None) -> ProgressRow:
    if why is None:
        return row
    text = stuck_text(why)
    return replace(row, cause=why.cause.key, reason=text.reason, action=text.action)


def verify_rows(
    plan: ReassignmentPlan,
    states: Mapping[TopicPartition, PartitionState],
    ongoing: Mapping[TopicPartition, OngoingReassignment],
) -> tuple[VerifyRow, ...]:
    """Whether each partition of the plan is where the plan wants it, sorted as Kafka sorts."""
    return tuple(
        _verify_row(partition, target, states.get(partition), ongoing.get(partition))
        for partition, target in sorted(plan.replicas.items())
    )


def _verify_row(
    partition: TopicPartition,
    target: tuple[int, ...],
    state: PartitionState | None,
    ongoing: OngoingReassignment | None,
) -> VerifyRow:
    if ongoing is not None:
        return VerifyRow(
            partition.topic, partition.partition, VerifyState.IN_PROGRESS, ongoing.replicas, target
        )
    if state is None:
        return VerifyRow(partition.topic, partition.partition, VerifyState.MISSING, (), target)
    there = state.replicas == target
    return VerifyRow(
        partition.topic,
        partition.partition,
        VerifyState.COMPLETED if there else VerifyState.DIFFERS,
        state.replicas,
        target,
    )


@dataclass(frozen=True, slots=True)
class ReplicaDirs:
    """Where a replica lies on its broker."""

    current: str
    future: str | None = None
    """The directory that it is being moved to, if it is."""


def log_dir_rows(
    plan: ReassignmentPlan,
    found: Mapping[tuple[TopicPartition, int], ReplicaDirs],
    silent: Collection[int] = (),
) -> tuple[LogDirRow, ...]:
    """The state of each replica for which the plan names a directory, in Kafka's words and order.

    `found` lacks the replicas that their broker has in no live directory, and those of `silent`
    brokers, which did not answer.
    """
    wanted = sorted(plan.log_dirs.items(), key=lambda item: (item[0][1], item[0][0]))
    return tuple(
        _log_dir_row(
            partition, broker, target, found.get((partition, broker)), answers=broker not in silent
        )
        for (partition, broker), target in wanted
    )


def _log_dir_row(
    partition: TopicPartition, broker: int, target: str, dirs: ReplicaDirs | None, *, answers: bool
) -> LogDirRow:
    replica = f"{partition}-{broker}"
    done = moving = False
    if not answers:
        text = f"Broker {broker} does not answer, so the log dir of {partition} on it is unknown."
    elif dirs is None:
        text = (
            f"Partition {partition} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker."
        )
    elif dirs.future == target:
        moving = True
        text = f"Reassignment of replica {replica} {STILL_IN_PROGRESS}"
    elif dirs.future is not None:
        text = (
            f"Partition {partition} on broker {broker} is being moved to log dir {dirs.future} "
            f"instead of {target}."
        )
    elif dirs.current == target:
        done = True
        text = f"Reassignment of replica {replica} completed successfully."
    else:
        text = (
            f"Partition {partition} on broker {broker} is not being moved from log dir "
            f"{dirs.current} to {target}."
        )
    return LogDirRow(partition.topic, partition.partition, broker, text, done, moving)
