"""Why a replica does not advance: each cause is built, named in time, and gone when repaired."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshunt.backend.api.schema.replicas import CauseKey
from kshunt.backend.domain.forecast.outlook import outlook
from kshunt.backend.domain.forecast.snapshot_copies import snapshot_copies
from kshunt.backend.domain.replicas.stuck_causes import (
    CAUSE_TEXTS,
    CURABLE_CAUSES,
    IDLE_CAUSES,
    STUCK_CAUSES,
    Cause,
)
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from kshunt.backend.embedded.core.cluster_core import Core, Timing
from kshunt.backend.embedded.core.spec import BrokerSpec
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.scenario.model import (
    Reassign,
    Scenario,
    ScenarioEvent,
    SlowLink,
    TopicSpec,
)
from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.backend.telemetry.stuck.diagnosis import Diagnosis
from tests.support.embedded.core import MB, SmallCluster
from tests.support.embedded.scenarios import Played
from tests.support.operations.stuck import (
    Observer,
    apply_needs,
    causes_of,
    configure,
    explained_in,
    needs_of,
    stuck_of,
    words_of,
)
from tests.support.runs.examples import many

IN_TIME_S = 35
HOUR_S = 3_600
NEW = ("t", 0, 4)
"""The replica that is added in most of these."""


def moving(
    *, size: float = 500 * MB, rate: float = 0.0, throttle: int = -1, timing: Timing | None = None
) -> tuple[SmallCluster, Observer]:
    """t-0 goes from brokers 1, 2, 3 to 1, 2, 4."""
    cluster = SmallCluster(timing=timing)
    cluster.start()
    cluster.create("t", (1, 2, 3))
    cluster.fill("t", size, rate)
    observer = Observer(cluster.core)
    observer.run(12)
    cluster.move("t", 0, 1, 2, 4, throttle_bytes_per_s=throttle)
    return cluster, observer


def ends(core: Core, within_s: int) -> bool:
    """Let time pass until nothing moves any more."""
    return end(core, moving_in(core), within_s)


def end(core: Core, partitions: Collection[tuple[str, int]], within_s: int) -> bool:
    """Let time pass until none of these moves any more."""
    until_ms = core.now_ms + within_s * 1_000
    while (still := moving_in(core).intersection(partitions)) and core.now_ms < until_ms:
        core.advance(core.now_ms + 60_000)
    return not still


def moving_in(core: Core) -> set[tuple[str, int]]:
    """The partitions that move."""
    return {(topic.name, number) for topic, number, _ in core.image.moving()}


# --- each cause


def test_a_broker_that_is_down() -> None:
    cluster, observer = moving(throttle=MB)
    observer.run(2)
    cluster.core.lose_broker(4)
    observer.until(lambda found: found == {NEW: Cause.BROKER_DOWN}, IN_TIME_S)
    diagnosis = observer.run(15)
    assert explained_in(diagnosis)[NEW].cause is Cause.BROKER_DOWN
    assert (
        words_of(diagnosis)[NEW].reason == "Broker 4 is down: not registered: it is down or fenced."
    )
    cluster.restart(4)
    observer.until(lambda found: not found, 15)


def test_a_log_directory_that_is_offline() -> None:
    cluster, observer = moving(throttle=MB)
    observer.run(2)
    path = cluster.at("t").log_dir(4)
    cluster.core.fail_log_dir(4, path)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.LOG_DIR_OFFLINE}, IN_TIME_S)
    assert f"Log directory {path} of broker 4 is offline" in words_of(diagnosis)[NEW].reason


def test_a_partition_without_a_leader() -> None:
    cluster, observer = moving(throttle=MB)
    observer.run(2)
    for broker in (3, 2, 1):
        cluster.core.stop_broker(broker)
    diagnosis = observer.until(lambda found: found.get(NEW) is Cause.NO_LEADER, IN_TIME_S)
    assert "in its ISR: 1" in words_of(diagnosis)[NEW].reason


def test_a_controller_that_does_not_answer_the_leader() -> None:
    cluster, observer = moving(throttle=20 * MB, rate=MB)
    observer.run(2)
    row = cluster.held("t").replicas[4]
    cluster.plane.replication.replicas.proposed[row] = True
    observer.until(lambda found: found == {NEW: Cause.CONTROLLER}, 40 + IN_TIME_S)


def test_a_leader_that_hangs() -> None:
    cluster, observer = moving(throttle=MB, timing=Timing(session_timeout_ms=600_000))
    observer.run(2)
    cluster.core.lose_broker(1, stalled=True)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.SOURCE_UNREACHABLE}, IN_TIME_S)
    assert "Broker 1, which leads t-0, cannot be reached" in words_of(diagnosis)[NEW].reason
    cluster.core.resume_broker(1)
    observer.until(lambda found: not found, 15)


def test_a_throttle_at_the_floor() -> None:
    _, observer = moving(throttle=1_000)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.THROTTLE_FLOOR}, 3)
    rates = explained_in(diagnosis)[NEW].rates
    assert {(one.broker, one.key) for one in rates} == {(1, LEADER_RATE), (4, FOLLOWER_RATE)}
    assert words_of(diagnosis)[NEW].action.startswith("Set ")


def test_a_throttle_of_zero() -> None:
    cluster, observer = moving(throttle=20 * MB)
    observer.run(2)
    configure(cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: "0"})
    diagnosis = observer.until(lambda found: found == {NEW: Cause.THROTTLE_FLOOR}, 3)
    (need,) = explained_in(diagnosis)[NEW].rates
    assert (need.broker, need.key, need.has_bytes_per_s) == (4, FOLLOWER_RATE, 0)


def test_a_throttle_below_what_is_written() -> None:
    cluster, observer = moving(rate=3 * MB, throttle=2 * MB)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.THROTTLE_TOO_LOW}, IN_TIME_S)
    needs = needs_of(diagnosis)
    # The leader sends to the followers in the ISR as well, and its throttle counts that.
    assert needs[1, LEADER_RATE].written_bytes_per_s == pytest.approx(9 * MB, rel=0.01)
    assert needs[4, FOLLOWER_RATE].written_bytes_per_s == pytest.approx(3 * MB, rel=0.01)
    need = needs[1, LEADER_RATE].needs_bytes_per_s
    told = words_of(diagnosis)[NEW].reason
    assert f"of broker 1 needs at least {need} B/s and has 2000000 B/s" in told
    apply_needs(cluster.core, needs.values())
    observer.until(lambda found: not found, 10)
    assert ends(cluster.core, 2 * HOUR_S)


def test_in_sync_followers_can_use_a_throttle_up() -> None:
    _, observer = moving(rate=3 * MB, throttle=8 * MB)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.THROTTLE_TOO_LOW}, IN_TIME_S)
    assert set(needs_of(diagnosis)) == {(1, LEADER_RATE)}


def test_a_throttle_that_no_move_needs() -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", (1, 2, 4))
    cluster.fill("t", 500 * MB, 3 * MB)
    configure(cluster.core, ResourceType.TOPIC, "t", {FOLLOWER_REPLICAS: "*"})
    configure(cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: str(2 * MB)})
    observer = Observer(cluster.core)
    assert stuck_of(observer.run(12)) == {}
    cluster.core.lose_broker(4)
    observer.run(60)
    cluster.restart(4)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.THROTTLE_ORPHAN}, IN_TIME_S)
    assert f"Remove {FOLLOWER_RATE} of broker 4" in words_of(diagnosis)[NEW].action
    configure(cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: None})
    observer.until(lambda found: not found, 25)


def test_a_list_of_everything_belongs_to_the_moves_of_its_topic() -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", (1, 2, 4), (2, 3, 1))
    cluster.fill("t", 500 * MB, 3 * MB)
    observer = Observer(cluster.core)
    cluster.core.lose_broker(4)
    observer.run(60)
    configure(cluster.core, ResourceType.TOPIC, "t", {FOLLOWER_REPLICAS: "*"})
    configure(cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: str(2 * MB)})
    cluster.move("t", 1, 2, 3, 4)
    cluster.restart(4)
    observer.until(
        lambda found: found == dict.fromkeys([NEW, ("t", 1, 4)], Cause.THROTTLE_TOO_LOW), IN_TIME_S
    )


def test_a_replica_that_stays_and_is_out_of_the_isr() -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", (1, 2, 3))
    cluster.fill("t", 50 * MB, MB)
    observer = Observer(cluster.core)
    cluster.core.stop_broker(2)
    observer.run(5)
    cluster.move("t", 0, 1, 2, 4)
    down = ("t", 0, 2)
    diagnosis = observer.until(
        lambda found: found == {NEW: Cause.REMAINING_OUT_OF_ISR, down: Cause.BROKER_DOWN}, IN_TIME_S
    )
    told = words_of(diagnosis)[NEW]
    assert "the replica on broker 2, which stays" in told.reason
    assert "Start broker 2" in told.action
    cluster.restart(2)
    observer.until(lambda found: not found, 20)
    cluster.pass_s(60)
    assert not cluster.image.is_moving


def test_a_full_disk() -> None:
    small = Hardware(disk_bytes=100 * MB)
    brokers = (*(BrokerSpec(n) for n in (1, 2, 3)), BrokerSpec(4, hardware=small))
    events: tuple[ScenarioEvent, ...] = (
        Reassign(0, moves={("t", 0): (1, 2, 4)}, throttle_bytes_per_s=20 * MB),
        *(SlowLink(5, source, 4, 1) for source in (1, 2, 3)),
    )
    topics = (TopicSpec("t", 1, bytes_per_partition=500 * MB, brokers=(1, 2, 3)),)
    run = Played(Scenario("full", "t", "a", brokers, topics=topics, events=events))
    observer = Observer(run.core)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.DISK_FULL}, 5 + IN_TIME_S)
    assert "and it lacks" in words_of(diagnosis)[NEW].reason


def test_a_copy_between_directories_that_never_ends() -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", (1, 2, 4))
    cluster.fill("t", 500 * MB, 3 * MB)
    configure(cluster.core, ResourceType.BROKER, "4", {LOG_DIR_RATE: str(2 * MB)})
    observer = Observer(cluster.core)
    observer.run(12)
    other = next(d for d in ("/d1", "/d2") if d != cluster.at("t").log_dir(4))
    cluster.plane.move_log_dir(cluster.held("t"), 4, other)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.LOG_DIR_MOVE}, IN_TIME_S)
    apply_needs(cluster.core, needs_of(diagnosis).values())
    observer.until(lambda found: not found, 5)
    cluster.pass_s(HOUR_S)
    assert causes_of(observer.tick()) == {}
    assert cluster.at("t").log_dir(4) == other


def seconds_of(diagnosis: Diagnosis, cause: Cause) -> float:
    """When the copy that has a cause is expected to arrive."""
    rows = replace(diagnosis.snapshot.replicas, cause=diagnosis.causes)
    found = snapshot_copies(replace(diagnosis.snapshot, replicas=rows))
    place = np.flatnonzero(rows.cause[found.rows] == cause)
    return float(outlook(found.copies, found.rates).seconds[place[0]])


def test_a_replica_whose_turn_comes_is_not_stuck() -> None:
    cluster = SmallCluster()
    cluster.start()
    cluster.create("t", (1, 2), (2, 1), (1, 2))
    cluster.create("hot", (3, 2))
    cluster.fill("t", 200 * MB)
    cluster.fill("hot", 50 * MB, 4 * MB)
    observer = Observer(cluster.core)
    for number in range(3):
        cluster.move("t", number, 1, 2, 4)
    cluster.move("hot", 0, 3, 2, 4)
    pairs = {FOLLOWER_REPLICAS: "0:4,1:4,2:4"}
    configure(cluster.core, ResourceType.TOPIC, "t", pairs)
    configure(cluster.core, ResourceType.TOPIC, "hot", pairs)
    configure(cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: str(10 * MB)})
    waits = {("hot", 0, 4): Cause.WAITING_TURN}
    diagnosis = observer.until(lambda found: found == waits, IN_TIME_S)
    assert "shares follower.replication.throttled.rate of broker 4 with 3 others" in (
        words_of(diagnosis)["hot", 0, 4].reason
    )
    promised_s = seconds_of(diagnosis, Cause.WAITING_TURN)
    began_ms = cluster.core.now_ms
    while cluster.image.is_moving:
        assert stuck_of(observer.tick()) == {}
    took_s = (cluster.core.now_ms - began_ms) / 1000
    assert promised_s == pytest.approx(took_s, rel=0.3)


def test_a_link_that_carries_next_to_nothing() -> None:
    cluster, observer = moving(rate=MB, throttle=20 * MB)
    observer.run(10)
    cluster.plane.set_link(1, 4, 1_000)
    diagnosis = observer.until(lambda found: found == {NEW: Cause.COPY_TOO_SLOW}, IN_TIME_S)
    assert "between brokers 1 and 4" in words_of(diagnosis)[NEW].action
    cluster.plane.set_link(1, 4, float("inf"))
    observer.until(lambda found: not found, 5)


def test_what_has_just_begun_cannot_be_told() -> None:
    cluster, observer = moving(rate=MB)
    cluster.plane.set_link(1, 4, 1_000)
    assert causes_of(observer.run(3)) == {NEW: Cause.TOO_SHORT}
    assert words_of(observer.tick())[NEW].action == ""


# --- nothing is wrong


@pytest.mark.parametrize("throttle", [-1, 12 * MB], ids=["no throttle", "a throttle that does"])
def test_a_move_that_goes_on_has_no_cause(throttle: int) -> None:
    cluster, observer = moving(rate=3 * MB, throttle=throttle)
    for _ in range(90):
        assert stuck_of(observer.tick()) == {}
    cluster.pass_s(600)
    assert causes_of(observer.tick()) == {}
    assert not cluster.image.is_moving


def test_a_cluster_at_rest_has_no_cause() -> None:
    run = Played(load_scenario("expand"))
    observer = Observer(run.core)
    for _ in range(5):
        assert stuck_of(observer.tick()) == {}


# --- scenarios


def test_the_throttle_that_is_too_low() -> None:
    run = Played(load_scenario("throttle-too-low"))
    observer = Observer(run.core)
    diagnosis = observer.run(IN_TIME_S)
    stuck = stuck_of(diagnosis)
    assert len(stuck) > 8
    assert set(stuck.values()) == {Cause.THROTTLE_TOO_LOW}
    apply_needs(run.core, needs_of(diagnosis).values())
    assert stuck_of(observer.run(30)) == {}
    assert ends(run.core, 2 * HOUR_S)


def test_the_move_that_stands_still() -> None:
    run = Played(load_scenario("stuck-replica"))
    observer = Observer(run.core)
    ledger = ("ledger", 0, 6)
    diagnosis = observer.until(lambda found: ledger in found, IN_TIME_S)
    diagnosis = observer.run(IN_TIME_S - observer.ticks)
    assert stuck_of(diagnosis) == {ledger: Cause.COPY_TOO_SLOW}


def test_the_throttles_that_nobody_took_off() -> None:
    run = Played(load_scenario("orphan-throttles"))
    observer = Observer(run.core)
    seen = observer.run(45)
    assert set(stuck_of(seen).values()) <= {Cause.BROKER_DOWN}
    found = stuck_of(observer.run(IN_TIME_S))
    assert len(found) > 3
    assert set(found.values()) == {Cause.THROTTLE_ORPHAN}
    for broker in range(1, 7):
        rates: dict[str, str | None] = {LEADER_RATE: None, FOLLOWER_RATE: None}
        configure(run.core, ResourceType.BROKER, str(broker), rates)
    assert causes_of(observer.run(60)) == {}


def test_the_rack_that_is_lost() -> None:
    run = Played(load_scenario("rack-loss"))
    observer = Observer(run.core)
    assert stuck_of(observer.run(20)) == {}
    found = stuck_of(observer.run(40))
    gone = {key for key, cause in found.items() if cause is Cause.BROKER_DOWN}
    assert {broker for _, _, broker in gone} == {2, 5, 8}
    others = {cause for key, cause in found.items() if key not in gone}
    assert others <= {Cause.REMAINING_OUT_OF_ISR}


# --- the rate that would do


@settings(max_examples=many(6), deadline=None)
@given(
    written=st.lists(st.integers(0, 4 * MB), min_size=1, max_size=3),
    throttle=st.integers(20_000, 6 * MB),
    leader_side=st.booleans(),
)
# t0 gets 5 B/s more than what is written: it is slow, and not stuck.
@example(written=[19_881, 20_088], throttle=39_767, leader_side=True)
def test_the_rate_that_is_recommended_ends_the_moves_that_are_stuck(
    written: list[int], throttle: int, leader_side: bool
) -> None:
    cluster = SmallCluster()
    cluster.start()
    for number, rate in enumerate(written):
        name = f"t{number}"
        cluster.create(name, (1 + number % 3, 1 + (number + 1) % 3))
        cluster.fill(name, 20 * MB, float(rate))
        cluster.move(name, 0, *cluster.at(name).replicas, 4)
        lists = {FOLLOWER_REPLICAS: "0:4", LEADER_REPLICAS: "*" if leader_side else ""}
        configure(cluster.core, ResourceType.TOPIC, name, lists)
    for broker in "1234":
        rates = {LEADER_RATE: str(throttle), FOLLOWER_RATE: str(throttle)}
        configure(cluster.core, ResourceType.BROKER, broker, rates)
    observer = Observer(cluster.core)
    diagnosis = observer.run(IN_TIME_S)
    stuck = stuck_of(diagnosis)
    assert set(stuck.values()) <= {Cause.THROTTLE_TOO_LOW}
    apply_needs(cluster.core, needs_of(diagnosis).values())
    assert end(cluster.core, {(topic, number) for topic, number, _ in stuck}, 2 * HOUR_S)


def test_every_cause_has_words_and_a_key_in_the_api() -> None:
    assert set(CAUSE_TEXTS) == set(Cause) - {Cause.NONE}
    assert [cause.key for cause in CAUSE_TEXTS] == list(get_args(CauseKey))
    for cause, about in CAUSE_TEXTS.items():
        assert len(about.short) <= 22
        assert bool(about.action) == cause.is_stuck


def test_a_stuck_cause_is_idle_or_curable_or_waits_for_another_replica() -> None:
    """A new cause has to be put into one of these: forecasts of each are made differently."""
    idle, curable = set(IDLE_CAUSES), set(CURABLE_CAUSES)
    waits = {Cause.REMAINING_OUT_OF_ISR, Cause.DELETION_WAITS}
    assert idle | curable | waits == set(STUCK_CAUSES)
    assert len(idle) + len(curable) + len(waits) == len(STUCK_CAUSES)
