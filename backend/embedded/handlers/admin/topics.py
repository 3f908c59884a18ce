"""Topics come, grow and go: CreateTopics, DeleteTopics, CreatePartitions.

A commit returns when everything it decided is true, so there is nothing to wait for. A request
whose timeout is 0 or less is refused (REQUEST_TIMED_OUT), as Kafka's controller does. Any other
timeout has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kshunt.backend.embedded.controller.decision import DecidedItem, KafkaError
from kshunt.backend.embedded.controller.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.responses import (
    check_time,
    committed,
    invalid_topic_name,
    response,
    topic_id_of,
)
from kshunt.backend.embedded.metadata.config_keys import KEYS, ConfigSourceNumber
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.wire.api_keys import CREATE_PARTITIONS_KEY, CREATE_TOPICS_KEY, DELETE_TOPICS_KEY

_CONFIGS_FROM: Final = 5
DELETE_STATES_FROM: Final = 6
_DUPLICATE: Final = "Duplicate topic name."
_GONE: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    KafkaError.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}
"""What Kafka says of a topic that cannot be deleted as there is none."""


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key."""
    answers = _TopicHandlers(world)
    return {
        CREATE_TOPICS_KEY: answers.create_topics,
        DELETE_TOPICS_KEY: answers.delete_topics,
        CREATE_PARTITIONS_KEY: answers.create_partitions,
    }


class _TopicHandlers:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    async def create_topics(self, context: RequestContext, message: Any) -> Any:
        """Each topic is created wholly or not at all; the answer tells what it became."""
        check_time(message)
        times = Counter(topic.name for topic in message.topics)
        asked = {topic.name: topic for topic in message.topics}
        refused = dict(_refused(asked, times))
        new = {name: _new_topic(topic) for name, topic in asked.items() if name not in refused}
        decision = create_topics(
            self._image,
            list(new.values()),
            self._world.core.random,
            placement=self._world.placement_for(context.principal),
            validate_only=message.validate_only,
        )
        results = {one.item: one for one in committed(self._world, decision).results}
        entries = [
            self._created(context.version, new.get(name), refused.get(name) or results[name])
            for name in asked
        ]
        return response(CREATE_TOPICS_KEY, context.version, topics=entries)

    def _created(self, version: int, new: NewTopic | None, result: DecidedItem[str]) -> Any:
        entry = KAFKA_APIS[CREATE_TOPICS_KEY].response.CreatableTopicResult(version=version)
        entry.name, entry.error_code = result.item, int(result.error)
        entry.error_message = result.message
        if new is not None and isinstance(result, CreatedTopic) and result.ok:
            entry.topic_id = UUID(result.topic_id)
            entry.num_partitions = result.num_partitions
            entry.replication_factor = result.replication_factor
            if version >= _CONFIGS_FROM:
                entry.configs = list(self._configs(version, entry, new))
        return entry

    def _configs(self, version: int, entry: Any, new: NewTopic) -> Iterator[Any]:
        """The values that hold for a new topic, whether it is there yet or only validated."""
        for key in sorted(KEYS[ResourceType.TOPIC]):
            found = self._image.config(ResourceType.TOPIC, new.name, key)
            value, source = new.configs.get(key), ConfigSourceNumber.DYNAMIC_TOPIC_CONFIG
            if value is None:
                value, source = found.value, found.source
            yield entry.CreatableTopicConfigs(
                version=version, name=key, value=value, config_source=int(source)
            )

    async def delete_topics(self, context: RequestContext, message: Any) -> Any:
        """Delete topics by name, or by id; they are gone when the answer leaves."""
        version = context.version
        if version >= DELETE_STATES_FROM:
            asked = [(topic.name, topic.topic_id) for topic in message.topics]
        else:
            asked = [(name, None) for name in message.topic_names]
        refused = _undeletable(asked)
        left = [pair for pair in dict.fromkeys(asked) if pair not in refused]
        if left:
            check_time(message)
        names = [name for name, _ in left if name is not None]
        ids = [wire_id.hex for name, wire_id in left if name is None and wire_id is not None]
        present = {topic_id: self._image.topic_by_id(topic_id) for topic_id in ids}
        decision = committed(self._world, delete_topics(self._image, names, ids))
        results = {one.item: one for one in decision.results}
        made = KAFKA_APIS[DELETE_TOPICS_KEY].response.DeletableTopicResult
        entries = []
        for name, wire_id in dict.fromkeys(asked):
            code, why = refused.get((name, wire_id)) or _deleted(results, name, wire_id)
            topic = present.get(topic_id_of(wire_id) or "")
            entry = made(version=version, name=topic.name if topic else name, topic_id=wire_id)
            entry.error_code, entry.error_message = code, why
            entries.append(entry)
        return response(DELETE_TOPICS_KEY, version, responses=entries)

    async def create_partitions(self, context: RequestContext, message: Any) -> Any:
        """Add partitions to topics, where the request says or where the cluster places them."""
        version = context.version
        check_time(message)
        times = Counter(topic.name for topic in message.topics)
        asked = {t.name: _new_partitions(t) for t in message.topics if times[t.name] == 1}
        decision = create_partitions(
            self._image,
            asked,
            self._world.core.random,
            placement=self._world.placement_for(context.principal),
            validate_only=message.validate_only,
        )
        results = {one.item: one for one in committed(self._world, decision).results}
        made = KAFKA_APIS[CREATE_PARTITIONS_KEY].response.CreatePartitionsTopicResult
        entries = []
        for name in times:
            twice = DecidedItem(name, KafkaError.INVALID_REQUEST, _DUPLICATE)
            result = results.get(name, twice)
            unknown = result.error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            entry = made(version=version, name=name, error_code=int(result.error))
            entry.error_message = None if unknown else result.message
            entries.append(entry)
        return response(CREATE_PARTITIONS_KEY, version, results=entries)


