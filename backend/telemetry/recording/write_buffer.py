"""Rows that wait to be written: a buffer with a bound, which says what it had to let go."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.telemetry.recording.layout import SampleTable

_PIECE_ROWS: Final = 10_000
"""Rows that were put back are dropped in parts of this many."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What the bound let go."""

    rows: int
    from_ms: int
    """Of the oldest of these rows."""
    to_ms: int
    """Of the newest."""

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(
            self.rows + other.rows,
            min(self.from_ms, other.from_ms),
            max(self.to_ms, other.to_ms),
        )


class WriteBuffer:
    """Tables in the order in which they came; any thread may use it."""

    def __init__(self, rows_max: int) -> None:
        """The newest table stays even where it alone is over `rows_max`."""
        self._rows_max = rows_max
        self._waiting: deque[tuple[SampleTable, Any]] = deque()
        self._rows = 0
        self._dropped: Dropped | None = None
        self._rows_dropped = 0
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """How many wait."""
        return self._rows

    @property
    def rows_dropped(self) -> int:
        """How many were let go in all."""
        return self._rows_dropped

    def add(self, table: SampleTable, rows: Any) -> None:
        """Put rows at the end."""
        if len(rows):
            with self._lock:
                self._waiting.append((table, rows))
                self._rows += len(rows)
                self._bound()

    def take(self) -> list[tuple[SampleTable, Any]]:
        """All that waits, as one `pyarrow.Table` a table; it waits no longer."""
        with self._lock:
            waiting, self._waiting, self._rows = self._waiting, deque(), 0
        return [
            (table, pa.concat_tables(found))
            for table in SampleTable
            if (found := [rows for one, rows in waiting if one is table])
        ]

    def put_back(self, left: list[tuple[SampleTable, Any]]) -> None:
        """What was taken and could not be written waits again, before all that came since."""
        with self._lock:
            for table, rows in reversed(left):
                for place in reversed(range(0, len(rows), _PIECE_ROWS)):
                    piece = rows.slice(place, _PIECE_ROWS)
                    self._waiting.appendleft((table, piece))
                    self._rows += len(piece)
            self._bound()

    def take_dropped(self) -> Dropped | None:
        """What was let go since this was last asked."""
        with self._lock:
            dropped, self._dropped = self._dropped, None
            return dropped

    def _bound(self) -> None:
        while self._rows > self._rows_max and len(self._waiting) > 1:
            _, rows = self._waiting.popleft()
            self._rows -= len(rows)
            gone = dropped_of(rows)
            self._rows_dropped += gone.rows
            self._dropped = gone if self._dropped is None else self._dropped + gone


def dropped_of(rows: Any) -> Dropped:
    """How many rows these are, and of when."""
    times = pc.min_max(rows["at"].cast(pa.int64())).as_py()
    return Dropped(len(rows), times["min"], times["max"])
