"""Replica rows as JSON, and the filters of `GET /v1/replicas`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.api.schema.replicas import ModeKey, ReplicaRow, StatusKey
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import (
    UNKNOWN,
    ReplicaStatus,
    Snapshot,
    moving_rows,
    partition_starts,
    stuck_rows,
)
from kshunt.backend.domain.replicas.stuck_causes import Replica, Stuck
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which replicas are wanted; None accepts every row."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    moving: bool | None = None
    """True: partitions with a replica that is being added or removed."""
    behind: bool | None = None
    """True: replicas out of the ISR."""
    stuck: bool | None = None
    """True: replicas that cannot arrive before somebody does something."""
    mode: PartitionMode | None = None
    """Replicas of partitions in this mode (KIP-694)."""


def matching_rows(snapshot: Snapshot, wanted: RowFilter) -> NDArray[np.int64]:
    """Indexes of the rows that pass, in the snapshot's order."""
    rows = snapshot.replicas
    mask = np.ones(len(rows), np.bool_)
    if wanted.topic is not None:
        known = wanted.topic in snapshot.topics
        mask &= rows.topic_index == (snapshot.topics.index(wanted.topic) if known else -1)
    if wanted.partition is not None:
        mask &= rows.partition == wanted.partition
    if wanted.broker is not None:
        mask &= rows.broker == wanted.broker
    if wanted.moving is not None:
        mask &= moving_rows(rows, partition_starts(rows)) == wanted.moving
    if wanted.behind is not None:
        mask &= rows.in_isr != wanted.behind
    if wanted.stuck is not None:
        mask &= stuck_rows(rows) == wanted.stuck
    if wanted.mode is not None:
        mask &= rows.mode == wanted.mode
    return np.flatnonzero(mask)


def stuck_in(snapshot: Snapshot | None) -> dict[Replica, Stuck]:
    """Every replica that is stuck, and why; none where there is no snapshot yet."""
    if snapshot is None:
        return {}
    found = map(snapshot.why, np.flatnonzero(stuck_rows(snapshot.replicas)).tolist())
    return {(one.partition, one.broker): one for one in found if one is not None}


def replica_row(snapshot: Snapshot, row: int) -> ReplicaRow:
    """One replica; what is unknown is null."""
    rows = snapshot.replicas
    broker = int(rows.broker[row])
    log_dir = int(rows.log_dir[row])
    status = snapshot.brokers.get(broker)
    why = snapshot.why(row)
    stuck: dict[str, Any] = {} if why is None else _stuck(why)
    return ReplicaRow(
        topic=snapshot.topic_of(row),
        partition=int(rows.partition[row]),
        broker=broker,
        position=int(rows.position[row]),
        leader=_known(rows.leader[row]),
        in_isr=bool(rows.in_isr[row]),
        adding=bool(rows.adding[row]),
        removing=bool(rows.removing[row]),
        leader_throttled=bool(rows.leader_throttled[row]),
        follower_throttled=bool(rows.follower_throttled[row]),
        status=cast(StatusKey, ReplicaStatus(int(rows.status[row])).name.lower()),
        log_end_offset=_known(rows.log_end_offset[row]),
        lag_messages=_known(rows.lag_messages[row]),
        size_bytes=_known(rows.size_bytes[row]),
        lag_bytes=_known(rows.lag_bytes[row]),
        log_dir=snapshot.log_dir_paths[log_dir] if log_dir >= 0 else None,
        catch_up_messages_per_s=_finite(rows.catch_up_messages_per_s[row]),
        catch_up_bytes_per_s=_finite(rows.catch_up_bytes_per_s[row]),
        fetched_bytes_per_s=_finite(rows.fetched_bytes_per_s[row]),
        eta_s=_finite(rows.eta_s[row]),
        never=bool(np.isinf(rows.eta_s[row])),
        sampled_ms=_known(rows.sampled_ms[row]),
        stale=status is None or status.stale,
        mode=cast(ModeKey, snapshot.mode_of(row).key),
        deletes_ms=snapshot.deletes_ms.get(snapshot.partition_of(row)),
        **stuck,
    )


def _stuck(why: Stuck) -> dict[str, Any]:
    text = stuck_text(why)
    return {
        "stuck": why.cause.is_stuck,
        "cause": why.cause.key,
        "reason": text.reason,
        "action": text.action,
        "rates": why.rates,
    }


def _known(value: Any) -> int | None:
    return None if int(value) == UNKNOWN else int(value)


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
