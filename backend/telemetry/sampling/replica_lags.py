"""Columns of a snapshot from what brokers answered: pure functions on arrays.

Goals
    The exact lag of every replica, in messages and in bytes, however unevenly brokers answer.
Constraints
    Unknown stays unknown. What a broker said last is kept, with the time at which it said it.
    Cost is linear in the replicas, with no Python loop over them.
Algorithm
    Each answer carries keys (topic, partition, broker). `Observed` holds the newest facts by row;
    `carry` moves them to a new assignment by key, `observe_*` writes a broker's answer over them.
    Lag is the leader's log end offset less the replica's own, both as told by the broker that
    hosts them (docs/concepts.md, Lag). Rates are the business of
    `kshunt.backend.telemetry.sampling.catch_up_rates`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS
from kshunt.backend.domain.replicas.snapshot import (
    PARTITION_MAX,
    UNKNOWN,
    Replicas,
    ReplicaStatus,
    pack_keys,
)
from kshunt.backend.domain.throttles.configs import ReplicaSet, Throttles


@dataclass(frozen=True, eq=False)
class Observed:
    """The newest facts of each row of an assignment. Arrays have shape (replicas,)."""

    log_end_offset: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    log_dir: NDArray[np.int16]
    offset_ms: NDArray[np.int64]
    """When the log end offset was read; -1 if never."""
    size_ms: NDArray[np.int64]
    """When the size was read; -1 if never."""


_OBSERVED_FIELDS: Final = tuple(column.name for column in fields(Observed))
_OBSERVED_DTYPES: Final[Mapping[str, Any]] = {
    "log_end_offset": np.int64,
    "size_bytes": np.int64,
    "log_dir": np.int16,
    "offset_ms": np.int64,
    "size_ms": np.int64,
}


def nothing_observed(rows: int) -> Observed:
    """Facts of rows that no broker has reported."""
    return Observed(
        **{name: np.full(rows, UNKNOWN, dtype) for name, dtype in _OBSERVED_DTYPES.items()}
    )


class RowIndex:
    """Finds the rows of an assignment by key."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self._topic_numbers = {topic: index for index, topic in enumerate(assignment.topics)}
        self._brokers = np.unique(assignment.broker)
        keys = self._keys(assignment.topic_index, assignment.partition, assignment.broker)
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]

    def _keys(
        self, topic_index: NDArray[Any], partition: NDArray[Any], broker: NDArray[Any]
    ) -> NDArray[np.int64]:
        return pack_keys(topic_index, partition, broker, self._brokers)

    def topic_numbers(self, topics: tuple[str, ...]) -> NDArray[np.int32]:
        """This assignment's index of each topic, -1 for one that it does not have."""
        numbers = self._topic_numbers
        return np.fromiter((numbers.get(topic, -1) for topic in topics), np.int32, len(topics))

    def rows(
        self, topic_index: NDArray[Any], partition: NDArray[Any], broker: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Row of each key, -1 where there is none. Arrays of one shape, indexes of ours."""
        if len(self._sorted) == 0:
            return np.full(len(partition), UNKNOWN, np.int64)
        keys = self._keys(topic_index, partition, broker)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        place_of_broker = np.searchsorted(self._brokers, broker)
        known = self._brokers[np.minimum(place_of_broker, len(self._brokers) - 1)] == broker
        found = (self._sorted[place] == keys) & (topic_index >= 0) & known
        return np.where(found, self._order[place], UNKNOWN)

    def rows_on(
        self,
        broker: int,
        topics: tuple[str, ...],
        topic_index: NDArray[Any],
        partition: NDArray[Any],
    ) -> NDArray[np.int64]:
        """Row of each partition on one broker, for an answer that has its own topic list."""
        numbers = self.topic_numbers(topics)[topic_index] if len(topics) else topic_index
        return self.rows(numbers, partition, np.full(len(partition), broker, np.int32))


def carry(old: RowIndex, observed: Observed, new: RowIndex) -> Observed:
    """The facts of `old`'s rows, on the rows that `new` has for the same replicas."""
    assignment = new.assignment
    numbers = old.topic_numbers(assignment.topics)
    topic_index = numbers[assignment.topic_index] if len(numbers) else assignment.topic_index
    rows = old.rows(topic_index, assignment.partition, assignment.broker)
    fresh = nothing_observed(len(assignment))
    found = rows >= 0
    for name in _OBSERVED_FIELDS:
        getattr(fresh, name)[found] = getattr(observed, name)[rows[found]]
    return fresh


def observe_offsets(
    index: RowIndex,
    observed: Observed,
    broker: int,
    asked: PartitionColumns,
    answer: OffsetColumns,
    at_ms: int,
) -> None:
    """Write a broker's log end offsets over the facts, in place.

    A row that the broker refuses (it has no such replica yet) becomes unknown: an old offset
    of a replica that was deleted would be a lie.
    """
    rows = index.rows_on(broker, asked.topics, asked.topic_index, asked.partition)
    found = rows >= 0
    offsets = np.where(answer.error_code == 0, answer.log_end_offset, UNKNOWN)
    observed.log_end_offset[rows[found]] = offsets[found]
    observed.offset_ms[rows[found]] = at_ms


def observe_log_dirs(
    index: RowIndex,
    observed: Observed,
    broker: int,
    answer: LogDirColumns,
    paths: Mapping[str, int],
    at_ms: int,
) -> None:
    """Write a broker's replica sizes and directories over the facts, in place.

    Rows of a move between directories (`is_future`) are left out: the replica is still where
    it was. `paths` gives each directory's index in `Snapshot.log_dir_paths`.
    """
    rows = index.rows_on(broker, answer.topics, answer.topic_index, answer.partition)
    use = (rows >= 0) & ~answer.is_future
    numbers = np.array([paths[directory.path] for directory in answer.dirs], np.int16)
    observed.size_bytes[rows[use]] = answer.size_bytes[use]
    observed.log_dir[rows[use]] = numbers[answer.dir_index[use]]
    observed.size_ms[rows[use]] = at_ms


def replicas(
    index: RowIndex,
    observed: Observed,
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    throttles: Throttles,
    silent_brokers: frozenset[int],
    failed_dirs: Collection[tuple[int, int]] = (),
) -> Replicas:
    """The columns of a snapshot, without rates (`Rates` adds them) and causes (`Diagnosis`).

    `silent_brokers` did not answer when they were last asked: what they lead has no known lag.
    `failed_dirs` are log directories that a broker called offline: its id, and the directory's
    index in `Snapshot.log_dir_paths`. A broker no longer lists the replicas that lie there, and
    the controller does not count a replica that was never in the ISR as offline.
    """
    assignment = index.assignment
    adding, removing = _moving(index, ongoing)
    leader_throttled, follower_throttled = _throttled(index, throttles)
    leader_row = index.rows(assignment.topic_index, assignment.partition, assignment.leader)
    silent = np.isin(assignment.leader, np.array(sorted(silent_brokers), np.int32))
    led = (leader_row >= 0) & ~silent
    lag_messages = _behind(observed.log_end_offset, leader_row, led)
    lag_bytes = _behind(observed.size_bytes, leader_row, led)
    unknown_rate = np.full(len(assignment), np.nan, np.float32)
    return Replicas(
        topic_index=assignment.topic_index,
        partition=assignment.partition,
        broker=assignment.broker,
        position=assignment.position,
        leader=assignment.leader,
        in_isr=assignment.in_isr,
        adding=adding,
        removing=removing,
        leader_throttled=leader_throttled,
        follower_throttled=follower_throttled,
        status=_status(assignment, lag_messages, _lies_in(index, observed, failed_dirs)),
        cause=np.zeros(len(assignment), np.uint8),
        log_end_offset=observed.log_end_offset.copy(),
        lag_messages=lag_messages,
        size_bytes=observed.size_bytes.copy(),
        lag_bytes=lag_bytes,
        log_dir=observed.log_dir.copy(),
        catch_up_messages_per_s=unknown_rate,
        catch_up_bytes_per_s=unknown_rate.copy(),
        fetched_bytes_per_s=unknown_rate.copy(),
        eta_s=unknown_rate.copy(),
        sampled_ms=observed.offset_ms.copy(),
        mode=assignment.mode,
    )


def deletion_times(assignment: Assignment) -> dict[TopicPartition, int]:
    """When the data of each read-only partition goes, where the cluster tells it."""
    read_only = (assignment.mode != 0) & (assignment.position == 0)
    rows = np.flatnonzero(read_only & (assignment.deletes_ms != UNKNOWN_MS)).tolist()
    return {
        TopicPartition(
            assignment.topics[int(assignment.topic_index[row])], int(assignment.partition[row])
        ): int(assignment.deletes_ms[row])
        for row in rows
    }


def _behind(
    values: NDArray[np.int64], leader_row: NDArray[np.int64], led: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Leader's value less one's own, at least 0; UNKNOWN where either is."""
    leaders = np.where(led, values[leader_row], UNKNOWN)
    known = (leaders != UNKNOWN) & (values != UNKNOWN)
    # A follower may be read after its leader and so seem ahead of it.
    return np.where(known, np.maximum(leaders - values, 0), UNKNOWN)


def _lies_in(
    index: RowIndex, observed: Observed, dirs: Collection[tuple[int, int]]
) -> NDArray[np.bool_]:
    """The rows that were last seen in one of some log directories."""
    found = np.zeros(len(index.assignment), np.bool_)
    for broker, number in dirs:
        found |= (index.assignment.broker == broker) & (observed.log_dir == number)
    return found


def _status(
    assignment: Assignment, lag_messages: NDArray[np.int64], failed: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    return np.select(
        [assignment.offline | failed, assignment.in_isr, lag_messages != UNKNOWN],
        [
            np.uint8(ReplicaStatus.OFFLINE),
            np.uint8(ReplicaStatus.IN_SYNC),
            np.uint8(ReplicaStatus.BEHIND),
        ],
        np.uint8(ReplicaStatus.LAG_UNKNOWN),
    ).astype(np.uint8)


def _moving(
    index: RowIndex, ongoing: Mapping[TopicPartition, OngoingReassignment]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    adding = [(move.partition, broker) for move in ongoing.values() for broker in move.adding]
    removing = [(move.partition, broker) for move in ongoing.values() for broker in move.removing]
    return _mask(index, adding), _mask(index, removing)


def _mask(index: RowIndex, pairs: list[tuple[TopicPartition, int]]) -> NDArray[np.bool_]:
    """True on the rows of the given replicas."""
    mask = np.zeros(len(index.assignment), np.bool_)
    if pairs:
        topics = index.topic_numbers(tuple(partition.topic for partition, _ in pairs))
        partitions = np.array([partition.partition for partition, _ in pairs], np.int32)
        brokers = np.array([broker for _, broker in pairs], np.int32)
        rows = index.rows(topics, partitions, brokers)
        mask[rows[rows >= 0]] = True
    return mask


def _throttled(
    index: RowIndex, throttles: Throttles
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    leaders = {topic: lists.leaders for topic, lists in throttles.replicas.items()}
    followers = {topic: lists.followers for topic, lists in throttles.replicas.items()}
    return _listed(index, leaders), _listed(index, followers)


def _listed(index: RowIndex, lists: Mapping[str, ReplicaSet]) -> NDArray[np.bool_]:
    mask = np.zeros(len(index.assignment), np.bool_)
    sets = [listed.pairs for listed in lists.values()]
    counts = [len(pairs) for pairs in sets]
    ids = chain.from_iterable(chain.from_iterable(sets))
    partition, broker = np.fromiter(ids, np.int64, 2 * sum(counts)).reshape(-1, 2).T
    topic = np.repeat(index.topic_numbers(tuple(lists)), counts)
    # A list may name what no cluster has; a key has no room for it.
    fits = partition <= PARTITION_MAX
    rows = index.rows(topic[fits], partition[fits], broker[fits])
    mask[rows[rows >= 0]] = True
    whole = tuple(topic for topic, listed in lists.items() if listed.everything)
    if whole:
        mask |= np.isin(index.assignment.topic_index, index.topic_numbers(whole))
    return mask
