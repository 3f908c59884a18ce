"""Samples from a snapshot: pure functions from its columns to an Arrow table's.

Goals
    What is not known is null, and is never 0.
Constraints
    Linear in the rows that are due, with no Python loop over them.
Algorithm
    Columns are taken by row; a copy's leader is found through its partition. Sums by broker are
    of what is known, and null where something should be added up and nothing of it is known.
    A throttle is on a row where the topic lists the replica and its broker has a rate. On the
    leader's side that is the replica of the partition's leader, on the follower's side the row's
    own. It is recorded whether the copy is in the ISR or not, although Kafka holds back only those
    out of it. Both count against the rate, and `in_isr` is a column next to it. A leader's
    own row copies from nobody and has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.telemetry.recording.due_samples import Layout
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.schema import SCHEMAS
from kshunt.backend.telemetry.stuck.throttle_shares import numbered

Rows = NDArray[np.intp]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rates = Mapping[int, int | None]

_CAUSES: Final = pa.array([None if one is Cause.NONE else one.name for one in Cause], pa.string())
_MODES: Final = pa.array(
    [None if mode is PartitionMode.READ_WRITE else str(mode) for mode in sorted(PartitionMode)],
    pa.string(),
)
"""By the code of a `PartitionMode`, the lowest of which is -1."""
_ZONE: Final = pa.timestamp("ms", tz="UTC")


def replica_rows(
    snapshot: Snapshot,
    layout: Layout,
    rows: Rows,
    operations: Mapping[TopicPartition, str],
) -> Any:
    """A `pyarrow.Table` of REPLICA_SAMPLES of these rows, in their order.

    `layout` is the snapshot's; `operations` says which operation of ours moves a partition.
    """
    replicas = snapshot.replicas
    leader = _leader_rows(replicas, layout)[layout.group[rows]]
    led, leads = leader >= 0, leader == rows
    leader_side, follower_side = _throttles(snapshot, rows, leader)

    def own(column: NDArray[Any]) -> Any:
        return _known(column[rows])

    def leaders(column: NDArray[Any]) -> Any:
        return _known(np.where(led, column[leader], UNKNOWN))

    columns = {
        "at": pa.array(replicas.sampled_ms[rows]).cast(_ZONE),
        "rid": pa.array(layout.rid[rows]),
        "topic": layout.topic_words.take(pa.array(replicas.topic_index[rows])),
        "partition": pa.array(replicas.partition[rows]),
        "broker": pa.array(replicas.broker[rows]),
        "leader": own(replicas.leader),
        "leader_at": leaders(replicas.sampled_ms).cast(_ZONE),
        "leader_log_end_offset": leaders(replicas.log_end_offset),
        "leader_size_bytes": leaders(replicas.size_bytes),
        "log_end_offset": own(replicas.log_end_offset),
        "size_bytes": own(replicas.size_bytes),
        "lag_messages": own(replicas.lag_messages),
        "lag_bytes": own(replicas.lag_bytes),
        "in_isr": pa.array(replicas.in_isr[rows]),
        "adding": pa.array(replicas.adding[rows]),
        "removing": pa.array(replicas.removing[rows]),
        "leader_throttle_bytes_per_s": _known(np.where(leads, UNKNOWN, leader_side)),
        "follower_throttle_bytes_per_s": _known(np.where(leads, UNKNOWN, follower_side)),
        "cause": _CAUSES.take(pa.array(replicas.cause[rows].astype(np.int32))),
        "operation_id": _operations(layout, rows, operations),
        "mode": _MODES.take(pa.array(replicas.mode[rows].astype(np.int32) + 1)),
    }
    schema = SCHEMAS[SampleTable.REPLICAS]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _known(values: NDArray[Any]) -> Any:
    """An Arrow array with null for what is not known."""
    return pa.array(values, mask=values < 0)


def _leader_rows(replicas: Replicas, layout: Layout) -> Longs:
    """Each partition's row of its leader, UNKNOWN where it has none. Shape (partitions,)."""
    found = np.full(len(layout.starts), UNKNOWN, np.int64)
    leads = np.flatnonzero(replicas.broker == replicas.leader)
    found[layout.group[leads]] = leads
    return found


def _throttles(snapshot: Snapshot, rows: Rows, leader: Longs) -> tuple[Longs, Longs]:
    """The rates in force on both sides of each row, UNKNOWN where none is."""
    replicas = snapshot.replicas
    rates = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
    leader_listed = (leader >= 0) & replicas.leader_throttled[leader]
    sending = {broker: rate.leader_bytes_per_s for broker, rate in rates.items()}
    fetching = {broker: rate.follower_bytes_per_s for broker, rate in rates.items()}
    return (
        _rates(replicas.leader[rows], leader_listed, sending),
        _rates(replicas.broker[rows], replicas.follower_throttled[rows], fetching),
    )


def _rates(broker: NDArray[np.int32], listed: Mask, rates: Rates) -> Longs:
    if not listed.any():
        return np.full(len(broker), UNKNOWN, np.int64)
    ids, place = numbered(broker)
    return np.where(listed, _by_broker(ids, rates)[place], UNKNOWN)


def _by_broker(ids: Longs, rates: Rates) -> Longs:
    found = [rates.get(int(broker)) for broker in ids]
    return np.array([UNKNOWN if rate is None else rate for rate in found], np.int64)


