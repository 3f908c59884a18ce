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
    * A copy that receives nothing has no flow to reckon from: it has not begun, or its turn has
      not come. Were it to copy, it would get at least an even share of each throttle on its way,
      and that is the estimate. Where no throttle is on its way, or it is stuck for something that
      no rate cures, nothing can be told.
    * The lag shrinks by what the copy receives less what is written meanwhile; what is written is
      what it receives now less what it gains now. Where too little is left it never arrives.

    Nothing here depends on a higher rate but the room and the share, which only grow with it. So a
    higher rate never makes a copy later, and at the present rates every copy that receives
    anything gains what it gains now.
Limits
    What one copy leaves unused of a rate is not given to another one. A network or a disk that
    becomes the limit on the way to a far higher rate is not foreseen. How fast a copy goes that a
    throttle held back and that then has none is unknown.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import Snapshot, partition_starts
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import ThrottledRate

HELD_BACK: Final = 1.25
"""A copy whose throttles have less room than this, as a multiple of what goes through them, is
held back by them."""

_CURED: Final = (
    *(Cause.NONE, Cause.THROTTLE_FLOOR, Cause.THROTTLE_TOO_LOW, Cause.THROTTLE_ORPHAN),
    *(Cause.WAITING_TURN, Cause.TOO_SHORT),
)
"""A copy that receives nothing for one of these could receive its share of a rate."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class UnknownReason(enum.StrEnum):
    """Why nothing can be told of a copy."""

    UNMEASURED = "not measured yet"
    STUCK = "stuck, and for no rate"
    UNREAD = "a broker does not say its rates"
    FREE = "no rate would hold it"


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
class WhatIfForecast:
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
    estimated: int = 0
    """Copies that receive nothing now, and for which their share of a rate was taken."""
    why: Mapping[UnknownReason, int] = field(default_factory=dict)
    """Of how many copies nothing can be told, by the reason."""


@dataclass(frozen=True, slots=True)
class _ConsideredCopies:
    """One entry a copy."""

    source: NDArray[np.int32]
    """The leader's broker."""
    target: NDArray[np.int32]
    lag: Floats
    received: Floats
    """Bytes a second that its log grows by; NaN if unknown."""
    gained: Floats
    """Bytes a second that its lag shrinks by; NaN if unknown."""
    at_source: Flags
    """It counts against the leader rate of its source."""
    at_target: Flags
    """It counts against the follower rate of its target."""
    cause: NDArray[np.uint8]
    """A `Cause`."""

    @property
    def still(self) -> Flags:
        """It lacks something and receives nothing."""
        found: Flags = (self.lag > 0) & (self.received == 0)
        return found


def what_if(snapshot: Snapshot, rates: Mapping[int, ThrottledRate]) -> WhatIfForecast:
    """What would be, were these brokers' rates so and all others as they are."""
    copies = _copies(snapshot)
    present = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    after = {**present, **rates}
    received = _received(copies, present, after)
    share = _share(copies, after)
    with np.errstate(invalid="ignore"):
        gained = np.where(copies.still, share, received) - (copies.received - copies.gained)
    found = _forecast(copies, received, gained, after)
    unknown = np.isnan(copies.lag) | np.isnan(gained)
    return replace(
        found,
        estimated=int((copies.still & ~unknown).sum()),
        why=_reasons(copies, unknown, _unread(copies, present, after)),
    )


def _reasons(copies: _ConsideredCopies, unknown: Flags, unread: Flags) -> dict[UnknownReason, int]:
    """How many copies nothing can be told of, each by the first reason that holds."""
    unmeasured = np.isnan(copies.lag) | np.isnan(copies.received) | np.isnan(copies.gained)
    stuck = copies.still & ~np.isin(copies.cause, _CURED)
    found = {}
    for why, holds in (
        (UnknownReason.UNMEASURED, unmeasured),
        (UnknownReason.STUCK, stuck),
        (UnknownReason.UNREAD, unread),
        (UnknownReason.FREE, unknown),
    ):
        count = int((unknown & holds).sum())
        unknown = unknown & ~holds
        found.update({why: count} if count else {})
    return found


def _copies(snapshot: Snapshot) -> _ConsideredCopies:
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
    return _ConsideredCopies(
        rows.leader[here],
        rows.broker[here],
        lag,
        rows.fetched_bytes_per_s[here].astype(np.float64),
        rows.catch_up_bytes_per_s[here].astype(np.float64),
        listed[here],
        rows.follower_throttled[here],
        rows.cause[here],
    )


