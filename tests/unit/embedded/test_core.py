"""The cluster without sockets: moves end, throttles go, brokers fall and return, time is exact."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.elections import elect_leaders
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.controller.throttled_reassign import reassign_partitions
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics, delete_topics
from kshunt.backend.embedded.core.cluster_core import ControllerLost
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import PartitionModeCode, Record, ResourceType, encode
from tests.support.embedded.core import MB, SmallCluster, check_plane
from tests.support.runs.examples import many

T, B = ResourceType.TOPIC, ResourceType.BROKER


@pytest.fixture
def cluster() -> SmallCluster:
    made = SmallCluster()
    made.start()
    made.create("t", [1, 2], [2, 3])
    return made


@pytest.mark.conforms("kip-179:throttle-approximate")
def test_a_throttled_move_takes_its_time_and_its_throttle_goes_with_it(
    cluster: SmallCluster,
) -> None:
    cluster.fill("t", 100 * MB)
    cluster.move("t", 0, 2, 4, throttle_bytes_per_s=10 * MB)
    assert cluster.image.dynamic_configs(T, "t")
    assert cluster.image.dynamic_configs(B, "4")
    cluster.pass_s(9.5)
    assert cluster.image.is_moving
    assert cluster.end("t", 4) == pytest.approx(95_000, rel=0.01)
    cluster.pass_s(1)
    assert cluster.at("t").replicas == (2, 4)
    assert set(cluster.at("t").isr) == {2, 4}
    assert not cluster.image.dynamic_configs(T, "t")
    assert not cluster.image.dynamic_configs(B, "4")
    check_plane(cluster)


def test_a_throttle_under_the_produce_rate_never_lets_the_move_end(cluster: SmallCluster) -> None:
    cluster.fill("t", 10 * MB, rate_bytes_per_s=2 * MB)
    cluster.move("t", 0, 2, 4, throttle_bytes_per_s=1 * MB)
    cluster.pass_s(3600)
    assert cluster.image.is_moving
    behind = cluster.end("t", 2) - cluster.end("t", 4)
    # The in-sync follower's bytes count against the leader's throttle, and leave nothing of it.
    assert behind == pytest.approx(10_000 + 3600 * 2_000, rel=0.01)


def test_a_broker_that_hangs_leaves_the_isr_and_comes_back(cluster: SmallCluster) -> None:
    cluster.fill("t", MB, rate_bytes_per_s=MB)
    cluster.core.lose_broker(2, stalled=True)
    cluster.pass_s(8)
    assert cluster.at("t", 1).leader == 2, "its session has not ended"
    cluster.pass_s(2)
    assert cluster.at("t", 1).leader == 3
    assert cluster.at("t", 0).isr == (1,)
    cluster.core.resume_broker(2)
    cluster.pass_s(5)
    assert set(cluster.at("t", 0).isr) == {1, 2}
    check_plane(cluster)


def test_a_short_hang_changes_nothing(cluster: SmallCluster) -> None:
    cluster.core.lose_broker(2, stalled=True)
    cluster.pass_s(5)
    cluster.core.resume_broker(2)
    epoch = cluster.at("t", 1).leader_epoch
    cluster.pass_s(20)
    assert cluster.at("t", 1).leader == 2
    assert cluster.at("t", 1).leader_epoch == epoch


def test_a_slow_follower_leaves_the_isr_after_the_lag_time(cluster: SmallCluster) -> None:
    cluster.fill("t", MB, rate_bytes_per_s=MB)
    cluster.plane.set_link(1, 2, 1_000.0)
    cluster.pass_s(29)
    assert set(cluster.at("t").isr) == {1, 2}
    cluster.pass_s(30)
    assert cluster.at("t").isr == (1,)
    cluster.plane.set_link(1, 2, float("inf"))
    cluster.pass_s(10)
    assert set(cluster.at("t").isr) == {1, 2}


def test_an_unclean_leader_cuts_the_log(cluster: SmallCluster) -> None:
    for _ in range(10):
        cluster.write("t", 10)
    cluster.pass_s(1)
    cluster.core.lose_broker(2)
    cluster.pass_s(10)
    cluster.write("t", 50)
    assert cluster.end("t", 1) == 150
    cluster.core.lose_broker(1)
    cluster.restart(2)
    cluster.pass_s(10)
    assert cluster.at("t").leader == -1
    cluster.set(T, "t", unclean_leader_election_enable="true")
    cluster.restart(2)
    assert cluster.at("t").leader == 2
    held = cluster.held("t")
    assert cluster.plane.log(held).end_offset == 100
    assert cluster.write("t", 1) == 100
    cluster.restart(1)
    cluster.pass_s(1)
    assert cluster.end("t", 1) == 101
    check_plane(cluster)


def test_a_dead_disk_stops_its_replicas_only(cluster: SmallCluster) -> None:
    cluster.create("u", [1, 2], [1, 2])
    dirs = {number: cluster.at("u", number).log_dir(1) for number in (0, 1)}
    assert dirs[0] != dirs[1]
    cluster.core.fail_log_dir(1, dirs[0])
    assert cluster.at("u", 0).leader == 2
    assert cluster.at("u", 1).leader == 1
    assert cluster.plane.is_up(1)
    cluster.core.fail_log_dir(1, dirs[1])
    assert not cluster.plane.is_up(1), "no directory is left"
    assert cluster.image.controller != 1
    check_plane(cluster)


def test_replicas_move_between_directories(cluster: SmallCluster) -> None:
    cluster.fill("t", 100 * MB)
    held, old = cluster.held("t"), cluster.at("t").log_dir(1)
    [new] = {"/d1", "/d2"} - {old}
    cluster.set(B, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(10 * MB))
    cluster.plane.move_log_dir(held, 1, new)
    cluster.pass_s(9)
    assert cluster.at("t").log_dir(1) == old
    cluster.pass_s(2)
    assert cluster.at("t").log_dir(1) == new
    check_plane(cluster)


@pytest.mark.conforms("kip-179:auto-leader-rebalance")
def test_preferred_leaders_lead_again_by_themselves(cluster: SmallCluster) -> None:
    cluster.core.stop_broker(1)
    assert cluster.at("t").leader == 2
    cluster.restart(1)
    cluster.pass_s(299)
    assert cluster.at("t").leader == 2
    cluster.pass_s(2)
    assert cluster.at("t").leader == 1


def test_retention_takes_the_front(cluster: SmallCluster) -> None:
    cluster.set(T, "t", retention_bytes=str(10 * MB))
    cluster.fill("t", 100 * MB)
    cluster.pass_s(301)
    held = cluster.held("t")
    assert cluster.plane.log_start_offset(held) == pytest.approx(90_000, abs=2)
    assert cluster.end("t", 2) == 100_000


def test_counters_become_records_with_the_time_at_which_they_were_written(
    cluster: SmallCluster,
) -> None:
    cluster.fill("t", 0, rate_bytes_per_s=10_000)
    cluster.pass_s(10)
    log = cluster.plane.log(cluster.held("t"))
    assert log.end_offset == 100
    cluster.write("t", 3)
    cluster.pass_s(10)
    log = cluster.plane.log(cluster.held("t"))
    assert log.end_offset == 203
    found = log.offset_since(15_000)
    assert found is not None
    assert found.offset == pytest.approx(153, abs=2)


@pytest.mark.conforms("kip-179:failover-idle")
@pytest.mark.parametrize("written", range(0, 12))
def test_a_controller_that_crashes_in_a_move_leaves_no_throttle_behind(written: int) -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", [1, 2], [2, 3])
    cluster.fill("t", 10 * MB)
    decision = reassign_partitions(
        cluster.image,
        {TopicPartition("t", 0): [2, 4]},
        throttle_bytes_per_s=MB,
    )
    assert len(decision.records) > 8
    cluster.core.lose_controller(min(written, len(decision.records)))
    before = cluster.image.controller
    with pytest.raises(ControllerLost):
        cluster.core.commit(decision)
    assert cluster.image.controller != before
    if not cluster.image.is_moving:
        assert _throttles(cluster.image) == {}, "removed at once: nothing moves"
    cluster.pass_s(60)
    assert not cluster.image.is_moving
    assert _throttles(cluster.image) == {}
    assert cluster.image.rates_removal == ()
    assert cluster.image.replicas_removal == ()
    check_plane(cluster)


@pytest.mark.conforms("kip-179:failover-moving")
def test_a_failover_in_a_move_leaves_it_and_its_throttle_alone(cluster: SmallCluster) -> None:
    cluster.fill("t", 100 * MB)
    cluster.move("t", 0, 2, 4, throttle_bytes_per_s=10 * MB)
    throttles = _throttles(cluster.image)
    cluster.pass_s(5)
    cluster.core.fail_over()
    assert _throttles(cluster.image) == throttles
    cluster.pass_s(6)
    assert _throttles(cluster.image) == {}


def _throttles(image: ClusterImage) -> dict[str, dict[str, str]]:
    found = {f"topic {name}": dict(image.dynamic_configs(T, name)) for name in image.topics}
    found |= {f"broker {b}": dict(image.dynamic_configs(B, str(b))) for b in image.brokers}
    return {name: values for name, values in found.items() if values}


@pytest.mark.conforms("kip-694:becomes-read-only")
def test_a_shrink_goes_through_its_modes_and_waits_for_a_broker_that_is_down(
    cluster: SmallCluster,
) -> None:
    cluster.set(B, "", delete_topic_partition_enable="true")
    cluster.set(B, "", delete_topic_partition_interval_delay_ms="5000")
    image = cluster.image
    cluster.core.commit(delete_partitions(image, {"t": 1}, cluster.core.now_ms, delay_ms=20_000))
    assert cluster.at("t", 1).mode is PartitionModeCode.READ_ONLY
    cluster.core.lose_broker(3)
    cluster.pass_s(30)
    assert cluster.at("t", 1).mode is PartitionModeCode.NONE
    assert image.partition("t", 1) is not None, "broker 3 has not deleted its replica"
    check_plane(cluster)
    cluster.core.fail_over()
    cluster.restart(3)
    cluster.pass_s(20)
    assert image.partition("t", 1) is None
    check_plane(cluster)


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def commit(self, records: Sequence[Record]) -> int:
        self.records += records
        return len(self.records)


def _run(seed: int) -> tuple[list[bytes], dict[str, np.ndarray]]:
    store = Kept()
    cluster = SmallCluster(6, seed=seed, store=store)
    cluster.start()
    rng = np.random.default_rng(seed)
    for name in ("a", "b"):
        cluster.create(name, *([int(b) for b in rng.permutation(6)[:3] + 1] for _ in range(8)))
        cluster.fill(name, float(rng.uniform(10, 90)) * MB, rate_bytes_per_s=50_000)
    for number in range(8):
        target = [int(b) for b in rng.permutation(6)[:3] + 1]
        cluster.move("a", number, *target, throttle_bytes_per_s=5 * MB)
    cluster.core.at(30_000, lambda: cluster.core.lose_broker(3))
    cluster.core.at(70_000, lambda: cluster.restart(3))
    cluster.pass_s(300)
    table = cluster.plane.replication.replicas
    columns = {name: getattr(table, name).copy() for name in ("leo", "position", "in_isr")}
    return [encode(record) for record in store.records], columns


def test_the_same_seed_gives_the_same_run() -> None:
    records, columns = _run(5)
    again, same = _run(5)
    other, _ = _run(6)
    assert records == again
    assert all(np.array_equal(columns[name], same[name]) for name in columns)
    assert records != other


STEPS = ("lose", "restart", "stall", "resume", "disk", "move", "cancel", "elect", "drop", "time")
step = st.tuples(
    st.sampled_from(STEPS),
    st.integers(1, 4),
    st.integers(0, 1),
    st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True),
)


@settings(max_examples=many(60), deadline=None)
@given(st.lists(step, max_size=12))
def test_the_data_follows_whatever_happens(
    steps: list[tuple[str, int, int, list[int]]],
) -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", [1, 2], [2, 3])
    cluster.fill("t", 20 * MB, rate_bytes_per_s=100_000)
    for name, broker, number, target in steps:
        _take(cluster, name, broker, number, target)
        check_plane(cluster)
        cluster.pass_s(4)
        check_plane(cluster)


def _take(cluster: SmallCluster, name: str, broker: int, number: int, target: list[int]) -> None:
    core, image, item = cluster.core, cluster.image, TopicPartition("t", number)
    if name == "lose":
        core.lose_broker(broker)
    elif name == "stall":
        core.lose_broker(broker, stalled=True)
    elif name == "restart":
        cluster.restart(broker)
    elif name == "resume" and not cluster.plane.is_up(broker):
        core.resume_broker(broker)
    elif name == "disk":
        core.fail_log_dir(broker, "/d1")
    elif name == "move":
        core.commit(alter_partition_reassignments(image, {item: target}))
    elif name == "cancel":
        core.commit(alter_partition_reassignments(image, {item: None}))
    elif name == "elect":
        core.commit(elect_leaders(image, None))
    elif name == "drop" and broker == 1:
        core.commit(delete_topics(image, ["t"]))
        new = NewTopic("t", assignments={0: target, 1: target[::-1]})
        core.commit(create_topics(image, [new], core.random))
    elif name == "time":
        cluster.pass_s(40)


def test_a_move_that_adds_nothing_is_over_at_once(cluster: SmallCluster) -> None:
    cluster.move("t", 0, 2, 1)
    assert cluster.at("t").replicas == (2, 1)
    assert not cluster.image.is_moving
    assert dataclasses.asdict(cluster.at("t"))["adding"] == ()
