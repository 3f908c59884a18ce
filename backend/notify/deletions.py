"""Partitions that are about to be deleted (KIP-694): what a backend reports, by topic. Pure.

One message a topic and step: its partitions take no more records; their data is being deleted;
they are gone; or they stay after all. A backend does not report what it finds when it begins: the
backend before it has reported that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.text.formatting import many, moment_text
from kshunt.backend.notify.message import News


@dataclass(frozen=True, slots=True)
class PendingDeletions:
    """A topic, and how many of its partitions leave."""

    partitions: int
    """All that it has, those that leave included."""
    readonly: int = 0
    deleting: int = 0
    deletes_ms: int | None = None
    """When the first of those that are read-only goes; None where that is not known."""


def pending_deletions(
    snapshot: Snapshot, also: Collection[str] = frozenset()
) -> dict[str, PendingDeletions]:
    """The topics of which partitions leave, and those of `also`, by name.

    A topic of `also` that there is no more has no partitions.
    """
    leaving = snapshot.leaving() if snapshot.replicas.mode.any() else {}
    names = {partition.topic for partition in leaving} | set(also)
    if not names:
        return {}
    counts = Counter((partition.topic, mode) for partition, mode in leaving.items())
    first: dict[str, int] = {}
    for partition, at_ms in snapshot.deletes_ms.items():
        first[partition.topic] = min(first.get(partition.topic, at_ms), at_ms)
    rows = snapshot.replicas
    every = np.bincount(rows.topic_index[rows.position == 0], minlength=len(snapshot.topics))
    places = {name: place for place, name in enumerate(snapshot.topics) if name in names}
    return {
        name: PendingDeletions(
            int(every[places[name]]) if name in places else 0,
            counts[name, PartitionMode.READ_ONLY],
            counts[name, PartitionMode.NONE],
            first.get(name),
        )
        for name in sorted(names)
    }


def deletion_news(
    before: Mapping[str, PendingDeletions], after: Mapping[str, PendingDeletions]
) -> Iterator[News]:
    """What is new; `after` has every topic of `before`."""
    nothing = PendingDeletions(0)
    for name, now in after.items():
        was = before.get(name, nothing)
        if now.readonly > was.readonly:
            when = "" if now.deletes_ms is None else f" until {moment_text(now.deletes_ms)}"
            yield _of("readonly", name, now, f"{_many(now.readonly)} read-only{when}")
        if now.deleting > was.deleting:
            yield _of("deleting", name, now, f"{_many(now.deleting)} being deleted")
        left = was.readonly + was.deleting
        if not left or now.readonly or now.deleting:
            continue
        if now.partitions < was.partitions:
            words = f"the deletion has ended; the topic has {_many(now.partitions)} now"
            yield _of("deleted", name, now, words if now.partitions else "it was deleted")
        else:
            yield _of("kept", name, now, f"{many(left, 'partition')} kept after all")


def _many(count: int) -> str:
    return many(count, "partition")


def _of(step: str, topic: str, now: PendingDeletions, words: str) -> News:
    data = {
        "topic": topic,
        "partitions": now.partitions,
        "readonly": now.readonly,
        "deleting": now.deleting,
        "deletes_ms": now.deletes_ms,
    }
    return News(f"partitions.{step}", f"Topic {topic}: {words}", data, f"partitions {topic}")
