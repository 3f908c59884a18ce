"""What changed and what went wrong from one snapshot to the next, for events and for recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kshunt.backend.domain.text.formatting import listed, many

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import Snapshot

Kind = Literal["change", "incident"]
CHANGE: Final = "change"
INCIDENT: Final = "incident"
Sign = Literal["", "throttle", "start", "end", "isr"]
"""What the time bar shows of a mark; empty where its kind says all."""
OUT_MS: Final = 10_000
"""A move that ends leaves a replica out of the ISR for a moment; that is no drop."""
BROKERS_MOST: Final = 3
"""More brokers than that, in one snapshot, share a mark."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One of them."""

    kind: Kind
    text: str
    sign: Sign = ""


@dataclass(frozen=True, slots=True)
class MarkerCounts:
    """Of a snapshot: what goes wrong when it is more than before."""

    moving: int = 0
    stuck: int = 0
    offline: int = 0
    leaderless: int = 0
    out_of_isr: int = 0
    """Replicas that are not being added."""
    out_since_ms: int = 0
    """Since when there are any; 0 where there are none. By the backend's clock."""
    down: frozenset[int] = frozenset()
    left_isr: bool = False
    """Whether there have been any for `OUT_MS` or longer, which is worth a look."""


NONE_YET: Final = MarkerCounts()


def counted(snapshot: Snapshot, was: MarkerCounts = NONE_YET) -> MarkerCounts:
    """The counts of a snapshot, after those of the one before; imports data libraries."""
    import numpy as np

    from kshunt.backend.domain.cluster.partition_modes import PartitionMode
    from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, stuck_rows

    rows = snapshot.replicas
    stays = rows.mode != PartitionMode.NONE
    out_of_isr = int(np.count_nonzero(~rows.in_isr & ~rows.adding & stays))
    since_ms = (was.out_since_ms or snapshot.taken_ms) if out_of_isr else 0
    long = bool(out_of_isr) and snapshot.taken_ms - since_ms >= OUT_MS
    return MarkerCounts(
        int(np.count_nonzero(rows.adding)),
        int(np.count_nonzero(stuck_rows(rows))),
        int(np.count_nonzero((rows.status == ReplicaStatus.OFFLINE) & stays)),
        int(np.count_nonzero((rows.leader < 0) & (rows.position == 0) & stays)),
        out_of_isr,
        since_ms,
        frozenset(id for id, status in snapshot.brokers.items() if status.stale),
        long,
    )


def snapshot_marks(
    before: Snapshot | None, after: Snapshot, was: MarkerCounts, now: MarkerCounts
) -> Iterator[Mark]:
    """What is worth a look in `after`; the counts are those of both."""
    if before is not None and before.cluster_id != after.cluster_id:
        yield Mark(INCIDENT, f"This is another cluster: {after.cluster_id}.")
    yield from _silent(sorted(now.down - was.down), after)
    back = sorted(was.down - now.down)
    if len(back) > BROKERS_MOST:
        yield Mark(CHANGE, f"{len(back):,} brokers answer again: {listed(back)}.")
    else:
        yield from (Mark(CHANGE, f"Broker {id} answers again.") for id in back)
    yield from _risen("replica", "stuck", was.stuck, now.stuck)
    yield from _risen("replica", "offline", was.offline, now.offline)
    yield from _risen("partition", "without a leader", was.leaderless, now.leaderless)
    if now.left_isr and not was.left_isr:
        yield Mark(INCIDENT, f"{many(now.out_of_isr, 'replica')} out of the ISR.", "isr")
    elif was.left_isr and not now.left_isr:
        yield Mark(CHANGE, "Every replica is in the ISR again.")
    if now.moving and not was.moving:
        yield Mark(CHANGE, f"{many(now.moving, 'replica')} moving.", "start")
    elif was.moving and not now.moving:
        yield Mark(CHANGE, "Nothing moves.", "end")


def _silent(brokers: Sequence[int], after: Snapshot) -> Iterator[Mark]:
    """Brokers that do not answer any more; many of them share a mark."""
    if len(brokers) > BROKERS_MOST:
        yield Mark(INCIDENT, f"{len(brokers):,} brokers do not answer: {listed(brokers)}.")
        return
    for id in brokers:
        problem = after.brokers[id].problem
        yield Mark(INCIDENT, f"Broker {id} does not answer{f': {problem}' if problem else '.'}")


def _risen(noun: str, how: str, was: int, now: int) -> Iterator[Mark]:
    """More than before is an incident; none any more is worth a look."""
    if now > was:
        yield Mark(INCIDENT, f"{many(now, noun)} {how}" + (f" (were {was:,})." if was else "."))
    elif was and not now:
        yield Mark(CHANGE, f"No {noun} is {how} any more.")
