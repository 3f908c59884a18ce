"""Throttles as the API answers them, and as requests and frames have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """A broker's configured rates, and Kafka's config source of each; empty without a rate."""

    broker: int
    leader_bytes_per_s: int | None
    follower_bytes_per_s: int | None
    log_dir_bytes_per_s: int | None
    source: str
    """Of the leader's rate."""
    follower_source: str
    log_dir_source: str

    @classmethod
    def of(cls, throttle: BrokerThrottle) -> BrokerRates:
        """As the API has them."""
        return cls(
            throttle.broker,
            throttle.rate.leader_bytes_per_s,
            throttle.rate.follower_bytes_per_s,
            throttle.log_dir_bytes_per_s,
            throttle.leader_source,
            throttle.follower_source,
            throttle.log_dir_source,
        )

    def throttle(self) -> BrokerThrottle:
        """The opposite of `of`."""
        return BrokerThrottle(
            self.broker,
            ThrottledRate(self.leader_bytes_per_s, self.follower_bytes_per_s),
            self.log_dir_bytes_per_s,
            self.source,
            self.follower_source,
            self.log_dir_source,
        )


@dataclass(frozen=True, slots=True)
class TopicLists:
    """A topic's throttled replicas, in Kafka's notation."""

    topic: str
    leaders: str
    followers: str

    @classmethod
    def of(cls, topic: str, lists: ThrottledReplicas) -> TopicLists:
        """As the API has them."""
        return cls(topic, str(lists.leaders), str(lists.followers))

    def lists(self) -> ThrottledReplicas:
        """The opposite of `of`.

        Raises:
            BadInput: one is no list of replicas.
        """
        return ThrottledReplicas(ReplicaSet.parse(self.leaders), ReplicaSet.parse(self.followers))


@dataclass(frozen=True, slots=True)
class ThrottleSettings:
    """Every replication throttle."""

    rates: tuple[BrokerRates, ...]
    replicas: tuple[TopicLists, ...]
    unknown_brokers: tuple[int, ...]
    """Brokers whose rates could not be read."""

    @classmethod
    def of(cls, throttles: Throttles) -> ThrottleSettings:
        """As the API has them."""
        return cls(
            tuple(map(BrokerRates.of, throttles.rates.values())),
            tuple(TopicLists.of(topic, lists) for topic, lists in throttles.replicas.items()),
            throttles.unknown_brokers,
        )

    def throttles(self) -> Throttles:
        """The opposite of `of`.

        Raises:
            BadInput: one is no list of replicas.
        """
        return Throttles(
            {one.broker: one.throttle() for one in self.rates},
            {one.topic: one.lists() for one in self.replicas},
            self.unknown_brokers,
        )


@dataclass(frozen=True, slots=True)
class OwnedThrottles:
    """Every setting in which an operation has a share; kshunt does not own any other."""

    throttles: tuple[OwnedThrottle, ...]


@dataclass(frozen=True, slots=True)
class DriftedThrottles:
    """Changes that somebody else made to throttles of running operations."""

    drift: tuple[ShownDrift, ...]


@dataclass(frozen=True, slots=True)
class OrphanThrottles:
    """Rates and listed replicas that no move needs."""

    orphans: tuple[ShownOrphan, ...]


def throttles_json(throttles: Throttles) -> Json:
    """Rates by broker and replica lists by topic."""
    return to_document(ThrottleSettings.of(throttles))


def read_throttles(document: Mapping[str, Any]) -> Throttles:
    """The opposite of `throttles_json`.

    Raises:
        UnreadableValue: the document is not one of throttles.
        BadInput: one is no list of replicas.
    """
    return from_document(ThrottleSettings, document).throttles()


def rates_json(rates: Mapping[int, ThrottledRate]) -> list[Json]:
    """Rates by broker, as requests have them."""
    return [{"broker": broker, **to_document(rate)} for broker, rate in rates.items()]


def replicas_json(replicas: Mapping[str, ThrottledReplicas]) -> list[Json]:
    """Lists by topic, as requests have them."""
    return [to_document(TopicLists.of(topic, lists)) for topic, lists in replicas.items()]
