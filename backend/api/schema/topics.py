"""Topics as the API answers them: what was read of each, and what the API adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicsDescribed,
    TopicSummary,
)


@dataclass(frozen=True, slots=True)
class Topics:
    """The cluster's topics, by name."""

    topics: tuple[TopicSummary, ...]


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The whole configuration of a topic, sorted by name."""

    topic: str
    configs: tuple[TopicConfig, ...]


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """One partition."""

    partition: int
    leader: int
    """-1 where nobody leads."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elr: tuple[int, ...] | None
    """KIP-966; null where the brokers do not tell."""
    last_known_elr: tuple[int, ...] | None
    mode: PartitionMode
    mode_name: str

    @classmethod
    def of(cls, one: DescribedPartition) -> PartitionAnswer:
        """As the API says it."""
        brokers = one.leader, one.replicas, one.isr, one.offline, one.adding, one.removing
        return cls(one.number, *brokers, one.elr, one.last_known_elr, one.mode, str(one.mode))

    def described(self) -> DescribedPartition:
        """The value that this says."""
        return DescribedPartition(
            *(self.partition, self.leader, self.replicas, self.isr, self.offline, self.mode),
            *(self.adding, self.removing, self.elr, self.last_known_elr),
        )


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """One topic."""

    topic: str
    topic_id: str
    """Empty on a cluster without topic ids."""
    internal: bool
    replication_factor: int
    min_insync_replicas: int | None
    configs: dict[str, str | None]
    partitions: tuple[PartitionAnswer, ...]

    @classmethod
    def of(cls, topic: TopicDescription) -> TopicAnswer:
        """As the API says it."""
        return cls(
            topic.name,
            topic.topic_id,
            topic.internal,
            topic.replication_factor,
            topic.min_isr,
            dict(topic.configs),
            tuple(map(PartitionAnswer.of, topic.partitions)),
        )

    def description(self) -> TopicDescription:
        """The value that this says."""
        partitions = tuple(one.described() for one in self.partitions)
        return TopicDescription(
            self.topic, self.topic_id, partitions, self.configs, self.min_insync_replicas
        )


@dataclass(frozen=True, slots=True)
class TopicsAnswer:
    """Topics by name; topics that do not exist are absent."""

    topics: tuple[TopicAnswer, ...]
    live_brokers: tuple[int, ...]

    @classmethod
    def of(cls, described: TopicsDescribed) -> TopicsAnswer:
        """As the API says it."""
        topics = tuple(map(TopicAnswer.of, described.topics))
        return cls(topics, tuple(sorted(described.live)))

    def described(self) -> TopicsDescribed:
        """The value that this says."""
        topics = tuple(one.description() for one in self.topics)
        return TopicsDescribed(topics, frozenset(self.live_brokers))


def altered_topics(topics: Mapping[str, AlteredTopic]) -> list[dict[str, Any]]:
    """Topics of a request to alter them."""
    return [
        {
            "topic": name,
            "partitions": wanted.partitions,
            "replication_factor": wanted.replication_factor,
            "assignment": [
                {"partition": number, "replicas": list(replicas)}
                for number, replicas in wanted.assignments.items()
            ],
        }
        for name, wanted in topics.items()
    ]
