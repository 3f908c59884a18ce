"""Throttles as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.domain.throttles.owners import OwnedThrottle, Share, ShownDrift, ShownOrphan


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


def rates_json(rates: Mapping[int, ThrottledRate]) -> list[dict[str, Any]]:
    """Rates by broker, as requests have them."""
    return [
        {
            "broker": broker,
            "leader_bytes_per_s": rate.leader_bytes_per_s,
            "follower_bytes_per_s": rate.follower_bytes_per_s,
        }
        for broker, rate in rates.items()
    ]


def replicas_json(replicas: Mapping[str, ThrottledReplicas]) -> list[dict[str, Any]]:
    """Lists by topic, as requests have them."""
    return [
        {"topic": topic, "leaders": str(lists.leaders), "followers": str(lists.followers)}
        for topic, lists in replicas.items()
    ]


def read_drift(document: Mapping[str, Any]) -> ShownDrift:
    """From an entry of `/v1/drift`."""
    named = {name: document[name] for name in ("id", "setting", "broker", "topic", "kind", "text")}
    return ShownDrift(
        wanted=document["wanted"],
        found=document["found"],
        operations=tuple(document["operations"]),
        **named,
    )


def read_owned(document: Mapping[str, Any]) -> OwnedThrottle:
    """From an entry of `/v1/throttles/owned`."""
    names = ("setting", "broker", "topic", "value", "source", "prior", "prior_source", "drift")
    shares = tuple(
        Share(one["operation"], one["who"], one["wants"], one["state"])
        for one in document["shares"]
    )
    return OwnedThrottle(shares=shares, **{name: document[name] for name in names})


def read_orphan(document: Mapping[str, Any]) -> ShownOrphan:
    """From an entry of `/v1/orphans`."""
    named = {name: document[name] for name in ("id", "setting", "broker", "topic", "value")}
    return ShownOrphan(origin=document["origin"], operations=tuple(document["operations"]), **named)
