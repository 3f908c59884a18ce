"""Rights where requests look at topics, create them and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.embedded.handlers.admin.metadata import (
    AUTO_CREATION_FROM,
    CLUSTER_OPERATIONS_UNTIL,
    OPERATIONS_FROM,
)
from kshunt.backend.embedded.handlers.admin.topics import DELETE_STATES_FROM
from kshunt.backend.embedded.handlers.responses import topic_id_of
from kshunt.backend.embedded.handlers.security.guard import Call, Need, answered_by_entry, changed
from kshunt.backend.embedded.metadata.acls import CLUSTER_NAME, AclOperationCode, ResourceKind
from kshunt.backend.error_codes import TOPIC_AUTHORIZATION_FAILED
from kshunt.backend.wire import kip_requests

CREATE_REFUSED: Final = "Authorization failed."
_TOPIC, _CLUSTER = ResourceKind.TOPIC, ResourceKind.CLUSTER
_IDS_FROM: Final = 10
_CREATED_FROM: Final = 5
_NO_ID: Final = UUID(int=0)


def _need(operation: AclOperationCode, name: str) -> Need:
    return Need(operation, _TOPIC, name)


# Metadata


async def metadata(call: Call) -> Any:
    """Topics that one may describe; a topic that is looked for may have to be created first."""
    asked = call.message.topics
    if asked is None or (call.version == 0 and not asked):
        reply = await _all_topics(call)
        refused: list[Any] = []
    else:
        allowed, refused = _named_topics(call, asked)
        reply = await call.forward(topics=allowed)
        if call.version == 0 and not allowed:
            # No topics are all of them, in this version.
            reply = _without_topics(call, reply)
    if not refused and not _tells_operations(call):
        return reply
    return _patched(call, reply, refused)


async def _all_topics(call: Call) -> Any:
    """Only those that one may describe; a client is not told that there are others."""
    topics = list(call.world.core.image.topics)
    visible = {name for name in topics if call.may(_need(AclOperationCode.DESCRIBE, name))}
    reply = await call.forward()
    if len(visible) == len(topics):
        return reply
    body = bytes(reply)
    answer = call.decoded(body)
    answer.topics = [topic for topic in answer.topics if topic.name in visible]
    return _encoded(call, answer, body)


def _without_topics(call: Call, reply: Any) -> Any:
    answer = call.decoded(reply)
    answer.topics = []
    return bytes(answer.encode(version=call.version))


def _named_topics(call: Call, asked: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The entries that may be answered, and the others."""
    image = call.world.core.image
    creates = call.version < AUTO_CREATION_FROM or call.message.allow_auto_topic_creation
    creates = creates and image.cluster_config("auto.create.topics.enable") == "true"
    allowed: list[Any] = []
    refused: list[Any] = []
    for entry in asked:
        name = entry.name
        wire_id = topic_id_of(entry.topic_id) if call.version >= _IDS_FROM else None
        if wire_id is not None:
            found = image.topic_by_id(wire_id)
            name = None if found is None else found.name
        fine = name is None or call.may(_need(AclOperationCode.DESCRIBE, name))
        if fine and name is not None and creates and image.topic(name) is None:
            fine = name in INTERNAL_TOPICS or _may_create(call, name)
        (allowed if fine else refused).append(entry)
    return allowed, refused


def _may_create(call: Call, name: str) -> bool:
    return call.may(Need(AclOperationCode.CREATE, _CLUSTER)) or call.may(
        _need(AclOperationCode.CREATE, name)
    )


def _tells_operations(call: Call) -> bool:
    if call.version < OPERATIONS_FROM:
        return False
    cluster = call.version <= CLUSTER_OPERATIONS_UNTIL
    return bool(
        call.message.include_topic_authorized_operations
        or (cluster and call.message.include_cluster_authorized_operations)
    )


def _patched(call: Call, reply: Any, refused: Iterable[Any]) -> bytes:
    """The answer with the topics that are refused, and with the client's own operations."""
    body = bytes(reply)
    answer, version = call.decoded(body), call.version
    if version >= OPERATIONS_FROM:
        if call.message.include_topic_authorized_operations:
            for topic in answer.topics:
                if topic.name is not None and not topic.error_code:
                    operations = call.authorizer.operations(call.client, _TOPIC, topic.name)
                    topic.authorized_operations = operations
        _patch_cluster(call, answer)
    made = call.response.MetadataResponseTopic
    for entry in refused:
        wire_id = entry.topic_id if version >= _IDS_FROM else None
        known = topic_id_of(wire_id) is not None
        one = made(version=version, error_code=TOPIC_AUTHORIZATION_FAILED, partitions=[])
        one.name = None if known else entry.name
        one.topic_id = wire_id if known else _NO_ID
        one.is_internal = False
        answer.topics = [*answer.topics, one]
    return _encoded(call, answer, body)


