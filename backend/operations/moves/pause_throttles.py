"""Pause and resume: hold back an operation's copies, and nobody else's, without cancelling.

Goals
    A pause keeps every byte that was copied. Foreign moves, moves of other operations and replicas
    that recover continue as fast as before. Resuming puts back the rates from before the pause.
Constraints
    Pure. Kafka has one rate a broker and side; it binds every listed replica of that broker which
    is out of the ISR. So a rate holds only ours where nothing but ours is listed.
Algorithm
    The copies are held on the side of the follower. The floor becomes the follower's rate of a
    broker that receives copies of ours, if the topics' follower lists name only our copies there.
    Elsewhere the rate stays as it is, and a note names the copies that continue because of this.
    Before the rates, the lists: copies that are not listed (an operation without a throttle) are
    added, and replicas of ours that have arrived are removed.
    The leader's side is never used. A leader's list names the leader of a partition, so a floor
    there would also hold back an old replica that falls out of the ISR. Then the partition could
    stay under min.insync.replicas until the pause ends. The follower's list names only the new
    replicas, which nobody needs yet.
    A listed replica that is in sync is not held now, but would be if it fell out of the ISR during
    the pause. So it shares the broker as much as a foreign move does.
    `pause_writes` is called again on each tick while paused. A broker that has come to be shared
    gets its rate back, and one that is ours alone now is held too. A floor that somebody removed is
    written again.

The floor is not a stop. Kafka lets one fetch pass and then none until its window of 11 samples of
1 s is under the rate again. So a held copy still advances by one fetch
(replica.fetch.max.bytes, 1 MB) each 10 s or so, as seen on Kafka 4.1.1 at 1 KB/s. By the same
arithmetic a rate of 0 would not hold it better, and it looks to everybody like an accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    NO_REPLICAS,
    RATE_MIN_BYTES_PER_S,
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.operations.moves.cluster_view import ClusterView

FLOOR_BYTES_PER_S: Final = RATE_MIN_BYTES_PER_S
"""KIP-179's lowest rate; anything lower would be taken for a mistake."""

NO_SHARE: Final[Mapping[str, ReplicaSet]] = {}

Copy: TypeAlias = tuple[TopicPartition, int]
"""A new replica of ours: its partition and its broker."""


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """What a pause replaced; it must be in the journal before its writes are made."""

    rates: Mapping[int, int | None] = field(default_factory=dict)
    """By broker: the follower's rate from before, bytes/s, or None where there was none."""
    added: Mapping[str, ReplicaSet] = field(default_factory=dict)
    """By topic: follower entries that only the pause put there."""


@dataclass(frozen=True, slots=True)
class Pause:
    """What to write, lists before rates, and what comes of it. No writes: it holds already."""

    topics: Mapping[str, ThrottledReplicas]
    """Whole lists to write."""
    rates: Mapping[int, ThrottledRate]
    """Both rates to write by broker; the leader's is the present one."""
    record: PauseRecord
    held: frozenset[Copy]
    """Copies at the floor once this is written, and those whose broker is down."""
    not_held: Mapping[Copy, str]
    """Copies that no rate can hold without holding others, each with the reason."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each broker on which copies continue."""
        by_reason: dict[str, set[str]] = {}
        for (partition, _), reason in self.not_held.items():
            by_reason.setdefault(reason, set()).add(str(partition))
        return tuple(
            f"{reason}; {listed(sorted(names), 3)} continues at the present rate."
            for reason, names in sorted(by_reason.items())
        )


@dataclass(frozen=True, slots=True)
class Resume:
    """What to write, rates before lists, and what cannot or need not be written."""

    topics: Mapping[str, ThrottledReplicas]
    rates: Mapping[int, ThrottledRate]
    changed: Mapping[int, int | None]
    """Brokers whose follower's rate somebody else set meanwhile, and that rate; it stays."""
    unread: tuple[int, ...]
    """Brokers that did not say what their rate is; resuming is not done before they have."""

    @property
    def done(self) -> bool:
        """True where nothing is left to write or to read."""
        return not (self.topics or self.rates or self.unread)


