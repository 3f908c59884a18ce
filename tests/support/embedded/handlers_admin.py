"""Brokers that answer administrative requests only, with or without sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import UUID

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.handlers.admin import configs, log_dirs, metadata, topics
from kshunt.backend.embedded.handlers.admin import reassignments as moves
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage
from kshunt.backend.embedded.net.api import KAFKA_APIS, ApiTable, WireReply
from kshunt.backend.embedded.net.server import BrokerServer, Handler, RequestContext
from kshunt.backend.error_codes import UNSUPPORTED_VERSION
from kshunt.backend.wire.api_keys import API_VERSIONS_KEY
from tests.support.embedded.loop_thread import LoopThread

CLUSTER_ID = "embedded-admin-cluster"
METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 3, 19, 20, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL = 32, 33, 44
ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35
ELECT, REASSIGN, LIST_MOVES = 43, 45, 46
DESCRIBE_CLUSTER, DESCRIBE_TOPICS = 60, 75
ROW_BYTES = 1000


class AdminCluster:
    """A cluster's world, its handlers, and a way to ask them by bytes."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        native: bool = True,
        static: Mapping[str, str] | None = None,
        ports: Sequence[int] = (),
    ) -> None:
        image = ClusterImage(static=dict(static or {}))
        self.core = Core(image, DataPlane(image, 0), Random(7))
        self.world = World(self.core, cluster_id=CLUSTER_ID, native=native, simulated=True)
        self.handlers: dict[int, Handler] = {}
        for part in (metadata, topics, configs, moves, log_dirs):
            self.handlers.update(part.handlers(self.world))
        self._table = ApiTable(self.handlers)
        if brokers:
            self.register(ports or [9000 + number for number in range(1, brokers + 1)])

    @property
    def image(self) -> ClusterImage:
        return self.core.image

    def register(self, ports: Sequence[int]) -> None:
        """Brokers 1, 2, ... on these ports; each has the directories /a and /b."""
        self.core.start_all([self._registration(id, port) for id, port in enumerate(ports, 1)])

    def restart(self, broker: int) -> None:
        """A broker that was stopped comes back."""
        port = self.image.brokers[broker].port
        self.core.start_all([self._registration(broker, port)], together=False)

    def _registration(self, id: int, port: int) -> Registration:
        return Registration(id, f"i{id}", "127.0.0.1", port, f"rack-{id}", ("/a", "/b"))

    def create(self, name: str, *replicas: Sequence[int], **settings: str) -> None:
        """A topic with these replica lists."""
        values = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, assignments=dict(enumerate(replicas)), configs=values)
        decision = self.core.commit(create_topics(self.image, [topic], self.core.random))
        assert decision.results[0].ok, decision

    def fill(self, name: str, number: int, size_bytes: float) -> None:
        """Let every replica of a partition hold that many bytes."""
        topic = self.image.topic(name)
        assert topic is not None
        self.core.plane.fill([(topic.topic_id, number)], [size_bytes], ROW_BYTES)

    def move(self, name: str, number: int, *target: int) -> None:
        """Start a reassignment."""
        item = TopicPartition(name, number)
        decision = alter_partition_reassignments(self.image, {item: target})
        assert self.core.commit(decision).results[0].ok, decision

    def at(self, name: str, number: int = 0) -> PartitionImage:
        partition = self.image.partition(name, number)
        assert partition is not None
        return partition

    def topic_id(self, name: str) -> UUID:
        topic = self.image.topic(name)
        assert topic is not None
        return UUID(topic.topic_id)

    def ask(self, key: int, version: int, broker: int = 1, **fields: Any) -> Any:
        """The decoded answer of a broker to a request with these fields."""
        return KAFKA_APIS[key].response.decode(
            self.ask_bytes(key, version, broker, **fields), version=version
        )

    def ask_bytes(self, key: int, version: int, broker: int = 1, **fields: Any) -> bytes:
        """The body of the answer, as it goes over the wire."""
        api = KAFKA_APIS[key]
        flexible = api.flexible(version)
        body = bytes(api.request(version=version, **fields).encode(version=version))
        head = struct.pack(">hhih", key, version, 7, -1) + (b"\x00" if flexible else b"")
        request = self._table.decode(head + body)
        context = RequestContext(broker, request.header, 1, ("127.0.0.1", 1))
        try:
            reply = asyncio.run(_answer(self.handlers[key], context, request.message))
        except WireReply as refused:
            return request.error(refused)[8 + flexible :]
        return request.answer(reply)[8 + flexible :]


async def _answer(handler: Handler, context: RequestContext, message: Any) -> Any:
    return await handler(context, message)


async def _refused(context: RequestContext, message: Any) -> Any:
    raise WireReply(UNSUPPORTED_VERSION)


def versions(key: int) -> range:
    """All versions of an API that a broker speaks."""
    api = KAFKA_APIS[key]
    return range(api.min_version, api.max_version + 1)


@contextmanager
def listening(brokers: int = 3) -> Iterator[tuple[AdminCluster, str]]:
    """A cluster behind real sockets on a thread of its own, and its bootstrap servers.

    The test and that thread take turns: a client waits for its answer before the test continues.
    """
    thread = LoopThread()
    cluster = AdminCluster(0)
    # kafka-python takes a broker that lacks APIs for an old one.
    table = dict.fromkeys(KAFKA_APIS.keys() - {API_VERSIONS_KEY}, _refused) | cluster.handlers
    servers = [BrokerServer(id, table) for id in range(1, brokers + 1)]
    try:
        ports = [thread.run(server.start()) for server in servers]
        cluster.register(ports)
        yield cluster, ",".join(f"127.0.0.1:{port}" for port in ports)
    finally:
        for server in servers:
            thread.run(server.stop(0.1))
        thread.close()
