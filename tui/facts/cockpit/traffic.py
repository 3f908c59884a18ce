"""What a cluster does while nothing moves: what is produced, and how evenly brokers share it.

The rate of a leader's log is what producers write to it, before retention deletes anything.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.tui.facts.snapshot_facts import Facts, rate_sum

POINT_MS: Final = 4_000
"""The course has a point at most this often, so that a slow line does not carry it all the time."""
POINTS_MOST: Final = 900
"""An hour of them."""
TOPICS_MOST: Final = 50
"""Topics that are listed, those that are written to most."""


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """What is produced to one topic."""

    topic: str
    rate_bytes_per_s: float
    size_bytes: int
    """What all of its replicas hold, as far as is known."""


@dataclass(frozen=True, slots=True)
class BrokerTraffic:
    """What one broker has to do."""

    id: int
    rate_bytes_per_s: float
    """What is produced to partitions that it leads; NaN if unknown."""
    size_bytes: int
    """What its replicas hold, as far as is known."""
    leaders: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is produced, and where it goes."""

    rate_bytes_per_s: float = math.nan
    """NaN if none is known."""
    topics: tuple[TopicTraffic, ...] = ()
    """Those that are written to, the most first."""
    topics_written: int = 0
    """How many there are of them."""
    brokers: tuple[BrokerTraffic, ...] = ()
    course: tuple[tuple[int, float], ...] = ()
    """When (ms) and how much was produced, the oldest first."""

    @property
    def leader_skew(self) -> float:
        """How many times the mean the broker with the most leaders leads; NaN without leaders."""
        return _skew([one.leaders for one in self.brokers])

    @property
    def size_skew(self) -> float:
        """Likewise, of what brokers hold."""
        return _skew([one.size_bytes for one in self.brokers])


class TrafficCourse:
    """How what is produced went, while somebody looked. For one thread."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._points: deque[tuple[int, float]] = deque(maxlen=POINTS_MOST)

    def take(self, facts: Facts, *, past: bool) -> Traffic:
        """The traffic of a snapshot, and how it went up to it; in the `past`, of it alone."""
        traffic, snapshot = traffic_of(facts), facts.snapshot
        if past:
            return traffic
        if snapshot.cluster_id != self._cluster_id:
            self._cluster_id = snapshot.cluster_id
            self._points.clear()
        newest = self._points[-1][0] if self._points else -POINT_MS
        if snapshot.taken_ms - newest >= POINT_MS and not math.isnan(traffic.rate_bytes_per_s):
            self._points.append((snapshot.taken_ms, traffic.rate_bytes_per_s))
        return replace(traffic, course=tuple(self._points))


def traffic_of(facts: Facts) -> Traffic:
    """What is produced to the cluster of a snapshot."""
    rows = facts.rows
    leads, rate = written_rows(facts)
    count = len(facts.snapshot.topics)
    by_topic = _sums(rows.topic_index[leads], np.nan_to_num(rate), count)
    size = np.maximum(rows.size_bytes, 0)
    sizes = _sums(rows.topic_index, size, count)
    written = np.flatnonzero(by_topic > 0)
    most = written[np.argsort(-by_topic[written], kind="stable")][:TOPICS_MOST]
    names = facts.snapshot.topics
    return Traffic(
        rate_sum(rate),
        tuple(
            TopicTraffic(names[place], float(by_topic[place]), int(sizes[place]))
            for place in most.tolist()
        ),
        len(written),
        _brokers(facts, leads, rate, size),
    )


def written_rows(facts: Facts) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The rows of leaders, and what producers write to each, in bytes a second; NaN if unknown."""
    rows = facts.rows
    leads = np.flatnonzero((rows.leader == rows.broker) & (rows.leader >= 0))
    # A log that shrinks says how fast retention deletes, not how fast producers write.
    rate = rows.fetched_bytes_per_s[leads]
    return leads, np.where(rate < 0, np.float32(0), rate)


def _brokers(
    facts: Facts, leads: NDArray[np.intp], rate: NDArray[np.float32], size: NDArray[np.int64]
) -> tuple[BrokerTraffic, ...]:
    rows, ids = facts.rows, np.array(sorted(facts.snapshot.brokers), np.int64)
    if not len(ids):
        return ()
    led = np.searchsorted(ids, rows.broker[leads])
    held = _sums(np.searchsorted(ids, rows.broker), size, len(ids))
    leaders = np.bincount(led, minlength=len(ids))
    known = ~np.isnan(rate)
    rates = _sums(led[known], rate[known], len(ids))
    told = np.bincount(led[known], minlength=len(ids)) > 0
    return tuple(
        BrokerTraffic(
            int(id),
            float(rates[place]) if told[place] or not leaders[place] else math.nan,
            int(held[place]),
            int(leaders[place]),
        )
        for place, id in enumerate(ids.tolist())
    )


def _sums(
    places: NDArray[np.integer], values: NDArray[np.number], count: int
) -> NDArray[np.float64]:
    """The sum of the values at each place."""
    found: NDArray[np.float64] = np.bincount(places, values, count).astype(np.float64)
    return found


def _skew(values: list[int]) -> float:
    """The most of them, in units of their mean."""
    total = sum(values)
    return max(values) * len(values) / total if total else math.nan
