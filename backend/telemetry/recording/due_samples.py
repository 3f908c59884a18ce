"""Which replicas' samples are due at a snapshot.

Goals
    Replicas of partitions that move each time their broker has reported them, and for a while
    after the move; every other one once in `whole_s`.
Constraints
    One row of a replica for one report of its broker. What was not reported anew is not recorded
    again, so a row's age is never younger than the fact. Linear in the replicas, without loops.
Algorithm
    Time is cut into pieces of `whole_s`, shifted for each partition by a share of it that its
    name gives; the first report in a piece is due. So all replicas of a partition are recorded
    together, and partitions are spread evenly over the time, in the same way after a restart.
    What was recorded last is remembered by row, and carried by replica when rows change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshunt.backend.domain.pipeline.sample_columns import replica_ids
from kshunt.backend.domain.replicas.snapshot import (
    UNKNOWN,
    Replicas,
    Snapshot,
    moving_rows,
    partition_starts,
)

AFTER_MOVE_S: Final = 10.0
"""For this long after its move a partition is recorded as if it still moved."""

Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which replica each row of a snapshot is. Arrays have shape (replicas,) but for `starts`."""

    topics: tuple[str, ...]
    topic_words: Any
    """The same as an Arrow array."""
    replicas: Replicas
    """A snapshot's rows of this layout, of which only keys are used."""
    starts: NDArray[np.intp]
    """First row of each partition."""
    group: NDArray[np.intp]
    """Each row's place in `starts`."""
    rid: Longs

    @classmethod
    def of(cls, snapshot: Snapshot) -> Layout:
        """The layout of a snapshot's rows."""
        replicas = snapshot.replicas
        starts = partition_starts(replicas)
        counts = np.diff(np.append(starts, len(replicas)))
        return cls(
            snapshot.topics,
            pa.array(snapshot.topics, pa.string()),
            replicas,
            starts,
            np.repeat(np.arange(len(starts)), counts),
            _ids(snapshot, replicas.broker),
        )

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot's rows are the same replicas in the same order."""
        mine, theirs = self.replicas, snapshot.replicas
        return self.topics == snapshot.topics and all(
            one is other or np.array_equal(one, other)
            for one, other in (
                (mine.topic_index, theirs.topic_index),
                (mine.partition, theirs.partition),
                (mine.broker, theirs.broker),
            )
        )


def _ids(snapshot: Snapshot, broker: NDArray[np.int32]) -> Longs:
    replicas = snapshot.replicas
    return replica_ids(snapshot.topics, replicas.topic_index, replicas.partition, broker)


@dataclass(frozen=True, eq=False)
class Sampled:
    """What is remembered of each row of a layout. Arrays have shape (replicas,)."""

    at_ms: Longs
    """Of its last sample; UNKNOWN if there is none."""
    moved_ms: Longs
    """When its partition was last seen to move; UNKNOWN if never."""
    shift_ms: Longs
    """By how much its pieces of time are shifted."""


class DueSamples:
    """Remembers what was recorded; see the module's text."""

    def __init__(self, whole_s: float) -> None:
        self._whole_ms = max(round(whole_s * 1000), 1)
        self._layout: Layout | None = None
        self._sampled = Sampled(*(np.empty(0, np.int64) for _ in range(3)))

    def of(self, snapshot: Snapshot) -> tuple[Layout, NDArray[np.intp]]:
        """The rows that are due; they count as recorded from here on."""
        layout = self._laid_out(snapshot)
        replicas, sampled = snapshot.replicas, self._sampled
        moving = moving_rows(replicas, layout.starts)
        sampled.moved_ms[moving] = snapshot.taken_ms
        reported = replicas.sampled_ms
        # Of most rows nothing is reported anew, and division is the dearest part.
        fresh = np.flatnonzero((reported != sampled.at_ms) & (reported >= 0))
        since_ms = snapshot.taken_ms - sampled.moved_ms[fresh]
        often = (since_ms >= 0) & (since_ms <= AFTER_MOVE_S * 1000)
        often &= sampled.moved_ms[fresh] != UNKNOWN
        rows = fresh[often | self._begins_piece(reported, fresh)]
        sampled.at_ms[rows] = reported[rows]
        return layout, rows

    def _begins_piece(self, reported: Longs, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        before, shift_ms = self._sampled.at_ms[rows], self._sampled.shift_ms[rows]
        piece = (reported[rows] + shift_ms) // self._whole_ms
        begins: NDArray[np.bool_] = (before == UNKNOWN) | (
            piece != (before + shift_ms) // self._whole_ms
        )
        return begins

    def _laid_out(self, snapshot: Snapshot) -> Layout:
        old = self._layout
        if old is not None and old.fits(snapshot):
            return old
        new = Layout.of(snapshot)
        first = snapshot.replicas.broker * 0
        shift_ms = (_ids(snapshot, first).view(np.uint64) % np.uint64(self._whole_ms)).astype(
            np.int64
        )
        nothing = [np.full(len(new.rid), UNKNOWN, np.int64) for _ in range(2)]
        fresh = Sampled(nothing[0], nothing[1], shift_ms)
        if old is not None and len(old.rid) and len(new.rid):
            _carry(old.rid, self._sampled, new.rid, fresh)
        self._layout, self._sampled = new, fresh
        return new


def _carry(old_rid: Longs, old: Sampled, rid: Longs, fresh: Sampled) -> None:
    """Write what is remembered of the same replicas, in place."""
    order = np.argsort(old_rid)
    place = order[np.minimum(np.searchsorted(old_rid, rid, sorter=order), len(old_rid) - 1)]
    known = old_rid[place] == rid
    fresh.at_ms[known] = old.at_ms[place[known]]
    fresh.moved_ms[known] = old.moved_ms[place[known]]
