"""What copies of one tick are held up by, and when each will have caught up.

See `eta` for how it is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.pipeline.kernels.fluid import (
    Floats,
    FluidCopies,
    FluidRun,
    Ints,
    fluid_run,
    shares,
)
from kshunt.backend.pipeline.kernels.ticks import Mask, Tick, mean

YOUNG_S: Final = 30.0
"""So long a copy's history says little."""
TRUSTED_S: Final = 15.0
"""So long a throttle is believed to be the limit, whatever is seen."""
JOIN_S: Final = 1.0
"""From its leader's end into the ISR, and to a sample that says so."""
USED: Final = 0.6
"""Copies that get less than this share of what throttles would give are held up elsewhere."""
MOST: Final = 1.1
"""No throttle gives more than this share of what it is set to for long."""
EVEN: Final = 0.15
"""A throttle that is used up but for this is believed to be what it is over the longer window."""
NEAR: Final = 0.7
"""Of the highest rate at a broker; by more than this they do not differ that share alike."""
NOT_STARTED: Final = "not started"


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is expected of the copies. Shape (copies,)."""

    seconds: Floats
    """Until each is in the ISR; inf: there is no end in sight."""
    rate: Floats
    """At first, B/s; NaN where it is not known."""
    bound: list[str | None]
    why: list[str | None]
    throttled: Mask


def outlook(tick: Tick, rows: Ints) -> Outlook:
    """Of the copies in these rows of a tick."""
    limits = _Resources(tick, rows)
    throttles = _throttles(tick, rows, limits)
    throttled: Mask = np.logical_or.reduce(throttles < limits.nothing, axis=1)
    why = _dead(tick, rows)
    permitted = _permitted(tick, limits)
    held = _held(tick, rows, throttles, permitted, _nothing(why))
    seen = mean(tick.seen_30s[rows], tick.seen_5m[rows])
    _note_still(tick, rows, held, throttled, seen, why)
    free = held.live & ~held.held & _nothing(why) & ~np.isnan(seen)
    through, capacity = _elsewhere(limits, free, np.nan_to_num(seen), held.capacity)
    unknown = np.isnan(tick.remaining[rows])
    for place in np.flatnonzero(unknown):
        why[place] = why[place] or "what it lacks is not known yet"
    runs = _nothing(why)
    passes = np.column_stack([throttles, through])
    found = _run(tick, rows, runs, passes, capacity)
    seconds, rate = np.full(len(rows), np.inf), np.zeros(len(rows))
    tight = np.full(len(rows), limits.nothing)
    seconds[runs], rate[runs], tight[runs] = found.seconds + JOIN_S, found.rate, found.tight
    bound = [limits.name(resource) for resource in tight.tolist()]
    for place in np.flatnonzero(unknown):
        bound[place] = NOT_STARTED
    for place in np.flatnonzero(runs & np.isinf(seconds)):
        why[place] = f"never: {bound[place]} gives no more than is written"
    rate[~np.isfinite(rate)] = np.nan
    return Outlook(seconds, rate, bound, why, throttled)


def _nothing(why: list[str | None]) -> Mask:
    """For whom there is no reason yet."""
    return np.array([one is None for one in why])


def _dead(tick: Tick, rows: Ints) -> list[str | None]:
    """The causes that make a forecast idle."""
    found: list[str | None] = [None] * len(rows)
    headless = np.isnan(tick.leader[rows])
    for place in np.flatnonzero(headless | tick.dead[rows]).tolist():
        cause = tick.cause[int(rows[place])].as_py()
        found[place] = "no_leader" if headless[place] else cause.lower()
    return found


def _note_still(
    tick: Tick, rows: Ints, held: _HeldCopies, throttled: Mask, seen: Floats, why: list[str | None]
) -> None:
    """Copies that no throttle holds, and that stand still or were not watched yet."""
    free = held.live & ~held.held
    still = (seen <= 0) & (tick.age_s[rows] >= YOUNG_S) & ~tick.waits[rows]
    for place in np.flatnonzero(free & still):
        why[place] = "it does not advance"
    for place in np.flatnonzero(free & np.isnan(seen) & ~throttled):
        why[place] = "its rate is not known yet"


# What limits


class _Resources:
    """Resources by number: both throttles, sending and receiving of each broker, links; none."""

    def __init__(self, tick: Tick, rows: Ints) -> None:
        known = np.concatenate([tick.leader[rows], tick.broker[rows]])
        self.brokers = np.unique(known[~np.isnan(known)])
        self.source = np.searchsorted(self.brokers, tick.leader[rows])
        self.target = np.searchsorted(self.brokers, tick.broker[rows])
        pairs = self.source * (len(self.brokers) + 1) + self.target
        self.pairs, self.pair = np.unique(pairs, return_inverse=True)
        self.count = 4 * len(self.brokers) + len(self.pairs) + 1
        self.nothing = self.count - 1

    def name(self, resource: int) -> str | None:
        """For an operator."""
        kind, place = divmod(resource, len(self.brokers))
        if resource == self.nothing:
            return None
        if kind >= 4:
            place = int(self.pairs[resource - 4 * len(self.brokers)])
            source, target = divmod(place, len(self.brokers) + 1)
            return f"link {self.brokers[source]:.0f}->{self.brokers[target]:.0f}"
        broker = f"{self.brokers[place]:.0f}"
        if kind < 2:
            return f"{('leader', 'follower')[kind]} throttle of broker {broker}"
        return f"broker {broker} {('sending', 'receiving')[kind - 2]}"


def _throttles(tick: Tick, rows: Ints, limits: _Resources) -> Ints:
    """Both throttles of each copy. Shape (copies, 2)."""
    sends = np.where(np.isnan(tick.sends[rows]), limits.nothing, limits.source)
    takes = limits.target + len(limits.brokers)
    return np.column_stack([sends, np.where(np.isnan(tick.takes[rows]), limits.nothing, takes)])


@dataclass(frozen=True, eq=False)
class _HeldCopies:
    """Which copies throttles hold. Shape (copies,) but for `capacity`."""

    live: Mask
    held: Mask
    capacity: Floats
    """Of each resource, with what throttles are seen to give instead of what they are set to."""


def _held(tick: Tick, rows: Ints, throttles: Ints, permitted: Floats, live: Mask) -> _HeldCopies:
    given, tight = _given(throttles, live, permitted)
    used = _used(tick, rows, given, tight, live, len(permitted))
    bound_by = np.where(np.isfinite(given), used[tight], 0.0)
    unseen = np.isnan(tick.seen_30s[rows]) & np.isnan(tick.seen_5m[rows])
    trusted = (tick.age_s[rows] < TRUSTED_S) | (unseen & (bound_by == 0.0))
    held = np.isfinite(given) & ((bound_by >= USED) | trusted)
    return _HeldCopies(live, held, _efficient(permitted, used, tight, given))


def _permitted(tick: Tick, limits: _Resources) -> Floats:
    """Throttles, less what followers in the ISR take of them."""
    capacity = np.full(limits.count, np.inf)
    order = np.argsort(tick.at_ms, kind="stable")
    written = np.nan_to_num(tick.written)
    for first, ends, rate in ((0, tick.leader, tick.sends), (1, tick.broker, tick.takes)):
        rows = order[~np.isnan(rate[order]) & np.isin(ends[order], limits.brokers)]
        places = np.searchsorted(limits.brokers, ends[rows]) + first * len(limits.brokers)
        capacity[places] = rate[rows]
        some = tick.steady[rows]
        lost = np.bincount(places[some], written[rows[some]], limits.count)
        capacity = np.maximum(capacity - lost, 0.0)
    return capacity


def _given(passes: Ints, live: Mask, capacity: Floats) -> tuple[Floats, Ints]:
    """What throttles alone would give to each copy that runs, and which of them gives no more."""
    groups, group = np.unique(passes, axis=0, return_inverse=True)
    group = group.reshape(-1)
    counts = np.bincount(group[live], minlength=len(groups))
    rates, tight = shares(groups, counts, capacity)
    return np.where(live, rates[group], np.inf), tight[group]


def _used(tick: Tick, rows: Ints, given: Floats, tight: Ints, live: Mask, count: int) -> Floats:
    """By throttle, which share of what it gives is seen to be taken."""
    found = []
    for seen in (tick.seen_30s[rows], tick.step[rows]):
        which = live & np.isfinite(given) & ~np.isnan(seen)
        used = np.bincount(tight[which], seen[which], count)
        offered = np.bincount(tight[which], given[which], count)
        share = np.zeros(count)
        np.divide(used, offered, out=share, where=offered > 0)
        found.append(share)
    longer, last = found
    # It may just have been changed: then what was taken since the last tick fits it better.
    even = np.abs(longer - 1) <= EVEN
    return np.where(even | (np.abs(longer - 1) <= np.abs(last - 1)), longer, last)


def _efficient(capacity: Floats, used: Floats, tight: Ints, given: Floats) -> Floats:
    """Throttles give a little less, or more, than they are set to."""
    binds = np.zeros(len(capacity), np.bool_)
    binds[tight[np.isfinite(given)]] = True
    binds &= np.isfinite(capacity) & (used >= USED)
    return np.where(binds, capacity * np.clip(used, USED, MOST), capacity)


def _elsewhere(
    limits: _Resources, free: Mask, seen: Floats, capacity: Floats
) -> tuple[Ints, Floats]:
    """What holds up copies that no throttle does, as one more resource of each, and capacities."""
    brokers, capacity = len(limits.brokers), capacity.copy()
    through = np.full(len(free), limits.nothing)
    if not free.any():
        return through, capacity
    sending, receiving = limits.source + 2 * brokers, limits.target + 3 * brokers
    link = limits.pair + 4 * brokers
    # Copies on one link share all that limits them.
    many = np.bincount(limits.pair[free], minlength=len(limits.pairs))
    mean = np.bincount(limits.pair[free], seen[free], len(limits.pairs)) / np.maximum(many, 1)
    rate = mean[limits.pair]
    best = []
    for side in (sending, receiving):
        top = np.zeros(limits.count)
        np.maximum.at(top, side[free], rate[free])
        crowd = np.bincount(side[free], minlength=limits.count)
        near = rate >= NEAR * top[side]
        best.append(np.where(near, crowd[side], 0))
    at_source, at_target = best
    through[free] = np.where(
        (at_source == 0) & (at_target == 0),
        link,
        np.where(at_source > at_target, sending, receiving),
    )[free]
    for side in (sending, receiving, link):
        chosen = np.unique(through[free & (through == side)])
        total = np.bincount(side[free], seen[free], limits.count)
        capacity[chosen] = total[chosen]
    return through, capacity


def _run(tick: Tick, rows: Ints, runs: Mask, passes: Ints, capacity: Floats) -> FluidRun:
    """The fluid; once more with the lower rates of what is written where it finds no end."""
    some = rows[runs]
    leaving = np.bincount(
        tick.partition - tick.partition.min(),
        tick.removing & tick.steady,
    )[tick.partition[some] - tick.partition.min()]

    def go(written: Floats) -> FluidRun:
        after = np.repeat(written[:, None], 3, axis=1)
        # A follower that leaves with the move makes room for the one that has come.
        after[:, 0] *= np.maximum(1 - leaving, 0)
        return fluid_run(FluidCopies(tick.remaining[some], written, passes[runs], after), capacity)

    written = np.nan_to_num(tick.written[some])
    found = go(written)
    if np.isinf(found.seconds).any():
        lower = np.fmin(tick.written_30s, tick.written_5m)[some]
        lower = np.where(np.isinf(found.seconds), np.nan_to_num(lower), written)
        again = go(lower)
        seconds = np.where(np.isinf(found.seconds), again.seconds, found.seconds)
        return FluidRun(seconds, found.rate, found.tight)
    return found
