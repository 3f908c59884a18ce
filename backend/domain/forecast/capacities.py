"""What holds copies up, and how much passes there, from what they are seen to get.

Goals
    Of each resource on the way of a copy what it will give to all copies together.
Constraints
    Nobody tells what networks and disks can do. Averages over a while decide, never one sample.
Algorithm
    1. A throttle gives its rate in force, less what listed followers in the ISR take of it.
    2. Where copies get about what their throttles would give in fair shares, throttles hold them.
       They give a little less than they are set to, or more: as much as is seen. What passes a
       throttle stays the same when copies begin and end, whatever each one's share becomes.
    3. Where copies get clearly less, something else holds them. Of max-min fair shares is known
       that a copy is held up where it has the highest rate of all. So that is the broker's
       sending, or receiving, or else the link; and its capacity is what is seen to go through.
    4. Once these have ended, the others may be held up at another broker. Of one where that was not
       seen yet it is taken that it can do, either way, as much as was seen of any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.copies import BrokerRates, Copies
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask, fair_shares
from kshunt.backend.domain.forecast.limits import Limits
from kshunt.backend.domain.replicas.expected_end_values import ResourceKind

YOUNG_S: Final = 30.0
"""A copy that is younger than this has a history that says little."""
TRUSTED_S: Final = 15.0
"""In a copy's first seconds, a throttle is believed to be the limit, whatever is seen."""
DOUBTED: Final = 0.5
"""Unless copies begin with less than this share of what it would give."""
USED: Final = 0.6
"""Copies that get less than this share of what throttles would give are held up elsewhere."""
MOST: Final = 1.1
"""No throttle gives more than this share of what it is set to for long."""
EVEN: Final = 0.15
"""A throttle that is used up but for this is believed to be what it is over the longer window."""
_BARELY: Final = 1e-6
NEAR: Final = 0.7
"""Of the highest rate at a broker; by more than this they do not differ that share alike."""


@dataclass(frozen=True, eq=False)
class Ways:
    """The resources on the way of each copy, and what they give."""

    passes: Ints
    """Shape (copies, 5): leader and follower throttle, sending, receiving, link."""
    capacity: Floats
    """Bytes a second. Shape (resources,)."""
    throttled: Mask
    """A throttle is on its way. Shape (copies,)."""
    still: Mask
    """No throttle holds it, and it does not advance. Shape (copies,)."""
    unmeasured: Mask
    """Nothing is known of what holds it. Shape (copies,)."""
    unbounded: Mask
    """Under other rates nothing would hold it that is known. Shape (copies,)."""


def ways(copies: Copies, rates: BrokerRates, limits: Limits, live: Mask) -> Ways:
    """What holds the copies up; those that are not `live` neither use nor show anything."""
    begun = live & ~copies.waiting
    passes = np.full((len(copies), 5), limits.nothing)
    permitted = _permitted(rates, limits)
    passes[:, :2] = _throttles(copies, limits, permitted)
    throttled: Mask = np.logical_or.reduce(passes < limits.nothing, axis=1)
    given, tight = _given(passes, begun, permitted)
    used = _used(copies, given, tight, passes, begun, limits)
    bound_by = np.where(np.isfinite(given), used[tight], 0.0)
    unseen = np.isnan(copies.source_seen_bytes_per_s) & np.isnan(copies.seen_bytes_per_s)
    fresh = copies.age_s < TRUSTED_S
    trusted = fresh | (unseen & (bound_by == 0.0))
    # One that gives no more than is written explains by itself that they come no nearer.
    starved = given <= np.nan_to_num(copies.written_bytes_per_s)
    held = np.isfinite(given) & ((bound_by >= USED) | trusted | starved)
    free = begun & ~held
    capacity = _efficient(permitted, used, tight, given, copies.age_s)
    seen = copies.seen_bytes_per_s
    still: Mask = free & (seen <= 0) & (copies.age_s >= YOUNG_S) & copies.has_turn
    young = (seen <= 0) & (copies.age_s < YOUNG_S)
    unmeasured: Mask = free & (np.isnan(seen) | young) & ~throttled
    known = free & ~still & ~unmeasured & ~np.isnan(seen)
    _elsewhere(copies, limits, known, passes, capacity)
    _unseen(copies, limits, known, copies.waiting & live, passes, capacity)
    unmeasured |= copies.waiting & np.logical_and.reduce(np.isinf(capacity[passes]), axis=1)
    unmeasured |= live & np.isnan(copies.written_bytes_per_s)
    unmeasured |= fresh & held & ~starved & _doubted(copies, given, tight, begun, limits)
    return Ways(passes, capacity, throttled, still, unmeasured, np.zeros(len(copies), np.bool_))