def _refused(
    asked: Mapping[str, Any], times: Mapping[str, int]
) -> Iterator[tuple[str, DecidedItem[str]]]:
    """Topics that are refused before anybody decides about them."""
    for name, topic in asked.items():
        if times[name] > 1:
            yield name, DecidedItem(name, KafkaError.INVALID_REQUEST, _DUPLICATE)
            continue
        problem = invalid_topic_name(name)
        if problem is not None:
            yield name, DecidedItem(name, KafkaError.INVALID_TOPIC_EXCEPTION, problem)
            continue
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            message = f"Null value not supported for topic configs: {','.join(nulls)}"
            yield name, DecidedItem(name, KafkaError.INVALID_CONFIG, message)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {entry.partition_index: tuple(entry.broker_ids) for entry in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _new_partitions(topic: Any) -> NewPartitions:
    if topic.assignments is None:
        return NewPartitions(topic.count)
    return NewPartitions(topic.count, [tuple(entry.broker_ids) for entry in topic.assignments])


def _undeletable(
    asked: list[tuple[str | None, UUID | None]],
) -> dict[tuple[str | None, UUID | None], tuple[int, str]]:
    """What of a DeleteTopics request names nothing, or too much, by what it asks for."""
    times = Counter(asked)
    refused = {}
    for name, wire_id in times:
        if name is not None and topic_id_of(wire_id):
            why = "You may not specify both topic name and topic id."
        elif name is None and not topic_id_of(wire_id):
            why = "Neither topic name nor id were specified."
        elif times[name, wire_id] > 1:
            why = _DUPLICATE if name is not None else "Duplicate topic id."
        else:
            continue
        refused[name, wire_id] = (int(KafkaError.INVALID_REQUEST), why)
    return refused


def _deleted(
    results: Mapping[str, DecidedItem[str]], name: str | None, wire_id: UUID | None
) -> tuple[int, str | None]:
    item = name if name is not None else topic_id_of(wire_id) or ""
    result = results[item]
    return int(result.error), _GONE.get(result.error, result.message)
