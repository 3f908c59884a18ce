"""What the replicas of each group are together: counts, bytes left, rates, ETAs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.replica_groups import ReplicaGroups, partition_ids
from kshunt.tui.facts.snapshot_facts import Facts


@dataclass(frozen=True)
class Sums:
    """One entry a group, in the order of `ReplicaGroups.keys`."""

    partitions: NDArray[np.int64]
    """That have a replica in the group."""
    replicas: NDArray[np.int64]
    moving: NDArray[np.int64]
    """Replicas that are being added."""
    behind: NDArray[np.int64]
    """Replicas that still have to copy."""
    stuck: NDArray[np.int64]
    lag_bytes: NDArray[np.int64]
    """Of the replicas that are behind; UNKNOWN where none of them says."""
    lag_unknown: NDArray[np.int64]
    """Replicas behind that do not say how far."""
    rate_bytes_per_s: NDArray[np.float64]
    """What the replicas behind catch up together; NaN where there are some and none is known."""
    size_bytes: NDArray[np.int64]
    """As far as is known; UNKNOWN where no replica says."""
    eta_s: NDArray[np.float64]
    """When the last replica of those that arrive has arrived; NaN where none does."""
    eta_never: NDArray[np.int64]
    eta_unknown: NDArray[np.int64]


def sums_of(facts: Facts, groups: ReplicaGroups, rows: NDArray[np.intp]) -> Sums:
    """The sums over some of the rows; all of it in a few passes, however many groups."""
    count = len(groups.keys)
    chosen = slice(None) if len(rows) == len(facts.rows) else rows
    table, code = facts.rows, groups.code[chosen]
    lag, size = table.lag_bytes[chosen], table.size_bytes[chosen]
    rate = table.catch_up_bytes_per_s[chosen]
    behind = facts.behind[chosen] & (table.leader[chosen] != table.broker[chosen])
    knows, advances = behind & (lag >= 0), behind & ~np.isnan(rate)
    copying = behind & ~table.in_isr[chosen]
    eta = table.eta_s[chosen].astype(np.float64)

    def number(members: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(code, members, minlength=count).astype(np.int64)

    lags, rates, late = number(knows), number(advances), number(behind)
    caught_up = np.bincount(code, np.where(advances, rate, np.float32(0)), minlength=count)
    return Sums(
        partitions=_partitions(facts, code, rows, count),
        replicas=np.bincount(code, minlength=count),
        moving=number(table.adding[chosen]),
        behind=late,
        stuck=number(facts.stuck[chosen]),
        lag_bytes=np.where((late > 0) & (lags == 0), UNKNOWN, _total(code, lag, knows, count)),
        lag_unknown=late - lags,
        rate_bytes_per_s=np.where((late > 0) & (rates == 0), np.nan, caught_up),
        size_bytes=np.where(
            (number(size >= 0) == 0) & (number(size < 0) > 0),
            UNKNOWN,
            _total(code, size, size >= 0, count),
        ),
        eta_s=_most(code, eta, copying & np.isfinite(eta), count),
        eta_never=number(copying & np.isinf(eta)),
        eta_unknown=number(copying & np.isnan(eta)),
    )


def _total(
    code: NDArray[np.int64], values: NDArray[np.int64], members: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """Whole bytes. Sums of floats are exact up to 2**53; beyond, halves are summed apart."""
    values = np.where(members, values, 0)
    if int(values.sum()) < 2**53:
        return np.bincount(code, values, minlength=count).astype(np.int64)
    low = np.bincount(code, values & 0xFFFFFFFF, minlength=count).astype(np.int64)
    high = np.bincount(code, values >> 32, minlength=count).astype(np.int64)
    return (high << 32) + low


def _partitions(
    facts: Facts, code: NDArray[np.int64], rows: NDArray[np.intp], count: int
) -> NDArray[np.int64]:
    pairs = np.sort(partition_ids(facts)[rows] * max(count, 1) + code)
    first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    return np.bincount(pairs[first] % max(count, 1), minlength=count)


def _most(
    code: NDArray[np.int64], values: NDArray[np.float64], chosen: NDArray[np.bool_], count: int
) -> NDArray[np.float64]:
    """The largest value of each group; NaN where it has none."""
    found = np.full(count, -np.inf)
    np.maximum.at(found, code[chosen], values[chosen])
    return np.where(np.isinf(found), np.nan, found)
