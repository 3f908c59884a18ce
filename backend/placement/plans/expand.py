"""Give brokers that were added their share, and move nothing else.

Goals
    1. Each named broker comes to its share: the mean of all brokers that are up, in bytes, replicas
       or traffic (`Weighing`); of replicas, the whole number below it. Measured as the sum of
       what the named ones lack.
    2. The fewest bytes move that reach what is reached of it.
Constraints
    Those of every draft (`kshunt.backend.placement.plans.draft`). Replicas move to named brokers
    only, and no broker gives so much that it comes below the share itself. A named broker is not
    filled above its share. By bytes, then, exactly what they lack before and not after has to be
    copied.
Algorithm
    1. Where all choices can be looked at, take the best (`exhaustive_search`).
    2. Else go through the replicas once, in order of bytes for weight, the heavier first among
       equals (`Leveller.pull`). Each goes to the named broker that lacks most, if it fits there.
    A replica takes the place in the list that the one it replaces had, and so a new broker leads
    about as often as the brokers that it relieves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.planning.goals import Weighing
from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft
from kshunt.backend.placement.plans.leveller import Band, Leveller
from kshunt.backend.placement.plans.loads import Loads, ReplicaBins, SearchLimits, solve_exactly
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation

CLOSE = 0.05
"""Of its share: a named broker that lacks more than this gets a note."""


def expand(
    situation: Situation,
    brokers: Sequence[int],
    by: Weighing = Weighing.BYTES,
    scope: Scope | None = None,
) -> Proposal:
    """Move to the brokers what makes up their share.

    Raises:
        BadInput: no broker is named, one is unknown or down, or no topic is in scope.
    """
    draft = PlanDraft(situation, scope or Scope())
    named = draft.require(brokers)
    down = [draft.ids[broker] for broker in named if not draft.up[broker]]
    if down:
        raise BadInput(
            f"Broker {listed(down)} is down and cannot receive replicas.",
            advice="Start it, or leave it out; nothing was planned.",
        )
    loads = Loads(draft, by)
    share = np.floor(loads.mean()) if by is Weighing.REPLICAS else loads.mean()
    receivers = np.zeros(len(draft.ids), np.bool_)
    receivers[named] = True
    band = _band(receivers, share)
    before = float(band.outside(loads.by_broker).sum())
    _give(loads, band, receivers, share)
    lacks = band.outside(loads.by_broker)
    measure = Measure(
        f"{by.value} that the named brokers lack",
        before,
        float(lacks.sum()),
        in_bytes=by is Weighing.BYTES,
    )
    notes = [*_short(draft, lacks, share), *loads.unknown_note()]
    return draft.proposal(f"expand onto broker {listed(brokers)}", measure, notes)


def _band(receivers: NDArray[np.bool_], share: float) -> Band:
    """Only what the named brokers lack counts."""
    high = np.full(len(receivers), np.inf)
    return Band(
        low=np.where(receivers, share, -np.inf), goal=np.full(len(receivers), share), high=high
    )


def _give(loads: Loads, band: Band, receivers: NDArray[np.bool_], share: float) -> None:
    draft = loads.draft
    short = receivers & (loads.by_broker < share)
    draft.usable &= short
    floor, most = np.full(len(draft.ids), share), np.where(receivers, share, np.inf)
    limits = SearchLimits(float("inf"), floor, most, reorder=False)
    if not short.any() or solve_exactly(loads, band, limits):
        return
    items, rows = loads.items()
    leveller = Leveller(items, loads.by_broker, band, ReplicaBins(draft, items, rows))
    leveller.pull(np.where(short, share, -np.inf), floor)


def _short(draft: PlanDraft, lacks: NDArray[np.float64], share: float) -> Iterator[PlanNote]:
    for broker in np.flatnonzero(lacks > CLOSE * share).tolist():
        yield PlanNote(
            f"It gets only {1 - lacks[broker] / share:.0%} of its share: no other replica fits, "
            "or none is allowed there.",
            "Rebalance with a tolerance, or include more topics.",
            broker=draft.ids[broker],
        )
