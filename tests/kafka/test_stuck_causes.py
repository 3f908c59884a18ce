"""Each cause of the README's table, brought about on real brokers, is the one that is named.

`test_stuck_kafka` does it for the throttles of a move.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, FOLLOWER_REPLICAS
from kshunt.backend.errors import BackendError
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import lift, watching
from tests.support.faults.cut_network import Network, network
from tests.support.faults.small_disk import small_disk
from tests.support.serving import serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers, pytest.mark.slow]

IN_TIME_S = 90.0
"""For what is promised within 35 s, on a busy machine."""
END_S = 120.0
RECORD_BYTES = 50_000
SLOW_BYTES_PER_S = 1_000_000
OVERRIDES = {
    # Brokers copy over a network that a test can make slow.
    "inter.broker.listener.name": "FAR",
    # A broker that does not answer is registered for long enough to be seen so.
    "broker.session.timeout.ms": "30000",
}


@dataclass
class Scene:
    """Four brokers, a backend, and what its stream has told."""

    kafka: RealKafka
    way: Network
    client: BackendClient
    seen: list[Snapshot]

    def filled(self, topic: str, *replicas: int, megabytes: int = 10, partitions: int = 1) -> None:
        """A topic with so much in each partition."""
        servers = self.kafka.bootstrap_servers
        create_topic(servers, topic, [list(replicas)] * partitions)
        for number in range(partitions):
            produce(servers, topic, megabytes * 1_000_000 // RECORD_BYTES, RECORD_BYTES, number)

    def move(
        self, topic: str, *target: int, throttle: int | None = SLOW_BYTES_PER_S, partitions: int = 1
    ) -> str:
        """Start a move; the id of its operation."""
        plan = {TopicPartition(topic, number): target for number in range(partitions)}
        answer = self.client.reassign(
            ReassignmentPlan(plan), throttle_bytes_per_s=throttle, additional=True
        )
        assert answer.failures == ()
        assert answer.operation_id is not None
        return answer.operation_id

    def shown(self, topic: str, broker: int) -> set[Cause]:
        """The causes that the newest snapshot has for a topic's replicas on a broker."""
        if not self.seen:
            return set()
        snapshot = self.seen[-1]
        replicas = snapshot.replicas
        return {
            Cause(int(replicas.cause[row]))
            for row in range(len(replicas))
            if snapshot.topic_of(row) == topic and int(replicas.broker[row]) == broker
        }

    def until(
        self, cause: Cause, topic: str, broker: int, since: int | None = None
    ) -> Stuck | None:
        """Wait until a snapshot has a cause; its words there, where it has some.

        `since` is the first snapshot that counts: by default the next one.
        """
        began, first = time.monotonic(), len(self.seen) if since is None else since
        found: list[Stuck | None] = []

        def named() -> bool:
            for snapshot in self.seen[first:]:
                rows = [
                    snapshot.partition_of(int(row))
                    for row in np.flatnonzero(snapshot.replicas.cause == cause)
                    if int(snapshot.replicas.broker[row]) == broker
                ]
                places = [place for place in rows if place.topic == topic]
                if places:
                    found[:] = [snapshot.explained.get((places[0], broker))]
            return bool(found)

        wait_until(named, IN_TIME_S, f"{topic} has the cause {cause.key}")
        print(f"{cause.key}: named after {time.monotonic() - began:.0f} s")  # noqa: T201
        return found[0]

    def ended(self, operation_id: str) -> None:
        """Wait until an operation is over."""
        wait_until(
            lambda: any(
                one.id == operation_id and one.state.ended for one in self.client.operations()
            ),
            END_S,
            f"operation {operation_id} has ended",
        )

    def cancelled(self, operation_id: str) -> None:
        """Cancel an operation, as soon as the journal takes it, and wait until it is over."""

        def taken() -> bool:
            with suppress(BackendError):
                self.client.steer("cancel", operation_id)
            state = next(one.state for one in self.client.operations() if one.id == operation_id)
            return state.ended

        wait_until(taken, END_S, f"operation {operation_id} is cancelled")

    def configure(self, kind: Any, name: str, **values: str) -> None:
        """Set configurations as somebody else's tool does; an empty value takes one off."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        entries = [
            ConfigEntry(
                key.replace("__", "."),
                value or None,
                incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
            )
            for key, value in values.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for written in admin.incremental_alter_configs([resource]).values():
            written.result(30)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with RealKafka(4, OVERRIDES, far=True) as kafka, network(kafka.far_ports) as way:
        folder = tmp_path_factory.mktemp("causes")
        with serving(kafka.bootstrap_servers, folder) as address, BackendClient(address) as client:
            with watching(address) as seen:
                yield Scene(kafka, way, client, seen)
            lift(client)


@contextmanager
def written_to(scene: Scene, topic: str, rate_bytes_per_s: int) -> Iterator[None]:
    """Somebody goes on producing to partition 0."""
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.1):
            count = max(rate_bytes_per_s // 10 // 10_000, 1)
            produce(scene.kafka.bootstrap_servers, topic, count, 10_000, 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join(30)


def test_a_broker_that_is_down(scene: Scene) -> None:
    scene.filled("down", 1)
    operation = scene.move("down", 3)
    wait_until(lambda: scene.shown("down", 3), IN_TIME_S, "the replica is known")
    scene.kafka.kill_broker(3)
    said = scene.until(Cause.BROKER_DOWN, "down", 3)
    assert said is not None
    assert "Broker 3" in said.reason
    scene.kafka.start_broker(3)
    scene.ended(operation)


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
    assert "Broker 2, which leads source-0" in said.reason
    scene.ended(operation)


def test_a_partition_without_a_leader(scene: Scene) -> None:
    scene.filled("leaderless", 2)
    operation = scene.move("leaderless", 3)
    wait_until(lambda: scene.shown("leaderless", 3), IN_TIME_S, "the replica is known")
    scene.kafka.stop_broker(2)
    said = scene.until(Cause.NO_LEADER, "leaderless", 3)
    assert said is not None
    assert "leaderless-0 has no leader" in said.reason
    assert "broker 2" in said.action
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
    with written_to(scene, topic, 200_000):
        said = scene.until(Cause.THROTTLE_ORPHAN, topic, 2)
    assert said is not None
    assert f"{FOLLOWER_RATE} of broker 2" in said.reason
    scene.configure(ConfigResource.Type.BROKER, "2", **dict.fromkeys(rate, ""))
    scene.configure(ConfigResource.Type.TOPIC, topic, **dict.fromkeys(lists, ""))
    wait_until(lambda: scene.shown(topic, 2) == {Cause.NONE}, END_S, "it caught up")


def test_a_move_that_waits_for_a_replica_that_stays(scene: Scene) -> None:
    scene.filled("waits", 1, 2, megabytes=2)
    scene.kafka.stop_broker(2)
    operation = scene.move("waits", 2, 3)
    said = scene.until(Cause.REMAINING_OUT_OF_ISR, "waits", 3)
    assert said is not None
    assert "the replica on broker 2" in said.reason
    scene.kafka.start_broker(2)
    scene.ended(operation)


def test_a_move_between_directories_that_is_too_slow(scene: Scene) -> None:
    topic = "between"
    scene.filled(topic, 1)
    here = _directory_of(scene, topic, 1)
    other = next(path for path in scene.kafka.log_dirs(1) if path != here)
    place = TopicPartition(topic, 0)
    plan = ReassignmentPlan({place: (1,)}, {(place, 1): str(other)})
    with written_to(scene, topic, 300_000):
        scene.client.reassign(plan, log_dirs_throttle_bytes_per_s=20_000, additional=True)
        said = scene.until(Cause.LOG_DIR_MOVE, topic, 1)
    assert said is not None
    assert said.rates != ()


def test_replicas_that_wait_for_their_turn(scene: Scene) -> None:
    scene.filled("turns", 1, megabytes=2, partitions=40)
    operation = scene.move("turns", 3, partitions=40)
    scene.until(Cause.WAITING_TURN, "turns", 3)
    scene.ended(operation)


def test_a_way_that_is_too_slow(scene: Scene) -> None:
    scene.filled("far", 1, megabytes=30)
    # The journal is copied over the same network: what is asked for is asked before.
    operation = scene.move("far", 3, throttle=2_000_000)
    scene.way.slow(100_000)
    try:
        with written_to(scene, "far", 500_000):
            said = scene.until(Cause.COPY_TOO_SLOW, "far", 3)
    finally:
        scene.way.slow(0)
    assert said is not None
    assert "copies from leader 1" in said.reason
    scene.ended(operation)


def test_an_operation_that_is_paused(scene: Scene) -> None:
    scene.filled("held", 1)
    first = len(scene.seen)
    operation = scene.move("held", 3)
    scene.until(Cause.TOO_SHORT, "held", 3, since=first)
    scene.client.steer("pause", operation)
    scene.until(Cause.PAUSED, "held", 3)
    scene.client.steer("resume", operation)
    scene.ended(operation)


def test_a_directory_that_failed(scene: Scene, tmp_path: Path) -> None:
    disk, aside = scene.kafka.log_dirs(4)[1], tmp_path / "aside"
    operation = _move_into(scene, "failed", disk, megabytes=20)
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
    assert f"Log directory {disk} of broker 4 is offline" in said.reason
    scene.ended(operation)


def test_a_directory_that_is_full(scene: Scene, tmp_path: Path) -> None:
    disk = scene.kafka.log_dirs(4)[1]
    with small_disk(scene.kafka, 4, disk, tmp_path / "kept", megabytes=40):
        operation = _move_into(scene, "full", disk, megabytes=60, throttle=8_000_000)
        said = scene.until(Cause.DISK_FULL, "full", 4)
        assert said is not None
        assert f"took log directory {disk} offline" in said.reason
        assert "bytes free when it last answered, and it lacks" in said.reason
        scene.cancelled(operation)


def test_what_does_not_fit_is_said_before_it_begins(scene: Scene, tmp_path: Path) -> None:
    disk, place = scene.kafka.log_dirs(4)[1], TopicPartition("large", 0)
    with small_disk(scene.kafka, 4, disk, tmp_path / "kept", megabytes=40):
        scene.filled("large", 1, megabytes=60)
        anywhere = ReassignmentPlan({place: (4,)})
        there = ReassignmentPlan({place: (4,)}, {(place, 4): str(disk)})

        def notes(plan: ReassignmentPlan) -> str:
            answer = scene.client.reassign(plan, validate_only=True, additional=True)
            return " ".join(answer.notes)

        wait_until(lambda: f"{disk} of broker 4 has" in notes(anywhere), END_S, "it is said")
        assert "name log_dirs in the plan" in notes(anywhere)
        assert f"Log directory {disk} of broker 4 would receive 60" in notes(there)


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


def _directory_of(scene: Scene, topic: str, broker: int) -> Path:
    found: list[Path] = []

    def known() -> bool:
        snapshot = scene.seen[-1]
        replicas = snapshot.replicas
        for row in range(len(replicas)):
            if snapshot.topic_of(row) == topic and int(replicas.broker[row]) == broker:
                number = int(replicas.log_dir[row])
                found[:] = [Path(snapshot.log_dir_paths[number])] if number >= 0 else []
        return bool(found)

    wait_until(known, END_S, f"where {topic} lies is known")
    return found[0]


def _move_into(
    scene: Scene, topic: str, disk: Path, *, megabytes: int, throttle: int = SLOW_BYTES_PER_S
) -> str:
    """Start a move to broker 4, into one of its directories, and wait until it is there."""
    scene.filled(topic, 1, megabytes=megabytes)
    place = TopicPartition(topic, 0)
    answer = scene.client.reassign(
        ReassignmentPlan({place: (4,)}, {(place, 4): str(disk)}),
        throttle_bytes_per_s=throttle,
        additional=True,
    )
    assert answer.operation_id is not None
    _until(lambda: _directory_of(scene, topic, 4) == disk, f"{topic} is copied to {disk}")
    return answer.operation_id


def _until(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, END_S, what)
