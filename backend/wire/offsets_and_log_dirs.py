"""ListOffsets and DescribeLogDirs in columns: from wire bytes to arrays and back.

A cluster of 100,000 partitions answers these with 100,000 fixed-size entries. An object for each
costs more than the broker's own work, so whole topics are taken as one block of bytes and read
with one structured dtype. Only an entry that carries tagged fields (KIP-482) has another size;
a topic that holds one is read entry by entry.

Versions: ListOffsets 4 to 7 and DescribeLogDirs 1 to 4, that is Kafka 2.4 and later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import (
    LogDirColumns,
    OffsetColumns,
    PartitionColumns,
    partition_keys,
)
from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.error_codes import UNKNOWN_SERVER_ERROR, error_name
from kshunt.backend.errors import ClusterError, NotAuthorized
from kshunt.backend.wire.reader import Reader, array_length, string, tags

LIST_OFFSETS_VERSIONS: Final = (4, 7)
LIST_OFFSETS_FLEXIBLE_FROM: Final = 6
DESCRIBE_LOG_DIRS_VERSIONS: Final = (1, 4)
DESCRIBE_LOG_DIRS_FLEXIBLE_FROM: Final = 2

DEBUGGING_REPLICA: Final = -2
"""`ListOffsetsRequest.DEBUGGING_REPLICA_ID`: any replica answers, leader or not."""
LATEST_TIMESTAMP: Final = -1
"""The log end offset."""

_OFFSET_QUERY: Final = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8")])
_OFFSET_ENTRY: Final = np.dtype(
    [
        ("partition", ">i4"),
        ("error", ">i2"),
        ("timestamp", ">i8"),
        ("offset", ">i8"),
        ("leader_epoch", ">i4"),
    ]
)
_LOG_DIR_ENTRY: Final = np.dtype(
    [("partition", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("is_future", "u1")]
)
"""Nothing reads this `lag`: it is 0 for a replica that is far behind (docs/concepts.md, Lag)."""


def topic_runs(partitions: PartitionColumns) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Each topic of the columns with its partitions, in order."""
    if not len(partitions):
        return
    edges = np.flatnonzero(np.diff(partitions.topic_index)) + 1
    starts = [0, *edges.tolist()]
    for start, stop in zip(starts, [*starts[1:], len(partitions)], strict=True):
        topic = partitions.topics[int(partitions.topic_index[start])]
        yield topic, partitions.partition[start:stop]