def _patch_cluster(call: Call, answer: Any) -> None:
    until = call.version <= CLUSTER_OPERATIONS_UNTIL
    if until and call.message.include_cluster_authorized_operations:
        answer.authorized_operations = _cluster_operations(call)


def _cluster_operations(call: Call) -> frozenset[int]:
    """None for who may not describe the cluster."""
    if not call.may(Need(AclOperationCode.DESCRIBE, _CLUSTER)):
        return frozenset()
    return call.authorizer.operations(call.client, _CLUSTER, CLUSTER_NAME)


def _encoded(call: Call, answer: Any, body: bytes) -> bytes:
    """The answer's bytes, with the modes that `body` tells (KIP-694)."""
    modes = kip_requests.read_modes(body, call.version)
    return kip_requests.add_modes(bytes(answer.encode(version=call.version)), call.version, modes)


async def describe_cluster(call: Call) -> Any:
    """Everybody may ask; the operations told are those of the client."""
    reply = await call.forward()
    if call.message.include_cluster_authorized_operations:
        reply.authorized_operations = _cluster_operations(call)
    return reply


async def describe_topic_partitions(call: Call) -> Any:
    """Topics that one may describe; of named ones the others are refused."""
    asked = call.message.topics
    if asked:
        allowed = [one for one in asked if call.may(_need(AclOperationCode.DESCRIBE, one.name))]
        refused = [one for one in asked if one not in allowed]
    else:
        entry = type(call.message).TopicRequest
        names = [
            name
            for name in call.world.core.image.topics
            if call.may(_need(AclOperationCode.DESCRIBE, name))
        ]
        allowed = [entry(version=call.version, name=name) for name in names]
        refused = []
    made = call.response
    if allowed:
        reply = await call.forward(topics=allowed)
    else:
        reply = made(version=call.version, topics=[])
    for topic in reply.topics:
        operations = call.authorizer.operations(call.client, _TOPIC, topic.name)
        topic.topic_authorized_operations = sum(1 << one for one in operations)
    for one in refused:
        entry = made.DescribeTopicPartitionsResponseTopic(version=call.version, name=one.name)
        entry.error_code, entry.topic_id, entry.partitions = TOPIC_AUTHORIZATION_FAILED, _NO_ID, []
        reply.topics = [*reply.topics, entry]
    return reply


# CreateTopics and DeleteTopics


async def create_topics(call: Call) -> Any:
    """Who may create in the cluster may create any topic; configs are told to who may see them."""
    if call.may(Need(AclOperationCode.CREATE, _CLUSTER)):
        reply = await call.forward()
    else:
        reply = await answered_by_entry(
            call, "topics", lambda _, topic: _need(AclOperationCode.CREATE, topic.name)
        )
    for topic in reply.topics:
        if topic.error_code == TOPIC_AUTHORIZATION_FAILED:
            topic.error_message = CREATE_REFUSED
        elif not topic.error_code and call.version >= _CREATED_FROM:
            _hide_configs(call, topic)
    return reply


def _hide_configs(call: Call, topic: Any) -> None:
    if not call.may(_need(AclOperationCode.DESCRIBE_CONFIGS, topic.name)):
        topic.topic_config_error_code = TOPIC_AUTHORIZATION_FAILED
        topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []


async def delete_topics(call: Call) -> Any:
    """Who may delete in the cluster may delete any topic.

    A topic that is named by its id is told by name only to who may describe it.
    """
    if call.may(Need(AclOperationCode.DELETE, _CLUSTER)):
        return await call.forward()
    if call.version < DELETE_STATES_FROM:
        return await answered_by_entry(call, "topic_names", _to_delete)
    image = call.world.core.image
    allowed: list[Any] = []
    refused: list[Any] = []
    for entry in call.message.topics:
        found = image.topic_by_id(topic_id_of(entry.topic_id) or "")
        name = entry.name if found is None else found.name
        need = None if name is None else _to_delete(call, name)
        if need is None or call.may(need):
            allowed.append(entry)
            continue
        hidden = entry.name is None and not call.may(_need(AclOperationCode.DESCRIBE, name))
        refused.append(changed(entry, name=None if hidden else name))
    reply = await call.forward(topics=allowed)
    if refused:
        field, errors = call.refusals("topics", refused, _need(AclOperationCode.DELETE, ""))
        setattr(reply, field, [*getattr(reply, field), *errors])
    return reply


def _to_delete(call: Call, name: str) -> Need | None:
    """None for a topic that is not there, if the client may know that."""
    there = call.world.core.image.topic(name) is not None
    known_missing = not there and call.may(_need(AclOperationCode.DESCRIBE, name))
    return None if known_missing else _need(AclOperationCode.DELETE, name)
