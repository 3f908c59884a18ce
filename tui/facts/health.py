"""How the cluster is, in counts: brokers, and partitions that lack something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import many
from kshunt.tui.facts.snapshot_facts import Facts


@dataclass(frozen=True, slots=True)
class Health:
    """What is up and what is not."""

    brokers: int = 0
    down: tuple[int, ...] = ()
    """Brokers that the cluster does not know any more."""
    silent: tuple[int, ...] = ()
    """Brokers that do not answer in time; what is shown of them is old."""
    partitions: int = 0
    under_replicated: int = 0
    """Partitions with fewer replicas in sync than they have, those being added left out."""
    under_replicated_moving: int = 0
    """Those of them that move."""
    under_min_isr: int = 0
    """Of those whose min.insync.replicas is known."""
    at_min_isr: int = 0
    """Of those likewise, the ones that refuse writes once another replica is lost."""
    min_isr_unknown: int = 0
    """Partitions whose min.insync.replicas is not known."""
    leaderless: int = 0

    @property
    def under_replicated_words(self) -> str:
        """`18 moving partitions under-replicated`: what moves is told from what does not."""
        count, moving = self.under_replicated, self.under_replicated_moving
        if moving and moving == count:
            return f"{many(count, 'moving partition')} under-replicated"
        some = f" ({moving:,} of them moving)" if moving else ""
        return f"{many(count, 'partition')} under-replicated{some}"

    @property
    def min_isr_known(self) -> bool:
        """True if anything can be said of min-ISR at all."""
        return self.min_isr_unknown < self.partitions or not self.partitions


def health_of(facts: Facts) -> Health:
    """Counts over a snapshot, as Kafka's own metrics count.

    A partition that is being deleted lacks nothing, and one that takes no records refuses none.
    """
    down, silent = _missing(facts)
    if not len(facts.rows):
        return Health(len(facts.snapshot.brokers), down, silent)
    lack = lacks_of(facts)
    return Health(
        brokers=len(facts.snapshot.brokers),
        down=down,
        silent=silent,
        partitions=len(facts.starts),
        under_replicated=int(lack.under_replicated.sum()),
        under_replicated_moving=int((lack.under_replicated & facts.moving[facts.starts]).sum()),
        under_min_isr=int(lack.under_min_isr.sum()),
        at_min_isr=int(lack.at_min_isr.sum()),
        min_isr_unknown=int(lack.min_isr_unknown.sum()),
        leaderless=facts.counts.leaderless,
    )


@dataclass(frozen=True)
class PartitionLacks:
    """What each partition lacks, as `Health` counts it. Every array has shape (partitions,)."""

    original: NDArray[np.int64]
    """Replicas that it has, those being added left out."""
    under_replicated: NDArray[np.bool_]
    under_min_isr: NDArray[np.bool_]
    at_min_isr: NDArray[np.bool_]
    min_isr_unknown: NDArray[np.bool_]


def lacks_of(facts: Facts) -> PartitionLacks:
    """What each partition of a snapshot lacks."""
    rows, starts = facts.rows, facts.starts
    replicas = facts.row_counts
    in_sync = _counts(rows.in_isr, starts)
    original = (replicas - _counts(rows.adding, starts)).astype(np.int64)
    lacking = _counts(rows.in_isr & ~rows.adding, starts) < original
    needed = _min_isr(facts)
    known = needed != UNKNOWN
    written = rows.mode[starts] == PartitionMode.READ_WRITE
    return PartitionLacks(
        original,
        lacking & ~facts.being_deleted[starts],
        written & known & (in_sync < np.minimum(needed, replicas)),
        written & known & (in_sync == needed) & (replicas > needed),
        ~known,
    )


def _counts(mask: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.int32]:
    """How many rows of each partition are in the mask. Shape (partitions,)."""
    so_far = np.zeros(len(mask) + 1, np.int32)
    np.cumsum(mask, out=so_far[1:])
    found: NDArray[np.int32] = np.diff(so_far[starts], append=so_far[-1])
    return found


def _min_isr(facts: Facts) -> NDArray[np.int32]:
    """Of each partition's topic, UNKNOWN where nobody knows. Shape (partitions,)."""
    min_isr = facts.snapshot.min_isr
    if len(min_isr) != len(facts.snapshot.topics):
        return np.full(len(facts.starts), UNKNOWN, np.int32)
    of_topics = np.array(min_isr, np.int32)
    return of_topics[facts.rows.topic_index[facts.starts]]


def _missing(facts: Facts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Brokers that are not registered, and brokers that do not answer."""
    stale = {id: one for id, one in sorted(facts.snapshot.brokers.items()) if one.stale}
    down = tuple(id for id, one in stale.items() if not one.registered)
    return down, tuple(id for id in stale if id not in down)
