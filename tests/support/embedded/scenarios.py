"""A scenario on a core without sockets, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import Record, encode
from kshunt.backend.embedded.scenario.model import Scenario
from kshunt.backend.embedded.scenario.timeline import OwnMove, ScenarioTimeline

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
PORT = 9_000


class Written:
    """A store that keeps every record's bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def commit(self, records: Sequence[Record]) -> int:
        for record in records:
            self.data += encode(record) + b"\n"
        return len(self.data)


class SocketCalls:
    """Sockets that only remember what they were told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def address(self, broker: int) -> tuple[str, int]:
        return "127.0.0.1", PORT + broker

    def down(self, broker: int, *, crash: bool) -> None:
        self.words.append(f"{'crash' if crash else 'stop'} {broker}")

    def up(self, broker: int) -> None:
        self.words.append(f"start {broker}")

    def stall(self, broker: int) -> None:
        self.words.append(f"stall {broker}")

    def resume(self, broker: int) -> None:
        self.words.append(f"resume {broker}")


class Played:
    """A scenario that was begun."""

    def __init__(
        self, scenario: Scenario, seed: int = 0, submit: Callable[[OwnMove], None] | None = None
    ) -> None:
        self.scenario = scenario
        self.image = ClusterImage(static=dict(scenario.static))
        hardware = {broker.id: broker.hardware for broker in scenario.brokers}
        self.plane = DataPlane(
            self.image, START_MS, hardware=hardware, seed=seed, grain_ms=scenario.grain_ms
        )
        self.written, self.sockets = Written(), SocketCalls()
        self.core = Core(self.image, self.plane, Random(seed), store=self.written)
        self.core.start_all(
            [
                Registration(b.id, f"i{b.id}", "127.0.0.1", PORT + b.id, b.rack, b.log_dirs)
                for b in scenario.brokers
                if b.started
            ]
        )
        self.timeline = ScenarioTimeline(scenario, self.core, seed, self.sockets, submit)
        self.timeline.begin()

    def run(self, seconds: float) -> None:
        """Let the cluster's time pass."""
        self.core.advance(self.core.now_ms + int(seconds * 1000))

    @property
    def moving(self) -> set[str]:
        """The partitions that move."""
        return {f"{topic.name}-{number}" for topic, number, _ in self.image.moving()}

    @property
    def under_replicated(self) -> int:
        """Partitions with an original replica that is out of sync."""
        return sum(
            not set(partition.original) <= set(partition.isr)
            for topic in self.image.topics.values()
            for partition in topic.partitions.values()
        )

    def left_bytes(self) -> int:
        """What the moves have still to copy."""
        sizes = self.plane.replication.sizes()
        left = 0
        for topic, number, partition in self.image.moving():
            held = self.plane.held((topic.topic_id, number))
            assert held is not None
            full = sizes[held.replicas[partition.leader]]
            left += sum(int(full - sizes[held.replicas[b]]) for b in partition.adding)
        return left

    def sent_bytes_per_s(self, broker: int, seconds: float = 10.0) -> float:
        """What a broker sends to others over the next seconds."""
        number = self.plane.broker_number(broker)
        before = float(self.plane.replication.traffic()[1][number])
        self.run(seconds)
        return (float(self.plane.replication.traffic()[1][number]) - before) / seconds
