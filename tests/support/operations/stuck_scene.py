"""Four real brokers, a backend whose stream tells causes, and what brings them about."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import BackendError
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import lift, watching
from tests.support.faults.cut_network import Network, network
from tests.support.serving import serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

IN_TIME_S: Final = 90.0
"""For what is promised within 35 s, on a busy machine."""
END_S: Final = 120.0
RECORD_BYTES: Final = 50_000
SLOW_BYTES_PER_S: Final = 1_000_000
FAST_BYTES_PER_S: Final = 1_000_000_000


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
        """Start a move; the id of its operation.

        Brokers that have just started may acknowledge a heartbeat late. The backend then refuses,
        says that nothing was changed, and asks for another try.
        """
        plan = {TopicPartition(topic, number): target for number in range(partitions)}
        taken: list[ChangeAnswer] = []

        def start() -> bool:
            with _until_active():
                taken.append(
                    self.client.reassignments.start(
                        ReassignmentPlan(plan), throttle_bytes_per_s=throttle, additional=True
                    )
                )
            return bool(taken)

        wait_until(start, END_S, f"the move of {topic} is taken")
        assert taken[0].failures == (), taken[0].failures
        assert taken[0].operation_id is not None
        return taken[0].operation_id

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

    def hurry(self) -> None:
        """Let what is under way continue without delay; to be asked while much is left of it.

        A broker that has just started may be too slow for the first write; it is asked again.
        """
        left = set(self.kafka.broker_ids)

        def taken() -> bool:
            rates = dict.fromkeys(left, ThrottledRate(FAST_BYTES_PER_S, FAST_BYTES_PER_S))
            failures = self.client.throttles.alter_rates(rates).failures
            refused = [one for one in failures if not item_result(one.error_code).retriable]
            assert not refused, refused
            left.intersection_update(int(one.item) for one in failures)
            return not left

        wait_until(taken, END_S, "every broker has the rate")

    def ended(self, operation_id: str) -> None:
        """Wait until an operation is over."""
        wait_until(
            lambda: any(
                one.id == operation_id and one.state.ended for one in self.client.operations.list()
            ),
            END_S,
            f"operation {operation_id} has ended",
        )

    def cancelled(self, operation_id: str) -> None:
        """Cancel an operation, as soon as the journal takes it, and wait until it is over."""

        def is_over() -> bool:
            with suppress(BackendError):
                self.client.operations.cancel(operation_id)
            state = next(
                one.state for one in self.client.operations.list() if one.id == operation_id
            )
            return state.ended

        wait_until(is_over, END_S, f"operation {operation_id} is cancelled")

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
            written.result(90)

    def directory_of(self, topic: str, broker: int) -> Path:
        """Where a broker keeps a topic, once the stream tells."""
        found: list[Path] = []

        def known() -> bool:
            snapshot = self.seen[-1]
            replicas = snapshot.replicas
            for row in range(len(replicas)):
                if snapshot.topic_of(row) == topic and int(replicas.broker[row]) == broker:
                    number = int(replicas.log_dir[row])
                    found[:] = [Path(snapshot.log_dir_paths[number])] if number >= 0 else []
            return bool(found)

        wait_until(known, END_S, f"where {topic} lies is known")
        return found[0]

    @contextmanager
    def written_to(self, topic: str, rate_bytes_per_s: int) -> Iterator[None]:
        """Somebody keeps producing to partition 0."""
        count = max(rate_bytes_per_s // 10 // 10_000, 1)
        with written_to(self.kafka.bootstrap_servers, topic, count, 10_000):
            yield


@contextmanager
def _until_active() -> Iterator[None]:
    """Let pass that the backend may not act yet; any other refusal is raised."""
    try:
        yield
    except BackendError as refused:
        if refused.status != HTTPStatus.CONFLICT or not refused.retriable:
            raise


@contextmanager
def written_to(
    bootstrap_servers: str, topic: str, records: int, record_bytes: int
) -> Iterator[None]:
    """Somebody produces that many records to partition 0, ten times a second."""
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.1):
            produce(bootstrap_servers, topic, records, record_bytes, 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join(30)


@contextmanager
def stuck_scene(folder: Path, overrides: Mapping[str, str]) -> Iterator[Scene]:
    """A scene whose brokers copy over a network that a test can make slow."""
    entries = {"inter.broker.listener.name": "FAR", **overrides}
    with RealKafka(4, entries, far=True) as kafka, ExitStack() as ends:
        way = ends.enter_context(network(kafka.far_ports))
        address = ends.enter_context(serving(kafka.bootstrap_servers, folder))
        client = ends.enter_context(BackendClient(address))
        with watching(address) as seen:
            yield Scene(kafka, way, client, seen)
        lift(client)
