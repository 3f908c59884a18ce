"""What speaks against copying a topic into one with fewer partitions.

A copy keeps every record's timestamp and has the same configuration. So the configuration does to
copies what it does to old records in the source: retention, limits of timestamps and of sizes. With
fewer partitions, each holds more: what is limited by partition (retention.bytes) is reached sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshunt.backend.domain.cluster.config_names import (
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_TYPE,
    RETENTION_BYTES,
    TIMESTAMP_BEFORE_MAX_MS,
    TIMESTAMP_DIFFERENCE_MAX_MS,
)
from kshunt.backend.domain.shrink.check import Finding
from kshunt.backend.domain.shrink.disk_space import RESERVE, CopySpace, copy_bytes, room_for
from kshunt.backend.domain.shrink.facts import COPY_START_MS, ShrinkFacts
from kshunt.backend.domain.shrink.topic_findings import note, refusal, warning
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    listed,
    many,
    rate_text,
)

SAFETY: Final = 2
"""A record must have left this many times the assumed time of the copy."""
SKEW: Final = 1.5
"""How much larger than the mean a partition of the target may turn out."""
UNLIMITED_MS: Final = 2**63 - 1
"""Kafka's default of limits of timestamps, which means none."""


def room_of(facts: ShrinkFacts) -> CopySpace | None:
    """How the copy fits on the brokers; None where the topic's size is not known."""
    if facts.native or facts.total_bytes is None or facts.wanted < 1 or not facts.live:
        return None
    return room_for(
        facts.dirs,
        facts.live,
        size_bytes=copy_bytes(facts.total_bytes, facts.total_records),
        partitions=facts.wanted,
        replication_factor=facts.replication_factor,
    )


def copy_ms_of(facts: ShrinkFacts) -> int | None:
    """How long the copy is assumed to take; None where the topic's size is not known."""
    if facts.native:
        return 0
    if facts.total_bytes is None:
        return None
    size = copy_bytes(facts.total_bytes, facts.total_records)
    return COPY_START_MS + round(size / facts.copy_rate_bytes_per_s * 1000)


def of_room(facts: ShrinkFacts, room: CopySpace | None) -> Iterator[Finding]:
    """Whether the copy fits on the disks."""
    factor = facts.replication_factor
    if factor > len(facts.live):
        run = "runs" if len(facts.live) == 1 else "run"
        words = f"Its replication factor is {factor}, and {many(len(facts.live), 'broker')} {run}."
        yield refusal(
            "too-few-brokers", words, "Start the others: a topic with this factor needs them."
        )
        return
    if room is None:
        words = "The space that the copy needs is unknown, because sizes could not be read."
        yield warning("room-unknown", words, "Check the brokers' disks yourself.")
        return
    each, reserve = bytes_text(room.partition_bytes), f"{RESERVE:.0%}"
    need = f"{facts.wanted} x {factor} replicas of about {each}"
    free = listed(f"broker {b}: {bytes_text(f)}" for b, f in sorted(room.free_bytes.items()))
    if not room.fits:
        words = (
            f"The copy needs {need}. With a reserve of {reserve}, the free space is only: {free}."
        )
        advice = "Free space, or ask for more partitions, each of which is smaller."
        yield refusal("no-room", words, advice, insistable=True)
    elif room.tight:
        names = listed(f"broker {broker}" for broker in room.tight)
        words = f"{names} {'has' if len(room.tight) == 1 else 'have'} no space for an even share."
        yield warning("room-tight", words, f"The copy needs {need}; free space: {free}.")
    if room.unknown:
        names = listed(f"broker {broker}" for broker in room.unknown)
        words = f"The free space on {names} is unknown. The copy needs {need}."
        yield warning("room-unknown", words, "Check their disks yourself (before Kafka 3.3).")


