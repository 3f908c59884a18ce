"""Brokers that are down, frozen or elsewhere: what still works, how fast, and what is said.

The cluster is this file's own: its brokers are killed and frozen.
"""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable, ConfigError
from kshunt.backend.settings import Settings
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    connected,
    replicas_become,
    states_of,
    topic_with,
    unthrottle,
)
from tests.support.brokers.launcher import RealKafka
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

VICTIM = 3
RATE = 2_000_000
PROMPT_S = 15.0
"""Longer than any call takes that waits for nobody, on a busy machine too; half of `TIMEOUT_S`."""


@pytest.fixture(scope="module")
def fragile() -> Iterator[RealKafka]:
    """Three brokers; a test makes whole what it breaks."""
    with RealKafka() as cluster:
        yield cluster


@pytest.fixture
async def admin(fragile: RealKafka) -> AsyncIterator[Reached]:
    """Connected while every broker runs."""
    async with connected(fragile.bootstrap_servers) as found:
        await wait_until_async(
            lambda: brokers_are(found, {1, 2, 3}), DEADLINE_S, "every broker is listed"
        )
        yield found


@asynccontextmanager
async def killed(fragile: RealKafka, broker: int) -> AsyncIterator[None]:
    """A crashed broker, started again at the end."""
    await asyncio.to_thread(fragile.kill_broker, broker)
    try:
        yield
    finally:
        await asyncio.to_thread(fragile.start_broker, broker)


@asynccontextmanager
async def frozen(fragile: RealKafka, broker: int) -> AsyncIterator[None]:
    """A broker whose sockets stay open while nothing answers."""
    fragile.pause_broker(broker)
    try:
        yield
    finally:
        fragile.resume_broker(broker)


