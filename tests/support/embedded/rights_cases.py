"""A request to each API that needs rights, what refuses it, and the rights that are enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kshunt.backend.embedded.logs.batch import TRANSACTIONAL, BatchRecord, build_batch
from tests.support.embedded.rights import RightsCluster

TOPICS = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
GROUP = {"group_id": "g", "member_id": "", "generation_id": -1}


class Case(NamedTuple):
    """One request, what refuses it, and the rights that are enough."""

    values: Mapping[str, Any] | Callable[[RightsCluster, int], Mapping[str, Any]]
    refused: set[int]
    """The codes that a client without any right is answered."""
    rights: tuple[str, ...]


def by_id(field: str, entry: str, index: str, **more: Any) -> Any:
    """A request whose topics have names, or ids."""

    def values(cluster: RightsCluster, _: int) -> Mapping[str, Any]:
        partition = {index: 0, **more}
        names = {"name": "orders", "topic": "orders", "topic_id": cluster.topic_id("orders")}
        return {field: [{**names, entry: [partition]}], "acks": 1, "timeout_ms": 1, **more}

    return values


def configs(kind: int, name: str) -> Mapping[str, Any]:
    entry = {"name": "retention.ms", "value": "5", "config_operation": 0}
    if kind == 4:
        entry["name"] = "log.retention.ms"
    resource = {"resource_type": kind, "resource_name": name, "configs": [entry]}
    return {"resources": [{**resource, "configuration_keys": None}]}


BATCH = build_batch(
    [BatchRecord(1_700_000_000_000, None, b"value")],
    producer_id=1,
    producer_epoch=0,
    base_sequence=0,
    attributes=TRANSACTIONAL,
)
TXN = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
OFFSETS = {
    "topics": [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": 0, "committed_offset": 3, "committed_metadata": None}
            ],
            "partition_indexes": [0],
        }
    ]
}
TIME = {"timeout_ms": 1_000, "validate_only": True}
ALTER, DESCRIBE = ("ALTER cluster",), ("DESCRIBE cluster",)
PLACED = {"partition_id": 0, "partition": 0, "broker": [1, 3], "broker_id": [1], "leaders": [1]}
SEED_TOPIC = {"topic": "orders", "partition_reassignments": [PLACED]}
FILTER = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

CASES: list[tuple[str, Case]] = [
    (
        "Produce",
        Case(
            by_id("topic_data", "partition_data", "index", records=b""),
            {29},
            ("WRITE topic orders",),
        ),
    ),
    (
        "Produce",
        Case(
            by_id("topic_data", "partition_data", "index", records=BATCH, transactional_id="t"),
            {53},
            ("WRITE transactional_id t", "WRITE topic orders"),
        ),
    ),
    (
        "Fetch",
        Case(
            by_id("topics", "partitions", "partition", fetch_offset=0, partition_max_bytes=9),
            {29},
            ("READ topic orders",),
        ),
    ),
    ("ListOffsets", Case({**TOPICS, "replica_id": -1}, {29}, ("DESCRIBE topic orders",))),
    ("Metadata", Case({"topics": [{"name": "orders"}]}, {29}, ("READ topic orders",))),
    (
        "OffsetCommit",
        Case({**GROUP, **OFFSETS}, {30}, ("READ group g", "READ topic orders")),
    ),
    (
        "OffsetCommit",
        Case({**GROUP, "topics": OFFSETS["topics"]}, {30}, ("READ group *", "READ topic *")),
    ),
    (
        "OffsetFetch",
        Case(
            {**GROUP, **OFFSETS, "groups": [{**GROUP, **OFFSETS}]},
            {30},
            ("DESCRIBE group g", "DESCRIBE topic orders"),
        ),
    ),
    (
        "FindCoordinator",
        Case({"key": "g", "key_type": 0, "coordinator_keys": ["g"]}, {30}, ("READ group g",)),
    ),
    (
        "FindCoordinator",
        Case(
            {"key": "t", "key_type": 1, "coordinator_keys": ["t"]},
            {30, 53},
            ("WRITE transactional_id t", "READ group t"),
        ),
    ),
    (
        "JoinGroup",
        Case(
            {**GROUP, "session_timeout_ms": 9, "protocol_type": "consumer", "protocols": []},
            {30},
            ("READ group g",),
        ),
    ),
    ("Heartbeat", Case(GROUP, {30}, ("READ group g",))),
    ("LeaveGroup", Case({**GROUP, "members": []}, {30}, ("READ group g",))),
    (
        "SyncGroup",
        Case(
            {**GROUP, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
            {30},
            ("READ group g",),
        ),
    ),
    ("DescribeGroups", Case({"groups": ["g"]}, {30}, ("DESCRIBE group g",))),
    ("ListGroups", Case({}, set(), DESCRIBE)),
    (
        "CreateTopics",
        Case(
            {**TIME, "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]},
            {29},
            ("CREATE topic new",),
        ),
    ),
    (
        "CreateTopics",
        Case(
            {**TIME, "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]},
            {29},
            ("CREATE cluster",),
        ),
    ),
    (
        "DeleteTopics",
        Case(
            {**TIME, "topic_names": ["orders"], "topics": [{"name": "orders"}]},
            {29},
            ("DELETE topic orders",),
        ),
    ),
    (
        "DeleteRecords",
        Case(
            {
                **TIME,
                "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}],
            },
            {29},
            ("DELETE topic orders",),
        ),
    ),
    ("InitProducerId", Case({"transactional_id": None}, {31}, ("WRITE topic orders",))),
    ("InitProducerId", Case({"transactional_id": None}, {31}, ("IDEMPOTENT_WRITE cluster",))),
    (
        "InitProducerId",
        Case(
            {"transactional_id": "t", "transaction_timeout_ms": 9},
            {53},
            ("WRITE transactional_id t",),
        ),
    ),
    (
        "OffsetForLeaderEpoch",
        Case(
            {
                "replica_id": -1,
                "topics": [
                    {"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}
                ],
            },
            {29},
            ("DESCRIBE topic orders",),
        ),
    ),
    (
        "AddOffsetsToTxn",
        Case({**TXN, "group_id": "g"}, {53}, ("WRITE transactional_id t", "READ group g")),
    ),
    ("EndTxn", Case({**TXN, "committed": True}, {53}, ("WRITE transactional_id t",))),
    (
        "TxnOffsetCommit",
        Case(
            {**TXN, **GROUP, **OFFSETS},
            {53},
            ("WRITE transactional_id t", "READ group g", "READ topic orders"),
        ),
    ),
    ("DescribeAcls", Case(FILTER, {31}, DESCRIBE)),
    (
        "CreateAcls",
        Case(
            {
                "creations": [
                    {
                        "resource_type": 2,
                        "resource_name": "x",
                        "resource_pattern_type": 3,
                        "principal": "User:x",
                        "host": "*",
                        "operation": 3,
                        "permission_type": 3,
                    }
                ]
            },
            {31},
            ALTER,
        ),
    ),
    ("DeleteAcls", Case({"filters": [FILTER]}, {31}, ALTER)),
    ("DescribeConfigs", Case(configs(2, "orders"), {29}, ("DESCRIBE_CONFIGS topic orders",))),
    ("DescribeConfigs", Case(configs(4, "1"), {31}, ("DESCRIBE_CONFIGS cluster",))),
    ("DescribeConfigs", Case(configs(32, "g"), {30}, ("DESCRIBE_CONFIGS group g",))),
    ("AlterConfigs", Case(configs(2, "orders"), {29}, ("ALTER_CONFIGS topic orders",))),
    ("IncrementalAlterConfigs", Case(configs(2, "orders"), {29}, ("ALTER_CONFIGS topic orders",))),
    ("IncrementalAlterConfigs", Case(configs(4, "1"), {31}, ("ALTER_CONFIGS cluster",))),
    (
        "AlterReplicaLogDirs",
        Case(
            {"dirs": [{"path": "/x", "topics": [{"name": "orders", "partitions": [0]}]}]},
            {31},
            ALTER,
        ),
    ),
    ("DescribeLogDirs", Case({"topics": None}, {31}, DESCRIBE)),
    (
        "CreatePartitions",
        Case(
            {**TIME, "topics": [{"name": "orders", "count": 4, "assignments": None}]},
            {29},
            ("ALTER topic orders",),
        ),
    ),
    ("DeleteGroups", Case({"groups_names": ["g"]}, {30}, ("DELETE group g",))),
    (
        "ElectLeaders",
        Case({**TIME, "topic_partitions": [{"topic": "orders", "partitions": [0]}]}, {31}, ALTER),
    ),
    (
        "AlterPartitionReassignments",
        Case(
            {
                **TIME,
                "topics": [
                    {"name": "orders", "partitions": [{"partition_index": 0, "replicas": [2, 1]}]}
                ],
            },
            {31},
            ALTER,
        ),
    ),
    ("ListPartitionReassignments", Case({**TIME, "topics": None}, {31}, DESCRIBE)),
    ("DescribeCluster", Case({"endpoint_type": 1}, set(), ())),
    (
        "DescribeTopicPartitions",
        Case(
            {"topics": [{"name": "orders"}], "response_partition_limit": 10, "cursor": None},
            {29},
            ("DESCRIBE topic orders",),
        ),
    ),
    # The seeds' own
    (
        "ReassignPartitions",
        Case({**TIME, "topic_reassignments": [SEED_TOPIC], "throttle": 2**63 - 1}, {31}, ALTER),
    ),
    (
        "AlterInterbrokerThrottledRates",
        Case(
            {
                **TIME,
                "broker_throttles": [
                    {"broker_id": 1, "leader_rate": 9_999, "follower_rate": 9_999}
                ],
            },
            {31},
            ALTER,
        ),
    ),
    (
        "AlterInterbrokerThrottledReplicas",
        Case(
            {
                **TIME,
                "topic_throttles": [{"topic": "orders", "partition_throttles": [PLACED]}],
            },
            {31},
            ALTER,
        ),
    ),
    (
        "AlterTopics",
        Case(
            {
                **TIME,
                "altered_topic": [
                    {"topic": "orders", "partitions": 4, "replicas": -1, "partition_assignment": []}
                ],
            },
            {31},
            ("CLUSTER_ACTION cluster",),
        ),
    ),
    (
        "ReplicaStatus",
        Case({"replica": [{"topic": "orders", "partition": 0, "broker": 2}]}, {31}, DESCRIBE),
    ),
    (
        "ElectPreferredLeaders",
        Case({**TIME, "topic_partitions": [{"topic": "orders", "partition_id": [0]}]}, {31}, ALTER),
    ),
    ("ElectPreferredLeaders", Case({**TIME, "topic_partitions": None}, {31}, ALTER)),
    (
        "DeletePartitions",
        Case(
            {
                **TIME,
                "delete_partitions_delay": 60_000,
                "topics": [{"name": "orders", "partitions": [2]}],
            },
            {29},
            ("ALTER topic orders", "DELETE topic orders"),
        ),
    ),
    (
        "DeletePartitions",
        Case(
            {
                **TIME,
                "delete_partitions_delay": 0,
                "topics": [{"name": "orders", "partitions": []}],
            },
            {29},
            ("ALTER topic orders", "DELETE topic orders"),
        ),
    ),
]
