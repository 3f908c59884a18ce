"""Replication in columns: conservation laws, throttles, the ISR, and steps of any length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.embedded.replication.columns import (
    NOWHERE,
    BrokerState,
    CaughtUp,
    Event,
    IsrExpand,
    IsrShrink,
    LogDirMoveDone,
)
from kshunt.backend.embedded.replication.model import LAG_TIME_MAX_MS, Replication
from kshunt.backend.errors import Conflict
from tests.support.runs.examples import many

MB = 1_000_000.0
RECORD = 100.0
NIC = 100 * MB
NEVER_MS = 10**9
"""As replica.lag.time.max.ms: nobody leaves the ISR on the edge of a second."""
LOOK_S = 2
"""How often the laws are looked at."""


def run(
    sim: Replication, until_ms: int, step_ms: int | None = None, *, obey: bool = True
) -> list[Event]:
    """Advance to a time; if `obey`, decide every proposal as the leader wants it."""
    seen: list[Event] = []
    while sim.now_ms < until_ms:
        events = sim.tick(until_ms, step_ms)
        seen += events
        for event in events if obey else ():
            if isinstance(event, IsrExpand | IsrShrink):
                sim.set_isr([event.replica], isinstance(event, IsrExpand))
    return seen


@dataclass(frozen=True)
class Topic:
    """Partitions that all look alike."""

    hosts: tuple[int, ...]
    """The first one leads."""
    size: float = 0.0
    rate: float = 0.0
    partitions: int = 1


def cluster(
    brokers: int, *topics: Topic, disk: float = math.inf, lag_time_max_ms: int = LAG_TIME_MAX_MS
) -> Replication:
    """Brokers with two directories each; directory 2 b is the first of broker b."""
    sim = Replication(0, lag_time_max_ms=lag_time_max_ms)
    for broker in range(brokers):
        assert sim.add_broker(NIC, NIC) == broker
        sim.add_log_dir(broker, disk)
        sim.add_log_dir(broker, disk)
    for topic in topics:
        rows = sim.add_partitions(topic.partitions)
        for place, host in enumerate(topic.hosts):
            replicas = sim.add_replicas(
                rows,
                host,
                2 * host,
                offsets=topic.size / RECORD,
                positions=topic.size,
                in_isr=True,
            )
            if place == 0:
                sim.set_leaders(rows, replicas)
        sim.set_rates(rows, topic.rate, topic.rate / RECORD)
    return sim


def at(events: list[Event], kind: type[Event]) -> list[int]:
    """When events of a kind happened, milliseconds."""
    return [event.at_ms for event in events if isinstance(event, kind)]


def test_an_unthrottled_copy_takes_the_network_it_has() -> None:
    sim = cluster(3, Topic((0, 1), size=1_000 * MB))
    (added,) = sim.add_replicas([0], 2, 4)
    events = run(sim, 60_000)
    assert events == [CaughtUp(10_000, 0, added, 2), IsrExpand(10_000, 0, added, 2)]
    assert sim.log_end_offsets().tolist() == [10_000_000] * 3
    assert sim.sizes().tolist() == [1_000 * MB] * 3
    assert sim.steps <= 3


@pytest.mark.conforms("kip-179:throttle-approximate")
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_takes_bytes_by_throttle(side: str) -> None:
    sim = cluster(3, Topic((0, 1), size=500 * MB, partitions=4))
    added = sim.add_replicas(range(4), 2, 4)
    sim.set_throttled(range(len(sim.replicas)), leader=True, follower=True)
    rates = {"leader": math.inf, "follower": math.inf, side: 5 * MB}
    for broker in range(3):
        sim.set_throttle_rates(broker, **rates)
    events = run(sim, 1_000_000)
    assert at(events, CaughtUp) == pytest.approx([400_000] * 4, rel=0.01)
    assert sim.replicas.in_isr[added].all()


@pytest.mark.conforms("kip-179:rates-need-replicas")
def test_only_listed_replicas_are_throttled() -> None:
    sim = cluster(4, Topic((0, 1), size=100 * MB))
    listed, free = (int(sim.add_replicas([0], host, 2 * host)[0]) for host in (2, 3))
    sim.set_throttled([listed], follower=True)
    for broker in range(4):
        sim.set_throttle_rates(broker, follower=1 * MB, leader=1 * MB)
    done = {e.replica: e.at_ms for e in run(sim, 200_000) if isinstance(e, CaughtUp)}
    assert done[free] == pytest.approx(1_010, rel=0.02)
    assert done[listed] == pytest.approx(100_000, rel=0.01)


@pytest.mark.parametrize("rate", [0.5 * MB, 1.0 * MB])
def test_a_throttle_below_the_produce_rate_never_catches_up(rate: float) -> None:
    sim = cluster(3, Topic((0, 1), size=50 * MB, rate=1 * MB))
    (added,) = sim.add_replicas([0], 2, 4)
    sim.set_throttled([added], follower=True)
    sim.set_throttle_rates(2, follower=rate)
    events = run(sim, 36_000_000)
    assert events == []
    gap = sim.replicas.position[0] - sim.replicas.position[added]
    assert gap == pytest.approx(50 * MB + (1 * MB - rate) * 36_000, rel=1e-6)
    sim.set_throttle_rates(2, follower=20 * MB)
    assert at(run(sim, 72_000_000), IsrExpand) != []


def test_in_sync_followers_are_not_throttled() -> None:
    sim = cluster(2, Topic((0, 1), rate=10 * MB))
    sim.set_throttled([0, 1], leader=True, follower=True)
    for broker in range(2):
        sim.set_throttle_rates(broker, 1 * MB, 1 * MB)
    assert run(sim, 600_000) == []
    assert sim.replicas.position[1] == sim.replicas.position[0] == pytest.approx(6_000 * MB)
    sim.append(0, 10, int(20 * MB))
    run(sim, 601_000)
    assert sim.replicas.position[1] == sim.replicas.position[0]


def test_in_sync_traffic_of_listed_replicas_uses_the_throttle_up() -> None:
    sim = cluster(3, Topic((0, 1), rate=2 * MB), Topic((0, 1), size=300 * MB))
    sim.add_replicas([1], 2, 4)
    sim.set_throttled([0, 2], leader=True)
    sim.set_throttle_rates(0, leader=3 * MB)
    assert at(run(sim, 600_000), CaughtUp) == pytest.approx([300_000], rel=0.01)


def test_equal_copies_share_a_network_equally_and_a_slow_one_leaves_the_rest() -> None:
    sim = cluster(4, Topic((0,), size=100 * MB, partitions=3))
    added = sim.add_replicas(range(3), [1, 2, 3])
    sim.set_link_rate(0, 3, 10 * MB)
    sim.tick(1)
    assert sim.replicas.rate[added].tolist() == pytest.approx([45 * MB, 45 * MB, 10 * MB])
    sim.set_link_rate(0, 3)
    sim.tick(2)
    assert sim.replicas.rate[added].tolist() == pytest.approx([NIC / 3] * 3)


def test_a_copy_may_take_a_busy_followers_share_but_not_a_modest_ones() -> None:
    sim = cluster(3, Topic((0, 1), rate=60 * MB), Topic((0, 1), rate=5 * MB))
    sim.add_partitions(1)
    leader = sim.add_replicas([2], 0, offsets=1e7, positions=1e9, in_isr=True)
    sim.set_leaders([2], leader)
    (added,) = sim.add_replicas([2], 1)
    sim.tick(1)
    rates = sim.replicas.rate
    assert [rates[1], rates[3], rates[added]] == pytest.approx([47.5 * MB, 5 * MB, 47.5 * MB])


def test_clients_get_no_more_than_the_leaders_network_and_disk() -> None:
    sim = cluster(2, Topic((0, 1), rate=80 * MB, partitions=2), disk=50 * MB)
    run(sim, 10_000)
    assert sim.replicas.position[:2].tolist() == pytest.approx([250 * MB] * 2)
    assert sim.replicas.leo[:2].tolist() == pytest.approx([250 * MB / RECORD] * 2)


def test_a_dead_brokers_replicas_stand_still_leave_the_isr_and_come_back() -> None:
    sim = cluster(3, Topic((0, 1, 2), rate=1 * MB))
    run(sim, 5_000)
    sim.set_broker_state(2, BrokerState.DOWN)
    events = run(sim, 100_000)
    assert [type(event) for event in events] == [IsrShrink]
    assert 5_000 + LAG_TIME_MAX_MS < events[0].at_ms <= 5_000 + 1.5 * LAG_TIME_MAX_MS
    assert sim.replicas.position[2] == pytest.approx(5 * MB)
    assert sim.high_watermarks().tolist() == [sim.log_end_offsets()[0]]
    sim.set_broker_state(2, BrokerState.UP)
    events = run(sim, 200_000)
    assert [type(event) for event in events] == [CaughtUp, IsrExpand]
    assert events[0].at_ms == pytest.approx(100_000 + 95 / 99 * 1_000, abs=150)
    assert sim.replicas.in_isr.all()


def test_a_proposal_is_made_once_until_it_is_answered() -> None:
    sim = cluster(2, Topic((0, 1), rate=1 * MB))
    sim.set_broker_state(1, BrokerState.STALLED)
    assert len(run(sim, 300_000, obey=False)) == 1
    sim.set_isr([1], True)
    assert len(run(sim, 600_000, obey=False)) == 1


def test_a_follower_two_seconds_behind_stays_in_the_isr() -> None:
    sim = cluster(2, Topic((0, 1), rate=10 * MB))
    sim.set_link_rate(0, 1, 5 * MB)
    run(sim, 4_000)
    sim.set_link_rate(0, 1, 10 * MB)
    assert run(sim, 300_000) == []
    assert sim.replicas.position[0] - sim.replicas.position[1] == pytest.approx(20 * MB)
    assert sim.high_watermarks()[0] == pytest.approx(sim.replicas.leo[1], abs=1)
    sim.set_link_rate(0, 1, 1 * MB)
    assert len(at(run(sim, 400_000), IsrShrink)) == 1


def test_a_follower_that_never_kept_up_leaves_the_isr() -> None:
    sim = cluster(2, Topic((0, 1), rate=10 * MB))
    sim.set_link_rate(0, 1, 1 * MB)
    assert len(at(run(sim, 100_000), IsrShrink)) == 1


def test_a_dead_follower_that_lacks_nothing_stays_in_the_isr() -> None:
    sim = cluster(2, Topic((0, 1)))
    run(sim, 100_000)
    sim.set_broker_state(1, BrokerState.DOWN)
    assert run(sim, 110_000) == []
    sim.append(0, 1, 100)
    (shrunk_ms,) = at(run(sim, 200_000), IsrShrink)
    assert 100_000 + LAG_TIME_MAX_MS < shrunk_ms <= 100_000 + 1.5 * LAG_TIME_MAX_MS
    idle = cluster(2, Topic((0, 1)))
    idle.set_broker_state(1, BrokerState.DOWN)
    assert run(idle, 3_600_000) == []


def test_a_dead_leader_stops_its_partition_until_another_leads() -> None:
    sim = cluster(3, Topic((0, 1, 2), rate=1 * MB))
    sim.set_link_rate(0, 2, 0.5 * MB)
    run(sim, 10_000)
    sim.set_broker_state(0, BrokerState.DOWN)
    assert run(sim, 100_000) == []
    assert sim.replicas.position.tolist() == pytest.approx([10 * MB, 10 * MB, 5 * MB])
    sim.set_leaders([0], [2])
    assert sim.replicas.position.tolist() == pytest.approx([5 * MB] * 3)
    run(sim, 110_000)
    assert sim.replicas.position[1] == sim.replicas.position[2] == pytest.approx(15 * MB)
    sim.set_leaders([0], [NOWHERE])
    run(sim, 120_000)
    assert sim.replicas.position[2] == pytest.approx(15 * MB)
    with pytest.raises(Conflict):
        sim.append(0, 1, 100)


def test_a_move_between_directories_is_limited_by_disk_and_throttle() -> None:
    sim = cluster(1, Topic((0,), size=100 * MB), disk=20 * MB)
    sim.move_log_dirs([0], [1])
    assert run(sim, 60_000) == [LogDirMoveDone(5_000, 0, 0, 0, 1)]
    assert sim.replicas.log_dir[0] == 1
    sim.set_throttle_rates(0, log_dirs=2 * MB)
    sim.move_log_dirs([0], [0])
    run(sim, 70_000)
    assert sim.replicas.moved[0] == pytest.approx(20 * MB)
    sim.move_log_dirs([0], [1])
    assert run(sim, 200_000) == []


def test_a_copy_between_directories_follows_a_log_that_grows() -> None:
    sim = cluster(1, Topic((0,), size=90 * MB, rate=1 * MB))
    sim.set_throttle_rates(0, log_dirs=10 * MB)
    sim.move_log_dirs([0], [1])
    assert at(run(sim, 60_000), LogDirMoveDone) == [10_000]


def test_replicas_in_a_failed_directory_stand_still() -> None:
    sim = cluster(2, Topic((0, 1), rate=1 * MB))
    sim.set_log_dir_online(2, online=False)
    run(sim, 10_000)
    assert sim.replicas.position.tolist() == pytest.approx([10 * MB, 0.0])


def test_logs_that_lose_their_front() -> None:
    sim = cluster(3, Topic((0, 1), size=100 * MB))
    (added,) = sim.add_replicas([0], 2, 4)
    sim.set_log_start([0], [600_000])
    assert sim.sizes().tolist() == pytest.approx([40 * MB, 40 * MB, 0])
    assert sim.log_end_offsets()[added] == 600_000
    assert at(run(sim, 60_000), CaughtUp) == pytest.approx([400], abs=1)
    sim.set_log_start([0], [100_000])
    assert sim.partitions.start_offset[0] == 600_000
    sim.retain([0], 10 * MB)
    assert sim.sizes().tolist() == pytest.approx([10 * MB] * 3)
    assert sim.partitions.start_offset[0] == pytest.approx(900_000)
    sim.set_leaders([0], [NOWHERE])
    sim.retain([0], 0.0)
    assert sim.sizes()[0] == pytest.approx(10 * MB)


def test_rows_are_given_back_and_handed_out_again() -> None:
    sim = cluster(3, Topic((0, 1), size=1 * MB, rate=1 * MB, partitions=2))
    sim.remove_partitions([0])
    assert sim.replicas.partition.tolist() == [NOWHERE, 1, NOWHERE, 1]
    assert sim.sizes().tolist() == [0, 1 * MB, 0, 1 * MB]
    assert sim.high_watermarks().tolist() == [-1, 10_000]
    run(sim, 1_000)
    assert sim.add_partitions(2).tolist() == [0, 2]
    assert sorted(sim.add_replicas([0, 2, 2], [0, 1, 2]).tolist()) == [0, 2, 4]
    sim.remove_replicas([1])
    assert sim.partitions.leader[1] == NOWHERE


@st.composite
def clusters(draw: st.DrawFn, lag_time_max_ms: int = LAG_TIME_MAX_MS) -> Callable[[], Replication]:
    """A way to make one and the same cluster with replicas behind, again and again."""
    brokers = draw(st.integers(2, 5))
    hosts = st.permutations(range(brokers)).map(tuple)
    topic = st.builds(
        Topic,
        hosts.map(lambda order: order[: max(1, brokers - 1)]),
        st.floats(0, 500 * MB),
        st.sampled_from([0.0, 1_000.0, 2 * MB, 30 * MB]),
        st.integers(1, 4),
    )
    topics = draw(st.lists(topic, min_size=1, max_size=4))
    throttles = draw(st.lists(st.sampled_from([0.0, 3 * MB, 40 * MB]), min_size=1, max_size=3))
    listed = draw(st.integers(0, 2**16))
    disk = draw(st.sampled_from([30 * MB, 400 * MB]))

    def make() -> Replication:
        sim = cluster(brokers, *topics, disk=disk, lag_time_max_ms=lag_time_max_ms)
        partitions = np.arange(len(sim.partitions))
        absent = [
            next(b for b in range(brokers) if b not in sim.replicas.broker[own])
            for own in (sim.replicas.partition == row for row in partitions)
        ]
        added = sim.add_replicas(partitions, absent, np.array(absent) * 2)
        rows = np.arange(len(sim.replicas))
        sim.set_throttled(rows, leader=(listed >> rows % 16) & 1, follower=True)
        for broker in range(brokers):
            rate = throttles[broker % len(throttles)]
            sim.set_throttle_rates(broker, rate, rate, 10 * MB)
        sim.move_log_dirs(added[:1], sim.replicas.log_dir[added[:1]] + 1)
        return sim

    return make


@settings(deadline=None)
@given(clusters(), st.sampled_from([None, 70, 1_000, 17_000]))
def test_nothing_is_created_lost_or_faster_than_its_limits(
    make: Callable[[], Replication], step_ms: int | None
) -> None:
    sim = make()
    table = sim.replicas
    followers = np.flatnonzero(sim.partitions.leader[table.partition] != np.arange(len(table)))
    throttles = sim.limits.capacity()[3 * sim.limits.brokers : 4 * sim.limits.brokers]
    for until_ms in range(1_000 * LOOK_S, 60_001, 1_000 * LOOK_S):
        before, (received, sent) = table.position.copy(), sim.traffic()
        outside = followers[~table.in_isr[followers]]
        run(sim, until_ms, step_ms)
        leaders = sim.partitions.leader[table.partition]
        assert (table.position <= table.position[leaders]).all()
        assert (table.leo <= table.leo[leaders]).all()
        assert (table.moved <= table.position).all()
        took, gave = (now - then for now, then in zip(sim.traffic(), (received, sent), strict=True))
        assert took.sum() == pytest.approx(gave.sum(), abs=1)
        grown = (table.position - before)[followers].sum()
        assert took.sum() == pytest.approx(grown, abs=1)
        assert (took <= NIC * LOOK_S * (1 + 1e-6) + 1).all()
        assert (gave <= NIC * LOOK_S * (1 + 1e-6) + 1).all()
        still = outside[~table.in_isr[outside]]
        throttled = np.bincount(
            table.broker[still], (table.position - before)[still], sim.limits.brokers
        )
        assert (throttled <= throttles * LOOK_S * (1 + 1e-6) + 1).all()


@settings(deadline=None, max_examples=many(30))
@given(clusters(lag_time_max_ms=NEVER_MS))
def test_long_steps_come_to_what_short_ones_come_to(make: Callable[[], Replication]) -> None:
    long, short = make(), make()
    run(long, 60_000)
    run(short, 60_000, step_ms=100)
    assert long.steps <= short.steps
    # A change of rates may be seen up to a grain later, at up to the rate of a network.
    assert long.replicas.position == pytest.approx(short.replicas.position, abs=0.5 * NIC)
    assert long.replicas.position.sum() == pytest.approx(short.replicas.position.sum(), rel=0.01)


@settings(deadline=None, max_examples=many(30))
@given(clusters())
def test_the_same_calls_give_the_same_bytes(make: Callable[[], Replication]) -> None:
    one, two = make(), make()
    assert run(one, 60_000) == run(two, 60_000)
    for name in one.replicas.DEFAULTS:
        assert getattr(one.replicas, name).tobytes() == getattr(two.replicas, name).tobytes()


def test_adaptive_steps_finish_when_fixed_ones_do() -> None:
    done = []
    for step_ms in (None, 50):
        topics = [Topic((0, 1), size=size * MB, rate=rate * MB) for size, rate in SHAPES]
        sim = cluster(3, *topics)
        sim.add_replicas(range(len(topics)), 2, 4)
        done.append(np.array(at(run(sim, 120_000, step_ms), CaughtUp)))
    assert len(done[0]) == len(SHAPES)
    assert done[0] == pytest.approx(done[1], rel=0.01, abs=150)


SHAPES = [(100, 0.0), (700, 1.0), (50, 4.0), (333, 0.5), (900, 0.0)]


def test_an_empty_cluster_and_a_partition_without_replicas_pass_time() -> None:
    sim = Replication(5)
    assert sim.tick(10) == []
    sim.add_partitions(3)
    sim.set_rates([0], 10.0, 1.0)
    assert (sim.tick(20), sim.now_ms) == ([], 20)
    assert sim.high_watermarks().tolist() == [-1] * 3


def test_a_produced_batch_reaches_its_followers_within_a_grain() -> None:
    sim = Replication(0, grain_ms=10)
    for _ in range(3):
        sim.add_broker(NIC, NIC)
    (partition,) = sim.add_partitions(1)
    leader, *_ = sim.add_replicas([partition] * 3, [0, 1, 2], in_isr=True)
    sim.set_leaders([partition], [leader])
    sim.append(partition, 10, 10_000)
    assert sim.high_watermarks().tolist() == [0]
    assert sim.tick(10) == []
    assert sim.high_watermarks().tolist() == [10]


def test_traffic_that_comes_and_goes_keeps_offsets_and_bytes_together() -> None:
    sim = cluster(2, Topic((0, 1), rate=1 * MB))
    run(sim, 1_500)
    sim.append(0, 7, 7_000)
    sim.set_rates([0], 0.0, 0.0)
    run(sim, 3_000)
    assert sim.log_end_offsets().tolist() == [15_007, 15_007]
    assert sim.sizes().tolist() == [1_507_000, 1_507_000]
    assert sim.steps < 10
