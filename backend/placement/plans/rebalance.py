"""Bring every broker's bytes, replicas or traffic to within a tolerance of the mean.

Goals
    1. Every broker that is up has between `1 - tolerance` and `1 + tolerance` times the mean of
       them; of replicas, at least the whole numbers around the mean count as even. Measured as the
       sum of what the brokers have above and lack below that band.
    2. The fewest bytes move that reach what is reached of it; at most `max_moved_bytes`.
Constraints
    Those of every draft (`kshunt.backend.placement.plans.draft`). What lies on brokers that are
    down stays there and is not counted: to empty them is another goal (`drain`). Preferred leaders
    change only where traffic is balanced, since leading costs no copy.
Algorithm
    1. Where all choices can be looked at, take the best (`exhaustive_search`).
    2. By traffic, first let other replicas in sync lead, the busiest partitions first, as long as
       that brings a broker down to the band.
    3. Shed and pull, and look again where a few large replicas decide (`leveller`). That comes near
       the fewest bytes; only the first step is sure of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kshunt.backend.domain.planning.goals import Weighing
from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import bytes_text, rate_text
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft
from kshunt.backend.placement.plans.leveller import Band, Floats, Leveller
from kshunt.backend.placement.plans.loads import Loads, ReplicaBins, SearchLimits, solve_exactly
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def rebalance(
    situation: Situation,
    by: Weighing = Weighing.BYTES,
    *,
    tolerance: float = 0.1,
    max_moved_bytes: int | None = None,
    scope: Scope | None = None,
) -> Proposal:
    """Even out the brokers that are up.

    Leaders alone are evened out by `kshunt.backend.placement.plans.leaders`.

    Raises:
        BadInput: the tolerance is below 0, no broker is up, or no topic is in scope.
    """
    check_tolerance(tolerance)
    draft = PlanDraft(situation, scope or Scope())
    if not draft.usable.any():
        raise BadInput("No broker is up; nothing was planned.")
    loads = Loads(draft, by)
    band = loads.band(tolerance)
    before = float(band.outside(loads.by_broker).sum())
    budget = float("inf") if max_moved_bytes is None else float(max_moved_bytes)
    anything = np.full(len(draft.ids), np.inf)
    limits = SearchLimits(budget, -anything, anything, reorder=by is Weighing.LOAD)
    if before and not solve_exactly(loads, band, limits):
        _by_passes(loads, band, budget)
    after = float(band.outside(loads.by_broker).sum())
    measure = Measure(f"{by.value} outside the band", before, after, in_bytes=by is Weighing.BYTES)
    notes = [*_uneven(loads, band, max_moved_bytes), *loads.unknown_note()]
    return draft.proposal(f"rebalance by {by.value}", measure, notes)


def check_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that cannot be meant.

    Raises:
        BadInput: it is below 0, or no number.
    """
    if not tolerance >= 0:
        raise BadInput(
            f"The tolerance {tolerance:g} is below 0.",
            advice="Nothing was planned; 0.1 allows 10 % to either side of the mean.",
        )


def _by_passes(loads: Loads, band: Band, budget: float) -> None:
    if loads.weighing is Weighing.LOAD:
        _hand_over(loads, band)
    items, rows = loads.items()
    Leveller(items, loads.by_broker, band, ReplicaBins(loads.draft, items, rows), budget).level()


def _hand_over(loads: Loads, band: Band) -> None:
    """Let others lead what too busy brokers are to lead; see the module's text, 2."""
    draft, by_broker = loads.draft, loads.by_broker
    leads = np.argsort(-loads.extra, kind="stable")
    for row in leads[(loads.movable & (loads.extra > 0))[leads]].tolist():
        first, extra = draft.replicas[row][0], loads.extra[row]
        if not loads.counted[first] or extra > by_broker[first] - band.high[first]:
            continue
        heir = _heir(draft, row, by_broker, band.high - extra)
        if heir is not None:
            draft.prefer(row, heir)
            by_broker[first] -= extra
            by_broker[heir] += extra


def _heir(draft: PlanDraft, row: int, by_broker: Floats, most: Floats) -> int | None:
    """The least busy replica of the list that may lead and has no more than `most`, or None."""
    others = [
        broker
        for broker in draft.replicas[row][1:]
        if draft.may_lead(row, broker) and by_broker[broker] <= most[broker]
    ]
    return min(others, key=lambda broker: by_broker[broker], default=None)


def _uneven(loads: Loads, band: Band, max_moved_bytes: int | None) -> Iterator[PlanNote]:
    """Brokers that stay outside the band."""
    far = band.outside(loads.by_broker)
    slack = 1e-6 * max(float(loads.by_broker.max(initial=0.0)), 1.0)
    for broker in np.flatnonzero(far > slack).tolist():
        above = loads.by_broker[broker] > band.high[broker]
        mark = band.high[broker] if above else band.low[broker]
        has, wanted = (_amount(value, loads.weighing) for value in (loads.by_broker[broker], mark))
        remedy = "Allow a larger tolerance, or split the largest partitions."
        if max_moved_bytes is not None:
            remedy = (
                f"Allow more than {bytes_text(max_moved_bytes)} to move, or a larger tolerance."
            )
        yield PlanNote(
            f"It gets {has}, {'above' if above else 'below'} the goal of {wanted}; no other "
            "replica may move and brings it nearer.",
            remedy,
            broker=loads.draft.ids[broker],
        )


def _amount(value: float, weighing: Weighing) -> str:
    if weighing is Weighing.REPLICAS:
        return f"{value:.0f} replicas"
    return rate_text(value) if weighing is Weighing.LOAD else bytes_text(value)
