"""When would the copies be done, and how much of each rate would they use, under other rates?

Goals
    An operator who is about to change a throttle sees what it would do before anything is sent.
Constraints
    Pure, and from one snapshot: what each copy receives and gains now, which throttles it is
    under, and the rates. Nobody knows what a disk or a network could carry that it does not carry
    now. What is not known is counted as unknown; it is never taken for 0.
Algorithm
    A copy is a replica out of the in-sync set that its leader sends to. It goes through up to two
    throttles that it shares with other copies: the leader rate of the leader's broker, if the
    leader's replica is listed, and the follower rate of its own broker, if it is listed itself.
    The room of a throttle is its rate over what goes through it now. A copy's room is that of the
    slowest throttle on its way, because that one holds it back.

    * A copy whose room is below `HELD_BACK` is held back by its throttles: under other rates it
      receives more or less as its room grows or shrinks, and so keeps its share among the others.
    * Any other copy is held back by something else. It does not go faster under a higher rate,
      and slower only where the room falls under 1.
    * The lag shrinks by what the copy receives less what is written meanwhile; what is written is
      what it receives now less what it gains now. Where too little is left it never arrives.

    Nothing here depends on a higher rate but the room, which only grows with it. So a higher rate
    never makes a copy later, and at the present rates every copy gains what it gains now.
Limits
    What one copy leaves unused of a rate is not given to another one. A network or a disk that
    becomes the limit on the way to a far higher rate is not foreseen. How fast a copy goes that a
    throttle held back and that then has none is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backend.domain.snapshot import Snapshot, partition_starts
from backend.domain.throttle import ThrottledRate

HELD_BACK: Final = 1.25
"""A copy whose throttles have less room than this, as a multiple of what goes through them, is
held back by them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BrokerUse:
    """What throttled copies would use of one broker's rates; NaN where it is not known."""

    broker: int
    sent_bytes_per_s: float
    leader_bytes_per_s: int | None
    """The leader rate; None where there is none, or where it is not known."""
    received_bytes_per_s: float
    follower_bytes_per_s: int | None
    """The follower rate, likewise."""

    @property
    def tightest(self) -> tuple[float, int] | None:
        """Used and rate of the side with less head-room; None where no rate is used."""
        sides = [
            (used, rate)
            for used, rate in (
                (self.received_bytes_per_s, self.follower_bytes_per_s),
                (self.sent_bytes_per_s, self.leader_bytes_per_s),
            )
            if rate and used > 0
        ]
        return max(sides, key=lambda side: side[0] / side[1], default=None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """All copies under some rates."""

    copies: int
    eta_s: float
    """When the last broker would have what is copied to it, each broker's copies together;
    NaN if unknown, inf if never."""
    eta_latest_s: float
    """When the slowest copy would have arrived; likewise."""
    rest_s: float
    """As `eta_s`, of the copies that arrive at all."""
    rest_latest_s: float
    """As `eta_latest_s`, likewise."""
    never: int
    """Copies that would not arrive."""
    unknown: int
    """Copies of which too little is known."""
    brokers: Mapping[int, BrokerUse]
    """By id: brokers that throttled copies come from or go to."""


@dataclass(frozen=True, slots=True)
class _Copies:
    """One entry a copy."""

    source: NDArray[np.int32]
    """The leader's broker."""
    target: NDArray[np.int32]
    lag: Floats
    received: Floats
    """Bytes a second that its log grows by; NaN if unknown."""
    gained: Floats
    """Bytes a second that its lag shrinks by; NaN if unknown."""
    at_source: NDArray[np.bool_]
    """It counts against the leader rate of its source."""
    at_target: NDArray[np.bool_]
    """It counts against the follower rate of its target."""


def what_if(snapshot: Snapshot, rates: Mapping[int, ThrottledRate]) -> Forecast:
    """What would be, were these brokers' rates so and all others as they are."""
    copies = _copies(snapshot)
    present = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    received = _received(copies, present, {**present, **rates})
    with np.errstate(invalid="ignore"):
        gained = received - (copies.received - copies.gained)
    return _forecast(copies, received, gained, {**present, **rates})


def _copies(snapshot: Snapshot) -> _Copies:
    rows = snapshot.replicas
    starts = partition_starts(rows)
    leads = (rows.broker == rows.leader) & rows.leader_throttled
    listed = np.zeros(len(rows), np.bool_)
    if len(starts):
        counts = np.diff(np.append(starts, len(rows)))
        listed = np.repeat(np.logical_or.reduceat(leads, starts), counts)
    here = np.flatnonzero(~rows.in_isr & (rows.leader >= 0) & (rows.broker != rows.leader))
    lag = rows.lag_bytes[here].astype(np.float64)
    lag[lag < 0] = math.nan
    return _Copies(
        rows.leader[here],
        rows.broker[here],
        lag,
        rows.fetched_bytes_per_s[here].astype(np.float64),
        rows.catch_up_bytes_per_s[here].astype(np.float64),
        listed[here],
        rows.follower_throttled[here],
    )


def _received(
    copies: _Copies, before: Mapping[int, ThrottledRate], after: Mapping[int, ThrottledRate]
) -> Floats:
    """What each copy would receive; NaN where that cannot be told."""
    old, new = _room(copies, before), _room(copies, after)
    held = old < HELD_BACK
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(held, new / old, np.minimum(new, 1.0))
    factor[new == old] = 1.0
    # Without a throttle on its way nobody knows how fast a copy goes that one held back.
    factor[held & np.isinf(new)] = math.nan
    factor[_unread(copies, before, after) & (factor != 1.0)] = math.nan
    received: Floats = copies.received * factor
    return received


def _room(copies: _Copies, rates: Mapping[int, ThrottledRate]) -> Floats:
    """The rate over what goes through now, of the slowest throttle on each copy's way."""
    leaders = {id: rate.leader_bytes_per_s for id, rate in rates.items()}
    followers = {id: rate.follower_bytes_per_s for id, rate in rates.items()}
    sent = _ratio(copies.source, copies.at_source, copies.received, leaders)
    taken = _ratio(copies.target, copies.at_target, copies.received, followers)
    room: Floats = np.minimum(sent, taken)
    return room


def _ratio(
    brokers: NDArray[np.int32],
    counted: NDArray[np.bool_],
    received: Floats,
    rates: Mapping[int, int | None],
) -> Floats:
    ratio = np.full(len(brokers), math.inf)
    for broker in np.unique(brokers[counted]).tolist():
        rate = rates.get(broker)
        through = counted & (brokers == broker)
        used = float(np.nansum(received[through]))
        if rate is not None and used > 0:
            ratio[through] = rate / used
    return ratio


def _unread(
    copies: _Copies, before: Mapping[int, ThrottledRate], after: Mapping[int, ThrottledRate]
) -> NDArray[np.bool_]:
    """Copies through a throttle of a broker whose rates could not be read."""
    unread = [id for id in _brokers(copies) if id not in before or id not in after]
    found: NDArray[np.bool_] = (copies.at_source & np.isin(copies.source, unread)) | (
        copies.at_target & np.isin(copies.target, unread)
    )
    return found


def _brokers(copies: _Copies) -> list[int]:
    """Every broker that a throttled copy comes from or goes to."""
    ends = (copies.source[copies.at_source], copies.target[copies.at_target])
    brokers: list[int] = np.unique(np.concatenate(ends)).tolist()
    return brokers


def _forecast(
    copies: _Copies, received: Floats, gained: Floats, rates: Mapping[int, ThrottledRate]
) -> Forecast:
    known = ~np.isnan(copies.lag) & ~np.isnan(gained)
    late = known & (copies.lag > 0) & (gained <= 0)
    arrives = known & ~late
    rest, rest_latest = _etas(copies, gained, arrives)
    earliest, latest = _etas(copies, gained, known)
    return Forecast(
        copies=len(known),
        eta_s=earliest,
        eta_latest_s=latest,
        rest_s=rest,
        rest_latest_s=rest_latest,
        never=int(late.sum()),
        unknown=int((~known).sum()),
        brokers={id: _use(copies, received, id, rates.get(id)) for id in _brokers(copies)},
    )


def _etas(copies: _Copies, gained: Floats, chosen: NDArray[np.bool_]) -> tuple[float, float]:
    """When the last broker, and when the slowest copy, would be done. 0 where nothing is copied."""
    if not len(chosen):
        return 0.0, 0.0
    if not chosen.any():
        return math.nan, math.nan
    lag, speed, target = copies.lag[chosen], gained[chosen], copies.target[chosen]
    latest = max(map(_eta, lag.tolist(), speed.tolist()))
    together = (
        _eta(float(lag[target == broker].sum()), float(speed[target == broker].sum()))
        for broker in np.unique(target)
    )
    return max(together), latest


def _eta(lag_bytes: float, bytes_per_s: float) -> float:
    if lag_bytes <= 0:
        return 0.0
    return lag_bytes / bytes_per_s if bytes_per_s > 0 else math.inf


def _use(copies: _Copies, received: Floats, broker: int, rate: ThrottledRate | None) -> BrokerUse:
    sent = received[copies.at_source & (copies.source == broker)]
    taken = received[copies.at_target & (copies.target == broker)]
    return BrokerUse(
        broker,
        float(sent.sum()),
        None if rate is None else rate.leader_bytes_per_s,
        float(taken.sum()),
        None if rate is None else rate.follower_bytes_per_s,
    )
