"""Throttles, elections and lags by `KafkaAdmin`, with the seeds' RPCs and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.errors import ClusterUnreachable
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import THROTTLED_RATES, ListeningCluster, lists, rate
from tests.support.native import (
    ALTER_CONFIGS,
    BRIEF_S,
    ELECT,
    ELECT_LEADERS,
    LIST_OFFSETS,
    MOVING,
    RATE,
    RATES,
    REPLICAS,
    STATUS,
    T0,
    T1,
    TIMEOUT_S,
    UNSUPPORTED_VERSION,
    administered,
    hang_up,
    move,
    refusing,
    stay_silent,
    throttled,
    ways,
)

DESCRIBE_CONFIGS = 32
NO_ELECTION = 84

# Throttles


async def set_rates(
    admin: Reached, rates: Mapping[int, ThrottledRate], **more: Any
) -> dict[int, int]:
    """Error codes by broker."""
    asked = {"validate_only": False, "timeout_s": TIMEOUT_S, **more}
    found = await admin.throttles.alter_rates(rates, **asked)
    return {broker: result.error_code for broker, result in found.items()}


async def test_rates_that_name_every_throttled_broker_go_with_the_move() -> None:
    async with administered() as (cluster, admin):
        await move(admin)
        cluster.asked.clear()
        wanted = {broker: ThrottledRate(5 * MB, 6 * MB) for broker in (1, 2, 4)}
        assert await set_rates(admin, wanted, validate_only=True) == dict.fromkeys(wanted, 0)
        assert cluster.throttled() == MOVING
        assert await set_rates(admin, wanted) == dict.fromkeys(wanted, 0)
        assert ways(cluster) == [RATES]
        values = dict(zip(THROTTLED_RATES, (str(5 * MB), str(6 * MB)), strict=True))
        assert [cluster.throttle_of(broker) for broker in (1, 2, 3, 4)] == [
            values,
            values,
            {},
            values,
        ]
        assert cluster.removal() == (("t",), (1, 2, 4))
        cluster.pass_s(30)
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:rates-of-others")
@pytest.mark.parametrize(
    ("rates", "more"),
    [
        ({2: ThrottledRate(MB, MB)}, {}),
        (dict.fromkeys((1, 2, 4), ThrottledRate(MB, None)), {}),
        (dict.fromkeys((1, 2, 4), ThrottledRate(MB, 999)), {}),
        (dict.fromkeys((1, 2, 4), ThrottledRate(MB, MB)), {"log_dir_rates": {1: MB}}),
        (dict.fromkeys((1, 2, 4, 77), ThrottledRate(MB, MB)), {}),
        (dict.fromkeys((1, 2, 3, 4), ThrottledRate(MB, MB)), {}),
    ],
    ids=[
        "not all",
        "a rate removed",
        "less than 1 KB/s",
        "log directories",
        "no such broker",
        "one takes no part",
    ],
)
async def test_rates_that_the_rpc_would_change_otherwise_are_set_by_themselves(
    rates: dict[int, ThrottledRate], more: dict[str, Any]
) -> None:
    found = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            await move(admin)
            removal = cluster.removal()
            cluster.asked.clear()
            codes = await set_rates(admin, rates, as_found=True, **more)
            found.append((codes, cluster.throttled()))
            assert ways(cluster) == [ALTER_CONFIGS]
            assert cluster.removal() == removal
    assert found[0] == found[1]


async def test_rates_are_set_by_themselves_while_nothing_moves_or_a_broker_is_silent() -> None:
    wanted = dict.fromkeys((1, 2, 4), ThrottledRate(MB, MB))
    async with administered() as (cluster, admin):
        assert set((await set_rates(admin, wanted)).values()) == {0}
        assert ways(cluster) == [ALTER_CONFIGS]
        assert cluster.removal() == ((), ())
    async with administered() as (cluster, admin):
        await move(admin)
        cluster.instead[DESCRIBE_CONFIGS] = silent_third(cluster)
        cluster.asked.clear()
        assert set((await set_rates(admin, wanted)).values()) == {0}
        assert ways(cluster) == [ALTER_CONFIGS]
        cluster.instead.clear()
        await cluster.stop_broker(4)
        cluster.asked.clear()
        codes = await set_rates(admin, dict.fromkeys((1, 2), ThrottledRate(RATE, RATE)))
        assert codes == {1: 0, 2: 0}
        assert ways(cluster) == [ALTER_CONFIGS]
        assert cluster.throttle_of(4) == rate(MB)


def silent_third(cluster: ListeningCluster) -> Handler:
    """Broker 3 does not tell its configuration."""

    async def answer(context: RequestContext, message: Any) -> Any:
        told = hang_up if context.broker_id == 3 else cluster.own[DESCRIBE_CONFIGS]
        return await told(context, message)

    return answer


async def set_lists(
    admin: Reached, replicas: Mapping[str, ThrottledReplicas], **more: Any
) -> dict[str, int]:
    """Error codes by topic."""
    asked = {"validate_only": False, "timeout_s": TIMEOUT_S, **more}
    found = await admin.throttles.alter_replicas(replicas, **asked)
    return {topic: result.error_code for topic, result in found.items()}


async def test_lists_that_name_every_throttled_topic_go_with_the_move() -> None:
    async with administered() as (cluster, admin):
        cluster.create("u", [1, 2])
        cluster.fill("u", 100 * MB)
        cluster.move("u", 0, 1, 3)
        await move(admin)
        cluster.asked.clear()
        wanted = {"t": throttled("0:1,1:3", ""), "u": throttled("0:1", "0:2")}
        assert await set_lists(admin, wanted, validate_only=True) == {"t": 0, "u": 0}
        assert cluster.throttle_of("u") == {}
        assert await set_lists(admin, wanted) == {"t": 0, "u": 0}
        assert ways(cluster) == [REPLICAS]
        assert cluster.throttle_of("t") == lists("0:1,1:3", "")
        assert cluster.throttle_of("u") == lists("0:1", "0:2")
        cluster.pass_s(30)
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:replicas-of-others")
@pytest.mark.parametrize(
    "replicas",
    [
        {"u": throttled("0:1", "")},
        {"t": throttled("", "")},
        {"t": throttled("*", "0:4")},
        {"t": throttled("0:1,7:1", "0:4")},
        {"t": throttled("0:77", "0:4")},
        {"t": throttled("0:1", "0:4"), "none": throttled("0:1", "")},
        {"t": throttled("0:1", "0:4"), "v": throttled("0:1", "")},
    ],
    ids=[
        "not all",
        "removed",
        "everything",
        "no such partition",
        "no such broker",
        "no such topic",
        "one takes no part",
    ],
)
async def test_lists_that_the_rpc_would_change_otherwise_are_set_by_themselves(
    replicas: dict[str, ThrottledReplicas],
) -> None:
    found = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            cluster.create("u", [1, 2])
            cluster.create("v", [1, 2])
            cluster.fill("u", 100 * MB)
            cluster.move("u", 0, 1, 3)
            await move(admin)
            removal = cluster.removal()
            cluster.asked.clear()
            codes = await set_lists(admin, replicas, as_found=True)
            found.append((codes, cluster.throttled()))
            assert ways(cluster) == [ALTER_CONFIGS]
            assert cluster.removal() == removal
    assert found[0] == found[1]


# Elections


@pytest.mark.conforms(
    "kip-183:elect",
    "kip-183:elect-null",
    "kip-183:partition-result",
    "kip-183:to-the-controller",
    "kip-183:error-3",
    "kip-183:not-needed",
)
async def test_elections_are_the_same_with_the_rpc_and_without() -> None:
    asked = [TopicPartition("w", n) for n in (0, 1, 9)] + [TopicPartition("v", 0)]
    outcomes = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            cluster.create("v", [4, 1])
            await cluster.stop_broker(4)
            cluster.create("w", [1, 2], [2, 1])
            cluster.core.stop_broker(1)
            cluster.restart(1)
            cluster.pass_s(1)
            by_name = await admin.elections.elect_preferred(asked, timeout_s=TIMEOUT_S)
            assert cluster.at("w", 0).leader == 1
            cluster.core.stop_broker(1)
            cluster.restart(1)
            cluster.pass_s(1)
            every = await admin.elections.elect_preferred(None, timeout_s=TIMEOUT_S)
            assert ways(cluster) == [ELECT if native else ELECT_LEADERS]
            outcomes.append([{p: r.error_code for p, r in o.items()} for o in (by_name, every)])
    assert outcomes[0] == outcomes[1]
    assert list(outcomes[0][0].values()) == [0, NO_ELECTION, 3, 80]
    assert TopicPartition("w", 0) in outcomes[0][1]
    assert TopicPartition("w", 1) not in outcomes[0][1]


@pytest.mark.conforms("kip-183:timeout")
async def test_an_election_that_is_not_answered_may_yet_take_place() -> None:
    async with administered() as (cluster, admin):
        cluster.instead[ELECT] = stay_silent
        with pytest.raises(ClusterUnreachable, match="not answered") as lost:
            await admin.elections.elect_preferred([T0], timeout_s=BRIEF_S)
        assert "It may still take place" in str(lost.value)
        assert ways(cluster) == [ELECT]


# Lags


async def lags_of(admin: Reached, *partitions: TopicPartition) -> list[tuple[Any, ...]]:
    """What is said of each replica, but for when it was so."""
    found = await admin.replicas.status(partitions, timeout_s=TIMEOUT_S)
    return [(x.partition, x.broker, x.lag_messages, x.in_isr, x.result) for x in found]


@pytest.mark.conforms("kip-179-early-draft:status-to-leader")
async def test_the_figures_of_leaders_are_those_of_the_replicas_themselves() -> None:
    partitions = [T1, T0, TopicPartition("one", 0), TopicPartition("t", 8), T0]
    found = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            cluster.create("one", [3])
            await move(admin)
            cluster.pass_s(4)
            cluster.asked.clear()
            found.append(await lags_of(admin, *partitions))
            await cluster.stop_broker(3)
            found.append(await lags_of(admin, *partitions))
            assert (STATUS in cluster.asked) == native
    assert found[0] == found[2]
    assert found[1] == found[3]
    lag = {(partition, broker): lag for partition, broker, lag, _, _ in found[0]}
    assert 50_000 < lag[T0, 4] < 70_000
    assert (lag[T0, 2], lag[T1, 2], lag[T1, 3], lag[TopicPartition("one", 0), 3]) == (0, 0, 0, 0)
    down = {(partition, broker): result for partition, broker, _, _, result in found[1]}
    assert down[T1, 3].error_name == "BROKER_NOT_AVAILABLE"
    assert down[TopicPartition("t", 8), -1].error_name == "INVALID_PARTITIONS"


async def test_only_what_leaders_cannot_tell_is_measured_on_every_broker() -> None:
    async with administered() as (cluster, admin):
        await lags_of(admin, T0, T1)
        assert cluster.asked.count(STATUS) == 2
        assert LIST_OFFSETS not in cluster.asked
        status = await admin.replicas.status([T0], timeout_s=TIMEOUT_S)
        assert {lag.status_ms for lag in status} == {cluster.core.now_ms}


@pytest.mark.parametrize(
    "served", [hang_up, refusing(UNSUPPORTED_VERSION)], ids=["closed", "unsupported"]
)
async def test_one_leader_that_does_not_serve_the_call_is_measured(
    served: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    async with administered() as (cluster, admin):
        expected = await lags_of(admin, T0, T1)

        async def partly(context: RequestContext, message: Any) -> Any:
            serves = served if context.broker_id == 2 else cluster.own[STATUS]
            return await serves(context, message)

        cluster.instead[STATUS] = partly
        cluster.asked.clear()
        assert await lags_of(admin, T0, T1) == expected
        assert "ReplicaStatus of broker 2 is advertised but not served" in caplog.text
        assert "broker 1" not in caplog.text
        assert cluster.asked.count(LIST_OFFSETS) == 2


@pytest.mark.conforms("kip-179-early-draft:status-to-leader")
async def test_a_leader_that_hangs_leaves_time_to_ask_its_followers() -> None:
    async with administered() as (cluster, admin):
        await lags_of(admin, T0, T1)
        cluster.instead[STATUS] = stay_silent
        status = await admin.replicas.status([T0], timeout_s=4 * BRIEF_S)
        assert [lag.lag_messages for lag in status] == [0, 0]
