"""What the tests of the journal in a cluster share."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.clock import SystemClock
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.net.server import BrokerServer
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.operations.journal.entries import JournalState
from kshunt.backend.operations.journal.replay import Unproven
from tests.support.access.keys import KEYS
from tests.support.embedded.background import Running, running
from tests.support.topics import records_of

DEADLINE_S = 60.0

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Where:
    """A cluster to keep a journal in; every test has a topic of its own."""

    servers: str
    cluster_id: str
    embedded: Running | None = None

    def topic(self) -> str:
        return f"__journal_{next(_numbers)}"


@asynccontextmanager
async def journal(
    where: Where,
    topic: str,
    writer: str = "one",
    cluster_id: str | None = None,
    *,
    keys: ClusterKeys = KEYS,
    unproven: Unproven = Unproven.REFUSE,
) -> AsyncIterator[TopicJournal]:
    made = TopicJournal(
        where.servers,
        client_config({}),
        cluster_id=cluster_id or where.cluster_id,
        writer=writer,
        clock=SystemClock(),
        keys=keys,
        unproven=unproven,
        topic=topic,
    )
    try:
        yield made
    finally:
        await made.close()


async def a_stand_by_sees(where: Where, topic: str, expected: JournalState) -> None:
    """A follower that begins to read comes to this state.

    It may take a moment: Kafka acknowledges a transaction before its end is in the log.
    """
    state = None
    async with (
        journal(where, topic, "reader") as reader,
        aclosing(reader.follow()) as states,
        asyncio.timeout(DEADLINE_S),
    ):
        while state != expected:
            state = await anext(states)


def each_server(where: Where, action: Callable[[BrokerServer], None]) -> None:
    """Do something to the listener of each embedded broker."""

    def act_on_all(cluster: EmbeddedCluster) -> None:
        for server in cluster.servers.values():
            action(server)

    assert where.embedded is not None
    where.embedded.call(act_on_all)


def raw_producer(where: Where, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": where.servers, "log_level": 0, **settings})


def written_by(servers: str, topic: str) -> list[str]:
    """Who wrote each entry that is committed but the manifest, in the log's order."""
    values = [value for key, value in records_of(servers, topic) if key != b"manifest"]
    texts = [(value or b"").decode("utf-8", "replace") for value in values]
    return [name for text in texts for name in ("one", "two") if f'"writer":"{name}"' in text]


def bodies(state: JournalState) -> Mapping[str, Any]:
    return {key: entry.body for key, entry in state.entries.items()}


@contextmanager
def embedded_cluster() -> Iterator[Where]:
    """Three embedded brokers."""
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster_id = cluster.call(lambda c: c.world.cluster_id)
        yield Where(cluster.bootstrap_servers, cluster_id, cluster)


def where_of(request: pytest.FixtureRequest) -> Where:
    """What the parameter names: the fixture `embedded`, or real Kafka."""
    found = request.getfixturevalue(request.param)
    if isinstance(found, Where):
        return found
    return Where(found.bootstrap_servers, found.cluster_id)
