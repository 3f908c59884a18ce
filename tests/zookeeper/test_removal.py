"""What only KIP-179's znodes name: when it goes, and what keeps it.

On a ZooKeeper without a controller, so that what is there stays as a test puts it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from kazoo.client import KazooClient

from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import Conflict
from kshunt.backend.journal_storage.zookeeper.removal_records import Recovery, Removal
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.zookeeper.kill_backend import backend_of
from tests.support.zookeeper.znodes import ON_ZOOKEEPER, jsoned, named_for_removal, tree, unjsoned

pytestmark = ON_ZOOKEEPER

PATIENCE_S = 15.0
REASSIGN = "/admin/reassign_partitions"
TOPICS, BROKERS = "/admin/throttled_replicas_removal", "/admin/throttled_rates_removal"
LISTS = {"leader.replication.throttled.replicas": "0:1", "retention.ms": "7200000"}
RATES = {"leader.replication.throttled.rate": "20000"}


class Ahead(SystemClock):
    """A clock that a test sets forward."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest.fixture
def place(zookeeper: ZooKeeperKafka) -> Iterator[tuple[str, KazooClient]]:
    with tree(zookeeper.server.address) as (connect, client):
        broker = {"endpoints": ["PLAINTEXT://127.0.0.1:1"], "version": 5}
        client.create("/brokers/ids/1", jsoned(broker))
        for path in ("/config/topics", "/config/brokers"):
            client.ensure_path(path)
        yield connect, client


@pytest.fixture
def client(place: tuple[str, KazooClient]) -> KazooClient:
    return place[1]


@pytest.fixture
async def active(place: tuple[str, KazooClient]) -> AsyncIterator[Backend]:
    async with backend_of(place[0], recovers=False) as backend:
        await backend.ready()
        yield backend


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
def recovery(active: Backend, clock: Ahead) -> Recovery:
    admin = active.admin
    assert isinstance(admin, ZooKeeperAdmin)
    return Recovery(admin.session, active.membership, clock, Removal, PATIENCE_S)


def configured(client: KazooClient, entity: str, config: dict[str, str]) -> None:
    client.create(f"/config/{entity}", jsoned({"version": 1, "config": config}))


def config_of(client: KazooClient, entity: str) -> dict[str, str]:
    found: dict[str, str] = unjsoned(client, f"/config/{entity}")["config"]
    return found


@pytest.mark.conforms("kip-179:removal-lists")
async def test_a_name_goes_with_its_throttle_when_it_has_stood_long_enough(
    recovery: Recovery, clock: Ahead, client: KazooClient
) -> None:
    configured(client, "topics/t", LISTS)
    client.create(TOPICS, jsoned({"version": 1, "topics": ["t"]}))
    await recovery.look()
    assert config_of(client, "topics/t") == LISTS
    clock.ahead_s = PATIENCE_S - 1
    # Who writes another name then may be about to begin, and has the same time.
    configured(client, "brokers/1", RATES)
    client.create(BROKERS, jsoned({"version": 1, "brokers": [1]}))
    await recovery.look()
    clock.ahead_s = PATIENCE_S + 1
    await recovery.look()
    assert config_of(client, "topics/t") == {"retention.ms": "7200000"}
    assert named_for_removal(client) == ([], [1])
    assert config_of(client, "brokers/1") == RATES
    clock.ahead_s = 2 * PATIENCE_S
    await recovery.look()
    assert named_for_removal(client) == ([], [])
    assert config_of(client, "brokers/1") == {}


async def test_the_reassignments_znode_holds_everything_whatever_it_names(
    recovery: Recovery, clock: Ahead, client: KazooClient
) -> None:
    """KIP-179, "On Controller Failover", step 1: it is there, so a reassignment is under way."""
    configured(client, "topics/t", LISTS)
    client.create(TOPICS, jsoned({"version": 1, "topics": ["t"]}))
    gone = {"topic": "was-deleted", "partition": 0, "replicas": [1]}
    client.create(REASSIGN, jsoned({"version": 1, "partitions": [gone]}))
    await recovery.look()
    clock.ahead_s = PATIENCE_S + 1
    await recovery.look()
    assert config_of(client, "topics/t") == LISTS
    client.delete(REASSIGN)
    await recovery.look()
    assert config_of(client, "topics/t") == LISTS, "the time begins with the end of the move"
    clock.ahead_s += PATIENCE_S + 1
    await recovery.look()
    assert config_of(client, "topics/t") == {"retention.ms": "7200000"}


async def test_one_that_cannot_be_rid_of_its_throttle_does_not_keep_the_others(
    recovery: Recovery, clock: Ahead, client: KazooClient
) -> None:
    half = b'{"version":1,"config":{"leader.repl'
    client.create("/config/topics/a", half)
    configured(client, "topics/b", LISTS)
    configured(client, "brokers/1", RATES)
    names = ["a", "b", "no/topic", "..", "was-deleted"]
    client.create(TOPICS, jsoned({"version": 1, "topics": names}))
    client.create(BROKERS, jsoned({"version": 1, "brokers": [1]}))
    await recovery.look()
    clock.ahead_s = PATIENCE_S + 1
    with pytest.raises(Conflict, match=r"topics/a keeps its throttle: .*does not hold JSON"):
        await recovery.look()
    assert named_for_removal(client) == (["a"], [])
    assert client.get("/config/topics/a")[0] == half
    assert config_of(client, "topics/b") == {"retention.ms": "7200000"}
    assert config_of(client, "brokers/1") == {}
    assert client.get_children("/config/topics") == ["a", "b"]
