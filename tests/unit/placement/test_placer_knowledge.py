"""What a backend's placer learns about a cluster, what that costs, and when the cluster decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kips.backend_placer import (
    BackendPlacer,
    load_backend_placer,
    loads_of,
    with_placed,
)
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.placement.placer import UsableBroker
from kshunt.backend.settings import PlacerSettings
from tests.support.embedded.listeners import ListeningCluster
from tests.support.native import (
    ALTER_TOPICS,
    BRIEF_S,
    CREATE_PARTITIONS,
    METADATA,
    TIMEOUT_S,
    UNSUPPORTED_VERSION,
    administered,
    hang_up,
    refusing,
    stay_silent,
    ways,
)
from tests.support.placement.given_placers import Aware, Counting, named

DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER = 35, 60
FORBIDDEN = 31
UP = tuple(UsableBroker(number, None, fenced=False) for number in (1, 2, 3, 4))


def chosen(admin: Reached, placer: Counting) -> Counting:
    admin.placing = BackendPlacer("given", placer, admin.cluster, admin.logs)
    return placer


async def added(admin: Reached, *topics: str, timeout_s: float = TIMEOUT_S) -> Sequence[str]:
    """A partition more of each; the names of what came of it."""
    wanted = dict.fromkeys(topics, AlteredTopic(3))
    found = await admin.alterations.alter(wanted, validate_only=False, timeout_s=timeout_s)
    return [found[topic].error_name for topic in topics]


def at(cluster: ListeningCluster, topic: str, number: int) -> tuple[int, ...]:
    found = cluster.image.topic(topic)
    assert found is not None
    return tuple(found.partitions[number].target)


async def test_a_placer_that_does_not_go_by_load_costs_one_request() -> None:
    async with administered(native=False) as (cluster, admin):
        assert await added(admin, "t") == ["NONE"]
        without = sorted(set(cluster.asked))
        cluster.asked.clear()
        placer = chosen(admin, Counting())
        cluster.create("u", [1, 2], [2, 3])
        assert await added(admin, "u") == ["NONE"]
        assert sorted(set(cluster.asked)) == sorted({*without, DESCRIBE_CLUSTER})
        assert cluster.asked.count(METADATA) == 1
        assert placer.asked == [(2, 1, 2, UP)]
        assert at(cluster, "u", 2) == (2, 1)


async def test_loads_are_read_for_who_goes_by_them_and_grow_with_what_is_placed() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.create("u", [1, 2], [2, 3])
        placer = Aware()
        chosen(admin, placer)
        assert await added(admin, "t", "u") == ["NONE", "NONE"]
        assert cluster.asked.count(DESCRIBE_LOG_DIRS) == 4
        first, second = placer.loads
        counts = {b: (one.replicas, one.leaders) for b, one in sorted(first.brokers.items())}
        assert counts == {1: (2, 2), 2: (4, 2), 3: (2, 0), 4: (0, 0)}
        for load in first.brokers.values():
            assert load.disk_used_bytes is not None
            assert load.disk_total_bytes is not None
            assert 0 <= load.disk_used_bytes < load.disk_total_bytes
        assert at(cluster, "t", 2) == (2, 1)
        assert (second.of(2).replicas, second.of(2).leaders) == (5, 3)
        assert (second.of(1).replicas, second.of(1).leaders) == (3, 2)


async def test_a_proposal_leaves_out_what_is_placed_anew() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.create("u", [1, 2])
        placer = Aware()
        chosen(admin, placer)
        queries = Queries(admin, SystemClock(), placing=admin.placing)
        await queries.generate(["t"], [1, 2, 3], rack_aware=True)
        assert placer.asked == [(0, 2, 2, UP[:3])]
        counts = {b: (one.replicas, one.leaders) for b, one in placer.loads[0].brokers.items()}
        assert counts == {1: (1, 1), 2: (1, 0), 3: (0, 0)}


async def test_what_a_broker_does_not_tell_of_its_disks_is_unknown() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.instead[DESCRIBE_LOG_DIRS] = hang_up
        placer = Aware()
        chosen(admin, placer)
        assert await added(admin, "t") == ["NONE"]
        load = placer.loads[0].of(2)
        assert (load.replicas, load.leaders) == (2, 1)
        assert load.disk_share is None
        assert load.throughput_bytes_per_s is None


@pytest.mark.conforms("kip-660-draft:usable-broker")
async def test_a_broker_that_is_down_is_told_of_as_fenced() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.create("u", [1, 4], [4, 2])
        await cluster.stop_broker(4)
        placer = chosen(admin, Counting())
        wanted = {"u": AlteredTopic(3, 4)}
        result = (await admin.alterations.alter(wanted, validate_only=False, timeout_s=TIMEOUT_S))[
            "u"
        ]
        assert result.ok, result
        fenced = UsableBroker(4, None, fenced=True)
        assert {call[3] for call in placer.asked} == {(*UP[:3], fenced)}
        # Partitions that keep the broker that is down ask for those that are up: a factor of 3.
        assert [call[:3] for call in placer.asked] == [(0, 2, 3), (2, 1, 4)]
        assert [at(cluster, "u", n) for n in (0, 1, 2)] == [
            (1, 4, 3, 2),
            (4, 2, 1, 3),
            (1, 3, 2, 4),
        ]


async def test_where_fenced_brokers_are_not_told_of_those_that_are_up_count() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.instead[DESCRIBE_CLUSTER] = refusing(FORBIDDEN)
        await cluster.stop_broker(4)
        placer = chosen(admin, Counting())
        assert await added(admin, "t") == ["NONE"]
        assert placer.asked[0][3] == UP[:3]


async def test_nothing_is_done_where_the_brokers_are_not_known() -> None:
    async with administered(native=False) as (cluster, admin):
        placer = chosen(admin, Counting())
        assert await added(admin, "t") == ["NONE"]
        cluster.instead[DESCRIBE_CLUSTER] = stay_silent
        cluster.create("u", [1, 2], [2, 3])
        with pytest.raises(BrokerUnreachable):
            await added(admin, "u", timeout_s=BRIEF_S)
        assert len(placer.asked) == 1
        assert ways(cluster) == [CREATE_PARTITIONS]


async def test_a_cluster_with_alter_topics_decides_itself() -> None:
    async with administered() as (cluster, admin):
        placer = chosen(admin, Counting())
        assert await added(admin, "t") == ["NONE"]
        assert ways(cluster) == [ALTER_TOPICS]
        wanted = {"t": AlteredTopic(4)}
        assert (await admin.alterations.alter(wanted, validate_only=True, timeout_s=TIMEOUT_S))[
            "t"
        ].ok
        assert placer.asked == []


@pytest.mark.parametrize("served", [refusing(UNSUPPORTED_VERSION), hang_up])
async def test_where_it_does_not_serve_it_the_placer_is_asked_after_all(served: object) -> None:
    async with administered() as (cluster, admin):
        assert callable(served)
        cluster.instead[ALTER_TOPICS] = served
        placer = chosen(admin, Counting())
        assert await added(admin, "t") == ["NONE"]
        assert ways(cluster) == [ALTER_TOPICS, CREATE_PARTITIONS]
        assert placer.asked == [(2, 1, 2, UP)]
        assert at(cluster, "t", 2) == (2, 1)
        admin.placing = load_backend_placer(
            PlacerSettings(named("Refusing")), admin.cluster, admin.logs
        )
        cluster.create("u", [1, 2], [2, 3])
        assert await added(admin, "u") == ["REPLICA_PLACEMENT_FAILED"]


# Loads


def rows(*partitions: tuple[int, int, Sequence[int]]) -> Assignment:
    """Topics `a` and `b`; each entry is a topic's index, a leader, and replicas."""
    flat = [
        (topic, number, broker, position, leader)
        for number, (topic, leader, replicas) in enumerate(partitions)
        for position, broker in enumerate(replicas)
    ]
    topic, number, broker, position, leader = np.array(flat, np.int32).T
    flags = np.ones(len(flat), np.bool_)
    columns = (topic, number, broker, position.astype(np.int16), leader, flags, ~flags)
    return Assignment(("a", "b"), *columns)


