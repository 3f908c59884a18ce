"""The answer to Fetch as bytes, without a copy of the records but the one that goes out.

kafka-python's encoder copies records several times and keeps its buffer, which grows to the
largest answer. The bytes here are the same ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kshunt.backend.embedded.logs.producers import AbortedTransaction
from kshunt.backend.embedded.metadata.image_values import RegisteredBroker
from kshunt.backend.wire.reader import array_length, string, uvarint

SESSIONS_FROM: Final = 7
TOPIC_IDS_FROM: Final = 13

_LOG_START_FROM: Final = 5
_READ_REPLICA_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_ENDPOINTS_FROM: Final = 16
_NO_REPLICA: Final = -1
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_LEADER: Final = struct.Struct(">ii")
_DIVERGING: Final = struct.Struct(">iq")
_DIVERGING_TAG: Final = 0
_LEADER_TAG: Final = 1
_ENDPOINTS_TAG: Final = 0
_NO_TAGS: Final = b"\x00"


@dataclass(slots=True)
class FetchedPartition:
    """One partition of the answer; -1 stands for what is unknown."""

    index: int
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    """None for a reader that takes uncommitted records."""
    diverging: tuple[int, int] | None = None
    """Epoch and end offset that the log has in common with the client at most (KIP-595)."""
    leader: tuple[int, int] | None = None
    """Broker and leader epoch, for a client that asked the wrong one."""
    batches: list[bytes] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of the records."""
        return sum(map(len, self.batches))


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """A topic of the answer, named as the request has named it."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[FetchedPartition]


def fetch_answer(
    version: int,
    topics: Sequence[FetchedTopic] = (),
    brokers: Sequence[RegisteredBroker] = (),
    *,
    error: int = 0,
) -> bytes:
    """The body of the answer; its session id is always 0: there is no fetch session."""
    flexible = version >= _FLEXIBLE_FROM
    parts = [_I32.pack(0)]
    if version >= SESSIONS_FROM:
        parts.append(_SESSION.pack(error, 0))
    parts.append(array_length(len(topics), flexible=flexible))
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            parts.append(topic.topic_id.bytes if topic.topic_id is not None else bytes(16))
        else:
            parts.append(string(topic.name, flexible=flexible))
        parts.append(array_length(len(topic.partitions), flexible=flexible))
        for partition in topic.partitions:
            parts += _partition(version, partition)
        if flexible:
            parts.append(_NO_TAGS)
    if flexible:
        named = brokers if version >= _ENDPOINTS_FROM else ()
        parts.append(_tagged([(_ENDPOINTS_TAG, _endpoints(named))] if named else []))
    return b"".join(parts)


def _partition(version: int, found: FetchedPartition) -> Iterator[bytes]:
    flexible = version >= _FLEXIBLE_FROM
    yield _PARTITION.pack(found.index, found.error, found.high_watermark, found.last_stable_offset)
    if version >= _LOG_START_FROM:
        yield _I64.pack(found.log_start_offset)
    yield _aborted(found.aborted, flexible=flexible)
    if version >= _READ_REPLICA_FROM:
        yield _I32.pack(_NO_REPLICA)
    yield array_length(found.size_bytes, flexible=flexible)
    yield from found.batches
    if flexible:
        yield _partition_tags(found)


def _aborted(aborted: Sequence[AbortedTransaction] | None, *, flexible: bool) -> bytes:
    if aborted is None:
        return array_length(-1, flexible=flexible)
    end = _NO_TAGS if flexible else b""
    entries = (_ABORTED.pack(one.producer_id, one.first_offset) + end for one in aborted)
    return array_length(len(aborted), flexible=flexible) + b"".join(entries)


def _partition_tags(found: FetchedPartition) -> bytes:
    fields = []
    if found.diverging is not None:
        fields.append((_DIVERGING_TAG, _DIVERGING.pack(*found.diverging) + _NO_TAGS))
    if found.leader is not None:
        fields.append((_LEADER_TAG, _LEADER.pack(*found.leader) + _NO_TAGS))
    return _tagged(fields)


def _endpoints(brokers: Iterable[RegisteredBroker]) -> bytes:
    entries = [
        _I32.pack(broker.id)
        + string(broker.host, flexible=True)
        + _I32.pack(broker.port)
        + (_NO_TAGS if broker.rack is None else string(broker.rack, flexible=True))
        + _NO_TAGS
        for broker in brokers
    ]
    return array_length(len(entries), flexible=True) + b"".join(entries)


def _tagged(fields: Sequence[tuple[int, bytes]]) -> bytes:
    parts = [uvarint(len(fields))]
    for tag, data in fields:
        parts += [uvarint(tag), uvarint(len(data)), data]
    return b"".join(parts)
