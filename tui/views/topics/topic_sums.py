"""What the replicas of each topic are together: what the groups of replicas have, and more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import known_brokers
from kshunt.tui.facts.cockpit.traffic import written_rows
from kshunt.tui.facts.health import lacks_of
from kshunt.tui.facts.replica_groups import ReplicaGroups
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.views.partitions.group_sums import Sums, sums_of


@dataclass(frozen=True)
class TopicSums(Sums):
    """One entry a topic, in the order of `Snapshot.topics`."""

    size_unknown: NDArray[np.int64]
    """Replicas whose size nobody has said."""
    factor_least: NDArray[np.int64]
    """Of its partitions, the fewest replicas that one has; those being added left out."""
    factor_most: NDArray[np.int64]
    written_bytes_per_s: NDArray[np.float64]
    """What producers write to it, as far as is known; NaN where no leader says."""
    written_unknown: NDArray[np.int64]
    """Partitions of which nobody knows it, those without a leader included."""
    leader_skew: NDArray[np.float64]
    """The most partitions that one broker leads, in units of what an even share would be.

    1 is as even as can be; NaN where nobody leads.
    """
    size_skew: NDArray[np.float64]
    """Likewise of the bytes that one broker holds; NaN where a size is unknown or all are 0."""
    moving_partitions: NDArray[np.int64]
    copied: NDArray[np.float64]
    """The share of the bytes of added replicas that is there; NaN where none is known."""
    under_replicated: NDArray[np.int64]
    """Partitions, as in `kshunt.tui.facts.health.Health`."""
    under_min_isr: NDArray[np.int64]
    at_min_isr: NDArray[np.int64]
    min_isr_unknown: NDArray[np.int64]
    leader_listed: NDArray[np.int64]
    """Replicas in its leader throttle list."""
    follower_listed: NDArray[np.int64]


def topic_sums(facts: Facts, groups: ReplicaGroups) -> TopicSums:
    """The sums over every topic; all of it in a few passes, however many topics."""
    rows, starts, count = facts.rows, facts.starts, len(groups.keys)
    code, topics = groups.code, groups.code[starts]
    lack, (leads, rate) = lacks_of(facts), written_rows(facts)

    def replicas(members: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(code, members, minlength=count).astype(np.int64)

    def partitions(members: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(topics, members, minlength=count).astype(np.int64)

    known = ~np.isnan(rate)
    told = np.bincount(code[leads], known, minlength=count).astype(np.int64)
    written = np.bincount(code[leads], np.where(known, rate, 0), minlength=count)
    led, held = _skews(facts, code, leads, count)
    sums = sums_of(facts, groups, np.arange(len(rows)))
    unknown = replicas(rows.size_bytes < 0)
    least, most = _factors(lack.original, topics, count)
    return TopicSums(
        **vars(sums),
        size_unknown=unknown,
        factor_least=least,
        factor_most=most,
        written_bytes_per_s=np.where(told > 0, written, np.nan),
        written_unknown=sums.partitions - told,
        leader_skew=led,
        size_skew=np.where(unknown > 0, np.nan, held),
        moving_partitions=partitions(facts.moving[starts]),
        copied=_copied(facts, code, count),
        under_replicated=partitions(lack.under_replicated),
        under_min_isr=partitions(lack.under_min_isr),
        at_min_isr=partitions(lack.at_min_isr),
        min_isr_unknown=partitions(lack.min_isr_unknown),
        leader_listed=replicas(rows.leader_throttled),
        follower_listed=replicas(rows.follower_throttled),
    )


def _factors(
    original: NDArray[np.int64], topics: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fewest and the most replicas of each topic's partitions; 0 of a topic without any."""
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, topics, original)
    np.maximum.at(most, topics, original)
    return np.minimum(least, most), most


def _skews(
    facts: Facts, code: NDArray[np.int64], leads: NDArray[np.intp], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of leaders and of bytes.

    No broker can lead less than one partition of those that it leads, and bytes of few replicas
    are on few brokers: a topic of one partition is even.
    """
    rows = facts.rows
    brokers = np.union1d(known_brokers(rows), np.array(sorted(facts.snapshot.brokers), np.int64))
    cells = code * len(brokers) + np.searchsorted(brokers, rows.broker)
    shape = count, max(len(brokers), 1)
    led = np.bincount(cells[leads], minlength=shape[0] * shape[1]).reshape(shape)
    held = np.bincount(cells, np.maximum(rows.size_bytes, 0), shape[0] * shape[1]).reshape(shape)
    even_led = -(-led.sum(1) // shape[1])
    holders = np.minimum(np.bincount(code, minlength=count), shape[1])
    return _share(led.max(1), even_led), _share(held.max(1) * holders, held.sum(1))


def _copied(facts: Facts, code: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Never all of it before every added replica is in sync."""
    rows = facts.rows
    known = np.flatnonzero(rows.adding & (rows.size_bytes >= 0) & (rows.lag_bytes >= 0))
    there = np.bincount(code[known], rows.size_bytes[known], count)
    lacks = np.bincount(code[known], rows.lag_bytes[known], count)
    some = np.bincount(code[known], minlength=count) > 0
    copying = np.bincount(code, rows.adding & ~rows.in_isr, count) > 0
    share = np.where(there + lacks > 0, _share(there, there + lacks), 1.0)
    return np.where(some, np.where(copying, np.minimum(share, 0.99), share), np.nan)


def _share(part: NDArray[np.number], whole: NDArray[np.number]) -> NDArray[np.float64]:
    """NaN where there is no whole."""
    found = np.full(len(part), np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found
