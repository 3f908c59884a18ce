"""Every copy that is under way, those that hold up the rest first, and how many moves stand where.

A move is a partition. It waits for its turn, is copied, is held by a pause, is stuck, or is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.tui.facts.progress import copied_rows
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts

COPIES_MOST: Final = 200
"""Copies that are listed one by one."""
TOPICS_MOST: Final = 50
"""Topics of which something is copied that are listed."""
_NEVER_IS: Final = 1e21
_STUCK_IS: Final = 1e23


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """How many moves stand where."""

    queued: int = 0
    """They wait for their turn in an operation."""
    copying: int = 0
    paused: int = 0
    stuck: int = 0
    done: int = 0
    """As far as operations tell, and as far as they were seen to end."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.queued + self.copying + self.paused + self.stuck + self.done


@dataclass(frozen=True, slots=True)
class CopyLine:
    """One replica that is being copied."""

    key: ReplicaKey
    source: int
    """The broker that it is copied from; -1 where nobody leads the partition."""
    size_bytes: int
    """What is there; UNKNOWN if its broker does not say."""
    lag_bytes: int
    """What it still lacks, likewise."""
    rate_bytes_per_s: float
    eta_s: float
    cause: Cause
    """Why it does not come nearer."""
    stuck: bool


@dataclass(frozen=True, slots=True)
class TopicCopies:
    """What is copied of one topic."""

    topic: str
    copies: int
    lag_bytes: int
    """What they still lack, as far as is known."""
    rate_bytes_per_s: float
    """As far as is known."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What moves."""

    counts: MoveCounts = MoveCounts()
    copies: tuple[CopyLine, ...] = ()
    """Stuck ones first, then those that never arrive, then those that lack most."""
    copies_all: int = 0
    """How many there are; `copies` has no more than `COPIES_MOST` of them."""
    topics: tuple[TopicCopies, ...] = ()
    """The one that lacks most first."""
    topics_all: int = 0
    """How many there are; `topics` has no more than `TOPICS_MOST` of them."""


def moves_of(facts: Facts, operations: Sequence[Operation], ended: int) -> Moves:
    """The moves of a snapshot; `ended` have been seen to end since all of this began."""
    places = np.flatnonzero(facts.arriving)
    topics = _topics(facts, places)
    return Moves(
        _counts(facts, operations, ended),
        tuple(_copy(facts, place) for place in _worst(facts, places).tolist()),
        len(places),
        topics[:TOPICS_MOST],
        len(topics),
    )


def _counts(facts: Facts, operations: Sequence[Operation], ended: int) -> MoveCounts:
    starts, rows = facts.starts, facts.rows
    running = [one for one in operations if not one.state.ended and one.partitions]
    if not len(starts):
        return MoveCounts(sum(one.waiting for one in running), done=ended)
    moving = facts.moving[starts]
    stuck = _any(facts.stuck & facts.arriving, starts) & moving
    paused = _any((rows.cause == Cause.PAUSED) & facts.arriving, starts) & moving & ~stuck
    arrived = np.zeros(len(rows), np.bool_)
    for one in running:
        arrived |= copied_rows(facts, one)
    return MoveCounts(
        queued=sum(one.waiting for one in running),
        copying=int((moving & ~stuck & ~paused).sum()),
        paused=int(paused.sum()),
        stuck=int(stuck.sum()),
        done=int((_any(arrived, starts) & ~moving).sum()) + ended,
    )


def _any(mask: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Partitions of which a row is in the mask."""
    if not mask.any():
        return np.zeros(len(starts), np.bool_)
    found: NDArray[np.bool_] = np.logical_or.reduceat(mask, starts)
    return found


def _worst(facts: Facts, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of them that are listed, in their order."""
    if not len(places):
        return places
    rows = facts.rows
    lag = np.maximum(rows.lag_bytes[places], 0).astype(np.float64)
    badness = lag + np.isinf(rows.eta_s[places]) * _NEVER_IS + facts.stuck[places] * _STUCK_IS
    most = min(COPIES_MOST, len(places))
    few = np.argpartition(-badness, most - 1)[:most]
    return places[few[np.lexsort((places[few], -badness[few]))]]


def _topics(facts: Facts, places: NDArray[np.intp]) -> tuple[TopicCopies, ...]:
    rows, names = facts.rows, facts.snapshot.topics
    of, count = rows.topic_index[places], len(names)
    copies = np.bincount(of, minlength=count)
    lag = np.bincount(of, np.maximum(rows.lag_bytes[places], 0), count)
    rate = np.bincount(of, np.nan_to_num(rows.fetched_bytes_per_s[places]), count)
    moving = np.flatnonzero(copies)
    order = moving[np.argsort(-lag[moving], kind="stable")].tolist()
    return tuple(
        TopicCopies(names[one], int(copies[one]), int(lag[one]), float(rate[one])) for one in order
    )


def _copy(facts: Facts, place: int) -> CopyLine:
    rows = facts.rows
    topic, broker = facts.snapshot.topic_of(place), int(rows.broker[place])
    return CopyLine(
        key=ReplicaKey(topic, int(rows.partition[place]), broker),
        source=int(rows.leader[place]),
        size_bytes=int(rows.size_bytes[place]),
        lag_bytes=int(rows.lag_bytes[place]),
        rate_bytes_per_s=float(rows.fetched_bytes_per_s[place]),
        eta_s=float(rows.eta_s[place]),
        cause=Cause(int(rows.cause[place])),
        stuck=bool(facts.stuck[place]),
    )
