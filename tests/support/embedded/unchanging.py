"""A small embedded cluster that never changes: what it answers is written down here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import BrokerServer, Handler, RequestContext
from kshunt.backend.wire import kip_requests
from tests.support.embedded.loop_thread import LoopThread

CLUSTER_ID = "embedded-demo-cluster"
CONTROLLER = 2
TOPICS = {"orders": [[1, 2], [2, 3]], "events": [[3, 1, 2]]}
"""Replicas by partition."""
ADDING = {("events", 0): [2]}
"""A reassignment that is under way; what is added is not in sync."""
MODES = {("orders", 1): PartitionMode.READ_ONLY}
ENDS = {("orders", 0): 5000, ("orders", 1): 70, ("events", 0): 12}
"""Log end offsets of the leaders."""
BEHIND = 4
"""Messages that a replica is behind that is being added."""
NOT_LEADER, UNKNOWN_PARTITION, UNKNOWN_TOPIC = 6, 3, 3
METADATA, LIST_OFFSETS, FIND_COORDINATOR = 3, 2, 10
LIST_REASSIGNMENTS, DESCRIBE_CLUSTER = 46, 60


def response(key: int, version: int, **fields: Any) -> Any:
    """The answer of an API."""
    return KAFKA_APIS[key].response(version=version, **fields)


class DemoCluster:
    """Three listeners with one unchanging image behind them."""

    def __init__(self) -> None:
        handlers: dict[int, Handler] = {
            METADATA: self.metadata,
            LIST_OFFSETS: self.list_offsets,
            FIND_COORDINATOR: self.find_coordinator,
            LIST_REASSIGNMENTS: self.list_reassignments,
            DESCRIBE_CLUSTER: self.describe_cluster,
            kip_requests.REPLICA_STATUS_KEY: self.replica_status,
        }
        self.brokers = {id: BrokerServer(id, handlers) for id in (1, 2, 3)}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    async def start(self) -> None:
        for broker in self.brokers.values():
            await broker.start()

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    async def metadata(self, context: RequestContext, message: Any) -> bytes:
        version = context.version
        made = KAFKA_APIS[METADATA].response
        every = message.topics is None or (version == 0 and not message.topics)
        names = TOPICS if every else [topic.name for topic in message.topics]
        answer = made(
            version=version,
            brokers=self.nodes(made.MetadataResponseBroker, version, "node_id"),
            cluster_id=CLUSTER_ID,
            controller_id=CONTROLLER,
            topics=[described(made.MetadataResponseTopic, name, version) for name in names],
        )
        return kip_requests.add_modes(bytes(answer.encode(version=version)), version, MODES)

    async def describe_cluster(self, context: RequestContext, message: Any) -> Any:
        made = KAFKA_APIS[DESCRIBE_CLUSTER].response
        return made(
            version=context.version,
            cluster_id=CLUSTER_ID,
            controller_id=CONTROLLER,
            endpoint_type=message.endpoint_type,
            brokers=self.nodes(made.DescribeClusterBroker, context.version, "broker_id"),
        )

    def nodes(self, entry: Any, version: int, id_field: str) -> list[Any]:
        return [
            entry(version=version, host="127.0.0.1", port=b.port, rack=f"r{id}", **{id_field: id})
            for id, b in self.brokers.items()
        ]

    async def find_coordinator(self, context: RequestContext, message: Any) -> Any:
        node = {"node_id": 1, "host": "127.0.0.1", "port": self.brokers[1].port}
        if context.version < 4:
            return response(FIND_COORDINATOR, context.version, **node)
        entry = KAFKA_APIS[FIND_COORDINATOR].response.Coordinator
        found = [entry(version=context.version, key=k, **node) for k in message.coordinator_keys]
        return response(FIND_COORDINATOR, context.version, coordinators=found)

    async def list_reassignments(self, context: RequestContext, message: Any) -> Any:
        made = KAFKA_APIS[LIST_REASSIGNMENTS].response
        topics: list[Any] = [
            (topic, [(partition, TOPICS[topic][partition], adding, [])])
            for (topic, partition), adding in ADDING.items()
            if message.topics is None or topic in [asked.name for asked in message.topics]
        ]
        return made(version=context.version, topics=topics)

    async def list_offsets(self, context: RequestContext, message: Any) -> Any:
        made = KAFKA_APIS[LIST_OFFSETS].response.ListOffsetsTopicResponse
        entry = made.ListOffsetsPartitionResponse
        version = context.version
        topics: list[Any] = []
        for topic in message.topics:
            found = []
            for asked in topic.partitions:
                error, end = offset(context, message.replica_id, topic.name, asked)
                answer = entry(version=version, partition_index=asked.partition_index, offset=end)
                answer.error_code = error
                found.append(answer)
            topics.append(made(version=version, name=topic.name, partitions=found))
        return response(LIST_OFFSETS, context.version, topics=topics)

    async def replica_status(self, context: RequestContext, message: Any) -> Any:
        raise WireReply(41, "this broker is not the controller")


def described(entry: Any, name: str, version: int) -> Any:
    """A topic of a Metadata answer."""
    if name not in TOPICS:
        return entry(version=version, error_code=UNKNOWN_TOPIC, name=name)
    made = entry.MetadataResponsePartition
    partitions = [
        made(
            version=version,
            partition_index=number,
            leader_id=replicas[0],
            leader_epoch=5,
            replica_nodes=replicas,
            isr_nodes=[b for b in replicas if b not in ADDING.get((name, number), [])],
        )
        for number, replicas in enumerate(TOPICS[name])
    ]
    return entry(version=version, name=name, partitions=partitions)


def offset(context: RequestContext, replica_id: int, topic: str, asked: Any) -> tuple[int, int]:
    """Error and log end offset (or start) of one partition on the broker that was asked."""
    which = (topic, asked.partition_index)
    if which not in ENDS:
        return UNKNOWN_PARTITION, -1
    replicas = TOPICS[topic][asked.partition_index]
    if context.broker_id not in (replicas if replica_id == -2 else replicas[:1]):
        return NOT_LEADER, -1
    if asked.timestamp == -2:
        return 0, 0
    behind = BEHIND if context.broker_id in ADDING.get(which, []) else 0
    return 0, ENDS[which] - behind


@contextmanager
def demo_cluster() -> Iterator[DemoCluster]:
    """The cluster, listening on a thread of its own."""
    thread = LoopThread()
    cluster = DemoCluster()
    try:
        thread.run(cluster.start())
        yield cluster
    finally:
        thread.run(cluster.stop())
        thread.close()