def _topics_body(
    partitions: PartitionColumns,
    entries: Callable[[NDArray[np.int32]], bytes],
    *,
    flexible: bool,
) -> bytes:
    out = [b""]
    end = tags(flexible=flexible)
    for topic, rows in topic_runs(partitions):
        out += (
            string(topic, flexible=flexible),
            array_length(len(rows), flexible=flexible),
            entries(rows),
            end,
        )
    out[0] = array_length((len(out) - 1) // 4, flexible=flexible)
    return b"".join(out)


def _with_tags(dtype: np.dtype[Any], *, flexible: bool) -> np.dtype[Any]:
    """The dtype followed by the byte of an empty section of tagged fields."""
    if not flexible:
        return dtype
    return np.dtype([*((name, dtype[name]) for name in dtype.names or ()), ("tags", "u1")])


def encode_list_offsets(partitions: PartitionColumns, version: int) -> bytes:
    """A ListOffsets request for each replica's own log end offset (see `DEBUGGING_REPLICA`)."""
    flexible = version >= LIST_OFFSETS_FLEXIBLE_FROM
    dtype = _with_tags(_OFFSET_QUERY, flexible=flexible)

    def entries(rows: NDArray[np.int32]) -> bytes:
        block = np.zeros(len(rows), dtype)
        block["partition"] = rows
        block["epoch"] = -1
        block["timestamp"] = LATEST_TIMESTAMP
        return block.tobytes()

    isolation_read_uncommitted = b"\x00"
    return b"".join(
        (
            DEBUGGING_REPLICA.to_bytes(4, "big", signed=True),
            isolation_read_uncommitted,
            _topics_body(partitions, entries, flexible=flexible),
            tags(flexible=flexible),
        )
    )


def take_entries(reader: Reader, count: int, dtype: np.dtype[Any]) -> bytes:
    """The bytes of `count` entries of `dtype`, without their tag bytes' meaning checked away.

    In a flexible version `dtype` ends with one tag byte. While it is 0 every entry has that size.
    The first that is not 0 is where the sizes begin to differ. Then all entries are cut out one by
    one, each with a 0 in its place.
    """
    size = dtype.itemsize
    start = reader.at
    if not reader.flexible:
        reader.skip(count * size)
        return reader.data[start : reader.at]
    end = start + count * size
    tag_bytes = reader.data[start + size - 1 : end : size]
    if len(tag_bytes) == count and tag_bytes.count(0) == count:
        reader.skip(count * size)
        return reader.data[start:end]
    cut = []
    for _ in range(count):
        at = reader.skip(size - 1)
        reader.tags()
        cut.append(reader.data[at : at + size - 1] + b"\x00")
    return b"".join(cut)


class _Blocks:
    """Entries of many topics, gathered as bytes and read as one array."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.names: list[bytes] = []
        self.counts: list[int] = []
        self._blocks: list[bytes] = []

    def read_topics(self, reader: Reader) -> None:
        """An array of topics, each a name and an array of entries."""
        for _ in range(reader.count()):
            name = reader.nullable_bytes_of_string()
            count = reader.count()
            if name is None:
                raise reader.error("a topic's name is null")
            self.names.append(name)
            self.counts.append(count)
            self._blocks.append(take_entries(reader, count, self.dtype))
            reader.tags()

    def entries(self) -> NDArray[Any]:
        """All entries. Shape (entries,)."""
        return np.frombuffer(b"".join(self._blocks), self.dtype)

    def names_decoded(self, reader: Reader) -> tuple[str, ...]:
        """Topic names in order of appearance."""
        try:
            return tuple(name.decode() for name in self.names)
        except UnicodeDecodeError:
            raise reader.error("a topic's name is not UTF-8") from None


def decode_list_offsets(body: bytes, version: int, asked: PartitionColumns) -> OffsetColumns:
    """A ListOffsets answer, aligned with the partitions asked for.

    A broker may answer topics and partitions in another order (Kafka 4 does). A partition that
    it leaves out gets UNKNOWN_SERVER_ERROR.

    Raises:
        WireError: the bytes are malformed, or they answer for a partition not asked for.
    """
    flexible = version >= LIST_OFFSETS_FLEXIBLE_FROM
    reader = Reader(body, flexible=flexible, what="ListOffsets answer")
    reader.int32()
    blocks = _Blocks(_with_tags(_OFFSET_ENTRY, flexible=flexible))
    blocks.read_topics(reader)
    reader.tags()
    reader.end()
    entries = blocks.entries()
    rows = _rows_of(reader, blocks, entries, asked)
    offset = np.full(len(asked), -1, np.int64)
    error = np.full(len(asked), UNKNOWN_SERVER_ERROR, np.int16)
    offset[rows] = entries["offset"]
    error[rows] = entries["error"]
    offset[error != 0] = -1
    return OffsetColumns(offset, error)


def _rows_of(
    reader: Reader, blocks: _Blocks, entries: NDArray[Any], asked: PartitionColumns
) -> NDArray[np.intp] | slice:
    """Which row of `asked` each entry answers."""
    runs = [(topic.encode(), len(rows)) for topic, rows in topic_runs(asked)]
    in_order = runs == list(zip(blocks.names, blocks.counts, strict=True))
    if in_order and np.array_equal(entries["partition"], asked.partition):
        return slice(None)
    index = {topic.encode(): place for place, topic in enumerate(asked.topics)}
    topics = np.array([index.get(name, -1) for name in blocks.names], np.int64)
    keys = partition_keys(np.repeat(topics, blocks.counts), entries["partition"].astype(np.int64))
    asked_keys = partition_keys(asked.topic_index, asked.partition)
    rows = np.searchsorted(asked_keys, keys)
    if rows.max(initial=-1) >= len(asked) or (asked_keys[rows] != keys).any():
        raise reader.error("it answers for a partition that kshunt did not ask for")
    return rows


def encode_describe_log_dirs(partitions: PartitionColumns | None, version: int) -> bytes:
    """A DescribeLogDirs request; None asks for every replica of the broker."""
    flexible = version >= DESCRIBE_LOG_DIRS_FLEXIBLE_FROM
    if partitions is None:
        return array_length(-1, flexible=flexible) + tags(flexible=flexible)
    topics = _topics_body(partitions, lambda rows: rows.astype(">i4").tobytes(), flexible=flexible)
    return topics + tags(flexible=flexible)


def decode_describe_log_dirs(body: bytes, version: int, broker: int) -> LogDirColumns:
    """A DescribeLogDirs answer (KIP-113; sizes of volumes by KIP-827).

    Raises:
        WireError: the bytes are malformed.
        NotAuthorized: the broker refuses this principal.
        ClusterError: the broker refuses the call for another reason.
    """
    flexible = version >= DESCRIBE_LOG_DIRS_FLEXIBLE_FROM
    reader = Reader(body, flexible=flexible, what="DescribeLogDirs answer")
    reader.int32()
    if version >= 3:
        _raise_for_code(reader.int16(), broker)
    blocks = _Blocks(_with_tags(_LOG_DIR_ENTRY, flexible=flexible))
    dirs: list[LogDir] = []
    rows_of_dir: list[int] = []
    for _ in range(reader.count()):
        code, path = reader.int16(), reader.string()
        topics_before = len(blocks.counts)
        blocks.read_topics(reader)
        rows_of_dir.append(sum(blocks.counts[topics_before:]))
        total, usable = (reader.int64(), reader.int64()) if version >= 4 else (-1, -1)
        reader.tags()
        dirs.append(LogDir(broker, path, total, usable, error_name(code) if code else None))
    reader.tags()
    reader.end()
    return _log_dir_columns(reader, blocks, dirs, rows_of_dir)


def _log_dir_columns(
    reader: Reader, blocks: _Blocks, dirs: list[LogDir], rows_of_dir: list[int]
) -> LogDirColumns:
    names = blocks.names_decoded(reader)
    # A topic with replicas in several directories is one topic.
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    topics = np.array([index[name] for name in names], np.int32)
    entries = blocks.entries()
    if bool((entries["is_future"] > 1).any()):
        raise reader.error("a boolean must be 0 or 1")
    return LogDirColumns(
        dirs=tuple(dirs),
        topics=tuple(index),
        topic_index=np.repeat(topics, blocks.counts),
        partition=entries["partition"].astype(np.int32),
        dir_index=np.repeat(np.arange(len(dirs), dtype=np.int16), rows_of_dir),
        size_bytes=entries["size"].astype(np.int64),
        is_future=entries["is_future"].astype(np.bool_),
    )


def _raise_for_code(code: int, broker: int) -> None:
    if code == 0:
        return
    name = error_name(code)
    message = f"Broker {broker} does not report its log directories: {name}."
    if code == NotAuthorized.kafka_code:
        raise NotAuthorized(message, advice="The caller needs Describe on the cluster resource.")
    raise ClusterError(message)
