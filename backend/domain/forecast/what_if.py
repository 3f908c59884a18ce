"""When would the copies be done, and how much of each rate would they use, under other rates?

Goals
    An operator who is about to change a throttle sees what it would do before anything is sent.
    The end that is expected now is shown next to it, and comes from the same model.
Constraints
    Pure, and from one snapshot. Nobody knows what a disk or a network could carry that it does not
    carry now.
Algorithm
    What holds each copy up is concluded at the present rates (`outlook`), and then others are put
    in the place of these. A backend knows more than a snapshot, as rates over minutes. So its own
    end is taken, and moved by what the other rates change of the model's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.forecast.expected_ends import Group, expected_ends
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints
from kshunt.backend.domain.forecast.outlook import Outlook, outlook
from kshunt.backend.domain.forecast.snapshot_copies import SnapshotCopies, snapshot_copies
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING, ExpectedEnd
from kshunt.backend.domain.replicas.resource_rates import RATE_KEYS
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import ThrottledRate

ROUNDS_MOST: Final = 12
"""Throttles that `sufficient_rates` raises one after another: each round costs a forecast."""


@dataclass(frozen=True, slots=True)
class BrokerUse:
    """What throttled copies would use of one broker's rates; NaN where it is not known."""

    broker: int
    sent_bytes_per_s: float
    leader_bytes_per_s: int | None
    """The leader rate; None: no throttle, or unknown."""
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
class WhatIf:
    """All copies under some rates."""

    end: ExpectedEnd
    """Of what moves; of all copies where nothing does."""
    brokers: Mapping[int, BrokerUse]
    """By id: brokers that throttled copies come from or go to."""
    why: Mapping[str, int] = field(default_factory=dict)
    """Of how many copies no end is known, by the reason."""

    @property
    def copies(self) -> int:
        """How many there are."""
        return self.end.copies


def what_if(snapshot: Snapshot, rates: Mapping[int, ThrottledRate]) -> WhatIf:
    """What would be, were these brokers' rates so and all others as they are."""
    in_force = {id: one.rate for id, one in snapshot.throttles.rates.items()}
    known = snapshot.expected_ends.get(EVERYTHING)
    found = snapshot_copies(snapshot)
    now = outlook(found.copies, found.rates)
    present = _end(found, now, snapshot.taken_ms)
    if all(in_force.get(id) == rate for id, rate in rates.items()):
        return _as_it_is(present if known is None else known, found, now, in_force)
    other, then = _under(snapshot, found, rates)
    end = moved_end(_end(other, then, snapshot.taken_ms), present, known)
    return _as_it_is(end, other, then, {**in_force, **rates})


def sufficient_rates(
    snapshot: Snapshot, rates: Mapping[int, ThrottledRate]
) -> dict[int, ThrottledRate]:
    """These rates, and higher ones where some copy would never arrive under them.

    A copy passes two throttles, so the rate that one needs may leave the other one too low. What no
    throttle is to blame for is left as it is.
    """
    found = dict(rates)
    seen = snapshot_copies(snapshot)
    for _ in range(ROUNDS_MOST):
        shortage = _end(*_under(snapshot, seen, found), snapshot.taken_ms).shortage
        if shortage is None or shortage.needs_bytes_per_s is None:
            break
        broker, key = shortage.resource.brokers[0], RATE_KEYS.get(shortage.resource.kind)
        present = snapshot.throttles.rates.get(broker)
        rate = found.get(broker, None if present is None else present.rate)
        if rate is None or key is None:
            break
        raised = rate.raised(key, shortage.needs_bytes_per_s)
        if raised == rate:
            break
        found[broker] = raised
    return found


def _under(
    snapshot: Snapshot, found: SnapshotCopies, rates: Mapping[int, ThrottledRate]
) -> tuple[SnapshotCopies, Outlook]:
    """The copies, and what is expected of them, were these brokers' rates so."""
    other = snapshot_copies(snapshot, rates=rates)
    return other, outlook(other.copies, found.rates, other.rates)


def _as_it_is(
    end: ExpectedEnd, found: SnapshotCopies, expected: Outlook, rates: Mapping[int, ThrottledRate]
) -> WhatIf:
    words = Counter(why for why in expected.why if why and not why.startswith("never"))
    return WhatIf(end, _uses(found, expected, rates), dict(words))


def _end(found: SnapshotCopies, expected: Outlook, at_ms: int) -> ExpectedEnd:
    if not len(found.copies):
        return ExpectedEnd(at_ms, 0)
    every: Ints = np.arange(len(found.copies))
    rows = found.members(()).get(EVERYTHING, every)
    return expected_ends(expected, [Group(rows, 0.0)], shipped_quantiles(), at_ms)[0]


def moved_end(then: ExpectedEnd, now: ExpectedEnd, known: ExpectedEnd | None) -> ExpectedEnd:
    """The end that a backend expects, moved by what the model says of the change."""
    if known is None or then.p50_s is None or now.p50_s is None:
        return then
    ends = known.p10_s, known.p50_s, known.p90_s
    factor = then.p50_s / max(now.p50_s, 0.1)
    low, middle, high = (None if end is None else end * factor for end in ends)
    if middle is None:
        return then
    return replace(then, at_ms=known.at_ms, p10_s=low, p50_s=middle, p90_s=high)


def _uses(
    found: SnapshotCopies, expected: Outlook, rates: Mapping[int, ThrottledRate]
) -> dict[int, BrokerUse]:
    copies, flow = found.copies, expected.rate_bytes_per_s
    ends = (copies.source[copies.at_source], copies.target[copies.at_target])
    uses = {}
    for broker in np.unique(np.concatenate(ends)).tolist():
        rate = rates.get(broker, ThrottledRate(None, None))
        uses[broker] = BrokerUse(
            broker,
            _sum(flow[copies.at_source & (copies.source == broker)]),
            rate.leader_bytes_per_s,
            _sum(flow[copies.at_target & (copies.target == broker)]),
            rate.follower_bytes_per_s,
        )
    return uses


def _sum(flow: Floats) -> float:
    """NaN where nothing holds one of them."""
    return math.nan if np.isnan(flow).any() else float(flow.sum())
