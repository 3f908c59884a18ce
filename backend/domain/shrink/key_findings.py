"""What a shrink means for producers that write keys: where their next records go, and when none.

A copy places each key where the topic's producers will write it from then on. It can do so only by
one partitioner. Of keys that several have placed an operator has to choose one: new records of the
other keys then go to another partition than their copied ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshunt.backend.domain.shrink.check import Finding, KeyUse
from kshunt.backend.domain.shrink.facts import ShrinkFacts
from kshunt.backend.domain.shrink.topic_findings import note, refusal, warning
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.topics.partitioners import KeyPlacing, KeysSeen, Partitioner

_USED_BY: Final = {
    Partitioner.MURMUR2: "Kafka's Java client",
    Partitioner.CRC32: "the default of librdkafka: confluent-kafka",
    Partitioner.FNV1A: "Sarama, kafka-go",
}
_CHOICE: Final = f"Choose the partitioner to copy by: {listed(one.value for one in Partitioner)}."


def of_partitioner(facts: ShrinkFacts) -> Iterator[Finding]:
    """Which partitioner the keys follow, and by which one a copy places them."""
    seen = facts.keys_seen
    if facts.native or not seen.keys:
        return
    placing, found = seen.followed()
    chosen, by = facts.partitioner, facts.places_by
    match placing:
        case KeyPlacing.ONE if chosen in (None, found[0]):
            words = f"Its keys follow {_named(found[0])}: so do all of {_keys(seen)} seen."
            yield note("partitioner", words, "The copy places keys by it.")
        case KeyPlacing.ONE:
            words = f"Its keys follow {_named(found[0])}, and you chose {by}."
            advice = (
                f"New records of most keys then go to other partitions, unless producers use {by}."
            )
            yield warning("partitioner", words, advice)
        case KeyPlacing.MIXED if chosen is None:
            yield refusal(
                "mixed-keys",
                f"{_mixed(seen, found)} A copy can place keys by one partitioner alone.",
                f"Let all producers use one first, or accept that new records of some keys go to "
                f"other partitions. {_CHOICE}",
            )
        case KeyPlacing.MIXED:
            words = f"{_mixed(seen, found)} The copy places all keys by {by}, as you chose."
            advice = f"Let all producers use {by}: else new records of some keys go elsewhere."
            yield warning("mixed-keys", words, advice)
        case KeyPlacing.OTHER:
            words = (
                f"Its keys follow no partitioner that kshunt knows ({_hits(seen)}): its producers "
                f"choose partitions themselves. The copy places keys by {by}."
            )
            advice = "New records of most keys go to other partitions, unless producers change."
            yield warning("partitioner", words, advice)
        case KeyPlacing.UNKNOWN:
            words = (
                f"kshunt saw {_keys(seen)}, too few to tell the partitioner. The copy places "
                f"keys by {_named(by)}."
            )
            yield warning("partitioner", words, f"Ask the owners of its producers. {_CHOICE}")


def of_read_only(facts: ShrinkFacts, keys: KeyUse) -> Iterator[Finding]:
    """What a producer of keys loses while partitions can only be read, or the topic is sealed."""
    if keys is KeyUse.NONE:
        return
    if not facts.native:
        words = (
            "From the seal to the end, brokers reject all records of its producers. A producer "
            "that still runs loses records that it cannot keep that long (delivery.timeout.ms)."
        )
        yield note("sealed-producers", words, "Stop producers before you type the topic's name.")
        return
    share = len(facts.doomed) / len(facts.there)
    words = (
        f"While the partitions can only be read, brokers reject records of their keys, about "
        f"{share:.0%} of all: clients do not know of ReadOnly, and still choose those partitions. "
        "Producers lose these records unless they retry for longer than the delay."
    )
    advice = (
        "Stop its producers until the partitions are gone. Records without a key are rejected too "
        "if a client sends them there."
    )
    yield warning("keyed-read-only", words, advice)


def _keys(seen: KeysSeen) -> str:
    return many(seen.keys, "distinct key")


def _named(one: Partitioner) -> str:
    return f"{one} ({_USED_BY[one]})"


def _hits(seen: KeysSeen) -> str:
    return listed(f"{one} puts {seen.hits.get(one, 0):,} there" for one in Partitioner)


def _mixed(seen: KeysSeen, found: tuple[Partitioner, ...]) -> str:
    parts = listed(f"{seen.hits.get(one, 0):,} where {_named(one)} puts them" for one in found)
    if len(found) > 1:
        return f"Its keys follow several partitioners: of {_keys(seen)}, {parts}."
    return (
        f"Only some of its keys follow a partitioner that kshunt knows: of {_keys(seen)}, {parts}. "
        "The others come from a custom partitioner, or from before partitions were added."
    )
