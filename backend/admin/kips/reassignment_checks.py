"""What the composed verbs decide: checks, moves, lists, lags. No effect, no clock, no client."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from backend.admin.kips.throttle_checks import check_throttle
from backend.admin.port.cluster_admin import (
    OK,
    ItemResult,
    PartitionResults,
    ReassignOptions,
    ReassignOutcome,
    ReplicaLag,
)
from backend.admin.port.item_result import OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION
from backend.admin.rpc.configs import Changes, Values, replica_changes, throttled_replicas
from backend.admin.rpc.error_mapping import BROKER_NOT_AVAILABLE, item_result
from backend.domain.cluster.assignment import ASSIGNMENT_COLUMNS, Assignment
from backend.domain.cluster.columns import OffsetColumns, PartitionColumns, partition_keys
from backend.domain.cluster.metadata import (
    NO_BROKER,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
    original_replicas,
)
from backend.domain.cluster.partition_modes import PartitionMode, leaving_words
from backend.domain.throttles.configs import (
    Move,
    ThrottledReplicas,
    rate_or_none,
    throttled_replicas_of,
)
from backend.wire.error_codes import error_name

LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REPLICA_NOT_AVAILABLE = 9
INVALID_TOPIC_EXCEPTION = 17
CLUSTER_AUTHORIZATION_FAILED = 31
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
LOG_DIR_NOT_FOUND = 57

NOT_THERE_YET = frozenset({REPLICA_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER})
"""How a broker answers AlterReplicaLogDirs for a replica that it does not have yet."""


@dataclass(frozen=True, slots=True)
class ReassignmentFacts:
    """What the cluster says before a reassignment."""

    states: Mapping[TopicPartition, PartitionState]
    ongoing: Mapping[TopicPartition, OngoingReassignment]
    live: Collection[int]
    """Brokers that are registered and not fenced."""
    log_dirs: Mapping[int, Collection[str]]
    """Directories of each broker that was asked and answered."""

    def present(self, partition: TopicPartition) -> tuple[int, ...]:
        """Where a partition is: its original replicas if it moves already."""
        return original_replicas(self.states[partition], self.ongoing.get(partition))


def meant_options(options: ReassignOptions) -> ReassignOptions:
    """The options, with None for the rate by which KIP-179 says that there is no throttle."""
    return replace(
        options,
        throttle_bytes_per_s=rate_or_none(options.throttle_bytes_per_s),
        log_dirs_throttle_bytes_per_s=rate_or_none(options.log_dirs_throttle_bytes_per_s),
    )


def check_plan(
    assignments: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    options: ReassignOptions,
    situation: ReassignmentFacts,
) -> PartitionResults:
    """What is to be said of each partition before anything is written.

    KIP-179 answers each partition for itself. With `all_or_nothing` it is as in Kafka's
    `ReassignPartitionsCommand`: nothing starts if anything is unknown, and partitions without a
    fault of their own then say so. A rate that the wire refuses refuses all of them. A success may
    carry a note, for a broker that is down and stays in the replica list.
    """
    rates = (options.throttle_bytes_per_s, options.log_dirs_throttle_bytes_per_s)
    if not (rate := check_throttle(*rates)).ok:
        return dict.fromkeys(assignments, rate)
    found = {
        partition: _check(partition, tuple(target), options, situation)
        for partition, target in assignments.items()
    }
    for (partition, broker), path in log_dirs.items():
        if found.get(partition, OK).ok:
            found[partition] = _check_log_dir(
                broker, path, assignments.get(partition, ()), situation, found.get(partition, OK)
            )
    refused = [partition for partition, result in found.items() if not result.ok]
    if not refused or not options.all_or_nothing:
        return found
    why = f"nothing was submitted because {refused[0]} cannot be reassigned"
    if len(refused) > 1:
        why += f", nor {len(refused) - 1} more"
    spared = item_result(OPERATION_NOT_ATTEMPTED, why)
    return {partition: spared if result.ok else result for partition, result in found.items()}


def fit_part(
    assignments: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    checked: PartitionResults,
) -> tuple[dict[TopicPartition, Sequence[int]], dict[tuple[TopicPartition, int], str]]:
    """The part of a plan that `check_plan` finds nothing against."""
    return (
        {p: target for p, target in assignments.items() if checked[p].ok},
        {key: path for key, path in log_dirs.items() if checked.get(key[0], OK).ok},
    )


def with_refused(outcome: ReassignOutcome, checked: PartitionResults) -> ReassignOutcome:
    """The outcome of the part of a plan that is fit, with what was refused before."""
    return replace(outcome, results={p: outcome.results.get(p, checked[p]) for p in checked})


def _check(
    partition: TopicPartition,
    target: tuple[int, ...],
    options: ReassignOptions,
    situation: ReassignmentFacts,
) -> ItemResult:
    if partition not in situation.states:
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, "the cluster does not have this partition")
    state = situation.states[partition]
    if not state.stays:
        gone = state.mode is PartitionMode.NONE
        code = UNKNOWN_TOPIC_OR_PARTITION if gone else OPERATION_NOT_ATTEMPTED
        return item_result(code, leaving_words(state.mode))
    present = situation.present(partition)
    hosts = {*present, *situation.states[partition].replicas}
    if not target or len(set(target)) < len(target):
        return item_result(INVALID_REPLICA_ASSIGNMENT, f"{list(target)} is no replica list")
    down = [broker for broker in target if broker not in situation.live]
    if strangers := [broker for broker in down if broker not in hosts]:
        names = ", ".join(map(str, strangers))
        return item_result(INVALID_REPLICA_ASSIGNMENT, f"no live broker has the id {names}")
    if not options.allow_replication_factor_change and len(target) != len(present):
        return item_result(
            INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(present)} to {len(target)}",
        )
    return ItemResult(message="; ".join(_notes(partition, target, down, situation)))


def _notes(
    partition: TopicPartition,
    target: tuple[int, ...],
    down: list[int],
    situation: ReassignmentFacts,
) -> Iterator[str]:
    if down:
        yield f"keeps broker {', '.join(map(str, down))}, which is down"
    move = situation.ongoing.get(partition)
    if move is not None and move.target != target:
        # Kafka 4.1 takes the replicas of the unfinished move for original ones from here on.
        yield (
            f"was moving to {list(move.target)}; "
            f"a cancellation would leave it on {sorted(move.replicas)}"
        )


def _check_log_dir(
    broker: int, path: str, target: Sequence[int], situation: ReassignmentFacts, so_far: ItemResult
) -> ItemResult:
    if broker not in target:
        return item_result(
            INVALID_REPLICA_ASSIGNMENT, f"a log dir is given for broker {broker}, not in the list"
        )
    if broker in situation.log_dirs and path not in situation.log_dirs[broker]:
        return item_result(LOG_DIR_NOT_FOUND, f"broker {broker} has no log directory {path}")
    return so_far


def moves_of(
    assignments: Mapping[TopicPartition, Sequence[int]], situation: ReassignmentFacts
) -> list[Move]:
    """Each partition's move from where it is."""
    return [
        Move(partition, situation.present(partition), tuple(target))
        for partition, target in assignments.items()
    ]