def _received(
    copies: _ConsideredCopies,
    before: Mapping[int, ThrottledRate],
    after: Mapping[int, ThrottledRate],
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


def _share(copies: _ConsideredCopies, rates: Mapping[int, ThrottledRate]) -> Floats:
    """An even share of the slowest throttle on each copy's way; NaN where that cannot be told."""
    leaders = {id: rate.leader_bytes_per_s for id, rate in rates.items()}
    followers = {id: rate.follower_bytes_per_s for id, rate in rates.items()}
    # As if each copy used the same: what is left over for one is then its share of the rate.
    even = np.ones(len(copies.lag))
    sent = _ratio(copies.source, copies.at_source, even, leaders)
    received = _ratio(copies.target, copies.at_target, even, followers)
    share: Floats = np.minimum(sent, received)
    untold = np.isinf(share) | _unread(copies, rates, rates) | ~np.isin(copies.cause, _CURED)
    share[untold] = math.nan
    return share


def _room(copies: _ConsideredCopies, rates: Mapping[int, ThrottledRate]) -> Floats:
    """The rate over what goes through now, of the slowest throttle on each copy's way."""
    leaders = {id: rate.leader_bytes_per_s for id, rate in rates.items()}
    followers = {id: rate.follower_bytes_per_s for id, rate in rates.items()}
    sent = _ratio(copies.source, copies.at_source, copies.received, leaders)
    fetched = _ratio(copies.target, copies.at_target, copies.received, followers)
    room: Floats = np.minimum(sent, fetched)
    return room


def _ratio(
    brokers: NDArray[np.int32],
    counted: Flags,
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
    copies: _ConsideredCopies,
    before: Mapping[int, ThrottledRate],
    after: Mapping[int, ThrottledRate],
) -> Flags:
    """Copies through a throttle of a broker whose rates could not be read."""
    unread = [id for id in _brokers(copies) if id not in before or id not in after]
    found: Flags = (copies.at_source & np.isin(copies.source, unread)) | (
        copies.at_target & np.isin(copies.target, unread)
    )
    return found


def _brokers(copies: _ConsideredCopies) -> list[int]:
    """Every broker that a throttled copy comes from or goes to."""
    ends = (copies.source[copies.at_source], copies.target[copies.at_target])
    brokers: list[int] = np.unique(np.concatenate(ends)).tolist()
    return brokers


def _forecast(
    copies: _ConsideredCopies, received: Floats, gained: Floats, rates: Mapping[int, ThrottledRate]
) -> WhatIfForecast:
    known = ~np.isnan(copies.lag) & ~np.isnan(gained)
    late = known & (copies.lag > 0) & (gained <= 0)
    arrives = known & ~late
    rest, rest_latest = _etas(copies, gained, arrives)
    earliest, latest = _etas(copies, gained, known)
    return WhatIfForecast(
        copies=len(known),
        eta_s=earliest,
        eta_latest_s=latest,
        rest_s=rest,
        rest_latest_s=rest_latest,
        never=int(late.sum()),
        unknown=int((~known).sum()),
        brokers={id: _use(copies, received, id, rates.get(id)) for id in _brokers(copies)},
    )


def _etas(copies: _ConsideredCopies, gained: Floats, chosen: Flags) -> tuple[float, float]:
    """When the last broker, and when the slowest copy, would be done. 0 where nothing is copied.

    Where a broker receives anything, what has not begun there goes through the same throttle
    after it: the estimate of its own speed adds nothing to that of the broker.
    """
    if not len(chosen):
        return 0.0, 0.0
    if not chosen.any():
        return math.nan, math.nan
    lag, speed, target = copies.lag[chosen], gained[chosen], copies.target[chosen]
    latest = max(map(_eta, lag.tolist(), speed.tolist()))
    flows = ~copies.still[chosen] & (lag > 0)
    together = 0.0
    for broker in np.unique(target):
        there = target == broker
        moved = there & flows if (there & flows).any() else there
        together = max(together, _eta(float(lag[there].sum()), float(speed[moved].sum())))
    return together, latest


def _eta(lag_bytes: float, bytes_per_s: float) -> float:
    if lag_bytes <= 0:
        return 0.0
    return lag_bytes / bytes_per_s if bytes_per_s > 0 else math.inf


def _use(
    copies: _ConsideredCopies, received: Floats, broker: int, rate: ThrottledRate | None
) -> BrokerUse:
    sent = received[copies.at_source & (copies.source == broker)]
    fetched = received[copies.at_target & (copies.target == broker)]
    return BrokerUse(
        broker,
        float(sent.sum()),
        None if rate is None else rate.leader_bytes_per_s,
        float(fetched.sum()),
        None if rate is None else rate.follower_bytes_per_s,
    )
