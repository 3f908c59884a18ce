"""Rights to groups and transactional ids, where one right to the whole request does not do."""

from __future__ import annotations

from typing import Any, Final

from kshunt.backend.embedded.handlers.coordination.group_offsets import GROUPS_FROM
from kshunt.backend.embedded.handlers.coordination.groups import KEYS_FROM
from kshunt.backend.embedded.handlers.security.guard import (
    Call,
    Need,
    answered_by_entry,
    changed,
    sorted_out,
)
from kshunt.backend.embedded.metadata.acls import AclOperationCode, ResourceKind
from kshunt.backend.error_codes import OPERATION_NOT_ATTEMPTED

NO_OFFSET: Final = -1
_TOPIC, _GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
_TXN, _CLUSTER = ResourceKind.TRANSACTIONAL_ID, ResourceKind.CLUSTER
_FROM_BROKERS: Final = 4
_TRANSACTION: Final = 1
"""FindCoordinator's type of key that is not a group."""


async def find_coordinator(call: Call) -> Any:
    """Each key for itself, from version 4 on."""
    kind = _TXN if (call.message.key_type or 0) == _TRANSACTION else _GROUP
    if call.version < KEYS_FROM:
        call.check(Need(AclOperationCode.DESCRIBE, kind, call.message.key))
        return await call.forward()
    reply = await answered_by_entry(
        call, "coordinator_keys", lambda _, key: Need(AclOperationCode.DESCRIBE, kind, key)
    )
    for one in reply.coordinators:
        if one.error_code == Need(AclOperationCode.DESCRIBE, kind).code:
            one.node_id, one.port = -1, -1
    return reply


async def describe_groups(call: Call) -> Any:
    """Each group for itself; the operations told are those of the client."""
    reply = await answered_by_entry(
        call, "groups", lambda _, group: Need(AclOperationCode.DESCRIBE, _GROUP, group)
    )
    if call.message.include_authorized_operations:
        for one in reply.groups:
            if not one.error_code:
                ops = call.authorizer.operations(call.client, _GROUP, one.group_id)
                one.authorized_operations = ops
    return reply


async def list_groups(call: Call) -> Any:
    """All groups for who may describe the cluster, or the groups that one may describe."""
    reply = await call.forward()
    if not call.may(Need(AclOperationCode.DESCRIBE, _CLUSTER)):
        reply.groups = [
            one
            for one in reply.groups
            if call.may(Need(AclOperationCode.DESCRIBE, _GROUP, one.group_id))
        ]
    return reply


async def delete_groups(call: Call) -> Any:
    """Each group for itself."""
    return await answered_by_entry(
        call, "groups_names", lambda _, group: Need(AclOperationCode.DELETE, _GROUP, group)
    )


async def fetch_offsets(call: Call) -> Any:
    """Check each group and each of its topics; null topics get those that one may describe."""
    message, made = call.message, call.response
    if call.version < GROUPS_FROM:
        call.check(Need(AclOperationCode.DESCRIBE, _GROUP, message.group_id))
        asked, refused = _split(call, message.topics)
        reply = await call.forward(topics=asked)
        entry = made.OffsetFetchResponseTopic
        reply.topics = _visible(call, message.topics, reply.topics) + [
            _no_offsets(entry, entry.OffsetFetchResponsePartition, call.version, one)
            for one in refused
        ]
        return reply
    allowed, groups = sorted_out(
        call, message.groups, lambda _, one: Need(AclOperationCode.DESCRIBE, _GROUP, one.group_id)
    )
    splits = [_split(call, group.topics) for group in allowed]
    asked_groups = [
        changed(group, topics=asked) for group, (asked, _) in zip(allowed, splits, strict=True)
    ]
    reply = await call.forward(groups=asked_groups)
    entry = made.OffsetFetchResponseGroup
    topic = entry.OffsetFetchResponseTopics
    for group, (_, refused), found in zip(allowed, splits, reply.groups, strict=True):
        found.topics = _visible(call, group.topics, found.topics) + [
            _no_offsets(topic, topic.OffsetFetchResponsePartitions, call.version, one)
            for one in refused
        ]
    for need, entries in groups.items():
        reply.groups = reply.groups + [
            entry(version=call.version, group_id=one.group_id, topics=[], error_code=need.code)
            for one in entries
        ]
    return reply


def _describe_topic(_: Call, topic: Any) -> Need:
    return Need(AclOperationCode.DESCRIBE, _TOPIC, topic.name)


def _split(call: Call, topics: list[Any] | None) -> tuple[list[Any] | None, list[Any]]:
    """The topics to ask for, and those that are refused; null stays null."""
    if topics is None:
        return None, []
    allowed, refused = sorted_out(call, topics, _describe_topic)
    return allowed, [one for entries in refused.values() for one in entries]


def _visible(call: Call, asked: list[Any] | None, found: list[Any]) -> list[Any]:
    """The topics that the client may see, where it asked for all."""
    if asked is not None:
        return list(found)
    return [topic for topic in found if call.may(_describe_topic(call, topic))]


def _no_offsets(made: Any, entry: Any, version: int, topic: Any) -> Any:
    """The answer for a topic that is refused."""
    partitions = [
        entry(
            version=version,
            partition_index=number,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=-1,
            metadata="",
            error_code=Need(AclOperationCode.DESCRIBE, _TOPIC).code,
        )
        for number in topic.partition_indexes
    ]
    return made(version=version, name=topic.name, partitions=partitions)


async def init_producer_id(call: Call) -> Any:
    """A transactional id, or the right to write anything."""
    transactional_id = call.message.transactional_id
    if transactional_id is not None:
        call.check(Need(AclOperationCode.WRITE, _TXN, transactional_id))
    elif not call.authorizer.allows_any(call.client, AclOperationCode.WRITE, _TOPIC):
        call.check(Need(AclOperationCode.IDEMPOTENT_WRITE, _CLUSTER))
    return await call.forward()


async def add_partitions(call: Call) -> Any:
    """A client's topics are added wholly or not at all; from version 4 on brokers ask."""
    if call.version >= _FROM_BROKERS:
        call.check(Need(AclOperationCode.CLUSTER_ACTION, _CLUSTER))
        return await call.forward()
    call.check(Need(AclOperationCode.WRITE, _TXN, call.message.v3_and_below_transactional_id))
    field = "v3_and_below_topics"
    allowed, refused = sorted_out(
        call,
        getattr(call.message, field),
        lambda _, topic: Need(AclOperationCode.WRITE, _TOPIC, topic.name),
    )
    if not refused:
        return await call.forward()
    [(need, entries)] = refused.items()
    name, errors = call.refusals(field, entries, need)
    _, others = call.refusals(field, allowed, need)
    for topic in others:
        for partition in topic.results_by_partition:
            partition.partition_error_code = OPERATION_NOT_ATTEMPTED
    return call.response(version=call.version, **{name: [*errors, *others]})
