"""Fetch: consumers read up to the high watermark, or the last stable offset, of their leader.

It works as Kafka's `ReplicaManager` and `DelayedFetch` do. An answer waits until it has
`min_bytes`, a partition's error is known, or `max_wait_ms` is over. The broker reads partitions in
the order of the request, until `max_bytes` are full. It gives the first batch however large it is
(KIP-74). Only whole batches are given.

What differs on purpose:

- Every answer has session id 0, by which a broker says that it keeps no fetch session (KIP-227);
  clients then name all their partitions in each request. A request that continues a session
  gets FETCH_SESSION_ID_NOT_FOUND.
- Replicas copy their data inside this process. A fetch in the name of a replica is answered
  NOT_LEADER_OR_FOLLOWER, as if that broker were none of the partition's.
- Consumers read from leaders only, which is Kafka's default (KIP-392 has no selector by default).
- A partition of mode ReadOnly is read like any other; one of mode None is not there (KIP-694).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.data.fetch_bytes import (
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
    FetchedPartition,
    FetchedTopic,
    fetch_answer,
)
from kshunt.backend.embedded.handlers.data.partition_lookup import (
    NO_EPOCH,
    DataCode,
    FoundPartition,
    known_brokers,
    leading_error,
    place_again,
    place_in,
    topic_of,
)
from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.logs.errors import OffsetOutOfRange
from kshunt.backend.embedded.logs.partition_log import PartitionLog
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.embedded.replication.columns import Rows

FETCH: Final = 1
FETCH_MAX_BYTES: Final = 57_671_680
"""Kafka's default of the brokers' fetch.max.bytes."""
FULL_EPOCHS: Final = (0, -1)
"""Session epochs that stand for a full fetch: with a session that begins, or without."""
READ_COMMITTED: Final = 1

_REPLICA_STATE_FROM: Final = 15
_REDIRECTS: Final = (DataCode.NOT_LEADER_OR_FOLLOWER, DataCode.FENCED_LEADER_EPOCH)


def handlers(world: World) -> dict[int, Handler]:
    """Fetch by its API key."""
    return {FETCH: _Fetch(world).fetch}


@dataclass(slots=True)
class _Asked:
    """One partition of a request."""

    index: int
    place: FoundPartition | None
    unknown: DataCode
    """The error if there is no place."""
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int


@dataclass(slots=True)
class _FetchReading:
    """What a request can be answered with at one moment."""

    partitions: list[FetchedPartition]
    size_bytes: int
    is_due: bool
    """It does not wait for more: there is an error, or a log that diverges."""


class _Fetch:
    def __init__(self, world: World) -> None:
        self._world = world

    async def fetch(self, context: RequestContext, message: Any) -> bytes:
        """The encoded answer."""
        version = context.version
        if version >= SESSIONS_FROM and message.session_epoch not in FULL_EPOCHS:
            return fetch_answer(version, error=DataCode.FETCH_SESSION_ID_NOT_FOUND)
        asked = [self._asked(version, topic) for topic in message.topics]
        job = _FetchJob(self._world, context, message, [one for group in asked for one in group])
        reading = await job.wait()
        left = iter(reading.partitions)
        topics = [
            FetchedTopic(
                topic.topic,
                topic.topic_id if version >= TOPIC_IDS_FROM else None,
                [next(left) for _ in group],
            )
            for topic, group in zip(message.topics, asked, strict=True)
        ]
        leaders = [found.leader[0] for found in reading.partitions if found.leader is not None]
        return fetch_answer(version, topics, known_brokers(self._world.core.image, leaders))

    def _asked(self, version: int, asked: Any) -> list[_Asked]:
        topic_id = asked.topic_id if version >= TOPIC_IDS_FROM else None
        topic, unknown = topic_of(self._world.core.image, asked.topic, topic_id)
        if topic is not None:
            unknown = DataCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            _Asked(
                one.partition,
                None if topic is None else place_in(self._world, topic, one.partition),
                unknown,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
                one.last_fetched_epoch,
            )
            for one in asked.partitions
        ]


class _FetchJob:
    """One request that is being answered."""

    def __init__(
        self, world: World, context: RequestContext, message: Any, asked: list[_Asked]
    ) -> None:
        self._world = world
        self._plane = world.core.plane
        self._broker = context.broker_id
        self._asked = asked
        self._is_follower = replica_of(context.version, message) >= 0
        self._committed = message.isolation_level == READ_COMMITTED
        self._max_bytes = min(message.max_bytes, FETCH_MAX_BYTES)
        self._min_bytes = min(message.min_bytes, self._max_bytes)
        self._max_wait_s = max(message.max_wait_ms, 0) / 1000
        self._seen = (-1, 0.0)
        self._watched: Rows = np.zeros(0, np.int64)
        self._reading = _FetchReading([], 0, is_due=True)

    async def wait(self) -> _FetchReading:
        """Read, and read again when there may be more, until the answer is due."""
        self._read()
        if not self._is_enough() and self._max_wait_s:
            await self._world.until(self._has_come, self._max_wait_s)
        return self._reading

    def _is_enough(self) -> bool:
        reading = self._reading
        return reading.is_due or reading.size_bytes >= self._min_bytes

    def _has_come(self) -> bool:
        if self._moment() == self._seen:
            return False
        self._read()
        return self._is_enough()

    def _moment(self) -> tuple[int, float]:
        """Differs if the controller has decided something, or a replica in sync has grown.

        A consumer waits through many changes of other partitions; this costs less than reading.
        """
        ends = self._plane.replication.replicas.leo
        return self._world.core.image.offset, float(ends[self._watched].sum())

    def _read(self) -> None:
        reading = _FetchReading([], 0, is_due=not self._asked)
        watched = []
        for asked in self._asked:
            asked.place = asked.place and place_again(self._world, asked.place)
            found = self._partition(asked, self._max_bytes - reading.size_bytes, reading)
            reading.partitions.append(found)
            if found.error or found.diverging is not None:
                reading.is_due = True
            elif asked.place is not None:
                rows = asked.place.held.replicas
                watched += [rows[b] for b in asked.place.partition.isr if b in rows]
        self._reading = reading
        self._watched = np.array(watched, np.int64)
        self._seen = self._moment()

    def _partition(
        self, asked: _Asked, room_bytes: int, reading: _FetchReading
    ) -> FetchedPartition:
        place = asked.place
        if place is None:
            return FetchedPartition(asked.index, asked.unknown)
        image = self._world.core.image
        error = leading_error(image, place, self._broker, asked.leader_epoch)
        if self._is_follower and not error:
            error = DataCode.NOT_LEADER_OR_FOLLOWER
        if error:
            found = FetchedPartition(asked.index, error)
            if error in _REDIRECTS:
                found.leader = place.partition.leader, place.partition.leader_epoch
            return found
        log = self._plane.log(place.held)
        try:
            return self._records(log, asked, place, room_bytes, reading)
        except OffsetOutOfRange:
            return FetchedPartition(asked.index, DataCode.OFFSET_OUT_OF_RANGE)

    def _records(
        self,
        log: PartitionLog,
        asked: _Asked,
        place: FoundPartition,
        room_bytes: int,
        reading: _FetchReading,
    ) -> FetchedPartition:
        """What the partition gives.

        Raises:
            OffsetOutOfRange: the offset is not in the log, or the log does not know the epoch.
        """
        mark = self._plane.high_watermark(place.held)
        stable = log.last_stable_offset(mark)
        found = FetchedPartition(asked.index, 0, mark, stable, log.start_offset)
        found.diverging = _divergence(log, asked)
        if found.diverging is not None:
            return found
        found.batches = log.read_batches(
            asked.offset,
            min(asked.max_bytes, room_bytes),
            stable if self._committed else mark,
            at_least_one=not reading.size_bytes,
        )
        reading.size_bytes += found.size_bytes
        if self._committed:
            found.aborted = log.aborted_transactions(asked.offset, _end_of(found.batches))
        return found


def replica_of(version: int, message: Any) -> int:
    """The replica that fetches, or a negative number for a consumer."""
    if version < _REPLICA_STATE_FROM:
        return int(message.replica_id)
    state = message.replica_state
    return -1 if state is None else int(state.replica_id)


def _divergence(log: PartitionLog, asked: _Asked) -> tuple[int, int] | None:
    """Where the client's log and this one part, if the epoch it fetched last says so (KIP-595).

    Raises:
        OffsetOutOfRange: the log does not know the epoch.
    """
    if asked.last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end = log.end_of_epoch(asked.last_fetched_epoch)
    if epoch < 0 or end < 0:
        raise OffsetOutOfRange(f"Epoch {asked.last_fetched_epoch} is not known here.")
    parts = epoch < asked.last_fetched_epoch or end < asked.offset
    return (epoch, end) if parts else None


def _end_of(batches: list[bytes]) -> int:
    """One past the last offset."""
    return log_batch.read_header(batches[-1]).last_offset + 1 if batches else 0
