"""How the lags of some replicas went, as far as this dashboard has seen it.

Goals
    It keeps the replicas that move, and those that somebody looked at. Of each it keeps the last
    `SAMPLES_MOST` samples.
Constraints
    A snapshot a second costs next to nothing, whatever moves. The thread that computes tables
    writes it, the event loop reads it.
Algorithm
    A ring of rows, one a snapshot, with one column a replica. Which replicas have a column is found
    again only where a snapshot's columns that decide it, or what was looked at, are not the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kshunt.tui.facts.snapshot_facts import Facts

REPLICAS_MOST: Final = 1_000
"""Moving replicas of which the course is kept; each costs some two kilobytes."""
LOOKED_AT_MOST: Final = 64
SAMPLES_MOST: Final = 300
"""Five minutes at a sample a second."""

_ABSENT: Final = -2
"""No lag: there is no sample of that moment."""
_DECIDING: Final = ("topic_index", "partition", "broker", "adding")
"""Columns by which a replica is found, and found to move."""


class LagSample(NamedTuple):
    """A replica's lag at one moment."""

    at_ms: int
    lag_bytes: int
    """UNKNOWN where nobody said."""


class LagHistory:
    """Lags of the recent past, bounded in replicas and in samples."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at: dict[tuple[str, int, int], None] = {}
        """In the order in which they were looked at last."""
        self._cluster = ""
        self._times: list[int] = []
        """Of the rows that are filled, the oldest first."""
        self._first = 0
        """The row of the oldest."""
        self._columns: dict[tuple[str, int, int], int] = {}
        self._lags: NDArray[np.int64] | None = None
        """Shape (SAMPLES_MOST, replicas)."""
        self._places: NDArray[np.intp] | None = None
        """Rows of the snapshot, in the order of the columns."""
        self._decided: tuple[object, ...] = ()
        """What the columns were found from."""

    def look_at(self, replica: tuple[str, int, int]) -> None:
        """Keep the course of this replica too, whether it moves or not."""
        with self._lock:
            self._looked_at.pop(replica, None)
            self._looked_at[replica] = None
            while len(self._looked_at) > LOOKED_AT_MOST:
                del self._looked_at[next(iter(self._looked_at))]

    def samples(self, replica: tuple[str, int, int]) -> tuple[LagSample, ...]:
        """What is known of a replica, oldest first."""
        with self._lock:
            column = self._columns.get(replica)
            if column is None or self._lags is None:
                return ()
            lags = self._lags[:, column].tolist()
            found = (
                LagSample(at_ms, lags[(self._first + number) % SAMPLES_MOST])
                for number, at_ms in enumerate(self._times)
            )
            return tuple(sample for sample in found if sample.lag_bytes != _ABSENT)

    def take(self, facts: Facts, *, alone: bool = False) -> None:
        """Add what a snapshot says. Going back in time, what is later is forgotten.

        `alone` forgets what is earlier, too: a moment of the past looks the same by every way.
        """
        snapshot = facts.snapshot
        with self._lock:
            if alone or snapshot.cluster_id != self._cluster:
                self._cluster = snapshot.cluster_id
                self._times, self._columns, self._decided = [], {}, ()
            while self._times and self._times[-1] > snapshot.taken_ms:
                self._times.pop()
            looked_at = tuple(self._looked_at)
            self._choose(facts, looked_at)
            assert self._lags is not None
            if not self._times or self._times[-1] < snapshot.taken_ms:
                self._next_row(snapshot.taken_ms)
            row = (self._first + len(self._times) - 1) % SAMPLES_MOST
            self._lags[row] = facts.rows.lag_bytes[self._places]

    def _next_row(self, at_ms: int) -> None:
        """Room for one more sample: the oldest one's, where there is no other."""
        self._times.append(at_ms)
        if len(self._times) > SAMPLES_MOST:
            del self._times[0]
            self._first = (self._first + 1) % SAMPLES_MOST

    def _choose(self, facts: Facts, looked_at: tuple[tuple[str, int, int], ...]) -> None:
        """Which replicas have a column; the courses of all others are dropped."""
        import numpy as np

        deciding = (facts.snapshot.topics, *(getattr(facts.rows, name) for name in _DECIDING))
        same = len(self._decided) == len(deciding) + 1 and self._decided[-1] == frozenset(looked_at)
        if same and all(a is b for a, b in zip(self._decided, deciding, strict=False)):
            return
        self._decided = (*deciding, frozenset(looked_at))
        before, lags = self._columns, self._lags
        found = _places(facts, looked_at)
        self._columns = {replica: column for column, replica in enumerate(found)}
        self._places = np.array(list(found.values()), np.intp)
        self._lags = np.full((SAMPLES_MOST, len(found)), _ABSENT, np.int64)
        common = [(before[one], column) for one, column in self._columns.items() if one in before]
        if common and lags is not None:
            old, new = zip(*common, strict=True)
            self._lags[:, list(new)] = lags[:, list(old)]


def _places(
    facts: Facts, looked_at: tuple[tuple[str, int, int], ...]
) -> dict[tuple[str, int, int], int]:
    """Rows of the replicas that move, and of those that were looked at."""
    rows, topics = facts.rows, facts.snapshot.topics
    moving = facts.arriving.nonzero()[0][:REPLICAS_MOST]
    columns = (rows.topic_index, rows.partition, rows.broker)
    listed = zip(*(column[moving].tolist() for column in columns), strict=True)
    found: dict[tuple[str, int, int], int] = {
        (topics[topic], partition, broker): place
        for (topic, partition, broker), place in zip(listed, moving.tolist(), strict=True)
    }
    for topic, partition, broker in looked_at:
        for place in facts.rows_of(topic, partition):
            if rows.broker[place] == broker:
                found[topic, partition, broker] = place
    return found
