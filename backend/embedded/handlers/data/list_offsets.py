"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

ListOffsets with replica id -2, Kafka's "debugging" replica, is answered by every broker that has
a replica, with that replica's own log end: it is how lag is measured. Logs of replicas start
where their leader's does. There is no tiered storage, so that the earliest local offset is the
earliest, and the latest tiered one is -1.

DeleteRecords takes effect on all replicas immediately, so its timeout has no effect.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from kshunt.backend.domain.cluster.config_names import CLEANUP_POLICY
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.data.fetch import READ_COMMITTED
from kshunt.backend.embedded.handlers.data.list_offsets_bytes import (
    ListedOffset,
    list_offsets_answer,
)
from kshunt.backend.embedded.handlers.data.partition_lookup import (
    NO_EPOCH,
    DataCode,
    FoundPartition,
    hosting_error,
    leading_error,
    place_in,
    topic_config,
)
from kshunt.backend.embedded.logs.errors import OffsetOutOfRange
from kshunt.backend.embedded.logs.partition_log import OffsetAtTime, PartitionLog
from kshunt.backend.embedded.metadata.image_values import TopicImage
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import Handler, RequestContext

LIST_OFFSETS: Final = 2
DELETE_RECORDS: Final = 21
OFFSET_FOR_LEADER_EPOCH: Final = 23

CONSUMER: Final = -1
DEBUGGING: Final = -2

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_SPECIAL_FROM: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}
_SPECIAL_FROM[LATEST_TIERED] = 9
"""The version of ListOffsets that each of the negative timestamps came with."""

HIGH_WATERMARK: Final = -1
"""DeleteRecords: everything that consumers may read."""

_NOWHERE: Final = OffsetAtTime(-1, -1, -1)


def handlers(world: World) -> dict[int, Handler]:
    """The three APIs by key."""
    answers = _ListOffsets(world)
    return {
        LIST_OFFSETS: answers.list_offsets,
        DELETE_RECORDS: answers.delete_records,
        OFFSET_FOR_LEADER_EPOCH: answers.offset_for_leader_epoch,
    }


class _OffsetsClient(NamedTuple):
    """Who asks for offsets, and whom."""

    broker: int
    version: int
    replica: int
    committed: bool


