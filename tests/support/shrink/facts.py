"""A topic in which nothing is wrong, as the check before a shrink knows it, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.shrink.check import Severity, ShrinkCheck
from kshunt.backend.domain.shrink.facts import PartitionFacts, ShrinkFacts
from kshunt.backend.domain.shrink.judge import judge
from kshunt.backend.domain.topics.groups import PartitionOffsets, RecordSample

NOW = 1_800_000_000_000
HOUR = 3_600_000
MB, GB = 10**6, 10**9
DAY = 24 * HOUR
CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
}


def offsets(
    start: int = 0, end: int = 100, *, stable: int | None = None, age_ms: int = DAY
) -> PartitionOffsets:
    """Of a log whose records are from an hour within a day ago."""
    return PartitionOffsets(
        start, end, end if stable is None else stable, NOW - age_ms, NOW - age_ms + HOUR
    )


def partition(number: int, **given: Any) -> PartitionFacts:
    """A partition in which nothing is wrong."""
    found = PartitionFacts(
        number,
        leader=1,
        replicas=(1, 2),
        isr=(1, 2),
        size_bytes=MB,
        offsets=offsets(),
        later_end=100,
        producers=(),
    )
    return replace(found, **given)


def dirs(free: int = 100 * GB, brokers: Iterable[int] = (1, 2, 3)) -> tuple[LogDir, ...]:
    """One directory a broker."""
    return tuple(LogDir(broker, "/d", 200 * GB, free) for broker in brokers)


def facts(*partitions: PartitionFacts, wanted: int = 2, **given: Any) -> ShrinkFacts:
    """A topic of four partitions in which nothing is wrong, and nobody reads."""
    found = ShrinkFacts(
        "orders",
        wanted,
        NOW,
        partitions or tuple(map(partition, range(4))),
        configs=CONFIGS,
        dirs=dirs(),
        live=frozenset({1, 2, 3}),
        sample=RecordSample(20, 0, largest_bytes=100, partitions=(3,)),
        watched_ms=1000,
    )
    return replace(found, **given)


def configured(**changes: str) -> Mapping[str, str]:
    """Configurations with these changes; underscores stand for dots."""
    return {**CONFIGS, **{key.replace("_", "."): value for key, value in changes.items()}}


def codes(check: ShrinkCheck, severity: Severity) -> set[str]:
    """The codes of the findings of a severity."""
    return {one.code for one in check.findings if one.severity is severity}


def refused(of: ShrinkFacts) -> set[str]:
    """What forbids it."""
    return codes(judge(of), Severity.REFUSE)


def warned(of: ShrinkFacts) -> set[str]:
    """What should be dealt with."""
    return codes(judge(of), Severity.WARN)


def words(of: ShrinkFacts, code: str) -> str:
    """What is said under a code, and what to do."""
    found = next(one for one in judge(of).findings if one.code == code)
    return f"{found.words} {found.advice}"