def copies_of(partitions: Iterable[TopicPartition], view: ClusterView) -> frozenset[Copy]:
    """The new replicas of these partitions that are being copied now."""
    return frozenset(
        (partition, broker)
        for partition in partitions
        if partition in view.ongoing
        for broker in view.ongoing[partition].adding
    )


def pause_writes(
    ours: Iterable[TopicPartition],
    view: ClusterView,
    share: Mapping[str, ReplicaSet] = NO_SHARE,
    record: PauseRecord | None = None,
) -> Pause:
    """What holds back the copies of our moving partitions, and only those.

    Args:
        ours: The operation's partitions. Those that do not move are ignored.
        view: With the throttles of every live broker. Also with those of every topic that lists
            replicas, and their partitions.
        share: By topic, follower entries that this operation alone owns.
        record: What an earlier call replaced. With it, a repetition keeps the true prior values.
    """
    copies = copies_of(ours, view)
    before = record or PauseRecord()
    arrived = _arrived(share, copies, view)
    not_held: dict[Copy, str] = {}
    held: set[Copy] = set()
    hold: set[int] = set()
    for broker in sorted({broker for _, broker in copies}):
        here = {copy for copy in copies if copy[1] == broker}
        reason = _cannot_hold(broker, here | arrived, view)
        if reason:
            not_held |= dict.fromkeys(here, reason)
            continue
        held |= here
        if broker in view.live:
            hold.add(broker)
    topics, added = _lists(held, arrived, view, before)
    rates, priors = _rates(hold, view.throttles, before)
    return Pause(topics, rates, PauseRecord(priors, added), frozenset(held), not_held)


def resume_writes(record: PauseRecord, present: Throttles) -> Resume:
    """What puts back the rates and lists from before a pause; safe to repeat.

    A rate that is no longer the floor was set by somebody else during the pause, or was put back
    already; it stays.
    """
    rates: dict[int, ThrottledRate] = {}
    changed: dict[int, int | None] = {}
    unread = []
    for broker, prior in record.rates.items():
        throttle = present.rates.get(broker)
        if throttle is None:
            unread.append(broker)
        elif throttle.rate.follower_bytes_per_s == prior:
            continue
        elif throttle.rate.follower_bytes_per_s == FLOOR_BYTES_PER_S:
            rates[broker] = _with_follower_rate(throttle, prior)
        else:
            changed[broker] = throttle.rate.follower_bytes_per_s
    topics = {}
    for topic, added in record.added.items():
        now = present.replicas.get(topic, NO_REPLICAS)
        left = ThrottledReplicas(now.leaders, now.followers - added)
        if left != now:
            topics[topic] = left
    return Resume(topics, rates, changed, tuple(sorted(unread)))


# One broker


def _arrived(
    share: Mapping[str, ReplicaSet], copies: frozenset[Copy], view: ClusterView
) -> set[Copy]:
    """Listed replicas of ours that are no copies any more: they must not be held."""
    listed_ones = {
        (TopicPartition(topic, number), broker)
        for topic, entries in share.items()
        for number, broker in entries.pairs
    }
    return {
        (partition, broker)
        for partition, broker in listed_ones - copies
        if partition in view.partitions and broker in view.partitions[partition].replicas
    }


def _cannot_hold(broker: int, ours: set[Copy], view: ClusterView) -> str:
    """Why a floor on this broker would hold more than our copies, or nothing."""
    if broker not in view.live:
        return ""
    if broker not in view.throttles.rates:
        return f"The rates of broker {broker} could not be read"
    sharing = sorted(set(_sharing(broker, ours, view)))
    foreign = [name for name, moving in sharing if moving]
    if foreign:
        return (
            f"Broker {broker} also receives {listed(foreign, 3)}, which this operation does "
            "not move"
        )
    if sharing:
        names = listed((name for name, _ in sharing), 3)
        return (
            f"Broker {broker} also has {names} in its throttled replicas, "
            "which could not recover at the floor"
        )
    return ""


