"""What `rates` of one tick say of copies, as the model of copying takes it.

See `kshunt.backend.domain.forecast.outlook` for how it is concluded when each arrives.
"""

from __future__ import annotations

import numpy as np

from kshunt.backend.domain.forecast.copies import NOBODY, BrokerRates, Copies
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.outlook import Outlook, outlook
from kshunt.backend.pipeline.kernels.ticks import Tick, mean


def forecast_tick(tick: Tick, rows: Ints) -> Outlook:
    """Of the copies in these rows of a tick."""
    return outlook(_copies(tick, rows), _rates(tick))


def _copies(tick: Tick, rows: Ints) -> Copies:
    least = np.fmin(tick.written_30s, tick.written_5m)
    source_after, target_after = _after(tick, rows)
    return Copies(
        source=_ids(tick.leader[rows]),
        target=_ids(tick.broker[rows]),
        remaining_bytes=tick.remaining[rows],
        written_bytes_per_s=tick.written[rows],
        written_least_bytes_per_s=least[rows],
        written_lately_bytes_per_s=tick.written_30s[rows],
        seen_bytes_per_s=mean(tick.seen_30s[rows], tick.seen_5m[rows]),
        source_seen_bytes_per_s=tick.seen_30s[rows],
        target_seen_bytes_per_s=tick.seen_30s[rows],
        latest_bytes_per_s=tick.step[rows],
        begins_bytes_per_s=np.full(len(rows), np.nan),
        age_s=tick.age_s[rows],
        at_source=~np.isnan(tick.sends[rows]),
        at_target=~np.isnan(tick.takes[rows]),
        has_turn=~tick.waits[rows],
        stuck=np.zeros(len(rows), np.bool_),
        source_after=source_after,
        target_after=target_after,
        why=_dead(tick, rows),
    )


def _ids(brokers: Floats) -> Ints:
    return np.where(np.isnan(brokers), NOBODY, brokers).astype(np.int64)


def _after(tick: Tick, rows: Ints) -> tuple[Floats, Floats]:
    """What each copy's throttles lose once it has arrived.

    Followers that leave with the move make room on the leader's side; where the leader leaves, all
    do. The new leader is taken for one that is not listed, as those are that the move adds.
    """
    place = tick.partition - tick.partition.min()
    steady = np.bincount(place, tick.steady)
    leaving = np.bincount(place, tick.removing & tick.steady)
    leads = tick.removing & (tick.leader == tick.broker)
    leader_leaves = np.bincount(place, leads)[place[rows]] > 0
    arriving = np.maximum(np.bincount(place, tick.copies)[place[rows]], 1)
    gone = np.where(leader_leaves, steady[place[rows]] + arriving, leaving[place[rows]])
    return 1 - gone / arriving, np.ones(len(rows))


def _dead(tick: Tick, rows: Ints) -> tuple[str, ...]:
    """The causes that make a forecast idle."""
    found = [""] * len(rows)
    headless = np.isnan(tick.leader[rows])
    for place in np.flatnonzero(headless | tick.dead[rows]).tolist():
        cause = tick.cause[int(rows[place])].as_py()
        found[place] = "no_leader" if headless[place] else cause.lower()
    return tuple(found)


def _rates(tick: Tick) -> BrokerRates:
    """Throttles by the newest row that has each, and what the ISR takes of them."""
    known = np.concatenate([tick.leader, tick.broker])
    brokers = np.unique(known[~np.isnan(known)])
    sides = [
        _side(tick, brokers, ends, rate)
        for ends, rate in ((tick.leader, tick.sends), (tick.broker, tick.takes))
    ]
    (leader, leader_in_sync), (follower, follower_in_sync) = sides
    return BrokerRates(brokers.astype(np.int64), leader, follower, leader_in_sync, follower_in_sync)


def _side(tick: Tick, brokers: Floats, ends: Floats, rate: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(tick.at_ms, kind="stable")
    rows = order[~np.isnan(rate[order]) & ~np.isnan(ends[order])]
    places = np.searchsorted(brokers, ends[rows])
    found = np.full(len(brokers), np.inf)
    found[places] = rate[rows]
    some: Mask = tick.steady[rows]
    written = np.nan_to_num(tick.written[rows])
    in_sync = np.bincount(places[some], written[some], len(brokers))
    return found, in_sync.astype(np.float64)
