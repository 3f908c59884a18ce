"""The ledger: which throttle is whose, and what was there before.

Goals
    When an operation ends, exactly its share of every throttle comes off, and what was there
    before it comes back. What another operation still needs, and what an operator set
    elsewhere, is not touched.
Constraints
    Pure: decides on values that were read, and returns values to write.
Algorithm
    The first operation that throttles a broker or a topic records the value that it found. Later
    ones add their share on top. Lifting removes a share; the last one to go restores the value
    that was found first. (KIP-179 records only that a throttle is to be removed; that the prior
    value returns goes beyond it.)

The ledger lives as long as its backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backend.domain.throttle import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)

NO_RATE = ThrottledRate(None, None)
NO_REPLICAS = ThrottledReplicas()


@dataclass(slots=True)
class _TopicEntry:
    prior: ThrottledReplicas
    shares: dict[str, ThrottledReplicas] = field(default_factory=dict)
    """By operation id: the replicas that it needs listed."""


@dataclass(slots=True)
class _BrokerEntry:
    prior: ThrottledRate
    prior_log_dir_bytes_per_s: int | None
    operations: set[str] = field(default_factory=set)

    def restored(self, present: BrokerThrottle | None) -> bool:
        """True where the broker surely has what was found first."""
        prior = self.prior, self.prior_log_dir_bytes_per_s
        return present is not None and (present.rate, present.log_dir_bytes_per_s) == prior


@dataclass(frozen=True, slots=True)
class Lift:
    """What to write so that an operation's share is gone; what is so already is left out."""

    topics: Mapping[str, ThrottledReplicas]
    rates: Mapping[int, ThrottledRate]
    log_dir_rates: Mapping[int, int | None]

    def __bool__(self) -> bool:
        return bool(self.topics) or bool(self.rates)


class Ledger:
    """See the module's text."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicEntry] = {}
        self._brokers: dict[int, _BrokerEntry] = {}

    def record(
        self,
        operation_id: str,
        shares: Mapping[str, ThrottledReplicas],
        brokers: Iterable[int],
        prior: Throttles,
    ) -> None:
        """Note an operation's share before it is written; `prior` is what was read just now."""
        for topic, share in shares.items():
            found = prior.replicas.get(topic, NO_REPLICAS)
            entry = self._topics.setdefault(topic, _TopicEntry(found))
            entry.shares[operation_id] = share
        for broker in brokers:
            rate = prior.rates.get(broker, BrokerThrottle(broker, NO_RATE))
            kept = self._brokers.setdefault(
                broker, _BrokerEntry(rate.rate, rate.log_dir_bytes_per_s)
            )
            kept.operations.add(operation_id)

    def owns_broker(self, broker: int) -> bool:
        """True while an operation of ours throttles the broker."""
        return broker in self._brokers

    def owned_replicas(self, topic: str) -> ThrottledReplicas:
        """The replicas of a topic that operations of ours need listed."""
        entry = self._topics.get(topic)
        if entry is None:
            return NO_REPLICAS
        return _union(entry.shares.values())

    def topics_of(self, operation_id: str) -> tuple[str, ...]:
        """Topics on which the operation has a share."""
        return tuple(t for t, entry in self._topics.items() if operation_id in entry.shares)

    def brokers_of(self, operation_id: str) -> tuple[int, ...]:
        """Brokers on which the operation has a share."""
        return tuple(b for b, entry in self._brokers.items() if operation_id in entry.operations)

    def lift(self, operation_id: str, present: Throttles) -> Lift:
        """What to write to remove the operation's share from what is configured at `present`.

        A cluster that removes throttles by itself has often done all of it before.
        """
        topics = {
            topic: left
            for topic in self.topics_of(operation_id)
            for left in [self._without(operation_id, topic, present)]
            if left != present.replicas.get(topic, NO_REPLICAS)
        }
        last = [
            broker
            for broker in self.brokers_of(operation_id)
            if self._brokers[broker].operations == {operation_id}
            and not self._brokers[broker].restored(present.rates.get(broker))
        ]
        return Lift(
            topics,
            {broker: self._brokers[broker].prior for broker in last},
            {broker: self._brokers[broker].prior_log_dir_bytes_per_s for broker in last},
        )

    def _without(self, operation_id: str, topic: str, present: Throttles) -> ThrottledReplicas:
        now, entry = present.replicas.get(topic, NO_REPLICAS), self._topics[topic]
        share = entry.shares[operation_id]
        others = _union(s for other, s in entry.shares.items() if other != operation_id)
        return ThrottledReplicas(
            _lifted(now.leaders, share.leaders, others.leaders, entry.prior.leaders),
            _lifted(now.followers, share.followers, others.followers, entry.prior.followers),
        )

    def forget_topics(self, operation_id: str, topics: Iterable[str]) -> None:
        """The operation's share of these topics is gone from the cluster."""
        for topic in topics:
            entry = self._topics.get(topic)
            if entry is not None:
                entry.shares.pop(operation_id, None)
                if not entry.shares:
                    del self._topics[topic]

    def forget_brokers(self, operation_id: str, brokers: Iterable[int]) -> None:
        """The operation's share of these brokers is gone from the cluster."""
        for broker in brokers:
            entry = self._brokers.get(broker)
            if entry is not None:
                entry.operations.discard(operation_id)
                if not entry.operations:
                    del self._brokers[broker]


def _lifted(
    present: ReplicaSet, share: ReplicaSet, others: ReplicaSet, prior: ReplicaSet
) -> ReplicaSet:
    """What is listed now, less our share, but for what others need or what was there before."""
    if present.everything:
        return present
    return present - ReplicaSet(share.pairs - others.pairs - prior.pairs)


def _union(shares: Iterable[ThrottledReplicas]) -> ThrottledReplicas:
    leaders, followers = ReplicaSet(), ReplicaSet()
    for share in shares:
        leaders, followers = leaders | share.leaders, followers | share.followers
    return ThrottledReplicas(leaders, followers)
