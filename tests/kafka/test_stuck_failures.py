"""Causes of the manual's table that come of a failure: each is the one that is named.

`test_stuck_causes` has the others, `test_stuck` the throttles of a move.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, FOLLOWER_REPLICAS
from tests.support.faults.small_disk import small_disk
from tests.support.operations.stuck_scene import (
    END_S,
    IN_TIME_S,
    RECORD_BYTES,
    SLOW_BYTES_PER_S,
    Scene,
    stuck_scene,
)
from tests.support.topics import produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers, pytest.mark.slow]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with stuck_scene(tmp_path_factory.mktemp("causes"), {}) as found:
        yield found


def test_a_broker_that_is_down(scene: Scene) -> None:
    scene.filled("down", 1)
    operation = scene.move("down", 3)
    wait_until(lambda: scene.shown("down", 3), IN_TIME_S, "the replica is known")
    scene.kafka.kill_broker(3)
    said = scene.until(Cause.BROKER_DOWN, "down", 3)
    assert said is not None
    assert "Broker 3" in stuck_text(said).reason
    scene.kafka.start_broker(3)
    # It takes rates as soon as it is back.
    scene.hurry()
    scene.ended(operation)


def test_a_partition_without_a_leader(scene: Scene) -> None:
    scene.filled("leaderless", 2)
    operation = scene.move("leaderless", 3)
    wait_until(lambda: scene.shown("leaderless", 3), IN_TIME_S, "the replica is known")
    scene.kafka.stop_broker(2)
    said = scene.until(Cause.NO_LEADER, "leaderless", 3)
    assert said is not None
    assert "leaderless-0 has no leader" in stuck_text(said).reason
    assert "broker 2" in stuck_text(said).action
    scene.kafka.start_broker(2)
    scene.ended(operation)


def test_a_throttle_that_no_move_needs(scene: Scene) -> None:
    topic, rate = "orphaned", {FOLLOWER_RATE.replace(".", "__"): "20000"}
    lists = {FOLLOWER_REPLICAS.replace(".", "__"): "0:2"}
    scene.filled(topic, 1, 2, megabytes=5)
    scene.configure(ConfigResource.Type.TOPIC, topic, **lists)
    scene.configure(ConfigResource.Type.BROKER, "2", **rate)
    scene.kafka.stop_broker(2)
    produce(scene.kafka.bootstrap_servers, topic, 1_000, RECORD_BYTES, 0)
    scene.kafka.start_broker(2)
    with scene.written_to(topic, 200_000):
        said = scene.until(Cause.THROTTLE_ORPHAN, topic, 2)
    assert said is not None
    assert f"{FOLLOWER_RATE} of broker 2" in stuck_text(said).reason
    scene.configure(ConfigResource.Type.BROKER, "2", **dict.fromkeys(rate, ""))
    scene.configure(ConfigResource.Type.TOPIC, topic, **dict.fromkeys(lists, ""))
    wait_until(lambda: scene.shown(topic, 2) == {Cause.NONE}, END_S, "it caught up")


def test_a_move_that_waits_for_a_replica_that_stays(scene: Scene) -> None:
    scene.filled("waits", 1, 2, megabytes=2)
    scene.kafka.stop_broker(2)
    operation = scene.move("waits", 2, 3)
    said = scene.until(Cause.REMAINING_OUT_OF_ISR, "waits", 3)
    assert said is not None
    assert "the replica on broker 2" in stuck_text(said).reason
    scene.kafka.start_broker(2)
    scene.ended(operation)


def test_a_directory_that_failed(scene: Scene, tmp_path: Path) -> None:
    disk, aside = scene.kafka.log_dirs(4)[1], tmp_path / "aside"
    scene.filled("failed", 1, megabytes=20)
    operation = _move_into(scene, "failed", disk)
    # The broker writes high watermarks there every five seconds.
    disk.rename(aside)
    disk.write_text("not a directory")
    try:
        said = scene.until(Cause.LOG_DIR_OFFLINE, "failed", 4)
    finally:
        scene.kafka.stop_broker(4)
        disk.unlink()
        aside.rename(disk)
        scene.kafka.start_broker(4)
    assert said is not None
    assert f"Log directory {disk} of broker 4 is offline" in stuck_text(said).reason
    scene.hurry()
    scene.ended(operation)


def test_a_directory_that_is_full_was_named_before_it_began(scene: Scene, tmp_path: Path) -> None:
    disk, place = scene.kafka.log_dirs(4)[1], TopicPartition("full", 0)
    with small_disk(scene.kafka, 4, disk, tmp_path / "kept", megabytes=40):
        scene.filled("full", 1, megabytes=60)
        anywhere = ReassignmentPlan({place: (4,)})
        there = ReassignmentPlan({place: (4,)}, {(place, 4): str(disk)})

        def warnings(plan: ReassignmentPlan) -> str:
            answer = scene.client.reassignments.start(
                plan, Change(validate_only=True), additional=True
            )
            return " ".join(answer.warnings)

        wait_until(lambda: f"{disk} of broker 4 has" in warnings(anywhere), END_S, "it is said")
        assert "name log_dirs in the plan" in warnings(anywhere)
        assert f"Log directory {disk} of broker 4 would receive 60" in warnings(there)
        operation = _move_into(scene, "full", disk, throttle=8_000_000)
        said = scene.until(Cause.DISK_FULL, "full", 4)
        assert said is not None
        assert f"took log directory {disk} offline" in stuck_text(said).reason
        assert "bytes free when it last answered, and it lacks" in stuck_text(said).reason
        scene.cancelled(operation)


def test_a_controller_that_is_gone(scene: Scene) -> None:
    scene.filled("quorum", 1, megabytes=5)
    operation = scene.move("quorum", 2)
    wait_until(lambda: scene.shown("quorum", 2), IN_TIME_S, "the replica is known")
    for broker in (3, 4):
        scene.kafka.kill_broker(broker)
    scene.until(Cause.CONTROLLER, "quorum", 2)
    _start_together(scene, 3, 4)
    scene.ended(operation)


def _start_together(scene: Scene, *brokers: int) -> None:
    """Neither of them is listed before both are there: there is no quorum."""
    starting = [
        threading.Thread(target=scene.kafka.start_broker, args=(broker,)) for broker in brokers
    ]
    for one in starting:
        one.start()
    for one in starting:
        one.join(END_S)


def _move_into(scene: Scene, topic: str, disk: Path, *, throttle: int = SLOW_BYTES_PER_S) -> str:
    """Start a move to broker 4, into one of its directories, and wait until it is there."""
    place = TopicPartition(topic, 0)
    answer = scene.client.reassignments.start(
        ReassignmentPlan({place: (4,)}, {(place, 4): str(disk)}),
        throttle_bytes_per_s=throttle,
        additional=True,
    )
    assert answer.operation_id is not None
    wait_until(lambda: scene.directory_of(topic, 4) == disk, END_S, f"{topic} is copied to {disk}")
    return answer.operation_id
