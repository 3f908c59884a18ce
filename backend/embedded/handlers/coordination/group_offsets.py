"""Groups' offsets on the wire: OffsetCommit and OffsetFetch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.members import Committer
from kshunt.backend.embedded.coordinator.offsets import NOTHING, Offset
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.coordination.coordinator_lookup import (
    check_coordinator,
    coordinates,
)
from kshunt.backend.embedded.handlers.responses import response
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.wire.api_keys import OFFSET_COMMIT_KEY, OFFSET_FETCH_KEY

GROUPS_FROM: Final = 8


def handlers(world: World, coordinator: GroupCoordinator) -> dict[int, Handler]:
    """The handlers by API key."""
    own = _GroupOffsets(world, coordinator)
    return {OFFSET_COMMIT_KEY: own.commit, OFFSET_FETCH_KEY: own.fetch}


class _GroupOffsets:
    def __init__(self, world: World, coordinator: GroupCoordinator) -> None:
        self._world = world
        self._coordinator = coordinator

    async def commit(self, context: RequestContext, message: Any) -> Any:
        """A member, or a consumer outside of the group's generations, commits."""
        check_coordinator(self._world, context, message.group_id)
        member = message.member_id or ""
        who = Committer(member, message.generation_id_or_member_epoch, message.group_instance_id)
        now_s = self._world.clock.monotonic_s()

        def commit(
            offsets: Mapping[TopicPartition, Offset],
        ) -> dict[TopicPartition, CoordinatorCode]:
            return self._coordinator.commit(message.group_id, who, offsets, now_s)

        codes = commit_codes(self._world.core.image, self._world.core.now_ms, message, commit)
        return commit_answer(OFFSET_COMMIT_KEY, context.version, codes)

    async def fetch(self, context: RequestContext, message: Any) -> Any:
        """What groups have committed; of null topics, of all."""
        version = context.version
        stable = bool(message.require_stable)
        if version < GROUPS_FROM:
            check_coordinator(self._world, context, message.group_id)
            made = KAFKA_APIS[OFFSET_FETCH_KEY].response.OffsetFetchResponseTopic
            topics = self._fetched(made, version, message.group_id, message.topics, stable)
            return response(OFFSET_FETCH_KEY, version, topics=topics)
        entry = KAFKA_APIS[OFFSET_FETCH_KEY].response.OffsetFetchResponseGroup
        groups = []
        for asked in message.groups:
            found = entry(version=version, group_id=asked.group_id)
            if coordinates(self._world, context, asked.group_id):
                made = entry.OffsetFetchResponseTopics
                wanted = asked.topics
                found.topics = self._fetched(made, version, asked.group_id, wanted, stable)
            else:
                found.error_code = CoordinatorCode.NOT_COORDINATOR
            groups.append(found)
        return response(OFFSET_FETCH_KEY, version, groups=groups)

    def _fetched(
        self, made: Any, version: int, group_id: str, topics: Any, require_stable: bool
    ) -> list[Any]:
        """The topics of an answer: `made` is their class."""
        offsets = self._coordinator.offsets
        committed = offsets.committed(group_id)
        unstable = offsets.unstable(group_id) if require_stable else set()
        entry = getattr(made, made.__name__.replace("Topic", "Partition"))

        def fetched(item: TopicPartition) -> Any:
            waits = item in unstable
            one = NOTHING if waits else committed.get(item, NOTHING)
            return entry(
                version=version,
                partition_index=item.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=CoordinatorCode.UNSTABLE_OFFSET_COMMIT
                if waits
                else CoordinatorCode.NONE,
            )

        asked = sorted(committed.keys() | unstable) if topics is None else _named(topics)
        return [
            made(version=version, name=name, partitions=[fetched(item) for item in items])
            for name, items in groupby(asked, key=lambda item: item.topic)
        ]


def commit_codes(
    image: ClusterImage,
    now_ms: int,
    message: Any,
    commit: Callable[[Mapping[TopicPartition, Offset]], dict[TopicPartition, CoordinatorCode]],
) -> dict[TopicPartition, CoordinatorCode]:
    """What becomes of each partition of an OffsetCommit or TxnOffsetCommit, in their order."""
    wanted = {
        TopicPartition(topic.name, one.partition_index): Offset(
            one.committed_offset,
            _or_unknown(one.committed_leader_epoch),
            one.committed_metadata or "",
            now_ms,
        )
        for topic in message.topics
        for one in topic.partitions
    }
    known = {item: one for item, one in wanted.items() if image.partition(*item) is not None}
    try:
        codes = commit(known)
    except CoordinatorError as refused:
        codes = dict.fromkeys(wanted, refused.code)
    return {item: codes.get(item, CoordinatorCode.UNKNOWN_TOPIC_OR_PARTITION) for item in wanted}


def commit_answer(key: int, version: int, codes: Mapping[TopicPartition, CoordinatorCode]) -> Any:
    """The answer of OffsetCommit or TxnOffsetCommit."""
    answer = KAFKA_APIS[key].response
    made = getattr(answer, f"{answer.__name__}Topic")
    entry = getattr(made, f"{answer.__name__}Partition")
    topics = [
        made(
            version=version,
            name=name,
            partitions=[
                entry(version=version, partition_index=item.partition, error_code=codes[item])
                for item in items
            ],
        )
        for name, items in groupby(codes, key=lambda item: item.topic)
    ]
    return response(key, version, topics=topics)


def _named(topics: Iterable[Any]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes
    ]


def _or_unknown(leader_epoch: int | None) -> int:
    return -1 if leader_epoch is None else leader_epoch