def topic_changes(moves: Iterable[Move], prior: Mapping[str, Values]) -> Mapping[str, Changes]:
    """What to write on the topics so that the moves' replicas are throttled too.

    What others listed stays listed, and `*` stays `*`.
    """
    return {
        topic: replica_changes(_union(throttled_replicas(prior.get(topic, {})), ours))
        for topic, ours in throttled_replicas_of(moves).items()
    }


def _union(there: ThrottledReplicas, ours: ThrottledReplicas) -> ThrottledReplicas:
    return ThrottledReplicas(there.leaders | ours.leaders, there.followers | ours.followers)


def unthrottled(
    topics: Mapping[str, ItemResult], brokers: Mapping[int, ItemResult]
) -> tuple[str, ...]:
    """Whose throttle could not be written, so that the move would run without it.

    A broker that is down has no traffic to throttle; it does not hold up the move.
    """
    return (
        *(f"topic {topic}" for topic, result in topics.items() if not result.ok),
        *(
            f"broker {broker}"
            for broker, result in brokers.items()
            if not result.ok and result.error_code != BROKER_NOT_AVAILABLE
        ),
    )


def with_notes(results: PartitionResults, checked: PartitionResults) -> PartitionResults:
    """The cluster's results, each success with the note of its check."""
    return {
        partition: checked.get(partition, result) if result.ok else result
        for partition, result in results.items()
    }


def columns_of(partitions: Iterable[TopicPartition]) -> PartitionColumns:
    """Partitions as columns, sorted, each once."""
    wanted = sorted(set(partitions))
    topics = tuple(dict.fromkeys(topic for topic, _ in wanted))
    index = {topic: place for place, topic in enumerate(topics)}
    return PartitionColumns(
        topics,
        np.array([index[topic] for topic, _ in wanted], np.int32),
        np.array([partition for _, partition in wanted], np.int32),
    )


