"""Which rights each API needs, as Kafka's `KafkaApis` and `ControllerApis` ask for them.

The seeds' RPCs: KIP-179 and KIP-183 ask for ALTER on CLUSTER. The early draft of KIP-179 asks for
CLUSTER_ACTION to alter topics, and for DESCRIBE on CLUSTER to see the status of replicas. It adds
"or the TOPIC?" there, but its list of errors has only the cluster's. Their answers have an error
for each item and none for the request, so each item is refused. KIP-694 asks for nothing. What its
DeletePartitions does is to change a topic's number of partitions and to delete data, so a topic
needs ALTER and DELETE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kshunt.backend.embedded.handlers.data.fetch import replica_of
from kshunt.backend.embedded.handlers.data.produce import ACKS_NONE, TOPIC_IDS_FROM
from kshunt.backend.embedded.handlers.security import group_rights as groups
from kshunt.backend.embedded.handlers.security import topic_rights as topics
from kshunt.backend.embedded.handlers.security.guard import Call, Guard, Need, each, whole
from kshunt.backend.embedded.handlers.security.guard import answered_by_entry as by_entry
from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.metadata.acls import CLUSTER_NAME, AclOperationCode, ResourceKind
from kshunt.backend.embedded.net.api import WireClose, WireReply

MODE_UNKNOWN: Final = -1
_LOG_DIRS_ERROR_FROM: Final = 3
_TOPIC, _GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
_TXN, _CLUSTER = ResourceKind.TRANSACTIONAL_ID, ResourceKind.CLUSTER

_RESOURCES: Final = {
    2: _TOPIC,
    4: _CLUSTER,
    8: _CLUSTER,
    16: _CLUSTER,
    32: _GROUP,
}
"""What a `ConfigResource.Type` is to ACLs: brokers, their loggers and metrics are the cluster's."""


def cluster(operation: AclOperationCode) -> Callable[[Any], Need]:
    """A right to the cluster."""
    return lambda message: Need(operation, _CLUSTER)


def of_group(operation: AclOperationCode) -> Callable[[Any], Need]:
    """A right to the request's group."""
    return lambda message: Need(operation, _GROUP, message.group_id)


def of_transaction(message: Any) -> Need:
    """The right to write with the request's transactional id."""
    return Need(AclOperationCode.WRITE, _TXN, message.transactional_id)


def topic(operation: AclOperationCode, field: str = "name") -> Callable[[Call, Any], Need | None]:
    """A right to the topic of an entry, which is named, or has an id that is known."""

    def needed(call: Call, entry: Any) -> Need | None:
        name = getattr(entry, field)
        if call.version >= TOPIC_IDS_FROM and getattr(entry, "topic_id", None) is not None:
            found = call.world.core.image.topic_by_id(entry.topic_id.hex)
            name = None if found is None else found.name
        return None if name is None else Need(operation, _TOPIC, name)

    return needed


def config(operation: AclOperationCode) -> Callable[[Call, Any], Need | None]:
    """A right to the configuration of a resource."""

    def needed(_: Call, entry: Any) -> Need | None:
        kind = _RESOURCES.get(entry.resource_type)
        if kind is None:
            return None
        return Need(operation, kind, CLUSTER_NAME if kind is _CLUSTER else entry.resource_name)

    return needed


async def produce(call: Call) -> Any:
    """A batch of a transaction needs its transactional id too; acks=0 leaves no place for errors.

    Raises:
        WireReply: the transaction was refused, or has no id.
        WireClose: acks=0, and a topic was refused.
    """
    if _is_transactional(call.message):
        transactional_id = call.message.transactional_id
        need = Need(AclOperationCode.WRITE, _TXN, transactional_id or "")
        if transactional_id is None or not call.may(need):
            raise WireReply(need.code, need.words)
    needed = topic(AclOperationCode.WRITE)
    if call.message.acks != ACKS_NONE:
        return await by_entry(call, "topic_data", needed)
    named = [(entry, needed(call, entry)) for entry in call.message.topic_data]
    allowed = [entry for entry, need in named if need is None or call.may(need)]
    await call.forward(topic_data=allowed)
    if len(allowed) < len(named):
        raise WireClose("a batch with acks=0 was refused")
    return None


def _is_transactional(message: Any) -> bool:
    """Whether any batch of a Produce request belongs to a transaction."""
    batches = (one.records for topic in message.topic_data for one in topic.partition_data)
    return any(
        data is not None
        and len(data) >= log_batch.HEADER_BYTES
        and log_batch.read_header(bytes(data)).is_transactional
        for data in batches
    )


async def describe_log_dirs(call: Call) -> Any:
    """Before version 3 a client without the right gets no directory."""
    if call.version < _LOG_DIRS_ERROR_FROM and not call.may(
        Need(AclOperationCode.DESCRIBE, _CLUSTER)
    ):
        return call.response(version=call.version, results=[])
    return await whole(cluster(AclOperationCode.DESCRIBE))(call)


async def elect_preferred_leaders(call: Call) -> Any:
    """Of null topics there is nothing that could be refused one by one, so one entry says it."""
    need = Need(AclOperationCode.ALTER, _CLUSTER)
    if call.message.topic_partitions or call.may(need):
        return await whole(cluster(AclOperationCode.ALTER))(call)
    refused = [("", [(MODE_UNKNOWN, need.code, need.words)])]
    return call.response(version=call.version, replica_election_result=refused)


