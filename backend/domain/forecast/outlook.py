"""What is expected of copies: when each arrives, what holds it up, and what never does.

Goals
    One answer for the dashboard, its what-if, the tools and the pipeline.
Constraints
    2,000 copies within 50 ms of processor time; numpy only.
Algorithm
    `capacities` concludes what holds copies up, and `fluid` lets them run to their ends. What is
    written to a leader meanwhile is a mean over minutes. "Never" is said only where even the least
    that it may be leaves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.capacities import Ways, under, ways
from kshunt.backend.domain.forecast.copies import CHECK_S, NOBODY, BrokerRates, Copies
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.fluid import Flows, FluidRun, LeaderChanges, fluid_run
from kshunt.backend.domain.forecast.known_capacities import Spare, with_spare
from kshunt.backend.domain.forecast.limits import Limits
from kshunt.backend.domain.replicas.expected_end_values import Resource, ResourceKind

JOIN_S: Final = 1.0
"""From its leader's end into the ISR, and to a sample that says so."""
STILL: Final = "it does not advance"
UNMEASURED: Final = "its rate is not known yet"
UNSIZED: Final = "what it lacks is not known yet"
UNBOUNDED: Final = "no rate would hold it"
UNKNOWN: Final = (UNMEASURED, UNSIZED, UNBOUNDED)
"""Reasons why nobody knows, as far as time has come."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is expected. Arrays have shape (copies,)."""

    copies: Copies
    rates: BrokerRates
    limits: Limits
    run: FluidRun
    """Of the copies in `ran`, in their order."""
    ran: Ints
    seconds: Floats
    """Until each is in the ISR; inf: there is no end in sight."""
    rate_bytes_per_s: Floats
    """At first; NaN where it is not known."""
    tight: Ints
    """The resource that gives no more at first."""
    ways: Ways
    why: tuple[str, ...]
    """Why there is no end in sight, in words; empty where there is one."""

    @property
    def throttled(self) -> Mask:
        """A throttle is on its way."""
        return self.ways.throttled

    @property
    def held_by_throttle(self) -> Mask:
        """A throttle gives it no more at first."""
        return self.limits.throttles(self.tight)

    def throttle(self, resource: Resource) -> tuple[float, float]:
        """The rate of a throttle and what the ISR takes of it, B/s; inf: no throttle."""
        rates = self.rates
        place = np.searchsorted(rates.brokers, resource.brokers[0])
        if place == len(rates.brokers) or rates.brokers[place] != resource.brokers[0]:
            return np.inf, 0.0
        match resource.kind:
            case ResourceKind.LEADER_THROTTLE:
                columns = rates.leader_bytes_per_s, rates.leader_in_sync_bytes_per_s
            case ResourceKind.FOLLOWER_THROTTLE:
                columns = rates.follower_bytes_per_s, rates.follower_in_sync_bytes_per_s
            case _:
                return np.inf, 0.0
        rate, in_sync = columns
        return float(rate[place]), float(in_sync[place])

    @cached_property
    def never(self) -> Mask:
        """Copies that a resource keeps from ever arriving."""
        found = np.zeros(len(self.copies), np.bool_)
        found[self.ran] = np.isinf(self.seconds[self.ran])
        return found


