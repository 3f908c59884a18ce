"""Where consumer groups continue after a topic's records were copied into other partitions.

Goals: a group loses no record, and reads as few again as the target's order allows.

A target partition mixes records of several source partitions. A group has one position there, so
it continues at the first record that it has not read, and reads again what it has read of those
after it. Copying in cuts (`cuts_of`) sees to it that there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

OFFSET_MAP: Final = "offset-map"
"""The folder of a job's map, in its own."""

Offsets = Mapping[int, int]
"""An offset of each partition: that of the next record to be read or copied."""


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Where each copied record is, in any order; arrays of one length."""

    source_partition: NDArray[np.int32]
    source_offset: NDArray[np.int64]
    target_partition: NDArray[np.int32]
    target_offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.source_offset)


@dataclass(frozen=True, slots=True)
class Translation:
    """Where a group continues in the target."""

    positions: Offsets
    """Of every target partition."""
    read_twice: int
    """Records that it has read and will read again."""


def translated(where: OffsetMap, committed: Offsets, ends: Offsets) -> Translation:
    """Where a group continues.

    Args:
        where: The place of every copied record.
        committed: The group's positions in the source; of a partition that is not named it has
            read nothing. What it does there without a position depends on `auto.offset.reset`. A
            caller expresses that with the source's first or last offset.
        ends: Of every target partition, the offset after its last record.
    """
    return translated_of([where], committed, ends)


def translated_of(parts: Iterable[OffsetMap], committed: Offsets, ends: Offsets) -> Translation:
    """`translated`, of a map in parts that need not be in memory together.

    They are gone through twice.
    """
    first = _dense(ends)
    for part in parts:
        unread = _unread(part, committed)
        np.minimum.at(first, part.target_partition[unread], part.target_offset[unread])
    twice = 0
    for part in parts:
        read = ~_unread(part, committed)
        again = part.target_offset[read] >= first[part.target_partition[read]]
        twice += int(np.count_nonzero(again))
    return Translation({p: int(first[p]) for p in sorted(ends)}, twice)


def _unread(part: OffsetMap, committed: Offsets) -> NDArray[np.bool_]:
    most = int(part.source_partition.max(initial=0))
    position = _dense({most: 0, **committed})
    unread: NDArray[np.bool_] = part.source_offset >= position[part.source_partition]
    return unread


def _dense(offsets: Offsets) -> NDArray[np.int64]:
    """Offsets by partition; 0 for those that are not named."""
    found = np.zeros(max(offsets, default=-1) + 1, np.int64)
    for partition, offset in offsets.items():
        found[partition] = offset
    return found


def cuts_of(groups: Sequence[Offsets]) -> Sequence[Offsets]:
    """Positions over which a topic is copied one after another, for groups at these positions.

    Each is at or after the former in every partition. A group whose position is a cut reads
    nothing twice; so all do if of any two groups one is at or after the other in every partition.
    A partition that a group does not name, it has read nothing of.
    """
    partitions = sorted({p for group in groups for p in group})
    if not partitions:
        return []
    at = np.array([[group.get(p, 0) for p in partitions] for group in groups], np.int64)
    at = at[np.argsort(at.sum(axis=1), kind="stable")]
    # What all groups from this one on have read.
    chain = np.minimum.accumulate(at[::-1], axis=0)[::-1]
    return [dict(zip(partitions, cut, strict=True)) for cut in _distinct(chain.tolist())]


def _distinct(cuts: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
    former: Sequence[int] = [0] * len(cuts[0])
    for cut in cuts:
        if cut != former:
            yield cut
        former = cut
