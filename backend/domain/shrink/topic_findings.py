"""What speaks against taking partitions from a topic: the request, the topic, its clients.

Each function looks at one thing and yields what it found. What only matters to a copy of the
topic is in `copy_findings`.

Compacted topics are refused unless an operator insists. What holds after a copy: records with
equal keys meet in one partition, in the order in which their partition had them. So the newest
record of a key is the newest one still, tombstones included. What cannot be known: whether each
key was in one partition only. A key can have old records in one partition and newer ones in
another. This happens in a topic that was given partitions once, or whose producers choose
partitions themselves. Offsets of two partitions have no common order, so a copy may put the older
record last. Compaction then deletes the newer one for good. Only the topic's owner knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.check import Finding, GroupLag, KeyUse, Severity
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.facts import PartitionFacts, ShrinkFacts
from kshunt.backend.domain.text.formatting import duration_text, listed, many
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.domain.topics.groups import ActiveProducer

RESERVED: Final = "__"
STREAMS_SUFFIXES: Final = ("-changelog", "-repartition")
"""How Kafka Streams names the topics of its own."""
HANGING_MS: Final = 15 * 60_000
"""Kafka's own longest transaction (transaction.max.timeout.ms): one that is older hangs."""


def refusal(code: str, words: str, advice: str = "", *, insistable: bool = False) -> Finding:
    """What forbids a shrink."""
    return Finding(code, Severity.REFUSE, words, advice, insistable)


def warning(code: str, words: str, advice: str = "") -> Finding:
    """What should be dealt with."""
    return Finding(code, Severity.WARN, words, advice)


def note(code: str, words: str, advice: str = "") -> Finding:
    """What is good to know."""
    return Finding(code, Severity.NOTE, words, advice)


# The request


