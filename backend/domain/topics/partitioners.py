"""Which partitioner chose the partitions of keys, as far as a few records tell.

Goals
    A topic that is copied into fewer partitions keeps each key where its producers will write it.
Constraints
    Keys may be secret: they are counted where they are read, and leave as numbers.
Algorithm
    A partitioner that did not choose the partition of a key still hits it by chance: among N
    partitions, once in N times. So hits are counted of each partitioner, of distinct keys, and held
    against that chance. One that hits all keys, against long odds, chose them. One that hits
    clearly more than by chance, but not all, chose some: others wrote the rest. The same holds
    if the topic was given partitions: older records are where a former count put their keys.
"""

from __future__ import annotations

import enum
import math
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

ODDS: Final = 1e-6
"""What is less likely than this is no chance."""
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


class Partitioner(enum.StrEnum):
    """How a producer chooses the partition of a key."""

    MURMUR2 = "murmur2"
    """Kafka's Java client and Kafka Streams; `murmur2_random` of librdkafka."""
    CRC32 = "crc32"
    """`consistent_random`, the default of librdkafka: confluent-kafka for Python, Go and .NET."""
    FNV1A = "fnv1a"
    """Sarama's default, and the one of kafka-go; `fnv1a_random` of librdkafka."""


def murmur2(key: bytes) -> int:
    """Kafka's hash of 32 bits."""
    h = _MURMUR_SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _MURMUR_M & _MASK
        h = h * _MURMUR_M & _MASK ^ (k ^ k >> 24) * _MURMUR_M & _MASK
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _MURMUR_M & _MASK
    h = (h ^ h >> 13) * _MURMUR_M & _MASK
    return h ^ h >> 15


def fnv1a(key: bytes) -> int:
    """The hash of 32 bits."""
    h = _FNV_OFFSET
    for byte in key:
        h = (h ^ byte) * _FNV_PRIME & _MASK
    return h


def absolute(hash_32: int) -> int:
    """What a hash is as a signed number of 32 bits, without its sign; so Sarama takes it."""
    return hash_32 if hash_32 <= _POSITIVE else _MASK + 1 - hash_32


_NUMBERS: Final[Mapping[Partitioner, Callable[[bytes], int]]] = {
    Partitioner.MURMUR2: lambda key: murmur2(key) & _POSITIVE,
    Partitioner.CRC32: zlib.crc32,
    Partitioner.FNV1A: lambda key: absolute(fnv1a(key)),
}


def partition_of(key: bytes, partitions: int, partitioner: Partitioner) -> int:
    """Where a partitioner puts a key."""
    return _NUMBERS[partitioner](key) % partitions


class KeyPlacing(enum.StrEnum):
    """What the keys of a topic follow."""

    ONE = "one"
    """One partitioner."""
    MIXED = "mixed"
    """Several, or one for some of the keys."""
    OTHER = "other"
    """None that is known here."""
    UNKNOWN = "unknown"
    """Too few keys were seen."""


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """Distinct keys of a topic, and which partitioners explain their partitions."""

    keys: int = 0
    """A key that was seen in two partitions counts twice."""
    partitions: int = 1
    """That the topic has."""
    hits: Mapping[Partitioner, int] = field(default_factory=dict)
    """Keys that are where each partitioner puts them."""

    def followed(self) -> tuple[KeyPlacing, tuple[Partitioner, ...]]:
        """What the keys follow, and the partitioners that may have chosen: the likeliest first."""
        order = sorted(Partitioner, key=lambda one: -self.hits.get(one, 0))
        chance = 1 / self.partitions
        clear = [one for one in order if at_least(self.hits.get(one, 0), self.keys, chance) < ODDS]
        whole = [one for one in order if self.keys and self.hits.get(one, 0) == self.keys]
        if clear and whole == clear[:1] and len(clear) == 1:
            return KeyPlacing.ONE, tuple(clear)
        if clear:
            return KeyPlacing.MIXED, tuple(clear)
        # Of an unseen partitioner half of the keys would be a clear sign, had enough been seen.
        if at_least(math.ceil(self.keys / 2), self.keys, chance) < ODDS:
            return KeyPlacing.OTHER, ()
        return KeyPlacing.UNKNOWN, tuple(whole)


def keys_seen(pairs: Collection[tuple[bytes, int]], partitions: int) -> KeysSeen:
    """Count distinct keys with their partitions.

    A key of no bytes tells nothing: librdkafka's default takes it for none.
    """
    told = [(key, number) for key, number in pairs if key]
    hits = {
        one: sum(partition_of(key, partitions, one) == number for key, number in told)
        for one in Partitioner
    }
    return KeysSeen(len(told), partitions, hits)


def at_least(hits: int, keys: int, chance: float) -> float:
    """The probability of `hits` hits or more, if each key hits by this chance alone."""
    if hits <= 0:
        return 1.0
    if chance >= 1:
        return 1.0
    total = 0.0
    for count in range(hits, keys + 1):
        ways = math.lgamma(keys + 1) - math.lgamma(count + 1) - math.lgamma(keys - count + 1)
        total += math.exp(ways + count * math.log(chance) + (keys - count) * math.log1p(-chance))
    return min(total, 1.0)
