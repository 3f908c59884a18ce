"""Topics as JSON: what they are, and how they are to be altered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicsDescribed,
    TopicSummary,
)


def summary_json(topic: TopicSummary) -> Json:
    """The opposite of `read_summary`."""
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "internal": topic.internal,
    }


def read_summary(document: Mapping[str, Any]) -> TopicSummary:
    """From an entry of `GET /v1/topics`."""
    return TopicSummary(
        document["topic"],
        document["partitions"],
        document["replication_factor"],
        document["internal"],
    )


def described_json(described: TopicsDescribed) -> Json:
    """The opposite of `read_described`."""
    return {
        "topics": [_topic_json(topic) for topic in described.topics],
        "live_brokers": sorted(described.live),
    }


def _topic_json(topic: TopicDescription) -> Json:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "min_insync_replicas": topic.min_isr,
        "configs": dict(topic.configs),
        "partitions": [
            {
                "partition": one.number,
                "leader": one.leader,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "offline": list(one.offline),
                "adding": list(one.adding),
                "removing": list(one.removing),
                "elr": None if one.elr is None else list(one.elr),
                "last_known_elr": (
                    None if one.last_known_elr is None else list(one.last_known_elr)
                ),
                "mode": int(one.mode),
                "mode_name": str(one.mode),
            }
            for one in topic.partitions
        ],
    }


def read_described(document: Mapping[str, Any]) -> TopicsDescribed:
    """From the answer of `POST /v1/topics/describe`."""
    return TopicsDescribed(
        tuple(_read_topic(entry) for entry in document["topics"]),
        frozenset(document["live_brokers"]),
    )


def _read_topic(document: Mapping[str, Any]) -> TopicDescription:
    return TopicDescription(
        document["topic"],
        document["topic_id"],
        tuple(
            DescribedPartition(
                one["partition"],
                one["leader"],
                tuple(one["replicas"]),
                tuple(one["isr"]),
                tuple(one["offline"]),
                PartitionMode(one["mode"]),
                tuple(one["adding"]),
                tuple(one["removing"]),
                _brokers(one["elr"]),
                _brokers(one["last_known_elr"]),
            )
            for one in document["partitions"]
        ),
        document["configs"],
        document["min_insync_replicas"],
    )


def _brokers(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)


def altered_json(topics: Mapping[str, AlteredTopic]) -> list[Json]:
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
