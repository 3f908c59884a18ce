"""Empty brokers: their replicas go to others, in the places that they have in the lists.

Goals
    1. No replica list names a drained broker. Measured as the bytes left on them.
    2. The other brokers come out as evenly filled as they can without any further copy.
Constraints
    Those of every draft (`kshunt.backend.placement.plans.draft`). Only replicas of drained brokers
    move; each moves once, so the bytes moved are those that leave, which is the least there can be.
    A follower stays in its place, and so does a preferred leader that is not on a drained broker.
Algorithm
    1. The largest replica first, as for packing (first fit decreasing): it goes to the broker that
       holds the fewest bytes of those that may take it.
    2. Where none has the room, one that was sent to a full broker is sent elsewhere, if the space
       it had there is enough.
    3. What still cannot go stays, with a note.
    Largest first also fits racks: as long as some choice of brokers keeps a partition's racks,
    every first choice that keeps them can be completed (racks form a partition matroid).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.placement.plans.draft import PlanDraft, first_least
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def drain(situation: Situation, brokers: Sequence[int], scope: Scope | None = None) -> Proposal:
    """Take every replica off the brokers.

    Raises:
        BadInput: no broker is named, one is unknown, or no topic is in scope.
    """
    draft = PlanDraft(situation, scope or Scope())
    leaving = draft.require(brokers)
    draft.usable[leaving] = False
    before = float(draft.used[leaving].sum())
    arrivals: dict[int, list[tuple[int, int]]] = {}
    notes: list[PlanNote] = []
    for row, broker in draft.held(leaving):
        if not draft.movable[row]:
            notes.append(draft.fixed(row, broker))
            continue
        target = draft.choose(row, broker)
        if target is None:
            target = _make_room(draft, row, broker, arrivals)
        if target is None:
            notes.append(draft.obstacle(row, broker))
            continue
        draft.replace(row, broker, target)
        arrivals.setdefault(target, []).append((row, broker))
    left = float(draft.used[leaving].sum())
    measure = Measure("bytes left on the drained brokers", before, left, in_bytes=True)
    return draft.proposal(f"drain broker {listed(brokers)}", measure, notes)


def _make_room(
    draft: PlanDraft, row: int, broker: int, arrivals: dict[int, list[tuple[int, int]]]
) -> int | None:
    """A broker that can take the replica once another that was sent there goes elsewhere."""
    full = draft.destinations(row, broker, roomy=False)
    for target in np.flatnonzero(full).tolist():
        for place, (other, source) in enumerate(arrivals.get(target, ())):
            if other == row or draft.room[target] + draft.size(other) < draft.size(row):
                continue
            elsewhere = first_least(draft.destinations(other, target), draft.used)
            if elsewhere is not None:
                draft.replace(other, target, elsewhere)
                arrivals[target].pop(place)
                arrivals.setdefault(elsewhere, []).append((other, source))
                return int(target)
    return None
