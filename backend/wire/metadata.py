"""Metadata in columns: a cluster's brokers and who hosts what.

Goals: 100,000 partitions in tens of milliseconds; the exact answer whatever the broker sends.

Constraints: a partition's entry has three arrays of brokers (replicas, in sync, offline) and so
no fixed size; while a reassignment runs, sizes change from one partition to the next.

Algorithm: one pass in Python finds where each entry begins, by its three lengths alone. An entry
of the same shape as the one before it starts a run. The pass finds the end of the run by comparing
the length bytes at that stride. An entry that has the shape begins where the one before it ends, so
the comparison is exact. An entry with tagged fields, or with 127 brokers or more, is read
by the general reader, which also reads its mode (`kshunt.backend.wire.partition_modes`). A second
pass in numpy takes every value from where the first one found it.

Versions: 9 to 12, that is Kafka 2.4 and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode
from kshunt.backend.error_codes import error_name
from kshunt.backend.wire.partition_modes import read_mode, read_tags
from kshunt.backend.wire.reader import Reader, array_length, string

METADATA_VERSIONS: Final = (9, 12)
METADATA_FLEXIBLE_FROM: Final = 9

_TOPIC_IDS_FROM: Final = 10
_CLUSTER_OPERATIONS_UNTIL: Final = 10
_UUID_BYTES: Final = 16
_FIXED_BYTES: Final = 14
"""An entry's error code, index, leader and leader epoch."""
_TWO_BYTE_LENGTH: Final = 0x80
"""The first byte from here on is not the whole of a compact length."""
_WINDOW: Final = 32
"""Entries that are compared at first; a run that fills its window gets a wider one."""


def encode_metadata(topics: Sequence[str] | None, version: int) -> bytes:
    """A Metadata request for the topics named, or for all; it never creates a topic."""
    if topics is None:
        body = b"\x00"
    else:
        no_id = bytes(_UUID_BYTES) if version >= _TOPIC_IDS_FROM else b""
        names = (no_id + string(topic, flexible=True) + b"\x00" for topic in topics)
        body = array_length(len(topics), flexible=True) + b"".join(names)
    # allow_auto_topic_creation, and whether to list the operations that are authorized.
    flags = 3 if version <= _CLUSTER_OPERATIONS_UNTIL else 2
    return body + bytes(flags) + b"\x00"


def decode_metadata(body: bytes, version: int) -> ClusterState:
    """A Metadata answer.

    A topic whose error the broker reports is in `topic_errors`. A partition that has an error of
    its own (no leader, a listener missing) is described all the same.

    Raises:
        WireError: the bytes are malformed.
    """
    reader = Reader(body, flexible=True, what="Metadata answer")
    reader.int32()
    brokers = _brokers(reader)
    cluster_id = reader.nullable_string() or ""
    controller = reader.int32()
    topics = _TopicCollector(version)
    topics.read(reader)
    if version <= _CLUSTER_OPERATIONS_UNTIL:
        reader.int32()
    reader.tags()
    reader.end()
    errors = {name: error_name(code) for name, code in topics.errors.items()}
    return ClusterState(cluster_id, controller, brokers, topics.assignment(reader), errors)


def decode_topic_ids(body: bytes, version: int) -> dict[str, bytes]:
    """The 16 bytes of each topic's id in a Metadata answer; empty before topics had ids.

    Raises:
        WireError: the bytes are malformed.
    """
    reader = Reader(body, flexible=True, what="Metadata answer")
    reader.int32()
    _brokers(reader)
    reader.nullable_string()
    reader.int32()
    topics = _TopicCollector(version)
    topics.read(reader)
    if version < _TOPIC_IDS_FROM:
        return {}
    starts = zip(topics.names, topics.ids_at, strict=True)
    return {name: body[at : at + _UUID_BYTES] for name, at in starts}


def _brokers(reader: Reader) -> Mapping[int, Broker]:
    brokers = {}
    for _ in range(reader.count()):
        broker, host, port = reader.int32(), reader.string(), reader.int32()
        brokers[broker] = Broker(broker, host, port, reader.nullable_string())
        reader.tags()
    return brokers


