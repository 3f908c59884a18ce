"""The admin on four clusters: what it reads, what it changes, and what it takes back.

The same body runs on the embedded cluster with the seeds' RPCs, on the embedded cluster without
them, on real Kafka, and on real Kafka that is reached through ZooKeeper.
What differs is in one table, `tests.support.clusters.DIFFERENCES`.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import BrokerUnreachable, NotSupported
from kshunt.backend.wire import kip_requests
from tests.support.admin import (
    DEADLINE_S,
    NO_RATE,
    NOWHERE,
    TIMEOUT_S,
    claimed_lags,
    lags_of,
    lists,
    misdirected,
    nothing_moves,
    replicas_become,
    states_of,
    topic_with,
    unthrottle,
)
from tests.support.clusters import (
    EVERY,
    ContractCluster,
    differs,
    flavours,
)
from tests.support.waiting import wait_until_async

# Also Kafka that is reached through ZooKeeper.
pytestmark = pytest.mark.parametrize("cluster", flavours(EVERY), indirect=True, scope="module")

RATE = 2_000_000


# Reading


async def test_a_topic_is_described_as_it_was_created(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "described", [[3, 1], [1, 2], [2, 3]])
    state = await admin.cluster.describe([topic, "no-such-topic"], timeout_s=TIMEOUT_S)
    assert state.topic_errors == {"no-such-topic": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert sorted(state.brokers) == list(cluster.broker_ids)
    assert state.brokers[2].rack == "rack-2"
    assert state.controller in cluster.broker_ids
    assert state.cluster_id == cluster.cluster_id
    found = await states_of(admin, topic)
    assert [found[p].replicas for p in sorted(found)] == [(3, 1), (1, 2), (2, 3)]
    assert all(set(f.isr) == set(f.replicas) and f.leader == f.replicas[0] for f in found.values())
    assert topic in (await admin.cluster.describe(timeout_s=TIMEOUT_S)).assignment.topics


async def test_log_end_offsets_are_each_brokers_own(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "offsets", [[1, 2]], records=50)
    asked = columns_of([TopicPartition(topic, 0), TopicPartition("no-such-topic", 7)])
    for broker, offset, code in ((1, 50, 0), (2, 50, 0), (3, -1, 6)):
        found = await admin.logs.end_offsets(broker, asked, timeout_s=TIMEOUT_S)
        row = asked.topics.index(topic)
        assert (found.log_end_offset[row], found.error_code[row]) == (offset, code)
        assert (found.log_end_offset[1 - row], found.error_code[1 - row]) == (-1, 3)


async def test_log_dirs_have_sizes_and_volumes(cluster: ContractCluster, admin: Reached) -> None:
    topic = await topic_with(admin, "disks", [[2], [3]], records=100)
    everything = await admin.logs.dirs(2, timeout_s=TIMEOUT_S)
    assert {d.path for d in everything.dirs} == set(cluster.dirs[2])
    assert all(0 < d.usable_bytes <= d.total_bytes for d in everything.dirs)
    only = await admin.logs.dirs(2, columns_of([TopicPartition(topic, 0)]), timeout_s=TIMEOUT_S)
    assert (only.topics, len(only.partition)) == ((topic,), 1)
    assert only.size_bytes[0] > 100_000
    none = await admin.logs.dirs(2, columns_of([]), timeout_s=TIMEOUT_S)
    assert len(none.dirs) == 2
    assert len(none.partition) == 0


async def test_a_broker_that_does_not_exist_is_unreachable(admin: Reached) -> None:
    with pytest.raises(BrokerUnreachable, match="Broker 99"):
        await admin.logs.dirs(NOWHERE, timeout_s=TIMEOUT_S)
    throttles = await admin.throttles.describe([1, NOWHERE], [], timeout_s=TIMEOUT_S)
    assert throttles.unknown_brokers == (NOWHERE,)


@pytest.mark.conforms("kip-179:replicas-read")
async def test_many_topics_are_read_in_chunks(
    cluster: ContractCluster, admin: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshunt.backend.admin.rpc.config_reads.TOPICS_PER_REQUEST", 2)
    topics = [await topic_with(admin, "chunk", [[1]]) for _ in range(5)]
    wanted = {topic: lists("0:1", "*") for topic in topics}
    written = await admin.throttles.alter_replicas(wanted, validate_only=False, timeout_s=TIMEOUT_S)
    assert all(result.ok for result in written.values())
    read = await admin.throttles.describe([], [*topics, "no-such-topic"], timeout_s=TIMEOUT_S)
    assert read.replicas == wanted


# Throttles


@pytest.mark.conforms(
    "kip-179:rates-read",
    "kip-179:rates-by-role",
    "kip-179:replicas-leaders",
    "kip-179:replicas-followers",
)
async def test_throttles_are_written_item_by_item(cluster: ContractCluster, admin: Reached) -> None:
    topic = await topic_with(admin, "throttled", [[1, 2]])
    rates = {1: ThrottledRate(RATE, None), NOWHERE: ThrottledRate(RATE, RATE)}
    brokers = await admin.throttles.alter_rates(
        rates, log_dir_rates={1: RATE}, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert brokers[1].ok
    assert brokers[NOWHERE].error_name == "BROKER_NOT_AVAILABLE"
    topics = await admin.throttles.alter_replicas(
        {topic: lists("0:1", "0:2"), "no-such-topic": lists("0:1", "")},
        validate_only=False,
        timeout_s=TIMEOUT_S,
    )
    assert topics[topic].ok
    assert topics["no-such-topic"].error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    # Read immediately: what was written is there when the call returns.
    read = await admin.throttles.describe([1, 2], [topic], timeout_s=TIMEOUT_S)
    assert read.rates[1].rate == ThrottledRate(RATE, None)
    assert read.rates[1].log_dir_bytes_per_s == RATE
    assert read.rates[2].rate == NO_RATE
    assert read.replicas == {topic: lists("0:1", "0:2")}
    await admin.throttles.alter_replicas(
        {topic: lists("", "")}, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert (await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)).replicas == {}


@pytest.mark.conforms("kip-179:validate-only")
async def test_validation_alone_writes_nothing(cluster: ContractCluster, admin: Reached) -> None:
    topic = await topic_with(admin, "validated", [[1]])
    brokers = await admin.throttles.alter_rates(
        {1: ThrottledRate(RATE, RATE)}, validate_only=True, timeout_s=TIMEOUT_S
    )
    topics = await admin.throttles.alter_replicas(
        {topic: lists("0:1", "")}, validate_only=True, timeout_s=TIMEOUT_S
    )
    plan = {TopicPartition(topic, 0): [2]}
    options = ReassignOptions(throttle_bytes_per_s=RATE, validate_only=True)
    outcome = await admin.reassignments.reassign(plan, options, {})
    assert brokers[1].ok
    assert topics[topic].ok
    assert outcome.results[TopicPartition(topic, 0)].ok
    read = await admin.throttles.describe([1, 2], [topic], timeout_s=TIMEOUT_S)
    assert read.replicas == {}
    assert {throttle.rate for throttle in read.rates.values()} == {NO_RATE}
    assert (await states_of(admin, topic))[0].replicas == (1,)


# Reassignments


@pytest.mark.slow
@pytest.mark.conforms("kip-179:progress-by-log-dirs")
async def test_lag_falls_to_zero_while_the_log_dirs_claim_there_is_none(
    cluster: ContractCluster, admin: Reached
) -> None:
    records = 20_000
    topic = await topic_with(admin, "lag", [[1, 2]], records=records)
    partition = TopicPartition(topic, 0)
    outcome = await admin.reassignments.reassign(
        {partition: [1, 3]}, ReassignOptions(throttle_bytes_per_s=RATE), {}
    )
    assert outcome.results[partition].ok
    assert {broker for broker, r in outcome.throttled_brokers.items() if r.ok} == {1, 2, 3}
    seen: list[int] = []
    claimed: set[int] = set()

    async def caught_up() -> bool:
        lag = (await lags_of(admin, partition)).get(3, -1)
        if 0 < lag < records:
            claimed.update(await claimed_lags(admin, 3, partition))
        if lag >= 0 and lag not in seen[-1:]:
            seen.append(lag)
        return lag == 0

    await wait_until_async(caught_up, 2 * DEADLINE_S, "broker 3 has caught up")
    between = [lag for lag in seen if 0 < lag < records]
    assert len(between) >= 3
    assert seen == sorted(seen, reverse=True)
    # A broker reads the log's end first and the high watermark after it. A batch that is appended
    # in between looks like a lag, so only the least of its claims counts.
    assert min(claimed) == 0
    await replicas_become(admin, partition, (1, 3))


async def test_a_plan_with_a_mistake_changes_nothing(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "mistake", [[1, 2], [2, 3], [1, 2]])
    sound, rf, stranger, absent = (
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
        TopicPartition(topic, 2),
        TopicPartition(topic, 3),
    )
    plan = {sound: [1, 3], rf: [2], stranger: [1, NOWHERE], absent: [1]}
    options = ReassignOptions(
        throttle_bytes_per_s=RATE, allow_replication_factor_change=False, all_or_nothing=True
    )
    outcome = await admin.reassignments.reassign(plan, options, {})
    assert {p: r.error_name for p, r in outcome.results.items()} == {
        sound: "OPERATION_NOT_ATTEMPTED",
        rf: "INVALID_REPLICATION_FACTOR",
        stranger: "INVALID_REPLICA_ASSIGNMENT",
        absent: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert str(NOWHERE) in outcome.results[stranger].message
    assert not outcome.throttled_brokers
    assert not outcome.throttled_topics
    read = await admin.throttles.describe([1, 2, 3], [topic], timeout_s=TIMEOUT_S)
    assert read.replicas == {}
    assert {throttle.rate for throttle in read.rates.values()} == {NO_RATE}
    assert not await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)


async def test_a_move_is_cancelled_and_says_when_there_is_none(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "cancel", [[1, 2], [1, 2]], records=20_000)
    moving, resting = TopicPartition(topic, 0), TopicPartition(topic, 1)
    options = ReassignOptions(throttle_bytes_per_s=100_000)
    assert (await admin.reassignments.reassign({moving: [2, 3]}, options, {})).results[moving].ok
    ongoing = (await admin.reassignments.ongoing(timeout_s=TIMEOUT_S))[moving]
    assert ongoing.target == (2, 3)
    # Kafka puts the target first, so the order of the original replicas is lost.
    assert ongoing.original == (2, 1)
    results = await admin.reassignments.alter(
        dict.fromkeys([moving, resting, TopicPartition(topic, 9)]), timeout_s=TIMEOUT_S
    )
    if not differs("cancels moves", cluster):
        assert {result.error_name for result in results.values()} == {"UNSUPPORTED_VERSION"}
        await unthrottle(admin, cluster.broker_ids)
        await replicas_become(admin, moving, (2, 3))
        return
    assert results[moving].ok
    assert results[resting].error_name == "NO_REASSIGNMENT_IN_PROGRESS"
    assert results[TopicPartition(topic, 9)].error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    await replicas_become(admin, moving, (2, 1))


async def test_a_second_plan_is_throttled_and_says_what_a_cancellation_leaves(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "second", [[1]], records=20_000)
    partition = TopicPartition(topic, 0)
    options = ReassignOptions(throttle_bytes_per_s=100_000)
    await admin.reassignments.reassign({partition: [2]}, options, {})
    outcome = await admin.reassignments.reassign({partition: [3]}, options, {})
    if not differs("replaces a move that runs", cluster):
        assert outcome.results[partition].error_name == "REASSIGNMENT_IN_PROGRESS"
        left = await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)
        assert left.replicas == {topic: lists("0:1", "0:2")}
        await unthrottle(admin, cluster.broker_ids)
        await replicas_become(admin, partition, (2,))
        return
    assert "was moving to [2]" in outcome.results[partition].message
    read = await admin.throttles.describe([], [topic], timeout_s=TIMEOUT_S)
    assert read.replicas == {topic: lists("0:1", "0:2,0:3")}
    ongoing = (await admin.reassignments.ongoing(timeout_s=TIMEOUT_S))[partition]
    assert (ongoing.target, ongoing.original) == ((3,), (1, 2))
    await admin.reassignments.alter({partition: None}, timeout_s=TIMEOUT_S)
    await replicas_become(admin, partition, (1, 2))


async def test_a_refused_plan_leaves_the_throttles_as_they_were(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "refused", [[1, 2], [1, 2]])
    partition = TopicPartition(topic, 0)
    earlier = ThrottledRate(3_000_000, None)
    await admin.throttles.alter_rates(
        {1: earlier}, log_dir_rates={3: 4_000_000}, validate_only=False, timeout_s=TIMEOUT_S
    )
    await admin.throttles.alter_replicas(
        {topic: lists("1:2,1:1", "")}, validate_only=False, timeout_s=TIMEOUT_S
    )
    before = await admin.throttles.describe([1, 2, 3], [topic], timeout_s=TIMEOUT_S)
    options = ReassignOptions(throttle_bytes_per_s=RATE, log_dirs_throttle_bytes_per_s=RATE)
    path = cluster.dirs[3][0]
    asked = {partition: [1, 3]}, options, {(partition, 3): path}
    if not differs("moves between directories", cluster):
        with pytest.raises(NotSupported, match="moves between log directories"):
            await admin.reassignments.reassign(*asked)
        assert await admin.throttles.describe([1, 2, 3], [topic], timeout_s=TIMEOUT_S) == before
        return
    async with misdirected(cluster.bootstrap_servers, [partition]) as wrong:
        outcome = await wrong.reassign(*asked)
    assert outcome.results[partition].error_name == "INVALID_REPLICA_ASSIGNMENT"
    assert outcome.undone
    after = await admin.throttles.describe([1, 2, 3], [topic], timeout_s=TIMEOUT_S)
    assert after == before
    assert after.rates[1].rate == earlier
    assert after.rates[3].log_dir_bytes_per_s == 4_000_000


async def test_a_throttle_shrinks_to_what_was_accepted(
    cluster: ContractCluster, admin: Reached
) -> None:
    first = await topic_with(admin, "taken", [[1], [1]], records=20_000)
    other = await topic_with(admin, "not-taken", [[3]])
    accepted, refused = (
        TopicPartition(first, 0),
        [TopicPartition(first, 1), TopicPartition(other, 0)],
    )
    await admin.throttles.alter_replicas(
        {first: lists("1:3", "*")}, validate_only=False, timeout_s=TIMEOUT_S
    )
    options = ReassignOptions(throttle_bytes_per_s=100_000)
    if not differs("says which partitions it refuses", cluster):
        plan = {accepted: [2], refused[0]: [NOWHERE]}
        whole = replace(options, all_or_nothing=True)
        outcome = await admin.reassignments.reassign(plan, whole, {})
        assert not any(result.ok for result in outcome.results.values())
        read = await admin.throttles.describe([], [first, other], timeout_s=TIMEOUT_S)
        assert read.replicas == {first: lists("1:3", "*")}
        return
    plan = {accepted: [2], refused[0]: [2], refused[1]: [2]}
    async with misdirected(cluster.bootstrap_servers, refused) as wrong:
        outcome = await wrong.reassign(plan, options, {})
    assert [outcome.results[p].ok for p in plan] == [True, False, False]
    assert not outcome.undone
    read = await admin.throttles.describe([1, 2, 3], [first, other], timeout_s=TIMEOUT_S)
    assert read.replicas == {first: lists("0:1,1:3", "*")}
    assert [read.rates[b].rate.leader_bytes_per_s for b in (1, 2, 3)] == [100_000, 100_000, None]
    await admin.reassignments.alter({accepted: None}, timeout_s=TIMEOUT_S)
    await nothing_moves(admin, first)


async def test_a_throttle_goes_by_itself_only_where_the_controller_is_the_seeds(
    cluster: ContractCluster, admin: Reached
) -> None:
    version = await admin.cluster.highest_version(
        kip_requests.REASSIGN_PARTITIONS_KEY, timeout_s=TIMEOUT_S
    )
    assert (version >= 0) == differs("speaks the seeds", cluster)
    topic = await topic_with(admin, "by-itself", [[1, 2]], records=100)
    partition = TopicPartition(topic, 0)
    options = ReassignOptions(throttle_bytes_per_s=RATE)
    outcome = await admin.reassignments.reassign({partition: [1, 3]}, options, {})
    assert outcome.results[partition].ok
    assert outcome.throttled_topics[topic].ok
    await nothing_moves(admin, topic)
    left = await admin.throttles.describe([1, 2, 3], [topic], timeout_s=TIMEOUT_S)
    goes = differs("throttle goes by itself", cluster)
    assert (left.replicas == {}) == goes
    assert ({throttle.rate for throttle in left.rates.values()} == {NO_RATE}) == goes


@pytest.mark.conforms("kip-183:partition-result")
async def test_only_new_leaders_are_a_success_of_an_election(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "no-election", [[1, 2]])
    everything = await admin.elections.elect_preferred(None, timeout_s=TIMEOUT_S)
    assert TopicPartition(topic, 0) not in {p for p, result in everything.items() if result.ok}


# Log directories


async def test_replicas_move_to_the_directories_they_are_sent_to(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "dirs", [[1, 2]], records=5_000)
    partition = TopicPartition(topic, 0)
    here = await admin.logs.dirs(1, columns_of([partition]), timeout_s=TIMEOUT_S)
    paths = [log_dir.path for log_dir in here.dirs]
    elsewhere = paths[1 - int(here.dir_index[0])]
    wanted = {(partition, 1): elsewhere, (partition, 3): cluster.dirs[3][1]}
    if not differs("moves between directories", cluster):
        with pytest.raises(NotSupported, match="moves between log directories"):
            await admin.reassignments.reassign({partition: [1, 3]}, ReassignOptions(), wanted)
        return
    outcome = await admin.reassignments.reassign({partition: [1, 3]}, ReassignOptions(), wanted)
    assert outcome.results[partition].ok
    assert all(result.ok for result in outcome.log_dir_results.values())
    assert outcome.log_dir_results.keys() == wanted.keys()

    async def there() -> bool:
        places = []
        for (_, broker), path in wanted.items():
            found = await admin.logs.dirs(broker, columns_of([partition]), timeout_s=TIMEOUT_S)
            now = [found.dirs[int(index)].path for index in found.dir_index]
            places.append(now == [path])
        return all(places)

    await wait_until_async(there, DEADLINE_S, "both replicas are where they were sent")


async def test_a_directory_that_does_not_exist_stops_the_plan(
    cluster: ContractCluster, admin: Reached, tmp_path: Path
) -> None:
    topic = await topic_with(admin, "no-dir", [[1]])
    partition = TopicPartition(topic, 0)
    asked = {partition: [2]}, ReassignOptions(), {(partition, 2): str(tmp_path)}
    if not differs("moves between directories", cluster):
        with pytest.raises(NotSupported, match="moves between log directories"):
            await admin.reassignments.reassign(*asked)
        return
    outcome = await admin.reassignments.reassign(*asked)
    assert outcome.results[partition].error_name == "LOG_DIR_NOT_FOUND"
    assert (await states_of(admin, topic))[0].replicas == (1,)


# Elections


@pytest.mark.conforms("kip-183:elect")
async def test_the_preferred_replica_is_elected(cluster: ContractCluster, admin: Reached) -> None:
    topic = await topic_with(admin, "election", [[1, 2], [2, 1], [3, 1]])
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    absent = TopicPartition(topic, 9)
    # The order of the replicas changes, and with it who is preferred; the leader does not.
    reordered = await admin.reassignments.reassign({first: [2, 1]}, ReassignOptions(), {})
    assert reordered.results[first].ok
    await replicas_become(admin, first, (2, 1))
    assert (await states_of(admin, topic))[0].leader == 1
    results = await admin.elections.elect_preferred([first, second, absent], timeout_s=TIMEOUT_S)
    assert results[first].ok
    assert results[second].error_name == "ELECTION_NOT_NEEDED"
    assert results[absent].error_name == "UNKNOWN_TOPIC_OR_PARTITION"

    async def led_by(broker: int) -> bool:
        return (await states_of(admin, topic))[0].leader == broker

    await wait_until_async(lambda: led_by(2), DEADLINE_S, "broker 2 leads")
    await admin.reassignments.reassign({first: [1, 2]}, ReassignOptions(), {})
    await replicas_become(admin, first, (1, 2))
    everything = await admin.elections.elect_preferred(None, timeout_s=TIMEOUT_S)
    assert everything[first].ok
    await wait_until_async(lambda: led_by(1), DEADLINE_S, "broker 1 leads")


@pytest.mark.conforms("kip-179-early-draft:status-fields", "kip-179-early-draft:status-time")
async def test_a_status_says_when_it_was_so(admin: Reached) -> None:
    partition = TopicPartition(await topic_with(admin, "status", [[1, 2, 3]]), 0)
    alone = TopicPartition(await topic_with(admin, "status", [[2]]), 0)

    async def told() -> dict[tuple[TopicPartition, int], int]:
        status = await admin.replicas.status([partition, alone], timeout_s=TIMEOUT_S)
        assert all(lag.result.ok and lag.lag_messages == 0 for lag in status)
        return {(lag.partition, lag.broker): lag.status_ms for lag in status}

    first, second = await told(), await told()
    assert first.keys() == {(partition, 1), (partition, 2), (partition, 3), (alone, 2)}
    assert all(0 < first[replica] <= second[replica] for replica in first)