def _operations(layout: Layout, rows: Rows, operations: Mapping[TopicPartition, str]) -> Any:
    """The id of the operation that moves each row's partition, or null."""
    names = sorted(set(operations.values()))
    if not names or not len(rows):
        return pa.nulls(len(rows), pa.string())
    numbers = {topic: number for number, topic in enumerate(layout.topics)}
    places = {name: place for place, name in enumerate(names)}
    known = [
        (numbers[one.topic], one.partition, places[name])
        for one, name in operations.items()
        if one.topic in numbers
    ]
    wanted = np.array(known, np.int64).reshape(-1, 3)
    wanted_keys = partition_keys(wanted[:, 0], wanted[:, 1])
    replicas = layout.replicas
    keys = partition_keys(replicas.topic_index[layout.starts], replicas.partition[layout.starts])
    at = np.minimum(np.searchsorted(keys, wanted_keys), len(keys) - 1)
    hit = keys[at] == wanted_keys
    by_group = np.full(len(keys), UNKNOWN, np.int32)
    by_group[at[hit]] = wanted[hit, 2]
    return pa.array(names, pa.string()).take(_known(by_group[layout.group[rows]]))


# Brokers


def broker_rows(snapshot: Snapshot) -> Any:
    """A `pyarrow.Table` of BROKER_SAMPLES: every broker that is up, or hosts a replica."""
    replicas = snapshot.replicas
    ids = np.array(sorted(snapshot.brokers), np.int64)
    host, leader = _places(ids, replicas.broker), _places(ids, replicas.leader)
    behind, adding = ~replicas.in_isr, replicas.adding
    size, lag = replicas.size_bytes.astype(np.float64), replicas.lag_bytes.astype(np.float64)
    fetched = replicas.fetched_bytes_per_s.astype(np.float64)
    rates = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
    every = np.ones(len(replicas), np.bool_)

    def total(place: Longs, which: Mask, values: Floats, known: Mask) -> tuple[Floats, Mask]:
        return _sums(place, which & (place >= 0), values, known, len(ids))

    columns = {
        "at": pa.array(np.full(len(ids), snapshot.taken_ms, np.int64)).cast(_ZONE),
        "broker": _ints(ids),
        "answering": pa.array([not snapshot.brokers[int(b)].stale for b in ids], pa.bool_()),
        "leaders": _ints(_count(host, replicas.broker == replicas.leader, len(ids))),
        "preferred_leaders": _ints(_count(host, replicas.position == 0, len(ids))),
        "replicas": _ints(_count(host, every, len(ids))),
        "log_bytes": _bytes(*total(host, every, size, size >= 0)),
        "disk_total_bytes": _disks(snapshot, ids, "total_bytes"),
        "disk_usable_bytes": _disks(snapshot, ids, "usable_bytes"),
        "in_bytes_per_s": _floats(*total(host, adding, fetched, np.isfinite(fetched))),
        "out_bytes_per_s": _floats(*total(leader, adding, fetched, np.isfinite(fetched))),
        "lag_in_bytes": _bytes(*total(host, behind, lag, lag >= 0)),
        "lag_out_bytes": _bytes(*total(leader, behind, lag, lag >= 0)),
        "leader_throttle_bytes_per_s": _known(
            _by_broker(ids, {b: rate.leader_bytes_per_s for b, rate in rates.items()})
        ),
        "follower_throttle_bytes_per_s": _known(
            _by_broker(ids, {b: rate.follower_bytes_per_s for b, rate in rates.items()})
        ),
    }
    schema = SCHEMAS[SampleTable.BROKERS]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _places(ids: Longs, broker: NDArray[np.int32]) -> Longs:
    """Each row's place in the sorted ids, UNKNOWN for a broker that is not among them."""
    if not len(ids):
        return np.full(len(broker), UNKNOWN, np.int64)
    known, place = numbered(broker)
    at = np.minimum(np.searchsorted(ids, known), len(ids) - 1)
    found: Longs = np.where(ids[at] == known, at, UNKNOWN)[place]
    return found


def _count(place: Longs, which: Mask, brokers: int) -> Longs:
    return np.bincount(place[which & (place >= 0)], minlength=brokers)


def _sums(
    place: Longs, which: Mask, values: Floats, known: Mask, brokers: int
) -> tuple[Floats, Mask]:
    """By broker the sum of what is known, and where that is worth anything."""
    wanted = np.bincount(place[which], minlength=brokers)
    rows = which & known
    found = np.bincount(place[rows], minlength=brokers)
    sums = np.bincount(place[rows], np.maximum(values[rows], 0.0), brokers).astype(np.float64)
    return sums, (found > 0) | (wanted == 0)


def _disks(snapshot: Snapshot, ids: Longs, name: str) -> Any:
    """By broker the sum over its directories, null where one does not say or none is known."""
    found: dict[int, list[int]] = {}
    for directory in snapshot.log_dirs:
        known = UNKNOWN if directory.error else getattr(directory, name)
        found.setdefault(directory.broker, []).append(known)
    sizes = [found.get(int(broker), [UNKNOWN]) for broker in ids]
    sums = [UNKNOWN if min(one) < 0 else sum(one) for one in sizes]
    return _known(np.array(sums, np.int64))


def _ints(values: Longs) -> Any:
    return pa.array(values.astype(np.int32))


def _bytes(sums: Floats, known: Mask) -> Any:
    return pa.array(sums.astype(np.int64), mask=~known)


def _floats(sums: Floats, known: Mask) -> Any:
    return pa.array(sums, mask=~known)


# Forecasts


def forecast_rows(ended: Mapping[str, Kept], at_ms: int) -> Any:
    """A `pyarrow.Table` of FORECAST_SAMPLES: the forecasts of operations that ended, by id."""
    schema = SCHEMAS[SampleTable.FORECASTS]
    rows = [
        {"at": at_ms, "operation_id": id, "made_at": one.made_ms, "right": one.right}
        | {name: getattr(one, name) for name in schema.names if hasattr(one, name)}
        for id, kept in ended.items()
        for one in kept
    ]
    return pa.Table.from_pylist(rows, schema=schema)
