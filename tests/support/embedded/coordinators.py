"""A small cluster for clients, and a client that speaks any version of any API."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.embedded.background import Running, running

DEADLINE_S: Final = 60.0
FIND_COORDINATOR: Final = 10
CLIENT_ID: Final = "wire"


@contextmanager
def small_cluster() -> Iterator[Running]:
    """Three brokers, and the topic `orders` with two partitions."""
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        create_topic(cluster, "orders", 2)
        yield cluster


def create_topic(cluster: Running, name: str, partitions: int, replicas: int = 3) -> None:
    """Create a topic."""
    admin = AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers})
    made = admin.create_topics([NewTopic(name, partitions, replicas)])
    made[name].result(timeout=DEADLINE_S)


class Wire:
    """Asks brokers with kafka-python's message classes, one connection a broker."""

    def __init__(self, cluster: Running) -> None:
        ports = cluster.call(lambda c: {id: s.port for id, s in c.servers.items()})
        self.brokers = sorted(ports)
        self._sockets = {
            id: socket.create_connection(("127.0.0.1", port), DEADLINE_S)
            for id, port in ports.items()
        }

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()

    def coordinator(self, key: str, key_type: int = 0) -> int:
        """The broker that coordinates a group, or with 1 a transactional id."""
        asked = {"key_type": key_type, "coordinator_keys": [key]}
        answer = self.ask(self.brokers[0], FIND_COORDINATOR, 4, **asked)
        return int(answer.coordinators[0].node_id)

    def ask(self, broker: int, key: int, version: int, /, **fields: Any) -> Any:
        """The answer of a broker to a request of these fields."""
        self.send(broker, key, version, **fields)
        return self.receive(broker, key, version)

    def send(self, broker: int, key: int, version: int, /, **fields: Any) -> None:
        """Ask without waiting for the answer."""
        api = KAFKA_APIS[key]
        body = bytes(api.request(version=version, **fields).encode(version=version))
        end = b"\x00" if api.flexible(version) else b""
        name = CLIENT_ID.encode()
        head = struct.pack(">hhih", key, version, 1, len(name)) + name + end
        self._sockets[broker].sendall(struct.pack(">i", len(head + body)) + head + body)

    def receive(self, broker: int, key: int, version: int) -> Any:
        """The answer to what was sent."""
        size = int.from_bytes(self._exactly(broker, 4), "big")
        frame = self._exactly(broker, size)
        skip = 5 if KAFKA_APIS[key].flexible(version) else 4
        return KAFKA_APIS[key].response.decode(frame[skip:], version=version)

    def _exactly(self, broker: int, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sockets[broker].recv(size - len(data))
            if not part:
                raise ConnectionError("the broker has closed the connection")
            data += part
        return data
