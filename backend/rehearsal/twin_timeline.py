"""What is seen of a twin while time goes by: points of a timeline, and what became of ISRs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.rehearsal import IsrEvent, Timeline
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.replication.columns import NOWHERE
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.twin import START_MS, topic_id

POINTS_MAX: Final = 600
"""With more, every other one goes, and the rest are half as dense."""
EVENTS_MAX: Final = 1_000
"""Changes of ISRs that are kept."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Point:
    """One look. Totals since the beginning, shape (brokers of the twin,)."""

    at_s: float
    remaining_bytes: float
    received: Floats
    sent: Floats
    disk: Floats
    out_of_sync: int
    under_min_isr: int


class TimelineRecorder:
    """Looks at a twin whenever it is told to."""

    def __init__(self, core: Core, picture: Picture, moving: Sequence[TopicPartition]) -> None:
        self._core = core
        self._model = core.plane.replication
        self._copies = self._rows_of(moving)
        self._min_isr = self._by_row(picture)
        self._was_in_sync = self._model.replicas.in_isr.copy()
        self._points: list[_Point] = []
        self.events: list[IsrEvent] = []
        self.every_ms = 1_000
        """How much time to let go by until the next look."""

    def _rows_of(self, moving: Sequence[TopicPartition]) -> NDArray[np.int64]:
        """Rows of the replicas that are being added."""
        rows: list[int] = []
        for name in moving:
            held = self._core.plane.held((topic_id(name.topic), name.partition))
            partition = self._core.image.partition(*name)
            if held is not None and partition is not None:
                rows += [held.replicas[broker] for broker in partition.adding]
        return np.array(rows, np.int64)

    def _by_row(self, picture: Picture) -> NDArray[np.int64]:
        """Each partition's `min.insync.replicas`, -1 where it is not known."""
        least = np.full(len(self._model.partitions), -1, np.int64)
        known = np.flatnonzero(picture.situation.min_isr >= 0)
        for place in known:
            name = picture.situation.partitions[place]
            held = self._core.plane.held((topic_id(name.topic), name.partition))
            if held is not None:
                least[held.row] = picture.situation.min_isr[place]
        return least

    # --- looks

    @property
    def elapsed_s(self) -> float:
        """Since the moves began."""
        return (self._core.now_ms - START_MS) / 1000

    def look(self) -> float:
        """Keep what is there; returns the bytes that are still to be copied."""
        used = self._model.replicas.partition != NOWHERE
        received, sent = self._model.traffic()
        remaining = self._remaining()
        self._points.append(
            _Point(
                self.elapsed_s,
                remaining,
                received,
                sent,
                self._disk(used),
                int(np.count_nonzero(used & ~self._model.replicas.in_isr)),
                self._under_min_isr(used),
            )
        )
        self._see_isrs(used)
        if len(self._points) > POINTS_MAX:
            self._points = self._points[::2]
            self.every_ms *= 2
        return remaining

    def remaining_at(self, at_s: float) -> float:
        """What was still to be copied at a time that was looked at, or the last before it."""
        earlier = [one.remaining_bytes for one in self._points if one.at_s <= at_s]
        return earlier[-1] if earlier else self._points[0].remaining_bytes

    def lacking(self) -> Iterator[tuple[int, float]]:
        """Brokers that wait for bytes, and how many."""
        table, rows = self._model.replicas, self._copies
        lacks = self._lacks(rows)
        for number in np.unique(table.broker[rows[lacks > 0]]):
            of_broker = table.broker[rows] == number
            yield self._core.plane.broker_id(int(number)), float(lacks[of_broker].sum())

    def _remaining(self) -> float:
        return float(self._lacks(self._copies).sum())

    def _lacks(self, rows: NDArray[np.int64]) -> Floats:
        table = self._model.replicas
        leaders = self._model.partitions.leader[table.partition[rows]]
        led = leaders != NOWHERE
        lacks = np.zeros(len(rows))
        # Less than a byte is what is left of sums of fractions.
        missing = table.position[leaders[led]] - table.position[rows[led]]
        lacks[led] = np.where(missing >= 1, missing, 0.0)
        lacks[table.in_isr[rows]] = 0.0
        return lacks

    def _disk(self, used: NDArray[np.bool_]) -> Floats:
        table, count = self._model.replicas, self._model.limits.brokers
        sizes = self._model.sizes().astype(np.float64)
        return np.bincount(table.broker[used], sizes[used], count).astype(np.float64)

    def _under_min_isr(self, used: NDArray[np.bool_]) -> int:
        table = self._model.replicas
        in_sync = table.partition[used & table.in_isr]
        counts = np.bincount(in_sync, minlength=len(self._min_isr))[: len(self._min_isr)]
        return int(np.count_nonzero((self._min_isr >= 0) & (counts < self._min_isr)))

    def _see_isrs(self, used: NDArray[np.bool_]) -> None:
        table = self._model.replicas
        before = np.zeros(len(table.in_isr), np.bool_)
        before[: len(self._was_in_sync)] = self._was_in_sync
        for row in np.flatnonzero(used & (before != table.in_isr)).tolist():
            joined = bool(table.in_isr[row])
            # A copy that arrives is the move itself.
            if len(self.events) < EVENTS_MAX and not (joined and row in self._copies):
                held = self._core.plane.at_row(int(table.partition[row]))
                broker = self._core.plane.broker_id(int(table.broker[row]))
                name = held.topic, held.number
                self.events.append(IsrEvent(*name, self.elapsed_s, broker, not joined))
        self._was_in_sync = np.where(used, table.in_isr, False)

    # --- what it comes to

    def timeline(self, brokers: Sequence[int]) -> Timeline:
        """Every point that was kept; the columns of brokers in this order."""
        numbers = [self._core.plane.broker_number(broker) for broker in brokers]
        at_s = np.array([one.at_s for one in self._points])

        def column(name: str) -> NDArray[Any]:
            return np.array([getattr(one, name) for one in self._points])

        return Timeline(
            at_s,
            column("remaining_bytes"),
            _rates(column("received")[:, numbers], at_s),
            _rates(column("sent")[:, numbers], at_s),
            column("disk")[:, numbers],
            column("out_of_sync"),
            column("under_min_isr"),
        )


def _rates(totals: Floats, at_s: Floats) -> Floats:
    """What was transferred between two points, by second; nothing up to the first."""
    rates = np.zeros_like(totals)
    if len(at_s) > 1:
        rates[1:] = np.diff(totals, axis=0) / np.diff(at_s)[:, None]
    return rates
