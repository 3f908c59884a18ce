"""What a rehearsal of moves found: how they would go, from the first byte to the last.

Times are seconds of the rehearsed cluster since the moves began. T points in time, B brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd


@dataclass(frozen=True, slots=True)
class IsrEvent:
    """A replica that left an ISR, or came back into it."""

    topic: str
    partition: int
    at_s: float
    broker: int
    left: bool
    """False where it came back."""

    @property
    def name(self) -> TopicPartition:
        """Which partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, eq=False)
class Timeline:
    """The course of it, in columns; each point stands for the time since the one before."""

    at_s: NDArray[np.float64]
    """Shape (T,); the first is 0."""
    remaining_bytes: NDArray[np.float64]
    """What replicas that are being added lack of their leaders. Shape (T,)."""
    received_bytes_per_s: NDArray[np.float64]
    """Replication into each broker, its ordinary one too. Shape (T, B)."""
    sent_bytes_per_s: NDArray[np.float64]
    """Replication out of each broker. Shape (T, B)."""
    disk_bytes: NDArray[np.float64]
    """What lies on each broker. Shape (T, B)."""
    out_of_sync: NDArray[np.int64]
    """Replicas that are in no ISR, those that are being added too. Shape (T,)."""
    under_min_isr: NDArray[np.int64]
    """Partitions with fewer in sync than `min.insync.replicas`, where that is known. Shape (T,)."""

    def __len__(self) -> int:
        return len(self.at_s)

    def thinned(self, points: int) -> Timeline:
        """At most this many points, for a plot.

        Each point stands for some of the old ones, and keeps their last remaining bytes. It also
        keeps their highest rates, their fullest disks and their most replicas out of sync. The most
        partitions below `min.insync.replicas` stay too.

        Raises:
            ValueError: fewer than two points are asked for.
        """
        if points < 2:
            raise ValueError(f"{points} points are not enough for a curve")
        if len(self) <= points:
            return self
        # The first point stands for itself; the others are shared out among the rest.
        ends = np.unique(np.linspace(0, len(self) - 1, points).round().astype(np.int64))
        starts = np.concatenate([[0], ends[:-1] + 1])

        def most(column: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = np.maximum.reduceat(column, starts, axis=0)
            return found

        return Timeline(
            self.at_s[ends],
            self.remaining_bytes[ends],
            most(self.received_bytes_per_s),
            most(self.sent_bytes_per_s),
            most(self.disk_bytes),
            most(self.out_of_sync),
            most(self.under_min_isr),
        )


REHEARSED_S_MAX: Final = 30 * 86_400
"""A rehearsal of moves that take longer is stopped."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """How moves went in a twin of the cluster."""

    throttle_bytes_per_s: int | None
    """What each broker might send, and receive, for them; None without a throttle."""
    brokers: tuple[int, ...]
    """The columns of the timeline, by id."""
    timeline: Timeline
    done_s: Mapping[TopicPartition, float]
    """When each partition had moved; those that had not are absent."""
    finish_s: float | None
    """When the last one had; None if that would not be, or if it was `stopped`."""
    why: str = ""
    """Why it would not end, and what is in the way; or that it was `stopped`."""
    isr_events: tuple[IsrEvent, ...] = ()
    """Replicas that had been in sync and fell behind, and their return; in their order."""

    @property
    def stopped(self) -> bool:
        """Whether it was stopped after `REHEARSED_S_MAX`, while the copies still came nearer."""
        return self.finish_s is None and float(self.timeline.at_s[-1]) >= REHEARSED_S_MAX

    @property
    def never(self) -> bool:
        """Whether it would not end."""
        return self.finish_s is None and not self.stopped

    @property
    def moved_bytes(self) -> float:
        """What had to be copied at the beginning; producers add to it."""
        return float(self.timeline.remaining_bytes[0])

    @property
    def isr_drops(self) -> int:
        """How often a replica that had been in sync fell behind, as far as events were kept."""
        return sum(event.left for event in self.isr_events)

    def peak_disk_bytes(self) -> Mapping[int, float]:
        """The most that lies on each broker at any time."""
        return dict(zip(self.brokers, self.timeline.disk_bytes.max(axis=0).tolist(), strict=True))

    def peak_received_bytes_per_s(self) -> Mapping[int, float]:
        """The most that each broker receives."""
        peaks = self.timeline.received_bytes_per_s.max(axis=0).tolist()
        return dict(zip(self.brokers, peaks, strict=True))

    def peak_sent_bytes_per_s(self) -> Mapping[int, float]:
        """The most that each broker sends."""
        peaks = self.timeline.sent_bytes_per_s.max(axis=0).tolist()
        return dict(zip(self.brokers, peaks, strict=True))


@dataclass(frozen=True, slots=True)
class PlanForecast:
    """When a plan would be done at a throttle, by the model of copying."""

    throttle_bytes_per_s: int | None
    """For every broker that takes part, each way; None without a throttle."""
    end: ExpectedEnd
    """Counted from when the plan begins."""

    @property
    def ends(self) -> bool:
        """Whether all of it is known to arrive."""
        end = self.end
        return end.p50_s is not None and not (end.never or end.unknown or end.held)

    @property
    def never(self) -> bool:
        """Whether some of it never arrives."""
        return bool(self.end.never)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The throttle that is needed to be done in time."""

    at_ms: int
    """The moment that was asked for, milliseconds since the epoch."""
    throttle_bytes_per_s: int | None
    """For every broker that takes part, each way; None where no throttle is enough."""
    certainty: float
    """How probable it is that the plan is done in time at this throttle."""
    needs: Mapping[int, tuple[float, float]]
    """By broker: bytes a second that it has to receive, and to send, on average until then."""

    @property
    def possible(self) -> bool:
        """Whether it can be done in time at all."""
        return self.throttle_bytes_per_s is not None
