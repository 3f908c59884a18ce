"""How far replicas are behind, by the log end offsets that their own brokers tell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.replicas import ReplicaLag
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import item_error, item_result
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.columns import OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    TopicPartition,
)
from kshunt.backend.error_codes import (
    LEADER_NOT_AVAILABLE,
    REPLICA_NOT_AVAILABLE,
    error_name,
)
from kshunt.backend.errors import KshuntError


async def measured_lags(
    logs: LogAdmin, clock: Clock, assignment: Assignment, timeout_s: float
) -> list[ReplicaLag]:
    """The lag of every replica, from the log end offset of each on its own broker."""
    brokers = sorted(set(assignment.broker.tolist()))

    async def ask(broker: int) -> tuple[OffsetColumns | ItemResult, int]:
        return await _offsets(logs, broker, assignment, timeout_s), clock.now_ms()

    answers = dict(zip(brokers, await together(map(ask, brokers)), strict=True))
    return lags(
        assignment,
        {broker: offsets for broker, (offsets, _) in answers.items()},
        {broker: answered_ms for broker, (_, answered_ms) in answers.items()},
    )


async def _offsets(
    logs: LogAdmin, broker: int, assignment: Assignment, timeout_s: float
) -> OffsetColumns | ItemResult:
    rows = hosted_by(assignment, broker)
    columns = PartitionColumns(
        assignment.topics, assignment.topic_index[rows], assignment.partition[rows]
    )
    try:
        return await logs.end_offsets(broker, columns, timeout_s=timeout_s)
    except KshuntError as error:
        return item_error(error)


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
            why[row] = item_result(REPLICA_NOT_AVAILABLE, f"its broker reports {error_name(code)}")
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
    return f"broker {leader}, its leader, did not report its log end offset"


def _partition_at(assignment: Assignment, row: int) -> TopicPartition:
    topic = assignment.topics[int(assignment.topic_index[row])]
    return TopicPartition(topic, int(assignment.partition[row]))
