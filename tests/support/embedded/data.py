"""An embedded cluster for tests of its data plane: real sockets, Metadata and the data handlers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.core.cluster_core import Timing
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.admin import metadata
from kshunt.backend.embedded.handlers.data import fetch, produce
from kshunt.backend.embedded.handlers.data import list_offsets as offsets
from kshunt.backend.embedded.handlers.data.produce import MayWrite
from kshunt.backend.embedded.logs.batch import BatchRecord, build_batch
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import BrokerServer, Handler
from tests.support.embedded.connection import Client, connected
from tests.support.embedded.core import DIRS, SmallCluster

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
PUMP_S: Final = 0.01
UNKNOWN_ID: Final = UUID(int=77)


class DataCluster(SmallCluster):
    """A `SmallCluster` whose brokers listen.

    Its time stands still but for producers that wait, unless it is `pumped`: then it is the
    machine's.
    """

    def __init__(
        self, brokers: int = 3, *, pumped: bool = False, may_write: MayWrite | None = None
    ) -> None:
        super().__init__(brokers, timing=Timing())
        self.world = World(self.core, cluster_id="data", simulated=not pumped)
        table: dict[int, Handler] = {}
        for part in (metadata, fetch, offsets):
            table.update(part.handlers(self.world))
        table.update(produce.handlers(self.world, may_write=may_write))
        self.servers = {broker: BrokerServer(broker, table) for broker in range(1, brokers + 1)}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers.values())

    def registration(self, broker: int) -> Registration:
        self.starts += 1
        port = self.servers[broker].port
        return Registration(broker, f"s{self.starts}", "127.0.0.1", port, f"r{broker}", DIRS)

    def pass_s(self, seconds: float) -> None:
        super().pass_s(seconds)
        self.world.changed()

    def topic_id(self, topic: str) -> str:
        found = self.image.topic(topic)
        assert found is not None
        return found.topic_id

    async def pump(self) -> None:
        """Let the cluster's time follow the machine's."""
        begin_ms = self.core.now_ms - time.monotonic() * 1000
        never = asyncio.Event()
        while True:
            self.core.advance(int(begin_ms + time.monotonic() * 1000))
            self.world.changed()
            try:
                await asyncio.wait_for(never.wait(), PUMP_S)
            except TimeoutError:
                continue

    async def ask(self, broker: int, key: int, version: int, **fields: Any) -> Any:
        """One broker's answer to a request, over a connection of its own."""
        async with connected(self.servers[broker]) as client:
            return await asked(client, key, version, **fields)

    async def produce(
        self, broker: int, topic: str, data: bytes | None, *, version: int = 9, **more: Any
    ) -> Any:
        """The entry of the one partition of a Produce answer."""
        answer = await self.ask(
            broker, PRODUCE, version, **produce_fields(self, topic, data, version, **more)
        )
        return answer.responses[0].partition_responses[0]

    async def fetch(self, broker: int, topic: str, offset: int, **more: Any) -> Any:
        """The entry of the one partition of a Fetch answer."""
        version = more.pop("version", 12)
        fields = fetch_fields(self, {topic: {0: offset}}, version, **more)
        answer = await self.ask(broker, FETCH, version, **fields)
        return answer.responses[0].partitions[0]

    async def list_offset(self, broker: int, topic: str, timestamp: int, **more: Any) -> Any:
        """The entry of the one partition of a ListOffsets answer."""
        version = more.pop("version", 9)
        one = LISTED.ListOffsetsPartition(version=version, timestamp=timestamp)
        one.partition_index = more.pop("index", 0)
        one.current_leader_epoch = more.pop("leader_epoch", -1)
        named = LISTED(version=version, name=topic, partitions=[one])
        fields = {"replica_id": -1, "isolation_level": 0} | more
        answer = await self.ask(broker, LIST_OFFSETS, version, topics=[named], **fields)
        return answer.topics[0].partitions[0]


LISTED: Final = KAFKA_APIS[LIST_OFFSETS].request.ListOffsetsTopic


async def asked(client: Client, key: int, version: int, **fields: Any) -> Any:
    """The answer to a request on an open connection."""
    client.ask(7, key, version, **fields)
    correlation_id, body = await client.answer()
    assert correlation_id == 7
    api = KAFKA_APIS[key]
    return api.response.decode(body[api.flexible(version) :], version=version)


def produce_fields(
    cluster: DataCluster,
    topic: str,
    data: bytes | None,
    version: int,
    *,
    acks: int = -1,
    index: int = 0,
    timeout_ms: int = 1_000,
) -> dict[str, Any]:
    """The fields of a Produce request for one partition."""
    made = KAFKA_APIS[PRODUCE].request.TopicProduceData
    part = made.PartitionProduceData(version=version, index=index, records=data)
    named = made(version=version, name=topic, partition_data=[part])
    if version >= 13:
        named.topic_id = _uuid(cluster, topic)
    return {"acks": acks, "timeout_ms": timeout_ms, "topic_data": [named]}


def fetch_fields(
    cluster: DataCluster,
    offsets_by_topic: dict[str, dict[int, int]],
    version: int,
    *,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """The fields of a Fetch request that does not wait, unless `more` says so."""
    made = KAFKA_APIS[FETCH].request.FetchTopic
    topics = []
    for topic, wanted in offsets_by_topic.items():
        parts = [
            made.FetchPartition(
                version=version,
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
                log_start_offset=-1,
            )
            for index, offset in wanted.items()
        ]
        named = made(version=version, topic=topic, partitions=parts)
        if version >= 13:
            named.topic_id = _uuid(cluster, topic)
        topics.append(named)
    first = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return first | {"topics": topics, "forgotten_topics_data": []} | more


def _uuid(cluster: DataCluster, topic: str) -> Any:
    found = cluster.image.topic(topic)
    return UNKNOWN_ID if found is None else UUID(found.topic_id)


def batch(count: int = 1, *, size_bytes: int = 10, **more: Any) -> bytes:
    """A batch of records at the times 0, 1, 2 and so on."""
    records = [BatchRecord(at, b"k%d" % at, b"v" * size_bytes) for at in range(count)]
    return build_batch(records, **more)


@asynccontextmanager
async def serving(brokers: int = 3, **more: Any) -> AsyncIterator[DataCluster]:
    """A cluster whose brokers all run."""
    cluster = DataCluster(brokers, **more)
    pump = None
    try:
        for server in cluster.servers.values():
            await server.start()
        cluster.start()
        if not cluster.world.simulated:
            pump = asyncio.create_task(cluster.pump())
        yield cluster
    finally:
        if pump is not None:
            pump.cancel()
        for server in cluster.servers.values():
            await server.stop(grace_s=0.1)