def of_retention(facts: ShrinkFacts, copy_ms: int | None) -> Iterator[Finding]:
    """Whether retention deletes anything before it is copied, or the copy itself."""
    yield from _by_time(facts, copy_ms)
    limit, total = facts.limit(RETENTION_BYTES), facts.total_bytes
    if limit is None or total is None or "delete" not in facts.policies or facts.wanted < 1:
        return
    each = -(-copy_bytes(total, facts.total_records) // facts.wanted)
    words = (
        f"retention.bytes is {bytes_text(limit)} for each partition, and with {facts.wanted} of "
        f"them each holds about {bytes_text(each)}"
    )
    advice = f"Set retention.bytes to {round(each * SKEW)} or more first."
    if each > limit:
        words += ": the copy's oldest records would be deleted."
        yield refusal("retention-bytes", words, advice, insistable=True)
    elif each * SKEW > limit:
        yield warning("retention-bytes", f"{words}, if they are even.", advice)


def _by_time(facts: ShrinkFacts, copy_ms: int | None) -> Iterator[Finding]:
    retention, known = facts.retention_ms, [p.offsets for p in facts.there if p.offsets]
    oldest = min((one.oldest_ms for one in known if one.oldest_ms is not None), default=None)
    if retention is None or copy_ms is None or oldest is None:
        return
    age = max(0, facts.now_ms - oldest)
    advice = f"Set retention.ms to {age + SAFETY * copy_ms} or more until the cut-over."
    lives, lasts = duration_text(retention / 1000), duration_text(copy_ms / 1000)
    takes = f"the copy takes about {lasts} at {rate_text(facts.copy_rate_bytes_per_s)}"
    if retention <= copy_ms:
        words = f"Records live for {lives}, and {takes}: the copy would never have all of them."
        yield refusal("retention-short", words, advice, insistable=True)
    elif age + SAFETY * copy_ms > retention:
        left = max(0, retention - age)
        when = f"in {duration_text(left / 1000)}" if left else "at any time"
        words = (
            f"Retention ({lives}) deletes the oldest records {when}, and {takes}: source and copy "
            "would differ."
        )
        yield warning("retention-running", words, advice)


def of_limits(facts: ShrinkFacts) -> Iterator[Finding]:
    """Whether the target would take every record as it is."""
    largest = 0 if facts.sample is None else facts.sample.largest_bytes
    limit = facts.limit(MAX_MESSAGE_BYTES)
    if limit is not None and largest > limit:
        words = (
            f"A record of {bytes_text(largest)} was seen, but max.message.bytes is "
            f"{bytes_text(limit)}: the copy may be rejected."
        )
        yield warning("record-limit", words, f"Set max.message.bytes to {2 * largest} or more.")
    elif limit is not None:
        words = f"max.message.bytes is {bytes_text(limit)}; older records may be larger."
        advice = "The copy stops at a larger record and names it; the source stays complete."
        yield note("record-limit", words, advice)
    if facts.configs.get(MESSAGE_TIMESTAMP_TYPE) == "LogAppendTime":
        words = (
            "message.timestamp.type is LogAppendTime: copied records would have the time of "
            "the copy."
        )
        yield warning("log-append-time", words, "The copy needs CreateTime until the cut-over.")
    yield from _old_timestamps(facts)
    if facts.configs.get("remote.storage.enable") == "true":
        words = "It has tiered storage: the sizes do not include the remote tier."
        yield warning("tiered", words, "The copy is larger and slower than shown here.")


def _old_timestamps(facts: ShrinkFacts) -> Iterator[Finding]:
    times = [p.offsets.oldest_ms for p in facts.there if p.offsets]
    oldest = min((one for one in times if one is not None), default=None)
    for key in (TIMESTAMP_BEFORE_MAX_MS, TIMESTAMP_DIFFERENCE_MAX_MS):
        limit = facts.limit(key)
        if limit is None or limit >= UNLIMITED_MS or oldest is None:
            continue
        if facts.now_ms - oldest > limit:
            most = duration_text(limit / 1000)
            words = f"{key} is {most}: the cluster rejects copies of older records."
            advice = f"The copy needs {key} of {facts.now_ms - oldest} or more, or no limit."
            yield warning("old-timestamps", words, advice)
            return


def of_waiting(facts: ShrinkFacts, copy_ms: int | None) -> Iterator[Finding]:
    """Whether it is cheaper to wait until the partitions that go are empty."""
    records = [one.records for one in facts.doomed]
    if records and all(count == 0 for count in records):
        yield note("empty", "The partitions to remove hold no records.")
        return
    left = [
        max(0, one.offsets.newest_ms + facts.retention_ms - facts.now_ms)
        for one in facts.doomed
        if facts.retention_ms is not None
        and one.offsets is not None
        and one.offsets.newest_ms is not None
    ]
    holding = sum(count != 0 for count in records)
    if copy_ms and left and len(left) == holding and max(left) <= copy_ms:
        when = duration_text(max(left) / 1000)
        words = f"Retention empties the partitions to remove in {when}."
        yield note("expires-soon", words, "Without writers, waiting is as fast as copying.")