CLUSTER = rows((0, 1, [1, 2]), (0, -1, [2, 3]), (1, 3, [1, 3]))


def directory(total: int, usable: int, error: str | None = None) -> LogDir:
    return LogDir(1, "/d", total, usable, error)


@pytest.mark.parametrize(
    ("dirs", "used", "total"),
    [
        ([directory(100, 40)], 60, 100),
        ([directory(100, 40), directory(50, 50)], 60, 150),
        ([directory(100, 40), directory(-1, -1, "KAFKA_STORAGE_ERROR")], 60, 100),
        ([directory(100, 40), directory(-1, -1)], None, None),
        ([directory(100, -1)], None, None),
        ([directory(-1, -1, "KAFKA_STORAGE_ERROR")], None, None),
        ([], None, None),
    ],
)
def test_disks_are_known_where_every_working_directory_is(
    dirs: Sequence[LogDir], used: int | None, total: int | None
) -> None:
    found = loads_of([1], CLUSTER, {1: dirs}).of(1)
    assert (found.disk_used_bytes, found.disk_total_bytes) == (used, total)


def test_replicas_and_leaders_are_counted_for_every_broker_that_is_asked_for() -> None:
    found = loads_of([1, 2, 3, 9], CLUSTER, {})
    assert found.brokers == {
        1: BrokerLoad(1, replicas=2, leaders=1),
        2: BrokerLoad(2, replicas=2, leaders=0),
        3: BrokerLoad(3, replicas=2, leaders=1),
        9: BrokerLoad(9, replicas=0, leaders=0),
    }
    assert loads_of([2], CLUSTER, {}, ["a", "no-such"]).of(2).replicas == 0


def test_what_is_placed_counts_and_what_is_unknown_stays_so() -> None:
    before = BrokerLoads({1: BrokerLoad(1, replicas=2, leaders=1), 2: BrokerLoad(2)})
    found = with_placed(before, [(1, 2), (3, 1)])
    assert found.of(1) == BrokerLoad(1, replicas=4, leaders=2)
    assert found.of(2) == BrokerLoad(2)
    assert found.of(3) == BrokerLoad(3)
