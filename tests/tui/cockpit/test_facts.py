"""What the parts of a large overview show, from snapshots alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.facts.brokers.flows import ALL, flows_of
from kshunt.tui.facts.cockpit.events import EVENTS_MOST, EventLog, operation_events
from kshunt.tui.facts.cockpit.marks import CHANGE, INCIDENT
from kshunt.tui.facts.cockpit.moves import MoveCounts, moves_of
from kshunt.tui.facts.cockpit.traffic import TrafficCourse, traffic_of
from kshunt.tui.facts.health import health_of
from kshunt.tui.facts.overview import HomeBuilder
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.view_query import PARTS, Job, Query
from tests.support.tui.cluster import ScriptedCluster, incident, moving, running_move
from tests.support.tui.tables import SEEDS, facts_of, scrambled

STUCK = TopicPartition("orders", 2)


# Flows


@settings(max_examples=20)
@given(SEEDS)
def test_flows_are_what_each_pair_copies(seed: int) -> None:
    facts = scrambled(seed)
    rows, found = facts.rows, flows_of(facts)
    expected: dict[tuple[int, int], int] = {}
    for place in np.flatnonzero(rows.adding).tolist():
        pair = (int(rows.leader[place]), int(rows.broker[place]))
        expected[pair] = expected.get(pair, 0) + 1
    pairs = {
        (source, target): flow.copies
        for source, sent in found.items()
        if source != ALL
        for target, flow in sent.to.items()
    }
    assert pairs == expected
    assert not expected or found[ALL].total.copies == sum(expected.values())


# Moves


def test_every_move_stands_in_one_place() -> None:
    cluster = moving()
    cluster.stuck = {(STUCK, 3): Stuck(STUCK, 3, Cause.THROTTLE_TOO_LOW)}
    waiting = [replace(one, waiting=4) for one in cluster.operations.values()]
    found = moves_of(facts_of(cluster), waiting, 5)
    assert found.counts == MoveCounts(queued=4, copying=5, stuck=1, done=5)
    assert found.counts.total == 15
    assert [one.stuck for one in found.copies] == [True, *[False] * 5]
    lags = [one.lag_bytes for one in found.copies[1:]]
    assert lags == sorted(lags, reverse=True)


def test_what_is_copied_is_summed_by_topic() -> None:
    found = moves_of(facts_of(moving()), (), 0)
    assert [(one.topic, one.copies) for one in found.topics] == [
        ("payments.transactions.settled.v2", 2),
        ("clickstream-web-sessions-eu-west-1", 2),
        ("orders", 2),
    ]
    assert sum(one.lag_bytes for one in found.topics) == sum(o.lag_bytes for o in found.copies)
    assert found.topics_all == 3


def test_a_pause_is_told_from_being_stuck() -> None:
    cluster = moving()
    cluster.stuck = {(STUCK, 3): Stuck(STUCK, 3, Cause.PAUSED)}
    counts = moves_of(facts_of(cluster), (), 0).counts
    assert (counts.copying, counts.paused, counts.stuck) == (5, 1, 0)


def test_what_has_arrived_is_done_while_its_operation_runs() -> None:
    cluster = incident()
    operation = running_move(cluster)
    for state in cluster.partitions.values():
        if 2 in state.copied:
            state.copied[2] = state.size_bytes
    found = moves_of(facts_of(cluster), (operation,), 0)
    assert found.counts.done == 1
    assert found.counts.copying == 5


def test_nothing_moves_in_an_empty_cluster() -> None:
    assert moves_of(Facts(ScriptedCluster().snapshot()), (), 0).counts.total == 0


# Events


def seen(*snapshots: Snapshot, operations: Sequence[Operation] = ()) -> list[tuple[str, str]]:
    log = EventLog()
    for snapshot in snapshots:
        log.take(snapshot)
    return [(event.kind, event.text) for event in log.events(operations, past=False)]


def test_what_goes_wrong_is_an_event() -> None:
    cluster = moving()
    before = cluster.step()
    cluster.stuck = {(STUCK, 3): Stuck(STUCK, 3, Cause.THROTTLE_TOO_LOW)}
    cluster.down = {4: "connection refused"}
    found = seen(before, cluster.step(60.0))
    assert (INCIDENT, "1 replica stuck.") in found
    assert (INCIDENT, "Broker 4 does not answer: connection refused") in found
    assert found[-1] == (CHANGE, "First snapshot here: 6 replicas moving.")


def test_many_silent_brokers_are_one_event() -> None:
    cluster = ScriptedCluster.of(9, {"orders": 9})
    before = cluster.step()
    cluster.down = dict.fromkeys(range(1, 8), "connection refused")
    after = cluster.step(60.0)
    cluster.down = {}
    found = seen(before, after, cluster.step())
    assert (INCIDENT, "7 brokers do not answer: 1, 2, 3, 4, 5 and 2 more.") in found
    assert (CHANGE, "7 brokers answer again: 1, 2, 3, 4, 5 and 2 more.") in found
    assert not any(text.startswith("Broker ") for _, text in found)


def test_a_change_of_rates_says_what_was_and_what_is() -> None:
    cluster = moving()
    before = cluster.step()
    cluster.rates = {id: ThrottledRate(50_000_000, 50_000_000) for id in cluster.rates}
    cluster.rates[5] = ThrottledRate(25_000_000, None)
    found = seen(before, cluster.step())
    texts = [text for _, text in found]
    assert "Both rates of brokers 1, 2, 3 and 1 more: 25.0 MB/s, now 50.0 MB/s." in texts
    assert any(text.startswith("Follower rate of broker 5: 25.0 MB/s, now") for text in texts)


def test_leaders_that_change_are_counted() -> None:
    cluster = moving()
    before = cluster.step()
    for name in ("orders", "audit-log"):
        state = cluster.partitions[TopicPartition(name, 0)]
        state.leader = next(one for one in state.replicas if one != state.leader)
    after = replace(cluster.step(), topics=before.topics)
    assert (CHANGE, "2 partitions are led by another broker.") in seen(before, after)


def test_replicas_that_stop_moving_soon_after_each_other_share_an_event() -> None:
    cluster = moving()
    snapshots = [cluster.step()]
    for _ in range(2):
        state = next(one for one in cluster.partitions.values() if one.copied)
        state.copied = {}
        snapshots.append(cluster.step())
    log = EventLog()
    for snapshot in snapshots:
        log.take(snapshot)
    texts = [event.text for event in log.events((), past=False)]
    assert [text for text in texts if "ended" in text] == ["2 replicas ended their moves."]


def test_operations_say_themselves_when_they_started_and_ended() -> None:
    cluster = moving()
    operation = next(iter(cluster.operations.values()))
    failed = replace(
        operation, state=OperationState.FAILED, ended_ms=cluster.now_ms, outcome="no permission"
    )
    started, ended = operation_events([failed])
    assert (started.at_ms, started.kind, started.operation) == (
        failed.started_ms,
        CHANGE,
        failed.id,
    )
    assert (ended.at_ms, ended.kind) == (cluster.now_ms, INCIDENT)
    assert ended.text == "op-1 failed: no permission"


def test_the_past_has_the_same_events_on_every_way_there() -> None:
    cluster = moving()
    operations = tuple(cluster.operations.values())
    log, fresh = EventLog(), EventLog()
    log.take(cluster.step())
    cluster.down = {4: "connection refused"}
    log.take(cluster.step(60.0))
    assert log.events(operations, past=True) == fresh.events(operations, past=True)
    assert len(log.events(operations, past=False)) > len(fresh.events(operations, past=True))


def test_an_older_snapshot_and_another_cluster_tell_nothing_of_this_one() -> None:
    cluster, other = moving(), moving()
    other.cluster_id = "another"
    newer = cluster.step(10.0)
    log = EventLog()
    for snapshot in (newer, replace(newer, taken_ms=newer.taken_ms - 5_000), other.step(20.0)):
        log.take(snapshot)
    assert [event.text for event in log.events((), past=False)] == [
        "First snapshot here: 6 replicas moving."
    ]


def test_events_are_bounded() -> None:
    cluster = moving()
    log = EventLog()
    for number in range(EVENTS_MOST + 20):
        cluster.rates[1] = ThrottledRate(1_000_000 + number, 25_000_000)
        log.take(cluster.step())
    assert len(log.events((), past=False)) == EVENTS_MOST


# Traffic


def producing(rates: dict[str, float]) -> Facts:
    """The incident without moves; each leader's log of these topics grows."""
    cluster = ScriptedCluster.of(3, {"orders": 3, "payments": 3})
    snapshot = cluster.snapshot()
    rows = snapshot.replicas
    rate = [rates.get(snapshot.topics[topic], math.nan) for topic in rows.topic_index.tolist()]
    grown = np.array(rate, np.float32)
    return Facts(replace(snapshot, replicas=replace(rows, fetched_bytes_per_s=grown)))


