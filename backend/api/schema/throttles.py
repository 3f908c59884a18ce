"""Throttles as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.api.schema.base import Json
from backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)


def throttles_json(throttles: Throttles) -> Json:
    """Rates by broker and replica lists by topic."""
    return {
        "rates": [
            {
                "broker": rate.broker,
                "leader_bytes_per_s": rate.rate.leader_bytes_per_s,
                "follower_bytes_per_s": rate.rate.follower_bytes_per_s,
                "log_dir_bytes_per_s": rate.log_dir_bytes_per_s,
                "source": rate.leader_source,
                "follower_source": rate.follower_source,
                "log_dir_source": rate.log_dir_source,
            }
            for rate in throttles.rates.values()
        ],
        "replicas": [
            {"topic": topic, "leaders": str(lists.leaders), "followers": str(lists.followers)}
            for topic, lists in throttles.replicas.items()
        ],
        "unknown_brokers": list(throttles.unknown_brokers),
    }


def read_throttles(document: Mapping[str, Any]) -> Throttles:
    """The opposite of `throttles_json`."""
    return Throttles(
        rates={
            rate["broker"]: BrokerThrottle(
                broker=rate["broker"],
                rate=ThrottledRate(rate["leader_bytes_per_s"], rate["follower_bytes_per_s"]),
                log_dir_bytes_per_s=rate["log_dir_bytes_per_s"],
                leader_source=rate["source"],
                follower_source=rate["follower_source"],
                log_dir_source=rate["log_dir_source"],
            )
            for rate in document["rates"]
        },
        replicas={
            entry["topic"]: ThrottledReplicas(
                ReplicaSet.parse(entry["leaders"]), ReplicaSet.parse(entry["followers"])
            )
            for entry in document["replicas"]
        },
        unknown_brokers=tuple(document["unknown_brokers"]),
    )
