"""What each broker leads, holds, sends and receives, summed over the replicas in a few passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.moves.plan_places import rows_among
from kshunt.tui.facts.snapshot_facts import Facts


@dataclass(frozen=True)
class BrokerLoadColumns:
    """One entry a broker, in the order of `ids`."""

    ids: NDArray[np.int64]
    leaders: NDArray[np.int64]
    preferred: NDArray[np.int64]
    """Partitions whose preferred replica is here."""
    replicas: NDArray[np.int64]
    moving_in: NDArray[np.int64]
    """Replicas that are being added to it."""
    moving_out: NDArray[np.int64]
    """Partitions that it leads and that somebody else receives."""
    lag_in_bytes: NDArray[np.int64]
    """What its own replicas still lack."""
    lag_in_unknown: NDArray[np.int64]
    """Its replicas that lack something, and do not say how much."""
    lag_out_bytes: NDArray[np.int64]
    """What replicas that it feeds still lack."""
    rate_in_bytes_per_s: NDArray[np.float64]
    """What its added replicas fetch."""
    rate_out_bytes_per_s: NDArray[np.float64]
    throttled_in_bytes_per_s: NDArray[np.float64]
    """Of what its replicas fetch, what counts against its follower rate."""
    throttled_out_bytes_per_s: NDArray[np.float64]
    """Of what is fetched from it, what counts against its leader rate."""


def loads_of(facts: Facts, brokers: list[int]) -> BrokerLoadColumns:
    """The loads of these brokers, which are sorted and among which is each that hosts a replica.

    Kafka counts against a follower rate what a listed replica fetches while it is out of sync, and
    against a leader rate what is fetched so from a listed leader.
    """
    rows, ids = facts.rows, np.array(brokers, np.int64)
    count = len(ids)
    here = np.searchsorted(ids, rows.broker)
    led = rows.leader >= 0
    source = np.where(led, np.searchsorted(ids, rows.leader).clip(0, max(count - 1, 0)), 0)
    leads = rows.leader == rows.broker
    copying = facts.behind & ~leads
    fed = copying & led
    adding, fetched = rows.adding & ~leads, rows.fetched_bytes_per_s
    listed_source = rows_among(facts, facts.leader_listed)
    limited = copying & rows.follower_throttled & ~rows.in_isr
    limiting = fed & listed_source & ~rows.in_isr

    def number(members: NDArray[np.bool_], place: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(place[members], minlength=count)

    return BrokerLoadColumns(
        ids=ids,
        leaders=number(leads, here),
        preferred=number(rows.position == 0, here),
        replicas=np.bincount(here, minlength=count),
        moving_in=number(rows.adding, here),
        moving_out=_fed_partitions(facts, adding & led, source, count),
        lag_in_bytes=_bytes(rows.lag_bytes, copying, here, count),
        lag_in_unknown=number(copying & (rows.lag_bytes < 0), here),
        lag_out_bytes=_bytes(rows.lag_bytes, fed, source, count),
        rate_in_bytes_per_s=_rates(fetched, adding, here, count),
        rate_out_bytes_per_s=_rates(fetched, adding & led, source, count),
        throttled_in_bytes_per_s=_rates(fetched, limited, here, count),
        throttled_out_bytes_per_s=_rates(fetched, limiting, source, count),
    )


def _fed_partitions(
    facts: Facts, receiving: NDArray[np.bool_], source: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    if not receiving.any():
        return np.zeros(count, np.int64)
    moving = np.logical_or.reduceat(receiving, facts.starts)
    return np.bincount(source[facts.starts[moving]], minlength=count)


def _bytes(
    values: NDArray[np.int64], members: NDArray[np.bool_], place: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The known ones together; UNKNOWN where there are some and none is known."""
    known = members & (values >= 0)
    total = np.bincount(place[known], values[known], minlength=count).astype(np.int64)
    some = np.bincount(place[members], minlength=count) > 0
    none_known = np.bincount(place[known], minlength=count) == 0
    return np.where(some & none_known, UNKNOWN, total)


def _rates(
    values: NDArray[np.float32], members: NDArray[np.bool_], place: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """The known ones together; NaN where there are some and none is known."""
    known = members & ~np.isnan(values)
    total = np.bincount(place[known], values[known].astype(np.float64), minlength=count)
    some = np.bincount(place[members], minlength=count) > 0
    none_known = np.bincount(place[known], minlength=count) == 0
    return np.where(some & none_known, np.nan, total)