class _TopicCollector:
    """Collects the topics of one answer."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.names: list[str] = []
        self.counts: list[int] = []
        """Partitions of each topic."""
        self.ids_at: list[int] = []
        """Where the id of each topic is; none in versions without ids."""
        self.errors: dict[str, int] = {}
        self.runs = _EntryRuns()

    def read(self, reader: Reader) -> None:
        """The array of topics."""
        for _ in range(reader.count()):
            code, name = reader.int16(), reader.string()
            if self.version >= _TOPIC_IDS_FROM:
                self.ids_at.append(reader.skip(_UUID_BYTES))
            reader.skip(1)
            count = reader.count()
            self.runs.read(reader, count)
            reader.int32()
            reader.tags()
            self.names.append(name)
            self.counts.append(count)
            if code:
                self.errors[name] = code

    def assignment(self, reader: Reader) -> Assignment:
        """The replicas, sorted by (topic, partition, position)."""
        if len(set(self.names)) < len(self.names):
            raise reader.error("a topic is described twice")
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        names = tuple(self.names[place] for place in order)
        entries = self.runs.entries()
        return _assignment(reader, names, np.repeat(rank, self.counts), entries)


class _Entries(NamedTuple):
    """Where each partition's entry has what. All arrays have shape (partitions,)."""

    start: NDArray[np.int64]
    replicas_at: NDArray[np.int64]
    replicas: NDArray[np.int64]
    """Length of the array that begins there; likewise below."""
    in_sync_at: NDArray[np.int64]
    in_sync: NDArray[np.int64]
    offline_at: NDArray[np.int64]
    offline: NDArray[np.int64]
    mode: NDArray[np.int64]
    """A `PartitionMode`."""
    deletes_ms: NDArray[np.int64]


