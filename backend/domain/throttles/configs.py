"""Replication throttles (KIP-73, KIP-179): rates on brokers, replica lists on topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final
from weakref import WeakValueDictionary

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.errors import BadInput

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

SETTING_WORDS: Final[Mapping[str, str]] = {
    LEADER_RATE: "leader rate",
    FOLLOWER_RATE: "follower rate",
    LOG_DIR_RATE: "log directory rate",
    LEADER_REPLICAS: "leader list",
    FOLLOWER_REPLICAS: "follower list",
}
"""Kafka's config names in two or three words, for sentences and columns."""

RATE_MIN_BYTES_PER_S: Final = 1_000
"""KIP-179: a throttle "should be at least 1 KB/s"; below it nothing would ever finish."""

RATE_MAX_BYTES_PER_S: Final = 10**15
"""More than any network: above it a typing error is likelier than a wish."""

RATE_SPARE: Final = 1.1
"""What is written varies; a rate that would do has so much to spare."""

UNTHROTTLED: Final = 2**63 - 1
"""KIP-179, Kafka's `Long.MAX_VALUE`: no throttle. It is exact; no float holds it."""

_RATE = re.compile(r"(?i)^\s*(\d{1,30}(?:\.\d{1,30})?)\s*([kmgtp]?i?b?)\s*(?:/\s*s)?\s*$")
_UNIT_BYTES: Final = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "p": 10**15,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
    "pi": 2**50,
}


def parse_rate(text: str) -> int | None:
    """Bytes a second from what an operator types: `50MB/s`, `10485760`, `4MiB`, or `none`.

    MB is 10**6 and MiB is 2**20, as SI and IEC say. Returns None for `none` and for
    `UNTHROTTLED`: no throttle.

    Raises:
        BadInput: the text is no rate, or it is under 1 KB/s.
    """
    if text.strip().lower() in ("none", "off", "unlimited"):
        return None
    match = _RATE.match(text)
    if match is None:
        raise BadInput(
            f"'{text}' is not a rate.",
            advice="Type bytes a second (10485760), a unit (50MB/s, 4MiB/s), or none.",
        )
    number, unit = match.group(1), match.group(2).lower().removesuffix("b")
    rate_bytes_per_s = rate_or_none(round(Fraction(number) * _UNIT_BYTES[unit]))
    return None if rate_bytes_per_s is None else check_rate(rate_bytes_per_s)


def rate_or_none(rate_bytes_per_s: int | None) -> int | None:
    """The rate; None where it is none or `UNTHROTTLED`, which KIP-179 writes for no throttle."""
    return None if rate_bytes_per_s == UNTHROTTLED else rate_bytes_per_s


def check_rate(rate_bytes_per_s: int) -> int:
    """The rate itself, if a reassignment can make progress under it.

    Raises:
        BadInput: the rate is under 1 KB/s, or over 1 PB/s.
    """
    if rate_bytes_per_s < RATE_MIN_BYTES_PER_S:
        raise BadInput(
            f"A throttle of {rate_bytes_per_s} B/s is less than 1 KB/s; the move would never end.",
            advice="Give at least 1000, or none to remove the throttle.",
        )
    if rate_bytes_per_s > RATE_MAX_BYTES_PER_S:
        raise BadInput(
            f"A throttle of {rate_bytes_per_s} B/s is more than any network can carry.",
            advice="Give none to remove the throttle.",
        )
    return rate_bytes_per_s


@dataclass(frozen=True, slots=True)
class ThrottledRate:
    """A broker's rates for throttled replication; None means that no rate is set."""

    leader_bytes_per_s: int | None
    """As a leader: what it sends to throttled followers."""
    follower_bytes_per_s: int | None
    """As a follower: what it fetches for throttled replicas."""

    def raised(self, key: str, bytes_per_s: int) -> ThrottledRate:
        """The same, with one side at least this high; a side without a throttle needs none.

        `key` is `LEADER_RATE` or `FOLLOWER_RATE`.
        """
        side = "leader_bytes_per_s" if key == LEADER_RATE else "follower_bytes_per_s"
        present: int | None = getattr(self, side)
        if present is None or present >= bytes_per_s:
            return self
        return replace(self, **{side: bytes_per_s})