def of_request(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the count can be meant."""
    count, there = facts.wanted, len(facts.there)
    leaving = any(one.mode is PartitionMode.READ_ONLY for one in facts.partitions)
    advice = (
        f"Ask for 1 to {there - 1}."
        if there > 1
        else ("It cannot have fewer partitions than that.")
    )
    if count < 1:
        words = f"A topic cannot have {count} partitions: it keeps at least one."
        yield refusal("count-not-positive", words, advice)
    elif count > there or (count == there and not leaving):
        words = f"{facts.topic} has {many(there, 'partition')}; {count} would not be fewer."
        yield refusal("count-not-smaller", words, advice)


def of_support(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the cluster could do it by itself."""
    if facts.support is ShrinkSupport.DISABLED:
        words = "The cluster could delete partitions, but delete.topic.partition.enable is false."
        yield note("not-enabled", words, "Without it, kshunt copies the topic.")


def of_name(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the topic belongs to somebody who counts on its partitions."""
    topic = facts.topic
    if topic in INTERNAL_TOPICS:
        words = (
            f"{topic} is an internal topic: Kafka finds its records by the number of partitions."
        )
        yield refusal("internal", words, "Do not change it.")
    elif topic == JOURNAL_TOPIC:
        words = f"{topic} is the journal of kshunt, and has one partition."
        yield refusal("internal", words, "Do not change it.")
    elif topic.startswith(RESERVED):
        words = f"{topic} has a name that systems use for their own topics."
        advice = "Ask its owner; insist only if the owner does not depend on its partitions."
        yield refusal("reserved-name", words, advice, insistable=True)
    if topic.endswith(STREAMS_SUFFIXES):
        words = f"{topic} has a name that Kafka Streams uses for its own topics."
        advice = "A Streams application depends on their number and fails if it changes."
        yield warning("streams-topic", words, advice)


# The topic


def of_partitions(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the partitions are all there and stay where they are."""
    moving = [one.number for one in facts.partitions if one.moving]
    if moving:
        words = f"{_named(moving)} of {facts.topic} {_are(moving)} being reassigned."
        yield refusal("reassigning", words, "Wait for the end of the move, or cancel it.")
    without = [one.number for one in facts.there if one.leader not in facts.live]
    if without:
        words = f"{_named(without)} of {facts.topic} {_are(without)} offline, without a leader."
        yield refusal("offline", words, "Bring back one of its replicas first.")
    behind = [
        one.number
        for one in facts.there
        if one.number not in without and len(one.isr) < len(one.replicas)
    ]
    if behind:
        words = f"{_named(behind)} of {facts.topic} {_are(behind)} under-replicated."
        yield warning("under-replicated", words, "Find out why before you put load on them.")
    leaving = [one.number for one in facts.partitions if one.mode is not PartitionMode.READ_WRITE]
    if leaving:
        words = f"{_named(leaving)} of {facts.topic} {_are(leaving)} already being removed."
        yield warning("leaving", words, "See the operation that removes them.")


def of_compaction(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the topic is compacted; see the module's text."""
    if not facts.compacted:
        return
    policy = ",".join(sorted(facts.policies))
    if facts.native:
        words = (
            f"{facts.topic} is compacted (cleanup.policy={policy}). The newest record of every "
            "key in the partitions to remove is deleted for good."
        )
        advice = "Copy their records first. Insist only if nobody needs their keys."
    else:
        words = (
            f"{facts.topic} is compacted (cleanup.policy={policy}). A copy brings equal keys "
            "together and keeps their order within a partition. For a key in two partitions, "
            "compaction may keep the older record."
        )
        advice = (
            "Overrule this only if every key was always in one partition: partitions were never "
            "added, and the producers use Kafka's own partitioner."
        )
    yield refusal("compacted", words, advice, insistable=True)


def of_keys(facts: ShrinkFacts, keys: KeyUse) -> Iterator[Finding]:
    """Whether its records have keys."""
    seen = facts.sample
    looked = f" ({seen.keyed:,} of the {many(seen.records, 'record')} seen)" if seen else ""
    if facts.native and keys is not KeyUse.NONE:
        words = (
            f"{_may(keys)} keys{looked}: new records with the keys of the removed partitions go "
            "to another partition."
        )
        yield warning("keyed", words, "The order per key is not kept across the change.")
    elif keys in (KeyUse.ALL, KeyUse.SOME):
        words = (
            f"Its records have keys{looked}: most of them move to another partition. The order "
            "per key is kept."
        )
        advice = "Consumers that keep state by partition must build it again."
        yield warning("keyed", words, advice)
    elif keys is KeyUse.UNKNOWN:
        words = "It may be keyed: kshunt saw no record and cannot tell."
        yield warning("keyed", words, "Ask the owners of its producers.")
    else:
        words = f"None of the {many(seen.records if seen else 0, 'record')} seen has a key."
        yield note("not-keyed", words, "Records without a key have no order among partitions.")


def _may(keys: KeyUse) -> str:
    return "Its records may have" if keys is KeyUse.UNKNOWN else "Its records have"


# Its producers


def of_producers(facts: ShrinkFacts) -> Iterator[Finding]:
    """Who writes it, and what is not committed."""
    meanwhile = {one.number: written_meanwhile(one) or 0 for one in facts.there}
    came = sum(meanwhile.values())
    fresh = [one.number for one in facts.there if came_lately(one, facts) or meanwhile[one.number]]
    if fresh:
        count = f"; {many(came, 'record')} arrived during the check" if came else ""
        words = (
            f"Producers write to it: {_named(fresh)} within "
            f"{duration_text(facts.written_within_ms / 1000)}{count}.{_who(facts)}"
        )
        advice = (
            "Stop its producers; the shrink waits until its delay has passed without a new record."
        )
        yield warning("writing", words, advice)
    yield from _transactions(facts)


def _transactions(facts: ShrinkFacts) -> Iterator[Finding]:
    open_at = {one.number: at for one in facts.there if (at := transaction_at(one)) is not None}
    if not open_at:
        return
    by = {
        one.producer_id: one
        for partition in facts.there
        for one in partition.producers or ()
        if one.transaction_start is not None
    }
    hanging = [one for one in by.values() if 0 <= one.last_ms < facts.now_ms - HANGING_MS]
    words = (
        "A transaction is open on "
        f"{_named(open_at)}{': ' + listed(map(_producer, by.values())) if by else ''}. Later "
        "records cannot be read until it ends."
    )
    advice = "Let its producer commit or abort it."
    if hanging:
        longest = facts.now_ms - min(one.last_ms for one in hanging)
        words += f" Nothing was written in it for {duration_text(longest / 1000)}: it hangs."
        advice = "Abort it: kafka-transactions --abort --topic T --partition P --start-offset O."
    yield warning("open-transaction", words, advice)


def written_meanwhile(partition: PartitionFacts) -> int | None:
    """Records that came between the two readings of its end."""
    if partition.offsets is None or partition.later_end is None:
        return None
    return max(0, partition.later_end - partition.offsets.end)


def transaction_at(partition: PartitionFacts) -> int | None:
    """The first offset of an open transaction; None where none is seen."""
    starts = [
        one.transaction_start
        for one in partition.producers or ()
        if one.transaction_start is not None
    ]
    offsets = partition.offsets
    if offsets is not None and offsets.stable_end < offsets.end:
        starts.append(offsets.stable_end)
    return min(starts, default=None)


def lately(producer: ActiveProducer, facts: ShrinkFacts) -> bool:
    """True for a producer that wrote within the time that counts, by its own clock."""
    return producer.last_ms >= facts.now_ms - facts.written_within_ms


def came_lately(partition: PartitionFacts, facts: ShrinkFacts) -> bool:
    """True where a record is that new by its timestamp, or a producer wrote within that time."""
    newest = None if partition.offsets is None else partition.offsets.newest_ms
    fresh = newest is not None and newest >= facts.now_ms - facts.written_within_ms
    return fresh or any(lately(one, facts) for one in partition.producers or ())


def _who(facts: ShrinkFacts) -> str:
    wrote = {
        one.producer_id: _producer(one)
        for partition in facts.there
        for one in partition.producers or ()
        if lately(one, facts)
    }
    return f" Known of them: {listed(wrote.values())}." if wrote else ""


def _producer(producer: ActiveProducer) -> str:
    if producer.transactional_id is not None:
        return f"{producer.transactional_id} (producer {producer.producer_id})"
    return f"producer {producer.producer_id}"


# Its consumers


def of_groups(facts: ShrinkFacts, groups: Sequence[GroupLag]) -> Iterator[Finding]:
    """Who reads it, and what they have not read."""
    active = [one for one in groups if one.active]
    if active:
        members = many(sum(len(one.members) for one in active), "member")
        names = listed(map(_members, active))
        words = f"{many(len(active), 'consumer group')} with {members}: {names}."
        advice = "Stop them before the cut-over: kshunt can move only a group without members."
        if facts.native:
            advice = "They continue with the partitions that stay."
        yield warning("groups-active", words, advice)
    yield from _unread(facts, groups)
    lost = [one for one in groups if one.no_position]
    if lost:
        names = listed(f"{one.name} ({_named(one.no_position)})" for one in lost)
        words = f"No committed offset on partitions to remove that hold records: {names}."
        advice = "Their auto.offset.reset decides where they begin; let them commit first."
        yield warning("no-position", words, advice)
    ends = {one.number: one.offsets.end for one in facts.there if one.offsets is not None}
    beyond = [one for one in groups if _beyond(one, ends)]
    if beyond:
        words = f"Committed beyond the end of a partition: {listed(one.name for one in beyond)}."
        advice = "They have read records that the cluster no longer has; find out why first."
        yield warning("beyond-end", words, advice)


def _unread(facts: ShrinkFacts, groups: Sequence[GroupLag]) -> Iterator[Finding]:
    behind = [one for one in groups if one.unread_doomed]
    if not behind:
        return
    names = listed(f"{one.name} ({one.unread_doomed:,})" for one in behind)
    words = f"Not read yet on the partitions to remove: {names}."
    if facts.native:
        advice = "Let them catch up within the delay; after it, unread records are lost for them."
        yield warning("unread-lost", words, advice)
    else:
        yield note(
            "unread",
            words,
            "Nothing is lost: the records are copied, and the groups continue on the copy.",
        )


def _beyond(group: GroupLag, ends: Mapping[int, int]) -> bool:
    return any(at.offset > ends[at.partition] for at in group.committed if at.partition in ends)


def _members(group: GroupLag) -> str:
    clients = listed(
        dict.fromkeys(f"{one.client_id}@{one.host.lstrip('/')}" for one in group.members), 2
    )
    return f"{group.name} ({clients})"


def of_unread(facts: ShrinkFacts) -> Iterator[Finding]:
    """What could not be read."""
    if facts.unread:
        reasons = listed((f"{what}: {why}".rstrip(".") for what, why in facts.unread.items()), 3)
        words = f"Not everything could be read: {reasons}."
        yield warning("not-read", words, "The missing facts may still be a reason against it.")


def _named(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{'partition' if len(found) == 1 else 'partitions'} {listed(found, 8)}"


def _are(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"