def hosted_by(assignment: Assignment, broker: int) -> NDArray[np.intp]:
    """Rows of the assignment that are on a broker."""
    return np.flatnonzero(assignment.broker == broker)


def lags(
    assignment: Assignment,
    offsets: Mapping[int, OffsetColumns | ItemResult],
    answered_ms: Mapping[int, int],
) -> list[ReplicaLag]:
    """The lag of every replica, from each broker's own log end offsets.

    Args:
        assignment: The partitions that are asked for.
        offsets: By broker, aligned with `hosted_by`; or why it did not answer.
        answered_ms: When each broker said so, milliseconds since the epoch.
    """
    end = np.full(len(assignment), -1, np.int64)
    why: dict[int, ItemResult] = {}
    for broker, answer in offsets.items():
        rows = hosted_by(assignment, broker)
        if isinstance(answer, ItemResult):
            why.update(dict.fromkeys(rows.tolist(), answer))
            continue
        end[rows] = answer.log_end_offset
        for row in rows[answer.error_code != 0].tolist():
            code = int(answer.error_code[np.searchsorted(rows, row)])
            why[row] = item_result(REPLICA_NOT_AVAILABLE, f"its broker answers {error_name(code)}")
    leader_end = {
        _partition_at(assignment, row): int(end[row])
        for row in np.flatnonzero(assignment.broker == assignment.leader).tolist()
        if end[row] >= 0
    }
    return [
        _lag(assignment, row, leader_end, int(end[row]), why.get(row, OK), answered_ms)
        for row in range(len(assignment))
    ]


def _lag(
    assignment: Assignment,
    row: int,
    leader_end: Mapping[TopicPartition, int],
    end: int,
    result: ItemResult,
    answered_ms: Mapping[int, int],
) -> ReplicaLag:
    partition = _partition_at(assignment, row)
    broker, leader = int(assignment.broker[row]), int(assignment.leader[row])
    lag = status_ms = -1
    if end >= 0 and partition in leader_end:
        # The leader is read at another moment: a follower may be seen ahead of it.
        lag = max(leader_end[partition] - end, 0)
        status_ms = min(answered_ms[broker], answered_ms[leader])
    elif result.ok:
        result = item_result(LEADER_NOT_AVAILABLE, _no_leader(leader))
    return ReplicaLag(
        partition=partition,
        broker=broker,
        status_ms=status_ms,
        lag_messages=lag,
        in_isr=bool(assignment.in_isr[row]),
        result=result,
    )


def _no_leader(leader: int) -> str:
    if leader == NO_BROKER:
        return "the partition has no leader to compare with"
    return f"broker {leader}, its leader, did not say its log end offset"


def _partition_at(assignment: Assignment, row: int) -> TopicPartition:
    topic = assignment.topics[int(assignment.topic_index[row])]
    return TopicPartition(topic, int(assignment.partition[row]))


def rows_of(assignment: Assignment, partitions: Collection[TopicPartition]) -> Assignment:
    """The assignment of these partitions alone."""
    wanted = set(partitions)
    index = {topic: place for place, topic in enumerate(assignment.topics)}
    known = [(index[topic], partition) for topic, partition in wanted if topic in index]
    pairs = np.array(known, np.int64).reshape(-1, 2)
    rows = np.isin(
        partition_keys(assignment.topic_index, assignment.partition),
        partition_keys(pairs[:, 0], pairs[:, 1]),
    )
    columns = {name: getattr(assignment, name)[rows] for name in ASSIGNMENT_COLUMNS}
    return Assignment(assignment.topics, **columns)


def missing_lags(
    partitions: Iterable[TopicPartition],
    found: Collection[TopicPartition],
    errors: Mapping[str, str],
) -> list[ReplicaLag]:
    """What is said of partitions that the cluster does not have, in the codes of KIP-179's draft.

    Args:
        partitions: What was asked for.
        found: Those of them that are described.
        errors: Kafka's error name by topic, of topics that are not described.
    """
    return [
        ReplicaLag(partition, NO_BROKER, -1, -1, in_isr=False, result=_missing(partition, errors))
        for partition in partitions
        if partition not in found
    ]


def _missing(partition: TopicPartition, errors: Mapping[str, str]) -> ItemResult:
    topic = partition.topic
    if topic not in errors:
        return item_result(INVALID_PARTITIONS, f"there is no partition {partition}")
    if errors[topic] == "TOPIC_AUTHORIZATION_FAILED":
        return item_result(CLUSTER_AUTHORIZATION_FAILED, f"topic {topic} is not ours to see")
    return item_result(INVALID_TOPIC_EXCEPTION, f"there is no topic {topic}")
