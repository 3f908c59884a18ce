"""From what is known of a topic to what an operator must know before it shrinks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshunt.backend.domain.shrink import copy_findings, key_findings, topic_findings
from kshunt.backend.domain.shrink.check import (
    CommittedOffset,
    DoomedPartition,
    Finding,
    GroupLag,
    KeyUse,
    PartitionerHits,
    Severity,
    ShrinkCheck,
    UnreadPart,
)
from kshunt.backend.domain.shrink.facts import PartitionFacts, ShrinkFacts
from kshunt.backend.domain.shrink.topic_findings import refusal
from kshunt.backend.domain.topics.groups import PartitionOffsets
from kshunt.backend.domain.topics.partitioners import Partitioner

_ORDER: Final = tuple(Severity)


def judge(facts: ShrinkFacts) -> ShrinkCheck:
    """The safety view of a shrink.

    Where there is no such topic, or the count cannot be meant, little else is said: what would be
    lost by a request that cannot be carried out helps nobody.
    """
    groups = tuple(_lags(facts))
    keys = _keys(facts)
    room = copy_findings.room_of(facts)
    findings = sorted(_findings(facts, groups, keys), key=lambda one: _ORDER.index(one.severity))
    return ShrinkCheck(
        topic=facts.topic,
        current=len(facts.there),
        wanted=facts.wanted,
        checked_ms=facts.now_ms,
        native=facts.native,
        allowed=all(one.severity is not Severity.REFUSE for one in findings),
        partitions=tuple(_doomed(facts, one) for one in facts.doomed),
        groups=groups,
        total_bytes=facts.total_bytes,
        total_records=facts.total_records,
        copy_bytes=_copy_bytes(facts, None if room is None else room.partition_bytes),
        copy_ms=copy_findings.copy_ms_of(facts),
        retention_ms=facts.retention_ms,
        keys=keys,
        sampled=0 if facts.sample is None else facts.sample.records,
        distinct_keys=facts.keys_seen.keys,
        placing=facts.keys_seen.followed()[0],
        partitioners=tuple(
            PartitionerHits(one, facts.keys_seen.hits.get(one, 0)) for one in Partitioner
        ),
        partitioner=facts.places_by,
        watched_ms=facts.watched_ms,
        findings=tuple(findings),
        unread=tuple(UnreadPart(*one) for one in facts.unread.items()),
    )


def _copy_bytes(facts: ShrinkFacts, partition_bytes: int | None) -> int | None:
    if facts.native:
        return 0
    if partition_bytes is None:
        return None
    return partition_bytes * facts.wanted * facts.replication_factor


def _findings(facts: ShrinkFacts, groups: tuple[GroupLag, ...], keys: KeyUse) -> Iterator[Finding]:
    if not facts.partitions:
        words = f"The cluster has no topic '{facts.topic}'."
        yield refusal("unknown", words, "It may have been deleted in the meantime.")
        return
    yield from topic_findings.of_name(facts)
    impossible = list(topic_findings.of_request(facts))
    yield from impossible
    yield from topic_findings.of_partitions(facts)
    if impossible:
        return
    yield from topic_findings.of_support(facts)
    yield from topic_findings.of_compaction(facts)
    if not facts.native:
        yield from _of_copy(facts)
    yield from topic_findings.of_producers(facts)
    yield from topic_findings.of_groups(facts, groups)
    yield from topic_findings.of_keys(facts, keys)
    yield from key_findings.of_partitioner(facts)
    yield from key_findings.of_read_only(facts, keys)
    yield from topic_findings.of_unread(facts)


def _of_copy(facts: ShrinkFacts) -> Iterator[Finding]:
    copy_ms = copy_findings.copy_ms_of(facts)
    yield from copy_findings.of_room(facts, copy_findings.room_of(facts))
    yield from copy_findings.of_retention(facts, copy_ms)
    yield from copy_findings.of_limits(facts)
    yield from copy_findings.of_waiting(facts, copy_ms)


def _keys(facts: ShrinkFacts) -> KeyUse:
    seen = facts.sample
    if facts.compacted:
        return KeyUse.ALL
    if seen is None or not seen.records:
        return KeyUse.UNKNOWN
    if seen.keyed == seen.records:
        return KeyUse.ALL
    return KeyUse.SOME if seen.keyed else KeyUse.NONE


def _doomed(facts: ShrinkFacts, partition: PartitionFacts) -> DoomedPartition:
    offsets, producers = partition.offsets, partition.producers
    if producers is not None:
        producers = tuple(
            one
            for one in producers
            if one.transaction_start is not None or topic_findings.lately(one, facts)
        )
    return DoomedPartition(
        number=partition.number,
        size_bytes=partition.size_bytes,
        records=partition.records,
        log_end_offset=None if offsets is None else offsets.end,
        newest_ms=None if offsets is None else offsets.newest_ms,
        expires_in_ms=_expires_in_ms(facts, partition),
        written_meanwhile=topic_findings.written_meanwhile(partition),
        producers=producers,
        open_transaction_at=topic_findings.transaction_at(partition),
    )


def _expires_in_ms(facts: ShrinkFacts, partition: PartitionFacts) -> int | None:
    offsets = partition.offsets
    if offsets is None or offsets.newest_ms is None or not partition.records:
        return None
    if facts.retention_ms is None:
        return None
    return max(0, offsets.newest_ms + facts.retention_ms - facts.now_ms)


def _lags(facts: ShrinkFacts) -> Iterator[GroupLag]:
    """Each group's lag. A wide topic with many groups has a million offsets: each is read once."""
    ranges = {one.number: one.offsets for one in facts.there}
    doomed = {one.number: one for one in facts.doomed}
    for group in facts.groups:
        lags = {
            number: _unread(offset, ranges[number])
            for number, offset in group.committed.items()
            if number in ranges
        }
        yield GroupLag(
            name=group.name,
            state=group.state,
            kind=group.kind,
            members=group.members,
            committed=tuple(CommittedOffset(*one) for one in sorted(group.committed.items())),
            unread_doomed=_sum([lag for number, lag in lags.items() if number in doomed]),
            unread_all=_sum(list(lags.values())),
            no_position=tuple(
                number
                for number, one in doomed.items()
                if number not in group.committed and one.records != 0
            ),
        )


def _unread(committed: int, offsets: PartitionOffsets | None) -> int | None:
    """What is left to read behind a committed offset, of what the log still has."""
    return None if offsets is None else max(0, offsets.end - max(committed, offsets.start))


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
