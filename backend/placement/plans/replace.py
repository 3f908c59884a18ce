"""Put one broker in the place of another, in every list and in the same position.

Goals
    1. The new broker takes every replica of the old one, and nothing else moves. Measured as the
       bytes left on the old broker.
Constraints
    Those of every draft (`kshunt.backend.placement.plans.draft`). Each replica is copied once,
    which is the least there can be. A partition that both brokers host keeps the old one: giving it
    to a third broker would be another goal (`drain`).
Algorithm
    Move the largest replica first, so that what does not fit any more is small. The new broker
    takes the old one's place in the list, so a preferred leader's successor is preferred.
"""

from __future__ import annotations

from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def replace(situation: Situation, old: int, new: int, scope: Scope | None = None) -> Proposal:
    """Give every replica of broker `old` to broker `new`.

    Raises:
        BadInput: the two are one, one is unknown, the new one is down, or no topic is in scope.
    """
    draft = PlanDraft(situation, scope or Scope())
    source, target = draft.require([old])[0], draft.require([new])[0]
    if old == new:
        raise BadInput(f"Broker {old} cannot replace itself; nothing was planned.")
    if not draft.up[target]:
        raise BadInput(
            f"Broker {new} is down and cannot receive replicas.",
            advice="Start it; nothing was planned.",
        )
    draft.usable[:] = False
    draft.usable[target] = True
    before = float(draft.used[source])
    notes = [
        note
        for row, _ in draft.held([source])
        if (note := _move(draft, row, source, target)) is not None
    ]
    measure = Measure(
        "bytes left on the replaced broker", before, float(draft.used[source]), in_bytes=True
    )
    return draft.proposal(f"replace broker {old} by {new}", measure, notes)


def _move(draft: PlanDraft, row: int, source: int, target: int) -> PlanNote | None:
    if not draft.movable[row]:
        return draft.fixed(row, source)
    if target in draft.replicas[row]:
        return PlanNote(
            f"Broker {draft.ids[target]} already hosts it, so it keeps its replica.",
            f"Drain broker {draft.ids[source]} to give that replica to another broker.",
            draft.name(row),
            draft.ids[source],
        )
    if draft.choose(row, source) is None:
        return draft.obstacle(row, source)
    draft.replace(row, source, target)
    return None
