"""What a replication throttle is used for, row by row: who counts against it, and who is held.

Goals
    The rate at which a throttle is too low for ever, as Kafka counts, from a snapshot's columns.
Constraints
    Linear in the replicas, with no Python loop over them. A broker whose rates could not be read
    holds nobody as far as is known.
Algorithm (KIP-73; Kafka's KafkaApis.sizeOfThrottledPartitions, ReplicaManager.shouldLeaderThrottle,
ReplicaFetcherThread.processPartitionData)
    This follows Kafka's sources. A leader's throttle counts what it sends of partitions that list
    *it* in leader.replication.throttled.replicas, to followers in the ISR as well. A follower's
    counts what it fetches of partitions that list it in follower.replication.throttled.replicas, in
    the ISR as well. Kafka holds back only those out of the ISR. Each follower needs what is written
    to its partition, in the ISR or on its way there. So a throttle that all can arrive under is
    above the sum of that over every follower that counts. While it is, the shares of those that are
    held add up to more than what is written to them, so one of them comes nearer. When that one is
    in the ISR it counts as much as before, and the next one's turn comes. At the sum or below it,
    the last one never arrives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.replicas.snapshot import (
    UNKNOWN,
    BrokerStatus,
    Replicas,
    ReplicaStatus,
    Snapshot,
    moving_rows,
    partition_starts,
)
from kshunt.backend.domain.replicas.stuck_causes import RateNeed
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIR_RATE,
    RATE_MIN_BYTES_PER_S,
    RATE_SPARE,
    Throttles,
)

ARRIVE_S: Final = 3_600.0
"""In about this time the replicas arrive under the rate that is recommended."""
_DENSE_IDS: Final = 1 << 20
"""Ids that spread over more are sorted."""
SILENT_MS: Final = 10_000
"""A broker that has just been slow is not down; one that hangs loses its session by then."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Shape:
    """How a snapshot's rows form partitions. Arrays have shape (replicas,) but for `starts`."""

    starts: NDArray[np.intp]
    counts: NDArray[np.intp]
    leader_row: NDArray[np.int64]
    """The row of each row's leader, -1 where there is none."""
    leads: Mask
    moving: Mask
    """Its partition gains or loses a replica."""

    @classmethod
    def of(cls, replicas: Replicas) -> Shape:
        """The shape of a snapshot's rows, which are sorted."""
        starts = partition_starts(replicas)
        counts = np.diff(np.append(starts, len(replicas)))
        leads = replicas.broker == replicas.leader
        rows = np.where(leads, np.arange(len(replicas)), UNKNOWN)
        leaders = np.maximum.reduceat(rows, starts) if len(rows) else rows
        moving = moving_rows(replicas, starts)
        return cls(starts, counts, np.repeat(leaders, counts), leads, moving)

    def any_of(self, rows: Mask) -> Mask:
        """On each row, whether the mask holds for a row of its partition."""
        if not len(rows):
            return rows
        found: Mask = np.repeat(np.logical_or.reduceat(rows, self.starts), self.counts)
        return found


@dataclass(frozen=True, eq=False)
class Followers:
    """What both sides are worked out from. Arrays have shape (replicas,)."""

    fetching: Mask
    """Rows that fetch from a leader: both brokers work as far as is known."""
    in_isr: Mask
    written_bytes_per_s: Floats
    """What is written to the row's partition; 0 where it is not known."""
    fetched_bytes_per_s: Floats
    """How fast the row's log grows; 0 where it is not known."""
    lag_bytes: Floats
    """0 where it is not known."""


@dataclass(frozen=True, eq=False)
class ThrottleShare:
    """One side's throttles as each row meets them. Arrays have shape (replicas,)."""

    key: str
    """Kafka's name of the rate."""
    broker: NDArray[np.int32]
    """Whose throttle it is."""
    rate_bytes_per_s: Floats
    """inf where there is none."""
    held: Mask
    """Rows that the throttle holds back: listed, out of the ISR, and a rate is set."""
    written_bytes_per_s: Floats
    """To all rows that count against it."""
    in_sync_bytes_per_s: Floats
    """Of these, what rows in the ISR take."""
    used_bytes_per_s: Floats
    users: Floats
    """How many rows it holds back."""
    lag_bytes: Floats
    """What these lack together."""

    def fair_bytes_per_s(self) -> Floats:
        """What each row that is held would get in equal parts; inf where none is."""
        left = np.maximum(self.rate_bytes_per_s - self.in_sync_bytes_per_s, 0.0)
        return np.where(self.held, left / np.maximum(self.users, 1.0), math.inf)

    def need(self, row: int) -> RateNeed:
        """The throttle of a row that is held, and the rate that would do."""
        written = float(self.written_bytes_per_s[row])
        wanted = RATE_SPARE * written + float(self.lag_bytes[row]) / ARRIVE_S
        return RateNeed(
            int(self.broker[row]),
            self.key,
            int(self.rate_bytes_per_s[row]),
            math.ceil(written),
            max(math.ceil(wanted / 1_000) * 1_000, RATE_MIN_BYTES_PER_S),
        )


