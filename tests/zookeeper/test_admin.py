"""`ZooKeeperAdmin` on a real ZooKeeper with Kafka 3.9: what it reads, what brokers make of what it
writes, and what it leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import KafkaException
from kazoo.client import KazooClient

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.admin.zookeeper import config_znodes
from kshunt.backend.admin.zookeeper.session import Session
from kshunt.backend.admin.zookeeper.znode_layout import UnreadableZnode
from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import LEADER_REPLICAS, ThrottledRate
from kshunt.backend.errors import (
    BadInput,
    ClusterUnreachable,
    Conflict,
    NotSupported,
)
from tests.support.admin import (
    NO_RATE,
    connected,
    fresh_name,
    lags_of,
    lists,
    replicas_become,
    states_of,
    topic_with,
    unthrottle,
)
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.topics import create_topic
from tests.support.waiting import wait_until_async
from tests.support.zookeeper.znodes import (
    DEADLINE_S,
    ON_ZOOKEEPER,
    TIMEOUT_S,
    admin_of,
    client_of,
    jsoned,
    settings_of,
    tree,
    unjsoned,
)

pytestmark = ON_ZOOKEEPER

RATE = 2_000_000
SLOW = 50_000
REASSIGN = "/admin/reassign_partitions"
ELECTION = "/admin/preferred_replica_election"


@pytest.fixture
async def admin(zookeeper: ZooKeeperKafka) -> AsyncIterator[ZooKeeperAdmin]:
    async with admin_of(zookeeper.connect) as found:
        try:
            yield found
        finally:
            await unthrottle(found, zookeeper.broker_ids)


@pytest.fixture
async def brokers(zookeeper: ZooKeeperKafka) -> AsyncIterator[Reached]:
    """The same cluster, as its brokers tell of it."""
    async with connected(zookeeper.bootstrap_servers) as found:
        yield found


@pytest.fixture
def client(zookeeper: ZooKeeperKafka) -> Iterator[KazooClient]:
    with client_of(zookeeper.connect) as found:
        yield found


# Reading


async def test_what_is_read_is_what_the_brokers_say(
    admin: ZooKeeperAdmin, brokers: Reached
) -> None:
    topic = await topic_with(admin, "zk-read", [[3, 1], [1, 2], [2, 3]])

    async def every_broker_knows_it() -> bool:
        known = await brokers.topics.known(topic, timeout_s=TIMEOUT_S)
        return all(one is not None and one.partitions == 3 for one in known.values())

    await wait_until_async(every_broker_knows_it, DEADLINE_S, "every broker knows the topic")
    ours = await admin.cluster.describe(timeout_s=TIMEOUT_S)
    theirs = await brokers.cluster.describe(timeout_s=TIMEOUT_S)
    assert ours.cluster_id == theirs.cluster_id
    assert ours.controller == theirs.controller
    assert ours.brokers == theirs.brokers
    assert ours.assignment.topics == theirs.assignment.topics
    assert partition_states(ours.assignment) == partition_states(theirs.assignment)
    named = await admin.cluster.describe([topic, "no-such-topic"], timeout_s=TIMEOUT_S)
    assert named.assignment.topics == (topic,)
    assert named.topic_errors == {"no-such-topic": "UNKNOWN_TOPIC_OR_PARTITION"}


async def test_what_no_topic_is_called_is_unknown_and_no_other_path(admin: ZooKeeperAdmin) -> None:
    topic = await topic_with(admin, "zk-names", [[1]])
    odd = ["..", "", f"{topic}/partitions", f"{topic}/partitions/0/state"]
    found = await admin.cluster.describe(odd, timeout_s=TIMEOUT_S)
    assert set(found.topic_errors) == set(odd)
    changes = {name: lists("0:1", "") for name in odd}
    written = await admin.throttles.alter_replicas(
        changes, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert {one.error_name for one in written.values()} == {"UNKNOWN_TOPIC_OR_PARTITION"}


async def test_a_place_without_a_cluster_is_no_cluster(zookeeper: ZooKeeperKafka) -> None:
    with pytest.raises(ClusterUnreachable, match="does not hold a Kafka cluster"):
        await ZooKeeperAdmin.opened(settings_of(f"{zookeeper.server.address}/elsewhere"))
    with (
        tree(zookeeper.server.address) as (connect, _),
        pytest.raises(ClusterUnreachable, match="lists no broker with a listener"),
    ):
        await ZooKeeperAdmin.opened(settings_of(connect))


async def test_a_topic_whose_deletion_waits_is_left_out_as_brokers_do(
    zookeeper: ZooKeeperKafka,
) -> None:
    """It waits for a broker that is down, and would else be shown without leaders for days."""
    with tree(zookeeper.server.address) as (connect, client):
        broker = {"endpoints": ["PLAINTEXT://127.0.0.1:1"], "version": 5}
        client.create("/brokers/ids/1", jsoned(broker))
        for topic, leader in {"stays": -1, "goes": -1, "moves-first": 1}.items():
            znode = jsoned({"version": 1, "partitions": {"0": [1]}})
            client.create(f"/brokers/topics/{topic}", znode)
            state = jsoned({"leader": leader, "isr": [1], "version": 1})
            client.create(f"/brokers/topics/{topic}/partitions/0/state", state, makepath=True)
        for topic in ("goes", "moves-first", "gone-already"):
            client.ensure_path(f"/admin/delete_topics/{topic}")
        async with admin_of(connect) as admin:
            found = await admin.cluster.describe(timeout_s=TIMEOUT_S)
            assert found.assignment.topics == ("moves-first", "stays")
            assert found.assignment.leader.tolist() == [1, -1]
            named = await admin.cluster.describe(["goes", "stays"], timeout_s=TIMEOUT_S)
            assert named.assignment.topics == ("stays",)
            assert set(named.topic_errors) == {"goes"}


# Throttles


async def test_throttles_are_obeyed_and_what_else_is_configured_stays(
    admin: ZooKeeperAdmin, brokers: Reached, client: KazooClient
) -> None:
    topic = await topic_with(admin, "zk-throttle", [[1, 2]])
    await brokers.configs.alter(topic, {"retention.ms": "7200000"}, timeout_s=TIMEOUT_S)
    rates = {2: ThrottledRate(RATE, None), 99: ThrottledRate(RATE, RATE)}
    written = await admin.throttles.alter_rates(
        rates, log_dir_rates={2: RATE}, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert written[2].ok
    assert written[99].error_name == "BROKER_NOT_AVAILABLE"
    topics = await admin.throttles.alter_replicas(
        {topic: lists("0:1", "0:2"), "no-such-topic": lists("0:1", "")},
        validate_only=False,
        timeout_s=TIMEOUT_S,
    )
    assert topics["no-such-topic"].error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    # The brokers are asked immediately: what the call returned for is in force.
    seen = await brokers.throttles.describe([2], [topic], timeout_s=TIMEOUT_S)
    assert seen == await admin.throttles.describe([2], [topic], timeout_s=TIMEOUT_S)
    assert seen.rates[2].rate == ThrottledRate(RATE, None)
    assert seen.rates[2].leader_source == "DYNAMIC_BROKER_CONFIG"
    assert seen.replicas == {topic: lists("0:1", "0:2")}
    assert unjsoned(client, f"/config/topics/{topic}")["config"]["retention.ms"] == "7200000"
    await admin.throttles.alter_rates(
        {2: NO_RATE}, log_dir_rates={2: None}, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert (await brokers.throttles.describe([2], [], timeout_s=TIMEOUT_S)).rates[2].rate == NO_RATE
    assert unjsoned(client, "/config/brokers/2")["config"] == {}


async def test_two_who_write_one_configuration_lose_nothing_of_each_other(
    admin: ZooKeeperAdmin, zookeeper: ZooKeeperKafka, client: KazooClient
) -> None:
    topic = await topic_with(admin, "zk-foreign", [[1]])
    entity = config_znodes.topic_entity(topic)
    async with admin_of(zookeeper.connect) as other:
        sessions: list[Session] = [admin.session, other.session]

        async def write(session: Session, name: str) -> None:
            for number in range(10):
                changes = {f"{name}.{number}": "x"}
                found = await config_znodes.change(session, entity, changes, timeout_s=TIMEOUT_S)
                assert found.ok, found

        await asyncio.gather(*(write(one, f"n{at}") for at, one in enumerate(sessions)))
    written = unjsoned(client, f"/config/topics/{topic}")["config"]
    assert written.keys() >= {f"n{at}.{number}" for at in range(2) for number in range(10)}


async def test_half_a_configuration_is_not_written_over(
    admin: ZooKeeperAdmin, client: KazooClient
) -> None:
    topic = await topic_with(admin, "zk-half", [[1, 2]])
    path, half = f"/config/topics/{topic}", b'{"version":1,"config":{"retention.ms":"72'
    whole = client.get(path)[0]
    client.set(path, half)
    try:
        found = await config_znodes.change(
            admin.session,
            config_znodes.topic_entity(topic),
            {LEADER_REPLICAS: "0:1"},
            timeout_s=TIMEOUT_S,
        )
        assert f"{path} does not hold JSON" in found.message
        assert client.get(path)[0] == half
    finally:
        client.set(path, whole)


# Moves


async def test_a_move_goes_through_the_znode_and_its_lag_is_the_brokers(
    admin: ZooKeeperAdmin, client: KazooClient
) -> None:
    records = 3_000
    topic = await topic_with(admin, "zk-move", [[1, 2], [2, 1]], records=records)
    moving, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    options = ReassignOptions(throttle_bytes_per_s=SLOW)
    outcome = await admin.reassignments.reassign({moving: [1, 3]}, options, {})
    assert outcome.results[moving].ok
    assert unjsoned(client, REASSIGN)["partitions"] == [
        {"topic": topic, "partition": 0, "replicas": [1, 3]}
    ]
    ongoing = (await admin.reassignments.ongoing(timeout_s=TIMEOUT_S))[moving]
    assert (ongoing.target, ongoing.adding, ongoing.removing) == ((1, 3), (3,), (2,))

    async def behind() -> bool:
        return 0 < (await lags_of(admin, moving)).get(3, -1) < records

    await wait_until_async(behind, DEADLINE_S, "broker 3 is behind, by what brokers say")
    # While it runs nothing can be added, and nothing of the second is written.
    assert "a reassignment is running" in await admin.reassignments.accepts_moves(
        timeout_s=TIMEOUT_S
    )
    second = await admin.reassignments.reassign({other: [2, 3]}, options, {})
    assert second.results[other].error_name == "REASSIGNMENT_IN_PROGRESS"
    assert (await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)).replicas == {
        topic: lists("0:1,0:2", "0:3")
    }
    # The very same is no second one: brokers say so too.
    again = await admin.reassignments.reassign(
        {moving: [1, 3]}, ReassignOptions(throttle_bytes_per_s=SLOW + 1), {}
    )
    assert again.results[moving].ok
    assert (await admin.throttles.describe([3], [], timeout_s=TIMEOUT_S)).rates[
        3
    ].rate == ThrottledRate(SLOW + 1, SLOW + 1)
    cancelled = await admin.reassignments.alter({moving: None}, timeout_s=TIMEOUT_S)
    assert cancelled[moving].error_name == "UNSUPPORTED_VERSION"
    assert "deleting it stops nothing" in cancelled[moving].message
    await unthrottle(admin, (1, 2, 3))
    await replicas_become(admin, moving, (1, 3))

    async def gone() -> bool:
        return not await admin.reassignments.accepts_moves(timeout_s=TIMEOUT_S)

    await wait_until_async(gone, DEADLINE_S, "the controller has removed the znode")
    assert not await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)


async def test_a_move_may_be_added_to_those_that_others_ask_brokers_for(
    admin: ZooKeeperAdmin, brokers: Reached
) -> None:
    topic = await topic_with(admin, "zk-add", [[1], [2]], records=2_000)
    theirs, ours = TopicPartition(topic, 0), TopicPartition(topic, 1)
    slow = ReassignOptions(throttle_bytes_per_s=SLOW)
    assert (await brokers.reassignments.reassign({theirs: [3]}, slow, {})).results[theirs].ok

    async def seen() -> bool:
        return theirs in await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)

    await wait_until_async(seen, DEADLINE_S, "what was asked of brokers is in ZooKeeper")
    outcome = await admin.reassignments.reassign({ours: [3]}, ReassignOptions(), {})
    assert outcome.results[ours].ok
    await replicas_become(admin, ours, (3,))
    assert theirs in await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)
    await brokers.reassignments.alter({theirs: None}, timeout_s=TIMEOUT_S)
    await replicas_become(admin, theirs, (1,))


async def test_a_plan_that_is_larger_than_a_znode_is_refused_before_anything_is_written(
    admin: ZooKeeperAdmin, client: KazooClient
) -> None:
    plan = {TopicPartition("t" * 200, number): [1, 2, 3] for number in range(10_000)}
    options = ReassignOptions(throttle_bytes_per_s=RATE)
    with pytest.raises(BadInput, match=r"jute\.maxbuffer"):
        await admin.reassignments.reassign(plan, options, {})
    assert client.exists(REASSIGN) is None


async def test_half_a_reassignment_is_said_to_be_one_and_nothing_is_begun(
    admin: ZooKeeperAdmin, client: KazooClient
) -> None:
    topic = await topic_with(admin, "zk-torn", [[1]])
    client.create(REASSIGN, b'{"version":1,"partitions":[{"top')
    try:
        with pytest.raises(UnreadableZnode, match=f"{REASSIGN} does not hold JSON"):
            await admin.reassignments.reassign(
                {TopicPartition(topic, 0): [2]}, ReassignOptions(throttle_bytes_per_s=RATE), {}
            )
        with pytest.raises(UnreadableZnode, match="also delete /controller"):
            await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)
        assert (await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)).replicas == {}
    finally:
        await mended(client, admin.cluster.bootstrap_servers)
    assert await admin.reassignments.ongoing(timeout_s=TIMEOUT_S) == {}


async def mended(client: KazooClient, servers: str) -> None:
    """What the error advises: only a new controller looks at the next znode."""
    former = client.get("/controller")[1].czxid
    client.delete(REASSIGN)
    client.delete("/controller")

    def new_one() -> bool:
        found = client.exists("/controller")
        return found is not None and found.czxid != former

    await wait_until_async(new_one, DEADLINE_S, "there is a new controller")

    async def obeyed() -> bool:
        try:
            await asyncio.to_thread(create_topic, servers, fresh_name("zk-mended"), [[1]])
        except KafkaException:
            return False
        return True

    await wait_until_async(obeyed, DEADLINE_S, "brokers know who it is")


# Elections


@pytest.mark.conforms("kip-183:zookeeper-as-before")
async def test_preferred_leaders_are_elected_through_the_znode(
    admin: ZooKeeperAdmin, client: KazooClient
) -> None:
    topic = await topic_with(admin, "zk-elect", [[1, 2], [2, 1]])
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert (
        (await admin.reassignments.reassign({first: [2, 1]}, ReassignOptions(), {}))
        .results[first]
        .ok
    )
    await replicas_become(admin, first, (2, 1))
    assert (await states_of(admin, topic))[0].leader == 1
    absent = TopicPartition(topic, 9)
    results = await admin.elections.elect_preferred([first, second, absent], timeout_s=TIMEOUT_S)
    assert results[first].ok
    assert results[second].error_name == "ELECTION_NOT_NEEDED"
    assert results[absent].error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (await states_of(admin, topic))[0].leader == 2
    assert client.exists(ELECTION) is None


async def test_two_elections_are_not_held_at_once(zookeeper: ZooKeeperKafka) -> None:
    """Without a controller the znode stays: here, in a tree that has none."""
    with tree(zookeeper.server.address) as (connect, client):
        endpoint = "PLAINTEXT://127.0.0.1:1"
        broker = {"endpoints": [endpoint], "listener_security_protocol_map": {}, "version": 5}
        for number in (1, 2):
            client.create(f"/brokers/ids/{number}", jsoned(broker))
        client.create("/brokers/topics/t", jsoned({"version": 1, "partitions": {"0": [1, 2]}}))
        state = jsoned({"leader": 2, "isr": [1, 2], "version": 1})
        client.create("/brokers/topics/t/partitions/0/state", state, makepath=True)
        admin = await ZooKeeperAdmin.opened(settings_of(connect))
        try:
            one = TopicPartition("t", 0)
            late = await admin.elections.elect_preferred([one], timeout_s=0.3)
            assert late[one].error_name == "REQUEST_TIMED_OUT"
            assert unjsoned(client, ELECTION)["partitions"] == [{"topic": "t", "partition": 0}]
            with pytest.raises(Conflict, match="An election is already running"):
                await admin.elections.elect_preferred([one], timeout_s=0.3)
            lag = await lags_of(admin, one)
            assert set(lag.values()) == {-1}
        finally:
            await admin.close()


# What is not offered


async def test_what_zookeeper_cannot_do_is_refused_in_words(
    admin: ZooKeeperAdmin, zookeeper: ZooKeeperKafka
) -> None:
    topic = await topic_with(admin, "zk-refused", [[1, 2]])
    one = TopicPartition(topic, 0)
    with pytest.raises(NotSupported, match="there is no znode for it"):
        await admin.elections.elect_unclean([one], timeout_s=TIMEOUT_S)
    log_dirs = {(one, 1): str(zookeeper.log_dirs(1)[1])}
    with pytest.raises(NotSupported, match="only the broker itself"):
        await admin.reassignments.reassign({one: [1, 2]}, ReassignOptions(), log_dirs)
    with pytest.raises(NotSupported, match="--bootstrap-server"):
        await admin.alterations.alter({}, validate_only=True, timeout_s=TIMEOUT_S)
    with pytest.raises(NotSupported, match="shrinking topics"):
        await admin.partition_deletions.support(timeout_s=TIMEOUT_S)
    # What brokers are asked for is answered by them.
    dirs = await admin.logs.dirs(1, columns_of([one]), timeout_s=TIMEOUT_S)
    assert {one.path for one in dirs.dirs} == set(map(str, zookeeper.log_dirs(1)))

    async def told() -> bool:
        return await admin.configs.min_isr([topic], timeout_s=TIMEOUT_S) == {topic: 1}

    await wait_until_async(told, DEADLINE_S, "every broker knows the topic")