class _EntryRuns:
    """Entries of one shape next to each other, and those that are read one by one."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.counts: list[int] = []
        self.replicas: list[int] = []
        """Compact length of the array, which is one more than its length; likewise below."""
        self.in_sync: list[int] = []
        self.offline: list[int] = []
        self.odd: dict[int, tuple[int, ...]] = {}
        """By the number of the run: all of `_Entries` for its one entry."""

    def read(self, reader: Reader, count: int) -> None:
        """`count` entries of one topic."""
        data = reader.data
        last, window = None, _WINDOW
        while count:
            shape = _plain_shape(data, reader.at)
            if shape is None:
                self._read_odd(reader)
                count -= 1
                continue
            size, run = _FIXED_BYTES + 4 * sum(shape) - 8, 1
            if shape == last:
                run = _run_length(data, reader.at, size, shape, min(count, window))
                window = window * 8 if run == window else _WINDOW
            last = shape
            self._add(reader.at, run, shape)
            reader.at += run * size
            count -= run

    def _add(self, start: int, count: int, shape: tuple[int, int, int]) -> None:
        self.starts.append(start)
        self.counts.append(count)
        self.replicas.append(shape[0])
        self.in_sync.append(shape[1])
        self.offline.append(shape[2])

    def _read_odd(self, reader: Reader) -> None:
        """One entry by the general reader."""
        start = reader.skip(_FIXED_BYTES)
        where = [start]
        for _ in range(3):
            length = reader.count()
            where += (reader.skip(4 * length), length)
        where += read_mode(read_tags(reader), reader)
        self.odd[len(self.starts)] = tuple(where)
        self._add(start, 1, (1, 1, 1))

    def entries(self) -> _Entries:
        """Where each entry has what."""
        counts = np.array(self.counts, np.int64)
        replicas, in_sync, offline = (
            np.array(lengths, np.int64) - 1
            for lengths in (self.replicas, self.in_sync, self.offline)
        )
        size = _FIXED_BYTES + 4 + 4 * (replicas + in_sync + offline)
        start = _spread(np.array(self.starts, np.int64), size, counts)
        replicas, in_sync, offline = (
            np.repeat(lengths, counts) for lengths in (replicas, in_sync, offline)
        )
        replicas_at = start + _FIXED_BYTES + 1
        in_sync_at = replicas_at + 4 * replicas + 1
        offline_at = in_sync_at + 4 * in_sync + 1
        lists = (replicas_at, replicas, in_sync_at, in_sync, offline_at, offline)
        mode = np.full_like(start, PartitionMode.READ_WRITE)
        found = _Entries(start, *lists, mode, np.full_like(start, UNKNOWN_MS))
        if self.odd:
            rows = (np.cumsum(counts) - counts)[list(self.odd)]
            for column, values in zip(found, zip(*self.odd.values(), strict=True), strict=True):
                column[rows] = values
        return found


def _plain_shape(data: bytes, at: int) -> tuple[int, int, int] | None:
    """The compact lengths of the entry's arrays; None if it is not one of the plain kind.

    What is not plain, or ends too early, is for the general reader to say.
    """
    try:
        replicas = data[at + _FIXED_BYTES]
        in_sync_at = at + _FIXED_BYTES - 3 + 4 * replicas
        in_sync = data[in_sync_at]
        offline_at = in_sync_at - 3 + 4 * in_sync
        offline = data[offline_at]
        tags = data[offline_at - 3 + 4 * offline]
    except IndexError:
        return None
    if tags or not (replicas and in_sync and offline):
        return None
    if replicas | in_sync | offline >= _TWO_BYTE_LENGTH:
        return None
    return replicas, in_sync, offline


def _run_length(data: bytes, start: int, size: int, shape: tuple[int, int, int], most: int) -> int:
    """How many entries from `start` on have the shape, the first of which is known to."""
    end = start + most * size
    run = most
    offset = _FIXED_BYTES
    for wanted in (*shape, 0):
        lengths = data[start + offset : end : size]
        run = min(run, len(lengths) - len(lengths.lstrip(bytes((wanted,)))))
        offset += 4 * wanted - 3
    return run


def _spread(
    first: NDArray[np.int64], step: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`counts[i]` values from `first[i]` on, each `step[i]` after the one before it."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    spread: NDArray[np.int64] = np.repeat(first, counts) + within * np.repeat(step, counts)
    return spread


def _assignment(
    reader: Reader, names: tuple[str, ...], topic: NDArray[np.int32], entries: _Entries
) -> Assignment:
    # Every int32 of the message, at every offset: the values are not aligned.
    int32: NDArray[Any] = np.ndarray(
        (max(len(reader.data) - 3, 0),), ">i4", reader.data, strides=(1,)
    )
    partition = int32[entries.start + 2].astype(np.int32)
    keys = partition_keys(topic, partition)
    if (np.diff(keys) < 0).any():
        order = np.argsort(keys, kind="stable")
        topic, partition, keys = topic[order], partition[order], keys[order]
        entries = _Entries(*(column[order] for column in entries))
    if len(keys) and (partition.min() < 0 or not np.diff(keys).all()):
        raise reader.error("a partition is negative or described twice")
    one, four = np.ones_like(entries.start), np.full_like(entries.start, 4)
    broker = int32[_spread(entries.replicas_at, four, entries.replicas)].astype(np.int32)
    if len(broker) and broker.min() < 0:
        raise reader.error("a replica is on a negative broker id")
    return Assignment(
        topics=names,
        topic_index=np.repeat(topic, entries.replicas),
        partition=np.repeat(partition, entries.replicas),
        broker=broker,
        position=_spread(0 * one, one, entries.replicas).astype(np.int16),
        leader=np.repeat(int32[entries.start + 6].astype(np.int32), entries.replicas),
        in_isr=_among(broker, int32, entries.replicas, entries.in_sync_at, entries.in_sync),
        offline=_among(broker, int32, entries.replicas, entries.offline_at, entries.offline),
        **_modes(entries),
    )


def _modes(entries: _Entries) -> dict[str, Any]:
    """The columns of modes; none where every partition is ReadWrite."""
    if not entries.mode.any():
        return {}
    return {
        "mode": np.repeat(entries.mode.astype(np.int8), entries.replicas),
        "deletes_ms": np.repeat(entries.deletes_ms, entries.replicas),
    }


def _among(
    broker: NDArray[np.int32],
    int32: NDArray[Any],
    replicas: NDArray[np.int64],
    listed_at: NDArray[np.int64],
    listed: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which replicas are in their partition's list. Shape (replicas,)."""
    found = np.zeros(len(broker), np.bool_)
    for place in range(int(listed.max(initial=0))):
        has = listed > place
        rows = np.repeat(has, replicas)
        ids = int32[listed_at[has] + 4 * place]
        found[rows] |= broker[rows] == np.repeat(ids, replicas[has])
    return found
