"""Topics as an operator asks for them: Kafka's `kafka-topics --list` and `--describe`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.cluster.partition_modes import PartitionMode

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""What Kafka itself keeps in topics, and calls internal."""
TOPIC_NAME_MAX: Final = 249
"""Characters of a topic\'s name."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One line of a list of topics."""

    topic: str
    partitions: int
    replication_factor: int
    """Replicas of its first partition; 0 where it has none."""
    internal: bool


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    """One partition of a topic; the questions are those of Kafka's tool."""

    number: int
    leader: int
    """Broker id, or `NO_BROKER`."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    mode: PartitionMode = PartitionMode.READ_WRITE
    adding: tuple[int, ...] = ()
    """Brokers that a move adds; empty where it does not move."""
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    """Brokers out of the ISR that may lead all the same (KIP-966); None where nobody told."""
    last_known_elr: tuple[int, ...] | None = None
    """Those that could before they were all gone."""

    @property
    def replication_factor(self) -> int:
        """How many replicas it has when nothing moves it."""
        return len([broker for broker in self.replicas if broker not in self.adding])

    @property
    def under_replicated(self) -> bool:
        """True where a replica is not in sync."""
        return len(self.isr) < self.replication_factor

    @property
    def changing(self) -> bool:
        """True while it moves, or is on its way out."""
        return bool(self.adding or self.removing) or self.mode is not PartitionMode.READ_WRITE

    def unavailable(self, live: Collection[int]) -> bool:
        """True where nobody leads it, as seen from the brokers that are up."""
        return self.leader == NO_BROKER or self.leader not in live


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic, its partitions, and what was asked for of its configuration."""

    name: str
    topic_id: str
    """Kafka's notation of its id; empty on a cluster that has no ids (before 2.8)."""
    partitions: tuple[DescribedPartition, ...]
    configs: Mapping[str, str | None] = field(default_factory=dict)
    """What is not as Kafka ships it, sorted by name; None where the cluster does not show it."""
    min_isr: int | None = None
    """The min.insync.replicas in force; None where it is not known, or was not asked for."""

    @property
    def internal(self) -> bool:
        """True for what Kafka itself keeps."""
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """Of its first partition; 0 where it has none."""
        return self.partitions[0].replication_factor if self.partitions else 0

    @property
    def changing(self) -> bool:
        """True while any partition moves, or is on its way out."""
        return any(partition.changing for partition in self.partitions)

    @property
    def open_count(self) -> int:
        """How many partitions it has without those whose data is being deleted."""
        return sum(one.mode is not PartitionMode.NONE for one in self.partitions)


@dataclass(frozen=True, slots=True)
class TopicsDescribed:
    """Topics, and which brokers are up."""

    topics: tuple[TopicDescription, ...]
    """By name."""
    live: frozenset[int]
    """Brokers that are registered and not fenced."""