@asynccontextmanager
async def promptly() -> AsyncIterator[None]:
    """What is in it waits for no answer that does not come."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < PROMPT_S


async def brokers_are(admin: Reached, wanted: set[int]) -> bool:
    state = await admin.cluster.describe([], timeout_s=TIMEOUT_S)
    return state.brokers.keys() == wanted


async def answers(admin: Reached, broker: int) -> bool:
    try:
        await admin.logs.dirs(broker, timeout_s=1.0)
    except BrokerUnreachable:
        return False
    return True


async def test_a_dead_broker_keeps_replicas_and_is_given_none_by_itself(
    fragile: RealKafka, admin: Reached
) -> None:
    pair = await topic_with(admin, "dead-pair", [[1, VICTIM], [1, 2]])
    single = await topic_with(admin, "dead-single", [[VICTIM], [1]])

    async def answer(topic: str, wanted: AlteredTopic) -> str:
        results = await admin.alterations.alter(
            {topic: wanted}, validate_only=False, timeout_s=TIMEOUT_S
        )
        return results[topic].error_name

    async with killed(fragile, VICTIM):
        await wait_until_async(
            lambda: brokers_are(admin, {1, 2}), DEADLINE_S, "the dead broker is fenced"
        )
        assert await answer(pair, AlteredTopic(-1, 3)) == "INVALID_REPLICATION_FACTOR"
        stranger = AlteredTopic(assignments={0: [99, 1]})
        assert await answer(pair, stranger) == "UNKNOWN_MEMBER_ID"
        dead = AlteredTopic(3, -1, {2: [VICTIM]})
        assert await answer(single, dead) == "INVALID_REPLICA_ASSIGNMENT"
        assert await answer(pair, AlteredTopic(3, -1, {2: [VICTIM, 1]})) == "NONE"
        assert await answer(pair, AlteredTopic(assignments={1: [2, VICTIM]})) == "NONE"
    await replicas_become(admin, TopicPartition(pair, 1), (2, VICTIM))
    assert (await states_of(admin, pair))[2].replicas == (VICTIM, 1)
    assert len(await states_of(admin, single)) == 2


async def test_a_dead_broker_is_skipped_and_found_again(fragile: RealKafka, admin: Reached) -> None:
    topic = await topic_with(admin, "dead", [[1, VICTIM], [VICTIM, 1]], records=100)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert await answers(admin, VICTIM)
    async with killed(fragile, VICTIM):
        # Immediately: the cluster lists the broker until its session times out.
        async with promptly():
            with pytest.raises(BrokerUnreachable, match=f"Broker {VICTIM}"):
                await admin.logs.dirs(VICTIM, timeout_s=TIMEOUT_S)
            read = await admin.throttles.describe([1, VICTIM], [topic], timeout_s=TIMEOUT_S)
            assert read.unknown_brokers == (VICTIM,)
            status = await admin.replicas.status([first], timeout_s=TIMEOUT_S)
            assert {s.broker: s.lag_messages for s in status} == {1: 0, VICTIM: -1}
            assert not status[1].result.ok
        await wait_until_async(
            lambda: brokers_are(admin, {1, 2}), DEADLINE_S, "the dead broker is fenced"
        )
        async with promptly():
            written = await admin.throttles.alter_rates(
                {b: ThrottledRate(RATE, RATE) for b in (1, 2, VICTIM)},
                validate_only=False,
                timeout_s=TIMEOUT_S,
            )
            assert [written[b].error_code for b in (1, 2, VICTIM)] == [0, 0, 8]
            await unthrottle(admin, [1, 2])
        # Partition 0 keeps the dead broker, and partition 1 leaves it.
        async with promptly():
            outcome = await admin.reassignments.reassign(
                {first: [2, VICTIM], second: [2, 1]},
                ReassignOptions(throttle_bytes_per_s=RATE),
                {},
            )
        assert all(result.ok for result in outcome.results.values())
        assert outcome.results[first].message == f"keeps broker {VICTIM}, which is down"
        assert outcome.throttled_brokers[VICTIM].error_name == "BROKER_NOT_AVAILABLE"
        assert outcome.throttled_brokers[1].ok
        await replicas_become(admin, second, (2, 1))
    await wait_until_async(lambda: answers(admin, VICTIM), DEADLINE_S, "it answers again")
    await replicas_become(admin, first, (2, VICTIM))
    await unthrottle(admin, fragile.broker_ids)


async def test_a_plan_may_not_send_anything_to_a_dead_broker(
    fragile: RealKafka, admin: Reached
) -> None:
    topic = await topic_with(admin, "to-dead", [[1, 2]])
    async with killed(fragile, VICTIM):
        await wait_until_async(
            lambda: brokers_are(admin, {1, 2}), DEADLINE_S, "the dead broker is fenced"
        )
        outcome = await admin.reassignments.reassign(
            {TopicPartition(topic, 0): [1, VICTIM]}, ReassignOptions(), {}
        )
    (result,) = outcome.results.values()
    assert result.error_name == "INVALID_REPLICA_ASSIGNMENT"
    assert "no live broker has the id 3" in result.message


async def test_a_leader_that_is_down_leaves_the_lag_unknown(
    fragile: RealKafka, admin: Reached
) -> None:
    topic = await topic_with(admin, "leaderless", [[VICTIM]], records=10)
    partition = TopicPartition(topic, 0)
    async with killed(fragile, VICTIM):

        async def leaderless() -> bool:
            return (await states_of(admin, topic))[0].leader == -1

        await wait_until_async(leaderless, DEADLINE_S, "the partition has lost its leader")
        (status,) = await admin.replicas.status([partition], timeout_s=TIMEOUT_S)
        assert (status.lag_messages, status.result.ok) == (-1, False)


async def test_a_frozen_broker_delays_only_what_is_sent_to_it(
    fragile: RealKafka, admin: Reached
) -> None:
    topic = await topic_with(admin, "frozen", [[1, VICTIM]])
    asked = columns_of([TopicPartition(topic, 0)])
    for broker in fragile.broker_ids:
        assert await answers(admin, broker)
    async with frozen(fragile, VICTIM):
        waiting = asyncio.create_task(admin.logs.end_offsets(VICTIM, asked, timeout_s=2.0))
        started = time.monotonic()
        async with promptly():
            for broker in (1, 2):
                await admin.logs.end_offsets(broker, asked, timeout_s=TIMEOUT_S)
            await admin.cluster.describe(timeout_s=TIMEOUT_S)
        with pytest.raises(BrokerUnreachable, match="did not answer within 2 s"):
            await waiting
        assert 1.9 < time.monotonic() - started < PROMPT_S
        # A connection that is only being made must not be waited for longer either.
        with pytest.raises(BrokerUnreachable):
            await admin.logs.end_offsets(VICTIM, asked, timeout_s=0.3)
    await wait_until_async(lambda: answers(admin, VICTIM), DEADLINE_S, "it answers again")


@pytest.mark.parametrize("broker", [1, 2, 3])
async def test_the_cluster_is_described_whoever_is_frozen(
    fragile: RealKafka, admin: Reached, broker: int
) -> None:
    topic = await topic_with(admin, "whoever", [[1]])
    async with frozen(fragile, broker), promptly():
        await admin.cluster.describe(timeout_s=TIMEOUT_S)
        await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)
    async with frozen(fragile, broker), promptly(), connected(fragile.bootstrap_servers) as other:
        assert other.cluster.bootstrap_servers == fragile.bootstrap_servers


@pytest.mark.parametrize("ahead", ["long", "short"])
async def test_a_call_that_gives_up_does_not_cut_off_another(
    fragile: RealKafka, admin: Reached, ahead: str
) -> None:
    assert await answers(admin, VICTIM)
    async with frozen(fragile, VICTIM):
        long = asyncio.create_task(admin.logs.dirs(VICTIM, timeout_s=10.0))
        if ahead == "long":
            await asyncio.wait([long], timeout=0.1)
        with pytest.raises(BrokerUnreachable, match=r"0\.5 s"):
            await admin.logs.dirs(VICTIM, timeout_s=0.5)
    assert len((await long).dirs) == 2


async def test_nothing_listens_at_the_bootstrap_servers() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{unused.getsockname()[1]}"
    admin = KafkaAdmin(Settings(f"{server},no-such-host.invalid:9092"))
    async with promptly():
        with pytest.raises(ClusterUnreachable) as caught:
            await admin.connect()
    await admin.close()
    assert server in caught.value.message
    assert "no-such-host.invalid:9092" in caught.value.message
    assert "refused" in caught.value.message


async def test_a_server_that_never_answers_is_given_up() -> None:
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        admin = KafkaAdmin(Settings(server))
        started = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=server) as caught:
            await admin.connect(timeout_s=1.0)
        assert time.monotonic() - started < PROMPT_S
        await admin.close()
    assert "security.protocol" in caught.value.advice


async def test_one_good_bootstrap_server_is_enough(fragile: RealKafka) -> None:
    good = fragile.bootstrap_servers.split(",")[0]
    async with promptly(), connected(f"127.0.0.1:1,{good}") as admin:
        assert len((await admin.cluster.describe([], timeout_s=TIMEOUT_S)).brokers) == 3


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:x", ":9092"])
def test_a_bootstrap_server_needs_host_and_port(servers: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap server"):
        KafkaAdmin(Settings(servers))


async def test_the_clients_log_stays_off_the_terminal(
    fragile: RealKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    async with connected(fragile.bootstrap_servers) as admin:
        with pytest.raises(BrokerUnreachable):
            await admin.logs.dirs(99, timeout_s=TIMEOUT_S)
    assert logging.getLogger("kafka").level > logging.CRITICAL
    assert capfd.readouterr().err == ""
