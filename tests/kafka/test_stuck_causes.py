"""Causes of the manual's table that come without a failure, brought about on real brokers.

`test_stuck_failures` has the others, `test_stuck` the throttles of a move.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from tests.support.operations.stuck_scene import IN_TIME_S, Scene, stuck_scene
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers, pytest.mark.slow]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    # A broker that does not answer is registered for long enough to be seen so.
    session = {"broker.session.timeout.ms": "30000"}
    with stuck_scene(tmp_path_factory.mktemp("causes"), session) as found:
        yield found


def test_a_source_that_does_not_answer(scene: Scene) -> None:
    scene.filled("source", 2)
    operation = scene.move("source", 3)
    wait_until(lambda: scene.shown("source", 3), IN_TIME_S, "the replica is known")
    scene.kafka.pause_broker(2)
    try:
        said = scene.until(Cause.SOURCE_UNREACHABLE, "source", 3)
    finally:
        scene.kafka.resume_broker(2)
    assert said is not None
    assert "Broker 2, which leads source-0" in stuck_text(said).reason
    scene.ended(operation)


def test_a_move_between_directories_that_is_too_slow(scene: Scene) -> None:
    topic = "between"
    scene.filled(topic, 1)
    here = scene.directory_of(topic, 1)
    other = next(path for path in scene.kafka.log_dirs(1) if path != here)
    place = TopicPartition(topic, 0)
    plan = ReassignmentPlan({place: (1,)}, {(place, 1): str(other)})
    with scene.written_to(topic, 300_000):
        scene.client.reassignments.start(
            plan, log_dirs_throttle_bytes_per_s=20_000, additional=True
        )
        said = scene.until(Cause.LOG_DIR_MOVE, topic, 1)
    assert said is not None
    assert said.rates != ()


def test_replicas_that_wait_for_their_turn(scene: Scene) -> None:
    scene.filled("turns", 1, megabytes=2, partitions=40)
    operation = scene.move("turns", 3, partitions=40)
    scene.until(Cause.WAITING_TURN, "turns", 3)
    scene.hurry()
    scene.ended(operation)


def test_a_way_that_is_too_slow(scene: Scene) -> None:
    scene.filled("far", 1, megabytes=30)
    # The journal is copied over the same network: what is asked for is asked before.
    operation = scene.move("far", 3, throttle=2_000_000)
    scene.way.slow(100_000)
    try:
        with scene.written_to("far", 500_000):
            said = scene.until(Cause.COPY_TOO_SLOW, "far", 3)
    finally:
        scene.way.slow(0)
    assert said is not None
    assert "copies from leader 1" in stuck_text(said).reason
    scene.hurry()
    scene.ended(operation)


def test_an_operation_that_is_paused(scene: Scene) -> None:
    scene.filled("held", 1)
    first = len(scene.seen)
    operation = scene.move("held", 3)
    scene.until(Cause.TOO_SHORT, "held", 3, since=first)
    scene.client.operations.pause(operation)
    scene.until(Cause.PAUSED, "held", 3)
    scene.client.operations.resume(operation)
    scene.ended(operation)