class _ListOffsets:
    def __init__(self, world: World) -> None:
        self._world = world

    # --- ListOffsets

    async def list_offsets(self, context: RequestContext, message: Any) -> bytes:
        """The encoded answer."""
        committed = message.isolation_level == READ_COMMITTED
        reader = _OffsetsClient(context.broker_id, context.version, message.replica_id, committed)
        image = self._world.core.image
        twice = _named_twice(message.topics)
        topics = []
        for asked in message.topics:
            topic = image.topic(asked.name)
            found = [
                ListedOffset(one.partition_index, DataCode.INVALID_REQUEST, *_NOWHERE)
                if twice and (asked.name, one.partition_index) in twice
                else self._listed(reader, topic, one)
                for one in asked.partitions
            ]
            topics.append((asked.name, found))
        return list_offsets_answer(context.version, topics)

    def _listed(self, reader: _OffsetsClient, topic: TopicImage | None, asked: Any) -> ListedOffset:
        index, timestamp = asked.partition_index, asked.timestamp
        if timestamp == LATEST and reader.replica == DEBUGGING and topic is not None:
            listed = self._own_end(reader.broker, topic, index, asked.current_leader_epoch)
            if listed is not None:
                return listed
        place = None if topic is None else place_in(self._world, topic, index)
        found: OffsetAtTime | None = None
        if timestamp < 0 and reader.version < _SPECIAL_FROM.get(timestamp, reader.version + 1):
            error = DataCode.UNSUPPORTED_VERSION
        elif place is None:
            error = DataCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            error = self._asked_rightly(reader, place, asked.current_leader_epoch)
            found = None if error else self._found(reader, place, timestamp)
        return ListedOffset(index, error, *(found or _NOWHERE))

    def _own_end(
        self, broker: int, topic: TopicImage, index: int, leader_epoch: int
    ) -> ListedOffset | None:
        """A replica's own log end, where nothing is wrong; None leaves it to the general way.

        It gives what that gives, in a third of the time: all that a dashboard asks for is this,
        for each of a broker's replicas.
        """
        partition = topic.partitions.get(index)
        held = self._world.core.plane.held((topic.topic_id, index))
        if partition is None or held is None or leader_epoch != NO_EPOCH:
            return None
        row = held.replicas.get(broker)
        if row is None or self._world.core.image.brokers[broker].offline_dirs:
            return None
        end = int(self._world.core.plane.replication.replicas.leo.item(row))
        return ListedOffset(index, 0, end, -1, partition.leader_epoch)

    def _asked_rightly(
        self, reader: _OffsetsClient, place: FoundPartition, leader_epoch: int
    ) -> DataCode:
        image = self._world.core.image
        if reader.replica != DEBUGGING:
            return leading_error(image, place, reader.broker, leader_epoch)
        return hosting_error(image, place, reader.broker, leader_epoch)

    def _found(
        self, reader: _OffsetsClient, place: FoundPartition, timestamp: int
    ) -> OffsetAtTime | None:
        plane, held = self._world.core.plane, place.held
        epoch = place.partition.leader_epoch
        own_end = plane.log_end_offset(held, reader.broker) or 0
        if timestamp == LATEST and reader.replica != CONSUMER:
            return OffsetAtTime(own_end, -1, epoch)
        log = plane.log(held)
        end = self._visible_end(reader, place, log, own_end)
        match timestamp:
            case -1:
                return OffsetAtTime(end, -1, epoch)
            case -2 | -4:
                return log.earliest()
            case -5:
                return _NOWHERE
            case -3:
                found = log.max_timestamp()
            case _:
                found = log.offset_since(timestamp)
        return found if found is not None and found.offset < end else None

    def _visible_end(
        self, reader: _OffsetsClient, place: FoundPartition, log: PartitionLog, own_end: int
    ) -> int:
        """Up to where the one who asks may know of records."""
        if reader.replica != CONSUMER:
            return own_end
        mark = self._world.core.plane.high_watermark(place.held)
        return log.last_stable_offset(mark) if reader.committed else mark

    # --- DeleteRecords

    async def delete_records(self, context: RequestContext, message: Any) -> Any:
        """Let logs start later; the answer has each partition's new start."""
        answer = KAFKA_APIS[DELETE_RECORDS].response
        made = answer.DeleteRecordsTopicResult
        version = context.version
        topics = []
        for asked in message.topics:
            topic = self._world.core.image.topic(asked.name)
            parts = []
            for one in asked.partitions:
                error, low = self._deleted(context.broker_id, topic, one)
                parts.append(
                    made.DeleteRecordsPartitionResult(
                        version=version,
                        partition_index=one.partition_index,
                        low_watermark=low,
                        error_code=int(error),
                    )
                )
            topics.append(made(version=version, name=asked.name, partitions=parts))
        self._world.changed()
        return answer(version=version, topics=topics)

    def _deleted(self, broker: int, topic: TopicImage | None, asked: Any) -> tuple[DataCode, int]:
        """The error, and the partition's first offset."""
        place = None if topic is None else place_in(self._world, topic, asked.partition_index)
        if place is None:
            return DataCode.UNKNOWN_TOPIC_OR_PARTITION, -1
        error = self._may_delete(broker, place)
        if error:
            return error, -1
        plane = self._world.core.plane
        mark = plane.high_watermark(place.held)
        before = mark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= before <= mark:
            return DataCode.OFFSET_OUT_OF_RANGE, -1
        try:
            return DataCode.NONE, plane.delete_records(place.held, before)
        except OffsetOutOfRange:
            return DataCode.OFFSET_OUT_OF_RANGE, -1

    def _may_delete(self, broker: int, place: FoundPartition) -> DataCode:
        image = self._world.core.image
        if place.topic.name in INTERNAL_TOPICS:
            return DataCode.INVALID_TOPIC_EXCEPTION
        error = leading_error(image, place, broker)
        if error:
            return error
        deletes = "delete" in topic_config(image, place.topic, CLEANUP_POLICY)
        return DataCode.NONE if deletes else DataCode.POLICY_VIOLATION

    # --- OffsetForLeaderEpoch

    async def offset_for_leader_epoch(self, context: RequestContext, message: Any) -> Any:
        """Where epochs end, for clients that look whether a log was cut back (KIP-320)."""
        answer = KAFKA_APIS[OFFSET_FOR_LEADER_EPOCH].response
        made = answer.OffsetForLeaderTopicResult
        version = context.version
        topics = []
        for asked in message.topics:
            topic = self._world.core.image.topic(asked.topic)
            parts = []
            for one in asked.partitions:
                error, epoch, end = self._end_of_epoch(context.broker_id, topic, one)
                parts.append(
                    made.EpochEndOffset(
                        version=version,
                        error_code=int(error),
                        partition=one.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(made(version=version, topic=asked.topic, partitions=parts))
        return answer(version=version, topics=topics)

    def _end_of_epoch(
        self, broker: int, topic: TopicImage | None, asked: Any
    ) -> tuple[DataCode, int, int]:
        place = None if topic is None else place_in(self._world, topic, asked.partition)
        if place is None:
            return DataCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1
        image, believed = self._world.core.image, asked.current_leader_epoch
        error = leading_error(image, place, broker, believed)
        if error:
            return error, -1, -1
        return DataCode.NONE, *self._world.core.plane.log(place.held).end_of_epoch(
            asked.leader_epoch
        )


def _named_twice(topics: Any) -> set[tuple[str, int]]:
    """The partitions that a request names more than once, which is an error."""
    named = [(topic.name, one.partition_index) for topic in topics for one in topic.partitions]
    if len(set(named)) == len(named):
        return set()
    return {one for one, times in Counter(named).items() if times > 1}