def numbered(broker: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ids that occur, sorted, and each row's place in them: `np.unique`, without sorting."""
    if not len(broker):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low = int(broker.min())
    if int(broker.max()) - low > _DENSE_IDS:
        found, place = np.unique(broker.astype(np.int64), return_inverse=True)
        return found, place
    above = broker - low
    there = np.bincount(above) > 0
    ids: NDArray[np.int64] = np.flatnonzero(there) + low
    return ids, (np.cumsum(there) - 1)[above]


def share_of(
    key: str,
    broker: NDArray[np.int32],
    listed: Mask,
    rates: Mapping[int, int | None],
    followers: Followers,
) -> ThrottleShare:
    """One side: whose throttle each row meets, and whether its partition lists that broker."""
    counts = listed & followers.fetching
    if not counts.any():
        return _unused(key, broker)
    ids, place = numbered(broker)
    limits = [rates.get(int(one)) for one in ids]
    by_broker = np.array([math.inf if one is None else float(one) for one in limits])
    rate = by_broker[place]
    held = counts & ~followers.in_isr & np.isfinite(rate)

    def total(rows: Mask, weights: Any) -> Floats:
        sums = np.bincount(place[rows], weights[rows], len(ids)).astype(np.float64)
        by_row: Floats = sums[place]
        return by_row

    in_sync = total(counts & followers.in_isr, followers.written_bytes_per_s)
    return ThrottleShare(
        key=key,
        broker=broker,
        rate_bytes_per_s=rate,
        held=held,
        written_bytes_per_s=total(counts, followers.written_bytes_per_s),
        in_sync_bytes_per_s=in_sync,
        used_bytes_per_s=in_sync + total(held, followers.fetched_bytes_per_s),
        users=total(held, np.ones(len(broker))),
        lag_bytes=total(held, followers.lag_bytes),
    )


def is_down(status: BrokerStatus | None, taken_ms: int, began_ms: int) -> bool:
    """Whether a broker is not registered, or has been silent for some seconds.

    One that has never answered is silent since `began_ms`, when somebody began to ask.
    """
    if status is None:
        return True
    silent_ms = taken_ms - (began_ms if status.answered_ms is None else status.answered_ms)
    return status.stale and (not status.registered or silent_ms > SILENT_MS)


def _unused(key: str, broker: NDArray[np.int32]) -> ThrottleShare:
    """A side on which nobody counts."""
    nothing = np.zeros(len(broker))
    none = np.full(len(broker), math.inf)
    nobody = np.zeros(len(broker), np.bool_)
    return ThrottleShare(key, broker, none, nobody, nothing, nothing, nothing, nothing, nothing)


def down_rows(snapshot: Snapshot, broker: NDArray[np.int32], began_ms: int) -> Mask:
    """Rows whose broker, or leader, is down; a partition without a leader has none that is."""
    known = set(snapshot.brokers) | {int(one) for one in numbered(broker)[0]} - {NO_BROKER}
    taken_ms, statuses = snapshot.taken_ms, snapshot.brokers
    gone = [b for b in known if is_down(statuses.get(b), taken_ms, began_ms)]
    found: Mask = np.isin(broker, np.array(sorted(gone), np.int32))
    return found


def sides_of(
    snapshot: Snapshot, shape: Shape, written: Floats, began_ms: int
) -> tuple[ThrottleShare, ThrottleShare]:
    """The leader's side and the follower's; `written` as `followers_of` takes it."""
    replicas = snapshot.replicas
    has_leader = shape.leader_row >= 0
    down, source_down = (
        down_rows(snapshot, brokers, began_ms) for brokers in (replicas.broker, replicas.leader)
    )
    reached = ~down & ~source_down
    fetching = has_leader & ~shape.leads & reached & (replicas.status != ReplicaStatus.OFFLINE)
    followers = followers_of(replicas, written, fetching, replicas.in_isr)
    leader_listed = has_leader & replicas.leader_throttled[shape.leader_row]
    rates = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
    leaders = {broker: rate.leader_bytes_per_s for broker, rate in rates.items()}
    fetchers = {broker: rate.follower_bytes_per_s for broker, rate in rates.items()}
    return (
        share_of(LEADER_RATE, replicas.leader, leader_listed, leaders, followers),
        share_of(FOLLOWER_RATE, replicas.broker, replicas.follower_throttled, fetchers, followers),
    )


def copies_of(
    throttles: Throttles, replicas: Replicas, written: Floats, copying: Mask
) -> ThrottleShare:
    """Copies between directories: each reads what its replica gets, in the ISR or not."""
    nobody = np.zeros(len(replicas), np.bool_)
    rates = {broker: one.log_dir_bytes_per_s for broker, one in throttles.rates.items()}
    followers = followers_of(replicas, written, copying, nobody)
    return share_of(LOG_DIR_RATE, replicas.broker, copying, rates, followers)


def followers_of(replicas: Replicas, written: Floats, fetching: Mask, in_isr: Mask) -> Followers:
    """The columns of a snapshot; `written` is bytes/s to each row's partition, NaN if unknown."""
    return Followers(
        fetching=fetching,
        in_isr=in_isr,
        written_bytes_per_s=np.nan_to_num(written),
        fetched_bytes_per_s=np.maximum(
            np.nan_to_num(replicas.fetched_bytes_per_s.astype(np.float64)), 0.0
        ),
        lag_bytes=np.maximum(replicas.lag_bytes, 0).astype(np.float64),
    )
