"""The course of the moves: one point of history a snapshot, while something moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation, leader_rows
from kshunt.backend.domain.replicas.history import thinned
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, HistoryPoint, Snapshot, stuck_rows


def extended(
    history: tuple[HistoryPoint, ...],
    snapshot: Snapshot,
    last_lag_bytes: NDArray[np.int64],
    waiting_bytes: int = 0,
    *,
    rates_changed: bool = False,
) -> tuple[HistoryPoint, ...]:
    """The history with one more point, if anything moves or has just stopped moving.

    A replica of which nobody knows how far it is counts with what it lacked last: it has not
    arrived because its broker fell silent. `last_lag_bytes` has shape (replicas,). What waits for
    its turn remains, too.
    """
    rows = snapshot.replicas
    moving = rows.adding
    if not moving.any() and not waiting_bytes and (not history or history[-1].is_last):
        return history
    lag = last_lag_bytes[moving]
    known = lag[lag != UNKNOWN]
    is_known = len(known) or waiting_bytes or not moving.any()
    remaining = int(known.sum()) + waiting_bytes if is_known else UNKNOWN
    fetched = rows.fetched_bytes_per_s[moving]
    fetched = fetched[~np.isnan(fetched)]
    point = HistoryPoint(
        snapshot.taken_ms,
        remaining,
        int(moving.sum()),
        math.nan if moving.any() and not len(fetched) else float(fetched.sum(dtype=np.float64)),
        permitted_bytes_per_s(snapshot),
        int((stuck_rows(rows) & moving).sum()),
        rates_changed,
    )
    return thinned((*history, point))


def permitted_bytes_per_s(snapshot: Snapshot) -> int | None:
    """What the receiving brokers' rates let through together.

    None where nothing is received, and where something received is not held by a rate: then
    nothing bounds the sum.
    """
    rows = snapshot.replicas
    receiving = rows.adding & ~rows.in_isr
    brokers = np.unique(rows.broker[receiving]).tolist()
    throttles = snapshot.throttles.rates
    rates = [
        throttles[broker].rate.follower_bytes_per_s if broker in throttles else None
        for broker in brokers
    ]
    if not rates or None in rates or not rows.follower_throttled[receiving].all():
        return None
    return sum(rate for rate in rates if rate is not None)


def waiting_bytes(snapshot: Snapshot, running: Sequence[RunningOperation]) -> int:
    """What moves that wait for their turn will copy, as far as the sizes of leaders are known."""
    moves = [move for one in running for move in one.waiting]
    if not moves:
        return 0
    rows = leader_rows(snapshot, [move.partition for move in moves])
    sizes = np.where(rows >= 0, snapshot.replicas.size_bytes[rows], UNKNOWN)
    copies = np.array([len(move.adding) for move in moves], np.int64)
    return int((np.maximum(sizes, 0) * copies).sum())