def under(
    found: Ways, copies: Copies, rates: BrokerRates, other: BrokerRates, limits: Limits
) -> Ways:
    """The same ways with `other` throttles in the place of those in force.

    They give as much of what they are set to as the present ones do.
    """
    before, after = _permitted(rates, limits), _permitted(other, limits)
    efficiency = np.ones(limits.count)
    np.divide(found.capacity, before, out=efficiency, where=np.isfinite(before) & (before > 0))
    last = limits.first(ResourceKind.SENDING)
    capacity = found.capacity.copy()
    capacity[:last] = (after * np.where(np.isfinite(efficiency), efficiency, 1.0))[:last]
    passes = found.passes.copy()
    passes[:, :2] = _throttles(copies, limits, after)
    throttled: Mask = np.logical_or.reduce(passes[:, :2] < limits.nothing, axis=1)
    unbounded: Mask = np.logical_and.reduce(np.isinf(capacity[passes]), axis=1)
    return Ways(passes, capacity, throttled, found.still, found.unmeasured, unbounded)


def _throttles(copies: Copies, limits: Limits, permitted: Floats) -> Ints:
    """Both throttles of each copy, where there is a rate. Shape (copies, 2)."""
    listed = (
        (ResourceKind.LEADER_THROTTLE, copies.at_source),
        (ResourceKind.FOLLOWER_THROTTLE, copies.at_target),
    )
    columns = [np.where(held, limits.number(kind), limits.nothing) for kind, held in listed]
    passes = np.column_stack(columns)
    passes[np.isinf(permitted)[passes]] = limits.nothing
    return passes


def _permitted(rates: BrokerRates, limits: Limits) -> Floats:
    """Throttles, less what followers in the ISR take of them."""
    capacity = limits.without()
    if not len(limits.brokers):
        return capacity
    places = np.searchsorted(limits.brokers, rates.brokers)
    places = np.minimum(places, len(limits.brokers) - 1)
    known = limits.brokers[places] == rates.brokers
    for kind, rate, lost in (
        (
            ResourceKind.LEADER_THROTTLE,
            rates.leader_bytes_per_s,
            rates.leader_in_sync_bytes_per_s,
        ),
        (
            ResourceKind.FOLLOWER_THROTTLE,
            rates.follower_bytes_per_s,
            rates.follower_in_sync_bytes_per_s,
        ),
    ):
        capacity[places[known] + limits.first(kind)] = np.maximum(rate - lost, 0.0)[known]
    return capacity


def _given(passes: Ints, live: Mask, capacity: Floats) -> tuple[Floats, Ints]:
    """What throttles alone would give to each copy that runs, and which of them gives no more."""
    groups, group = np.unique(passes[:, :2], axis=0, return_inverse=True)
    group = group.reshape(-1)
    counts = np.bincount(group[live], minlength=len(groups))
    rates, tight = fair_shares(groups, counts, capacity)
    return np.where(live, rates[group], np.inf), tight[group]


def _seen(copies: Copies, kind: ResourceKind) -> Floats:
    """What each copy is seen to take of a kind of resource."""
    source, target = copies.source_seen_bytes_per_s, copies.target_seen_bytes_per_s
    if kind is ResourceKind.LINK:
        return np.fmin(source, target)
    sends = kind in (ResourceKind.LEADER_THROTTLE, ResourceKind.SENDING)
    return source if sends else target


def _used(
    copies: Copies, given: Floats, tight: Ints, passes: Ints, live: Mask, limits: Limits
) -> Floats:
    """By throttle, which share of what it gives is seen to be taken."""
    found, count = [], limits.count
    at_source = tight < limits.first(ResourceKind.FOLLOWER_THROTTLE)
    over_time = np.where(
        at_source,
        _seen(copies, ResourceKind.LEADER_THROTTLE),
        _seen(copies, ResourceKind.FOLLOWER_THROTTLE),
    )
    for seen in (over_time, copies.latest_bytes_per_s):
        which = live & np.isfinite(given) & ~np.isnan(seen)
        taken = np.bincount(tight[which], seen[which], count)
        offered = np.bincount(tight[which], given[which], count)
        share = np.zeros(count)
        np.divide(taken, offered, out=share, where=offered > 0)
        found.append(share)
    longer, last = found
    # It may just have been changed: then what was taken of late fits it better.
    even = np.abs(longer - 1) <= EVEN
    best = np.where(even | (np.abs(longer - 1) <= np.abs(last - 1)), longer, last)
    # Where others begin or end, all shares are new ones, and what passes together is not.
    whole = _used_together(copies, given, passes, live, limits)
    return np.where((best > 0) & (np.abs(whole - 1) < np.abs(best - 1)), whole, best)


