"""An embedded cluster behind real sockets, for tests: its time stands still until it is moved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.admin import configs, log_dirs, metadata, topics
from kshunt.backend.embedded.handlers.admin import kip_rpcs as seeds
from kshunt.backend.embedded.handlers.admin import reassignments as moves
from kshunt.backend.embedded.handlers.data import list_offsets as offsets
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.api import KAFKA_APIS, SEED_APIS
from kshunt.backend.embedded.net.server import BrokerServer, Handler, RequestContext
from tests.support.embedded.connection import connected
from tests.support.embedded.core import DIRS, SmallCluster

THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


class ListeningCluster(SmallCluster):
    """A `SmallCluster` whose brokers listen."""

    def __init__(self, brokers: int = 4, *, native: bool = True) -> None:
        super().__init__(brokers)
        self.world = World(self.core, cluster_id="listening", simulated=True, native=native)
        self.asked: list[int] = []
        """API keys of all requests, in order."""
        self.instead: dict[int, Handler] = {}
        """Handlers that take the place of the cluster's own, by API key."""
        self.own: dict[int, Handler] = {}
        for part in (metadata, topics, configs, moves, log_dirs, offsets, seeds):
            self.own.update(part.handlers(self.world))
        counted = {key: self._counted(key) for key in self.own}
        self.servers = {
            broker: BrokerServer(broker, counted, native=native) for broker in range(1, brokers + 1)
        }

    def _counted(self, key: int) -> Handler:
        async def answer(context: RequestContext, message: Any) -> Any:
            self.asked.append(key)
            return await self.instead.get(key, self.own[key])(context, message)

        return answer

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers.values())

    def registration(self, broker: int) -> Registration:
        self.starts += 1
        port = self.servers[broker].port
        return Registration(broker, f"s{self.starts}", "127.0.0.1", port, None, DIRS)

    async def stop_broker(self, broker: int) -> None:
        """A broker shuts down in an orderly way."""
        self.core.stop_broker(broker)
        await self.servers[broker].stop(grace_s=0.1)

    def throttle_of(self, what: int | str) -> dict[str, str]:
        """What is set on a broker or on a topic."""
        kind = ResourceType.BROKER if isinstance(what, int) else ResourceType.TOPIC
        return dict(self.image.dynamic_configs(kind, str(what)))

    def throttled(self) -> dict[int | str, dict[str, str]]:
        """Everything that is set on brokers and topics, where anything is."""
        names: list[int | str] = [*self.image.brokers, *self.image.topics]
        return {name: found for name in names if (found := self.throttle_of(name))}

    def removal(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Topics and brokers whose throttles the controller will remove."""
        return self.image.replicas_removal, self.image.rates_removal

    async def ask(self, broker: int, key: int, version: int = 0, **fields: Any) -> Any:
        """One broker's answer to a request, over a connection of its own."""
        api = (KAFKA_APIS | SEED_APIS)[key]
        async with connected(self.servers[broker]) as client:
            client.ask(7, key, version, **fields)
            correlation_id, body = await client.answer()
        assert correlation_id == 7
        return api.response.decode(body[api.flexible(version) :], version=version)


def rate(value: int) -> dict[str, str]:
    """A broker's configuration with that rate."""
    return dict.fromkeys(THROTTLED_RATES, str(value))


def lists(leaders: str, followers: str) -> dict[str, str]:
    """A topic's configuration with these throttled replicas, where there are any."""
    pairs = zip(THROTTLED_REPLICAS, (leaders, followers), strict=True)
    return {key: value for key, value in pairs if value}


@asynccontextmanager
async def listening(brokers: int = 4, **more: Any) -> AsyncIterator[ListeningCluster]:
    """A cluster whose brokers all run."""
    cluster = ListeningCluster(brokers, **more)
    try:
        for server in cluster.servers.values():
            await server.start()
        cluster.start()
        yield cluster
    finally:
        for server in cluster.servers.values():
            await server.stop(grace_s=0.1)
