"""The causes in the sampler's snapshots, over sockets, in a cluster whose clock is ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from kshunt.backend.domain.cluster.columns import PartitionColumns
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LOG_DIR_RATE,
    ReplicaSet,
    ThrottledReplicas,
)
from kshunt.backend.embedded.core.cluster_core import Timing
from kshunt.backend.embedded.core.spec import ClusterSpec
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.running import run_cluster
from kshunt.backend.embedded.scenario.model import (
    BrokerEvent,
    Configure,
    Reassign,
    Scenario,
    ScenarioEvent,
    SlowLink,
    TopicSpec,
)
from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.backend.settings import SamplerSettings
from kshunt.backend.telemetry.sampling.observed_state import not_asked
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from kshunt.backend.telemetry.stuck.diagnosis import OwnOperations
from tests.support.admin import connected
from tests.support.operations.stuck import apply_needs, configure, published_causes
from tests.support.sampled_cluster import BROKERS, MB, PATIENCE_S, ClusterClock, Sampled

NEW = ("t", 0, 4)
MOVE = Reassign(0, moves={("t", 0): (1, 2, 4)}, throttle_bytes_per_s=2 * MB)


@asynccontextmanager
async def sampled(
    *events: ScenarioEvent,
    rate: float = 0.0,
    size: float = 500 * MB,
    on: Sequence[int] = (1, 2, 3),
    timing: Timing | None = None,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[Sampled]:
    """Topic t with one partition that broker 1 leads, on the cluster's own clock."""
    topic = TopicSpec(
        "t",
        1,
        bytes_per_partition=size,
        size_spread=0.0,
        bytes_per_s=rate,
        brokers=tuple(on),
        leaders=(1,),
    )
    scenario = Scenario("mine", "t", "a", BROKERS, topics=(topic,), events=events)
    async with played(scenario, timing or Timing(), patience_s) as seen:
        yield seen


@asynccontextmanager
async def played(
    scenario: Scenario, timing: Timing, patience_s: float = PATIENCE_S
) -> AsyncIterator[Sampled]:
    """A scenario on the cluster's own clock."""
    spec = ClusterSpec(scenario.brokers, simulated=True, timing=timing)
    async with (
        run_cluster(spec, scenario) as here,
        connected(here.cluster.bootstrap_servers) as admin,
    ):
        clock = ClusterClock(here.cluster)
        # A tick waits for every answer, or for its time-out.
        settings = SamplerSettings(tick_s=2 * patience_s, broker_timeout_s=patience_s)
        sampler = Sampler(admin, clock, settings, SnapshotHub(), lambda: seen.ours)
        seen = Sampled(here.cluster, sampler)
        yield seen


async def test_a_throttle_below_what_is_written_and_the_rate_that_would_do() -> None:
    async with sampled(MOVE, rate=3 * MB) as seen:
        snapshot = await seen.until(lambda found: found == {NEW: Cause.THROTTLE_TOO_LOW})
        said = snapshot.explained[TopicPartition("t", 0), 4]
        assert {(need.broker, need.key) for need in said.rates} == {
            (1, LEADER_RATE),
            (4, FOLLOWER_RATE),
        }
        assert all(
            f"to {need.needs_bytes_per_s} B/s" in stuck_text(said).action for need in said.rates
        )
        apply_needs(seen.cluster.core, said.rates)
        await seen.until(lambda found: not found, 10)
        await seen.pass_quietly(10)
        seen.cluster.advance(5_400_000)
        assert not seen.cluster.image.is_moving
        await seen.until(lambda found: not found, 3)


@pytest.mark.slow
async def test_no_copy_is_called_slow_because_it_was_slow_before_the_throttle_was_raised() -> None:
    """What a throttle is used for is an average, and holds for a while what was before."""
    async with played(load_scenario("throttle-too-low"), Timing()) as seen:
        snapshot = await seen.until(
            lambda found: list(found.values()).count(Cause.THROTTLE_TOO_LOW) > 10
        )
        needs = {need for said in snapshot.explained.values() for need in said.rates}
        apply_needs(seen.cluster.core, needs)
        await seen.tick()
        for _ in range(90):
            snapshot = await seen.tick() or snapshot
            assert Cause.COPY_TOO_SLOW not in published_causes(snapshot).values()


async def test_a_move_that_goes_on_has_no_cause() -> None:
    move = Reassign(0, moves=MOVE.moves, throttle_bytes_per_s=15 * MB)
    async with sampled(move, rate=3 * MB, size=200 * MB) as seen:
        await seen.pass_quietly(60)
        assert not seen.cluster.image.is_moving


async def test_a_destination_that_crashes() -> None:
    async with sampled(MOVE) as seen:
        await seen.pass_quietly(5)
        await seen.cluster.stop_broker(4, crash=True)
        snapshot = await seen.until(lambda found: found == {NEW: Cause.BROKER_DOWN})
        said = snapshot.explained[TopicPartition("t", 0), 4]
        assert (
            stuck_text(said).action == "Start broker 4, or cancel the move and choose another one."
        )