def outlook(
    copies: Copies,
    rates: BrokerRates,
    other: BrokerRates | None = None,
    spare: Mapping[int, Spare] | None = None,
) -> Outlook:
    """Of all copies of a cluster together.

    Under `other` rates, if they are given; what holds copies up else is concluded at `rates`.
    `spare` is what brokers are said to carry, by id.
    """
    limits = Limits(copies.source, copies.target, _next_source(copies))
    why = np.array(copies.why, object)
    live = why == ""
    found = ways(copies, rates, limits, live)
    if other is not None:
        found, rates = under(found, copies, rates, other, limits), other
    if spare:
        found = with_spare(found, limits, spare)
    for which, words in (
        (found.unbounded, UNBOUNDED),
        (found.still, STILL),
        (found.unmeasured, UNMEASURED),
        (np.isnan(copies.remaining_bytes), UNSIZED),
    ):
        why[which & (why == "")] = words
    ran = np.flatnonzero(why == "")
    run = _run(copies, found, ran, limits)
    run.seconds[copies.stuck[ran]] = np.inf
    seconds, rate = np.full(len(copies), np.inf), np.zeros(len(copies))
    tight = np.full(len(copies), limits.nothing)
    seconds[ran], rate[ran], tight[ran] = run.seconds + JOIN_S, run.rate_bytes_per_s, run.tight
    rate[~np.isfinite(rate)] = np.nan
    for place in np.flatnonzero(np.isinf(run.seconds)).tolist():
        why[ran[place]] = _never_words(limits, run, place)
    return Outlook(
        copies, rates, limits, run, ran, seconds, rate, tight, found, tuple(why.tolist())
    )


def _never_words(limits: Limits, run: FluidRun, place: int) -> str:
    if np.isinf(run.begins_s[place]):
        return "never: the moves that it waits for do not end"
    return f"never: {limits.resource(int(run.tight[place]))} gives no more than is written"


def _next_source(copies: Copies) -> Ints:
    """Where each copy comes from in the end."""
    if copies.next_leaders is None:
        return copies.source
    then = copies.next_leaders.source
    return np.where(then == NOBODY, copies.source, then)


def _run(copies: Copies, found: Ways, ran: Ints, limits: Limits) -> FluidRun:
    """The fluid; once more with the least that may be written where it finds no end."""
    queue = None if copies.queue is None else copies.queue.of(ran)
    passes, shares = found.passes[ran], np.ones((len(ran), found.passes.shape[1]))
    shares[:, 0], shares[:, 1] = copies.source_after[ran], copies.target_after[ran]

    def go(written: Floats) -> FluidRun:
        after = shares * written[:, None]
        flows = Flows(copies.remaining_bytes[ran], written, passes, after)
        changes = _leader_changes(copies, found, ran, limits, flows)
        return fluid_run(flows, found.capacity, queue, changes)

    written = np.nan_to_num(copies.written_bytes_per_s[ran])
    run = go(written)
    endless = np.isinf(run.seconds)
    if not endless.any():
        return run
    least = np.nan_to_num(copies.written_least_bytes_per_s[ran])
    again = go(np.where(endless, least, written))
    return replace(
        run,
        seconds=np.where(endless, again.seconds, run.seconds),
        begins_s=np.where(endless, again.begins_s, run.begins_s),
        moments=again.moments,
    )


def _leader_changes(
    copies: Copies, found: Ways, ran: Ints, limits: Limits, flows: Flows
) -> LeaderChanges | None:
    """What is on the way of the copies in `ran` from their next leaders."""
    then = copies.next_leaders
    if then is None:
        return None
    passes, after = flows.passes.copy(), flows.after_bytes_per_s.copy()
    place, nothing = limits.next_source[ran], limits.nothing
    for column, kind, on_way in (
        (0, ResourceKind.LEADER_THROTTLE, then.at_source[ran]),
        (2, ResourceKind.SENDING, passes[:, 2] < nothing),
    ):
        number = place + limits.first(kind)
        limited = on_way & np.isfinite(found.capacity[number])
        passes[:, column] = np.where(limited, number, nothing)
    passes[:, 4] = nothing
    # Where nothing would limit them that is known, the present way says more.
    which = (then.source[ran] != NOBODY) & (passes < nothing).any(axis=1)
    passes[~which] = flows.passes[~which]
    written = flows.written_bytes_per_s
    after[which, 0] = (then.source_after[ran] * written)[which]
    return LeaderChanges(
        then.first_s,
        CHECK_S,
        which,
        passes,
        after,
        np.where(which, then.in_sync[ran] * written, 0.0),
    )