def test_what_leaders_take_is_what_is_produced() -> None:
    found = traffic_of(producing({"orders": 2e6, "payments": 1e6}))
    assert found.rate_bytes_per_s == pytest.approx(9e6)
    assert [one.topic for one in found.topics] == ["orders", "payments"]
    assert [one.rate_bytes_per_s for one in found.topics] == pytest.approx([6e6, 3e6])
    assert sum(one.rate_bytes_per_s for one in found.brokers) == pytest.approx(9e6)
    assert found.leader_skew == 1.0


def test_a_log_that_shrinks_is_not_produced_to_and_unknown_is_not_zero() -> None:
    assert traffic_of(producing({"orders": -5e6})).rate_bytes_per_s == 0.0
    unknown = traffic_of(producing({}))
    assert math.isnan(unknown.rate_bytes_per_s)
    assert all(math.isnan(one.rate_bytes_per_s) for one in unknown.brokers)
    assert unknown.topics == ()


def test_the_most_loaded_broker_is_compared_with_the_mean() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 6})
    for state in cluster.partitions.values():
        state.leader = 1
    assert traffic_of(Facts(cluster.snapshot())).leader_skew == 3.0
    assert math.isnan(traffic_of(Facts(ScriptedCluster().snapshot())).leader_skew)


def test_the_course_has_a_point_every_few_seconds_and_none_of_the_past() -> None:
    course = TrafficCourse()
    facts = producing({"orders": 2e6})
    at_ms = facts.snapshot.taken_ms
    for later_ms in (0, 1_000, 4_000, 9_000):
        found = course.take(Facts(replace(facts.snapshot, taken_ms=at_ms + later_ms)), past=False)
    assert [moment - at_ms for moment, _ in found.course] == [0, 4_000, 9_000]
    assert course.take(facts, past=True).course == ()