async def delete_partitions(call: Call) -> Any:
    """Each topic for itself; of one whose deletion is taken back, no partition is named."""
    allowed: list[tuple[Any, Need]] = []
    refused: list[tuple[Any, Need]] = []
    for entry in call.message.topics:
        needs = [
            Need(one, _TOPIC, entry.name)
            for one in (AclOperationCode.ALTER, AclOperationCode.DELETE)
        ]
        (allowed if call.may(*needs) else refused).append((entry, needs[0]))
    reply = await call.forward(topics=[entry for entry, _ in allowed])
    for entry, need in refused:
        numbers = entry.partitions or [MODE_UNKNOWN]
        found = [(number, MODE_UNKNOWN, need.code, need.words) for number in numbers]
        made = call.response(version=call.version, responses=[(entry.name, found)])
        reply.responses = [*reply.responses, *made.responses]
    return reply


async def replica_status(call: Call) -> Any:
    """Each replica for itself, with the time and the lag of one that cannot be described."""
    need = Need(AclOperationCode.DESCRIBE, _CLUSTER)
    if call.may(need):
        return await call.forward()
    found = [
        (one.topic, one.partition, one.broker, need.code, MODE_UNKNOWN, MODE_UNKNOWN)
        for one in call.message.replica
    ]
    return call.response(version=call.version, replica_status=found)


async def fetch(call: Call) -> Any:
    """A fetch in the name of a replica is a matter of the cluster; any other reads topics."""
    if replica_of(call.version, call.message) < 0:
        return await by_entry(call, "topics", topic(AclOperationCode.READ, "topic"))
    if call.may(Need(AclOperationCode.CLUSTER_ACTION, _CLUSTER)):
        return await call.forward()
    reply = call.decoded(await call.forward(topics=[]))
    name, errors = call.refusals("topics", call.message.topics, Need(AclOperationCode.READ, _TOPIC))
    setattr(reply, name, errors)
    return reply


async def epochs(call: Call) -> Any:
    """Who may act as a broker may ask for any topic."""
    if call.may(Need(AclOperationCode.CLUSTER_ACTION, _CLUSTER)):
        return await call.forward()
    return await by_entry(call, "topics", topic(AclOperationCode.DESCRIBE, "topic"))


_ALTER: Final = whole(cluster(AclOperationCode.ALTER))
_DESCRIBE: Final = whole(cluster(AclOperationCode.DESCRIBE))
_READ_GROUP: Final = whole(of_group(AclOperationCode.READ))

GUARDS: Final[dict[str, Guard]] = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": each("topics", topic(AclOperationCode.DESCRIBE)),
    "Metadata": topics.metadata,
    "OffsetCommit": each(
        "topics", topic(AclOperationCode.READ), before=[of_group(AclOperationCode.READ)]
    ),
    "OffsetFetch": groups.fetch_offsets,
    "FindCoordinator": groups.find_coordinator,
    "JoinGroup": _READ_GROUP,
    "Heartbeat": _READ_GROUP,
    "LeaveGroup": _READ_GROUP,
    "SyncGroup": _READ_GROUP,
    "DescribeGroups": groups.describe_groups,
    "ListGroups": groups.list_groups,
    "CreateTopics": topics.create_topics,
    "DeleteTopics": topics.delete_topics,
    "DeleteRecords": each("topics", topic(AclOperationCode.DELETE)),
    "InitProducerId": groups.init_producer_id,
    "OffsetForLeaderEpoch": epochs,
    "AddPartitionsToTxn": groups.add_partitions,
    "AddOffsetsToTxn": whole(of_transaction, of_group(AclOperationCode.READ)),
    "EndTxn": whole(of_transaction),
    "TxnOffsetCommit": each(
        "topics",
        topic(AclOperationCode.READ),
        before=[of_transaction, of_group(AclOperationCode.READ)],
    ),
    "DescribeAcls": _DESCRIBE,
    "CreateAcls": _ALTER,
    "DeleteAcls": _ALTER,
    "DescribeConfigs": each("resources", config(AclOperationCode.DESCRIBE_CONFIGS)),
    "AlterConfigs": each("resources", config(AclOperationCode.ALTER_CONFIGS)),
    "AlterReplicaLogDirs": _ALTER,
    "DescribeLogDirs": describe_log_dirs,
    "CreatePartitions": each("topics", topic(AclOperationCode.ALTER)),
    "DeleteGroups": groups.delete_groups,
    "ElectLeaders": _ALTER,
    "IncrementalAlterConfigs": each("resources", config(AclOperationCode.ALTER_CONFIGS)),
    "AlterPartitionReassignments": _ALTER,
    "ListPartitionReassignments": _DESCRIBE,
    "DescribeCluster": topics.describe_cluster,
    "DescribeTopicPartitions": topics.describe_topic_partitions,
    "ReassignPartitions": _ALTER,
    "AlterInterbrokerThrottledRates": _ALTER,
    "AlterInterbrokerThrottledReplicas": _ALTER,
    "AlterTopics": whole(cluster(AclOperationCode.CLUSTER_ACTION)),
    "ReplicaStatus": replica_status,
    "ElectPreferredLeaders": elect_preferred_leaders,
    "DeletePartitions": delete_partitions,
}
"""By API. ApiVersions, SaslHandshake and SaslAuthenticate need no right."""