def _sharing(broker: int, ours: set[Copy], view: ClusterView) -> Iterator[tuple[str, bool]]:
    """Listed replicas on the broker that are not ours: the name, and whether it is being copied."""
    for topic, lists in view.throttles.replicas.items():
        if lists.followers.everything:
            found = [partition for partition in view.partitions if partition.topic == topic]
            if not found:
                yield f"all of {topic}", False
        else:
            pairs = lists.followers.pairs
            found = [TopicPartition(topic, number) for number, where in pairs if where == broker]
        for partition in found:
            if _is_ours(partition, broker, ours, lists.followers, view):
                continue
            if _may_host(broker, partition, view):
                move = view.ongoing.get(partition)
                yield str(partition), move is not None and broker in move.adding


def _is_ours(
    partition: TopicPartition,
    broker: int,
    ours: set[Copy],
    followers: ReplicaSet,
    view: ClusterView,
) -> bool:
    """True for a copy of ours, and for a replica of ours whose entry can be removed."""
    if (partition, broker) not in ours:
        return False
    move = view.ongoing.get(partition)
    copying = move is not None and broker in move.adding
    return copying or not followers.everything


def _may_host(broker: int, partition: TopicPartition, view: ClusterView) -> bool:
    """True unless the cluster says that the replica is not there: then the entry is a relic."""
    state = view.partitions.get(partition)
    return state is None or broker in state.replicas


# What to write


def _lists(
    held: set[Copy], arrived: set[Copy], view: ClusterView, before: PauseRecord
) -> tuple[dict[str, ThrottledReplicas], dict[str, ReplicaSet]]:
    """Lists with all held copies and without arrived ones; and all that pauses have added."""
    topics: dict[str, ThrottledReplicas] = {}
    added = dict(before.added)
    brokers = {broker for _, broker in held}
    for topic in sorted({partition.topic for partition, _ in held | arrived}):
        now = view.throttles.replicas.get(topic, NO_REPLICAS)
        missing = ReplicaSet(
            frozenset(pair for pair in _pairs(held, topic) if pair not in now.followers)
        )
        over = ReplicaSet(frozenset(pair for pair in _pairs(arrived, topic) if pair[1] in brokers))
        wanted = ThrottledReplicas(now.leaders, (now.followers | missing) - over)
        if wanted != now:
            topics[topic] = wanted
        if missing:
            added[topic] = added.get(topic, ReplicaSet()) | missing
    return topics, added


def _pairs(copies: set[Copy], topic: str) -> set[tuple[int, int]]:
    return {
        (partition.partition, broker) for partition, broker in copies if partition.topic == topic
    }


def _rates(
    hold: set[int], present: Throttles, before: PauseRecord
) -> tuple[dict[int, ThrottledRate], dict[int, int | None]]:
    """The floor where it is to be and is not, and the prior rate where it is to be no more."""
    rates: dict[int, ThrottledRate] = {}
    priors = dict(before.rates)
    for broker in sorted(hold):
        throttle = present.rates[broker]
        priors.setdefault(broker, throttle.rate.follower_bytes_per_s)
        if throttle.rate.follower_bytes_per_s != FLOOR_BYTES_PER_S:
            rates[broker] = _with_follower_rate(throttle, FLOOR_BYTES_PER_S)
    leaving = PauseRecord({b: rate for b, rate in before.rates.items() if b not in hold})
    resume = resume_writes(leaving, present)
    # A broker stays in the record until its rate was read and is back.
    for broker in leaving.rates.keys() - resume.rates.keys() - set(resume.unread):
        del priors[broker]
    return rates | dict(resume.rates), priors


def _with_follower_rate(throttle: BrokerThrottle, rate_bytes_per_s: int | None) -> ThrottledRate:
    """The broker's rates with another one as follower.

    A leader's rate that is not the broker's own dynamic configuration is not written: it would
    be pinned there.
    """
    own = throttle.leader_source in (ConfigSource.DYNAMIC_BROKER, "")
    leader = throttle.rate.leader_bytes_per_s if own else NO_RATE.leader_bytes_per_s
    return ThrottledRate(leader, rate_bytes_per_s)