def test_a_partition_that_can_lose_no_replica_is_at_min_isr() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 4})
    cluster.min_isr = 2
    assert health_of(facts_of(cluster)).at_min_isr == 0
    cluster.down = {3: "connection refused"}
    assert health_of(facts_of(cluster, 60.0)).at_min_isr == 4


# All of it


def test_parts_are_computed_only_where_there_is_room_for_them() -> None:
    cluster = moving()
    builder, snapshot = HomeBuilder(), cluster.step()
    plain = Job(OVERVIEW, Query(), snapshot, (), cluster.now_ms)
    assert builder.home(Facts(snapshot), plain, plots=True).cockpit is None
    large = replace(plain, query=Query(group=PARTS))
    cockpit = builder.home(Facts(snapshot), large, plots=True).cockpit
    assert cockpit is not None
    assert [row.id for row in cockpit.brokers] == [1, 2, 3, 4, 5]
    assert cockpit.moves.copies_all == cockpit.flows[ALL].total.copies == 6


def test_moves_that_nobody_owns_are_done_when_they_were_seen_to_end() -> None:
    cluster = moving()
    builder = HomeBuilder()

    def done() -> int:
        snapshot = cluster.step()
        job = Job(OVERVIEW, Query(group=PARTS), snapshot, (), cluster.now_ms)
        cockpit = builder.home(Facts(snapshot), job, plots=False).cockpit
        assert cockpit is not None
        return cockpit.moves.counts.done

    assert done() == 0
    cluster.operations.clear()
    state = next(one for one in cluster.partitions.values() if one.copied)
    (target,) = state.copied
    state.copied[target] = state.size_bytes
    assert done() == 1


# Replicas out of the ISR


def test_only_replicas_that_stay_out_of_the_isr_are_an_event() -> None:
    """Where a move ends, the replica that leaves is out of it for a moment."""
    cluster = moving()
    log = EventLog()
    texts: list[str] = []
    for second in range(30):
        cluster.down = {2: "connection refused"} if second % 4 == 3 or second > 15 else {}
        log.take(cluster.step(1.0))
        texts = [one.text for one in log.events((), past=False) if "ISR" in one.text]
        assert second >= 25 or not texts, second
    assert len(texts) == 1
    assert texts[0].endswith("out of the ISR.")
    cluster.down = {}
    log.take(cluster.step(1.0))
    events = log.events((), past=False)
    assert any(one.text == "Every replica is in the ISR again." for one in events)