@dataclass(frozen=True, slots=True)
class BrokerThrottle:
    """What a broker's configuration says now."""

    broker: int
    rate: ThrottledRate
    log_dir_bytes_per_s: int | None = None
    """Rate of moves between this broker's own log directories."""
    leader_source: str = ""
    """Where the leader's rate is from, as Kafka's config source, for example
    DYNAMIC_BROKER_CONFIG; empty where there is no such rate."""
    follower_source: str = ""
    """Where the follower's rate is from, likewise."""
    log_dir_source: str = ""
    """Where the rate of moves between log directories is from, likewise."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the rates are from, each source once."""
        found = (self.leader_source, self.follower_source, self.log_dir_source)
        return tuple(dict.fromkeys(source for source in found if source))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ReplicaSet:
    """A set of replicas as the throttle lists write it: `0:101,0:102`, `*`, or nothing."""

    pairs: frozenset[tuple[int, int]] = frozenset()
    """(partition, broker) pairs."""
    everything: bool = False
    """True for `*`: every replica of the topic."""

    @classmethod
    def parse(cls, text: str, all_brokers: Iterable[int] | None = None) -> ReplicaSet:
        """Read a config value; or, where `all_brokers` are given, one with `partition:*` in it.

        That is KIP-179's null for "all brokers in the cluster", which no config value can say.
        While a set is in use, the same config value gives that same set, except with `all_brokers`.
        The sampler reads long lists again and again, and need not compare a set that is the same
        object.

        Raises:
            BadInput: an entry is not `partition:broker`.
        """
        stripped = text.strip()
        if stripped == "*":
            return cls(everything=True)
        if stripped in ("", "none"):
            return cls()
        if all_brokers is not None:
            every, entries = tuple(all_brokers), stripped.split(",")
            return cls(frozenset(pair for entry in entries for pair in _parse_entry(entry, every)))
        known = _PARSED.get(stripped)
        if known is None:
            known = cls(frozenset(map(_parse_pair, stripped.split(","))))
            _PARSED[stripped] = known
        return known

    def __contains__(self, pair: tuple[int, int]) -> bool:
        return self.everything or pair in self.pairs

    def __bool__(self) -> bool:
        return self.everything or bool(self.pairs)

    def __or__(self, other: ReplicaSet) -> ReplicaSet:
        if self.everything or other.everything:
            return ReplicaSet(everything=True)
        return ReplicaSet(pairs=self.pairs | other.pairs)

    def __sub__(self, other: ReplicaSet) -> ReplicaSet:
        if self.everything or other.everything:
            return ReplicaSet() if other.everything else self
        return ReplicaSet(pairs=self.pairs - other.pairs)

    def __str__(self) -> str:
        if self.everything:
            return "*"
        return ",".join(f"{partition}:{broker}" for partition, broker in sorted(self.pairs))


_PARSED: Final[WeakValueDictionary[str, ReplicaSet]] = WeakValueDictionary()
"""Sets in use, by the config value that they were read from."""


def _parse_entry(entry: str, every: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    partition, _, broker = entry.strip().partition(":")
    if broker == "*" and _is_id(partition):
        yield from ((int(partition), one) for one in every)
    else:
        yield _parse_pair(entry)


def _parse_pair(entry: str) -> tuple[int, int]:
    partition, colon, broker = entry.strip().partition(":")
    if not colon or not _is_id(partition) or not _is_id(broker):
        raise BadInput(
            f"'{entry.strip()}' is not a throttled replica.",
            advice="Write partition:broker pairs (0:101,0:102), * for all, or none.",
        )
    return int(partition), int(broker)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """A topic's throttled replicas, on the leaders' and on the followers' side."""

    leaders: ReplicaSet = ReplicaSet()
    followers: ReplicaSet = ReplicaSet()

    def __bool__(self) -> bool:
        return bool(self.leaders) or bool(self.followers)


@dataclass(frozen=True, slots=True)
class Move:
    """What one partition of a reassignment does: where it is and where it will be."""

    partition: TopicPartition
    current: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that receive a replica, in the target's order."""
        return tuple(broker for broker in self.target if broker not in self.current)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose their replica, in the present order."""
        return tuple(broker for broker in self.current if broker not in self.target)


NO_RATE: Final = ThrottledRate(None, None)
NO_REPLICAS: Final = ThrottledReplicas()


def throttled_replicas_of(moves: Iterable[Move]) -> dict[str, ThrottledReplicas]:
    """The replica lists that a throttled reassignment needs, by topic.

    KIP-179 ("throttle"): leaders are the existing brokers of each partition that moves data,
    followers are the new ones. A partition that gains no replica copies nothing and is not
    listed; this is what Kafka's `ReassignPartitionsCommand` computes.
    """
    leaders: dict[str, set[tuple[int, int]]] = {}
    followers: dict[str, set[tuple[int, int]]] = {}
    for move in moves:
        topic, partition = move.partition
        if not move.adding:
            continue
        leaders.setdefault(topic, set()).update((partition, b) for b in move.current)
        followers.setdefault(topic, set()).update((partition, b) for b in move.adding)
    return {
        topic: ThrottledReplicas(
            ReplicaSet(frozenset(leaders[topic])), ReplicaSet(frozenset(followers[topic]))
        )
        for topic in leaders
    }


def brokers_of(moves: Iterable[Move]) -> tuple[int, ...]:
    """Every broker that takes part in a reassignment, sorted (KIP-179, algorithm step 4)."""
    taking_part: set[int] = set()
    for move in moves:
        taking_part.update(move.current, move.target)
    return tuple(sorted(taking_part))


@dataclass(frozen=True, slots=True)
class Throttles:
    """Every replication throttle of a cluster."""

    rates: Mapping[int, BrokerThrottle]
    """By broker id; a broker that did not answer is absent, which is not "no throttle"."""
    replicas: Mapping[str, ThrottledReplicas]
    """By topic; only topics that list something."""
    unknown_brokers: tuple[int, ...] = ()
    """Brokers whose rates could not be read."""