async def test_a_disk_that_fails() -> None:
    async with sampled(MOVE) as seen:
        await seen.pass_quietly(5)
        state = seen.cluster.image.partition("t", 0)
        assert state is not None
        await seen.cluster.fail_log_dir(4, state.log_dir(4))
        await seen.until(lambda found: found == {NEW: Cause.LOG_DIR_OFFLINE})


@pytest.mark.slow
async def test_a_leader_that_hangs() -> None:
    timing = Timing(session_timeout_ms=600_000)
    async with sampled(MOVE, timing=timing, patience_s=0.5) as seen:
        await seen.pass_quietly(5)
        seen.cluster.stall_broker(1)
        await seen.until(lambda found: found == {NEW: Cause.SOURCE_UNREACHABLE})
        seen.cluster.resume_broker(1)
        await seen.until(lambda found: not found, 15)
        await seen.pass_quietly(3)


async def test_a_link_that_carries_next_to_nothing() -> None:
    move = Reassign(0, moves=MOVE.moves, throttle_bytes_per_s=20 * MB)
    async with sampled(move, SlowLink(8, 1, 4, 1_000), rate=MB) as seen:
        await seen.pass_quietly(8)
        await seen.until(lambda found: found == {NEW: Cause.COPY_TOO_SLOW})


RETURNS_LATE = (
    Configure(0, {FOLLOWER_REPLICAS: "*"}, topics=("t",)),
    Configure(0, {FOLLOWER_RATE: str(2 * MB)}, brokers=(4,)),
    BrokerEvent(2, "crash", (4,)),
    BrokerEvent(60, "start", (4,)),
)
"""Broker 4 has much to catch up, under a throttle that no move needs."""


async def test_a_throttle_that_no_move_needs() -> None:
    async with sampled(*RETURNS_LATE, rate=3 * MB, on=(1, 2, 4)) as seen:
        seen.cluster.advance(58_000)
        snapshot = await seen.until(lambda found: found == {NEW: Cause.THROTTLE_ORPHAN}, 45)
        assert snapshot.brokers[4].problem == ""
        configure(seen.cluster.core, ResourceType.BROKER, "4", {FOLLOWER_RATE: None})
        await seen.until(lambda found: not found, 35)


async def test_a_replica_that_stays_and_is_down() -> None:
    events = (BrokerEvent(0, "stop", (2,)), Reassign(1, moves=MOVE.moves))
    async with sampled(*events, rate=MB, size=20 * MB) as seen:
        down = ("t", 0, 2)
        wanted = {NEW: Cause.REMAINING_OUT_OF_ISR, down: Cause.BROKER_DOWN}
        await seen.until(lambda found: found == wanted)


async def test_a_throttle_that_an_operation_of_ours_needs_is_no_orphan() -> None:
    listed = ThrottledReplicas(followers=ReplicaSet(frozenset({(0, 4)})))
    async with sampled(*RETURNS_LATE, rate=3 * MB, on=(1, 2, 4)) as seen:
        seen.ours = OwnOperations({"t": listed})
        seen.cluster.advance(58_000)
        await seen.until(lambda found: found == {NEW: Cause.THROTTLE_TOO_LOW}, 45)
        seen.ours = OwnOperations({"t": ThrottledReplicas(leaders=listed.followers)})
        await seen.until(lambda found: found == {NEW: Cause.THROTTLE_ORPHAN}, 2)


async def test_a_copy_between_directories_that_never_ends() -> None:
    throttle = Configure(0, {LOG_DIR_RATE: str(MB)}, brokers=(3,))
    async with sampled(throttle, rate=3 * MB) as seen:
        await seen.pass_quietly(3)
        core, copy = seen.cluster.core, ("t", 0, 3)
        held, state = core.plane.named("t", 0), core.image.partition("t", 0)
        assert held is not None
        assert state is not None
        other = next(p for p in core.image.brokers[3].log_dirs if p != state.log_dir(3))
        core.plane.move_log_dir(held, 3, other)
        snapshot = await seen.until(lambda found: found == {copy: Cause.LOG_DIR_MOVE})
        assert snapshot.replicas.in_isr.all()
        apply_needs(core, snapshot.explained[TopicPartition("t", 0), 3].rates)
        await seen.until(lambda found: not found)


def test_what_a_broker_was_not_asked_for_stays_known() -> None:
    kept = frozenset({(TopicPartition("a", 0), 1), (TopicPartition("b", 3), 1)})
    asked = PartitionColumns(("b", "c"), np.array([0, 1]), np.array([3, 0]))
    assert not_asked(kept, asked) == {(TopicPartition("a", 0), 1)}
    assert not_asked(frozenset(), asked) == frozenset()