def _used_together(
    copies: Copies, given: Floats, passes: Ints, live: Mask, limits: Limits
) -> Floats:
    """The same of all copies that pass there, whatever holds them."""
    taken, offered = np.zeros((2, limits.count))
    for column, kind in enumerate((ResourceKind.LEADER_THROTTLE, ResourceKind.FOLLOWER_THROTTLE)):
        seen = _seen(copies, kind)
        which = live & np.isfinite(given) & ~np.isnan(seen)
        taken += np.bincount(passes[which, column], seen[which], limits.count)
        offered += np.bincount(passes[which, column], given[which], limits.count)
    found = np.zeros(limits.count)
    np.divide(taken, offered, out=found, where=offered > 0)
    return found


def _doubted(copies: Copies, given: Floats, tight: Ints, live: Mask, limits: Limits) -> Mask:
    """Copies whose throttle begins with so little that it is hardly what will hold them.

    By then it is too early to say what does: some are still beginning.
    """
    begins = copies.begins_bytes_per_s
    begins = np.where(np.isnan(begins), copies.seen_bytes_per_s, begins)
    which = live & np.isfinite(given) & ~np.isnan(begins)
    taken = np.bincount(tight[which], begins[which], limits.count)
    offered = np.bincount(tight[which], given[which], limits.count)
    found: Mask = which & (taken < DOUBTED * offered)[tight]
    return found


def _efficient(capacity: Floats, used: Floats, tight: Ints, given: Floats, age_s: Floats) -> Floats:
    """Throttles give a little less, or more, than they are set to.

    Of one that does not bind yet it is taken that it gives as much of it as the others do. While
    its copies begin, what is seen counts the less the younger they are: they start one by one.
    """
    which = np.isfinite(given)
    binds = np.zeros(len(capacity), np.bool_)
    binds[tight[which]] = True
    binds &= np.isfinite(capacity) & (used >= USED)
    oldest_s = np.zeros(len(capacity))
    np.maximum.at(oldest_s, tight[which], age_s[which])
    trust = np.minimum(oldest_s / TRUSTED_S, 1.0)
    share = 1.0 + trust * (np.clip(used, USED, MOST) - 1.0)
    usual = float(np.median(share[binds])) if binds.any() else 1.0
    return capacity * np.where(binds, share, min(usual, 1.0))


def _elsewhere(copies: Copies, limits: Limits, free: Mask, passes: Ints, capacity: Floats) -> None:
    """Write down what holds up copies that no throttle does, and its capacity, in place."""
    if not free.any():
        return
    seen = np.nan_to_num(_seen(copies, ResourceKind.LINK))
    sending, receiving = (
        limits.number(kind) for kind in (ResourceKind.SENDING, ResourceKind.RECEIVING)
    )
    link = limits.number(ResourceKind.LINK)
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
    through = np.where(
        (at_source == 0) & (at_target == 0),
        link,
        np.where(at_source > at_target, sending, receiving),
    )
    at_link = free & (through == link)
    passes[at_link, 4] = link[at_link]
    for kind in (ResourceKind.SENDING, ResourceKind.RECEIVING, ResourceKind.LINK):
        side, seen = limits.number(kind), np.nan_to_num(_seen(copies, kind))
        chosen = np.unique(through[free & (through == side)])
        total = np.bincount(side[free], seen[free], limits.count)
        capacity[chosen] = total[chosen]


def _unseen(
    copies: Copies, limits: Limits, free: Mask, waiting: Mask, passes: Ints, capacity: Floats
) -> None:
    """Let copies that no throttle holds, and those that wait, pass both of their brokers."""
    if not free.any():
        return
    some, most = free | waiting, 0.0
    for kind in (ResourceKind.SENDING, ResourceKind.RECEIVING):
        through = np.bincount(limits.number(kind)[free], np.nan_to_num(_seen(copies, kind))[free])
        most = max(most, float(through.max()))
    for column, kind in ((2, ResourceKind.SENDING), (3, ResourceKind.RECEIVING)):
        passes[some, column] = limits.number(kind)[some]
        block = capacity[limits.first(kind) :][: len(limits.brokers)]
        # Where both would hold a copy, it is the one of which that was seen.
        block[np.isinf(block)] = most * (1 + _BARELY)
