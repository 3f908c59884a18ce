"""Spread partitions whose replicas share a rack while another rack is free.

Goals
    1. Each partition spans one rack for each replica that it has in a known rack, or all racks
       with a broker that is up where those are fewer. Measured as the bytes of replicas that would
       have to move for that.
    2. A replica moves to the broker that holds the fewest bytes.
Constraints
    Those of every draft (`kshunt.backend.placement.plans.draft`). A move brings one rack more, so
    one replica moves for each rack that is missing, which is the least there can be. A replica on a
    broker of unknown rack shares it with none: it stays.
Algorithm
    Go partition by partition, the largest first. Of the replicas that share their rack with
    another, move a follower that is out of sync, else another follower, else the preferred leader.
    Of several, move the one on the fullest broker. The leader moves only where nothing else can.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.placement.plans.draft import NO_RACK, PlanDraft, first_least
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def repair_racks(situation: Situation, scope: Scope | None = None) -> Proposal:
    """Move replicas to racks that their partitions lack.

    Raises:
        BadInput: no topic is in scope.
    """
    draft = PlanDraft(situation, scope or Scope())
    notes, before, after = [], 0, 0
    for row, missing in _crowded(draft):
        before += missing * draft.size(row)
        if not draft.movable[row]:
            notes.append(draft.fixed(row))
        else:
            while missing and _spread(draft, row):
                missing -= 1
            if missing:
                notes.append(_why(draft, row, missing))
        after += missing * draft.size(row)
    measure = Measure(
        "bytes of replicas that share a rack without need", before, after, in_bytes=True
    )
    return draft.proposal("repair racks", measure, notes)


def _crowded(draft: PlanDraft) -> list[tuple[int, int]]:
    """Partitions with racks missing, and how many, the largest first."""
    rack_of = np.array([*draft.racks, NO_RACK])
    racks = np.sort(rack_of[draft.table], axis=1)
    fresh = np.ones(racks.shape, np.bool_)
    fresh[:, 1:] = racks[:, 1:] != racks[:, :-1]
    spans = (fresh & (racks != NO_RACK)).sum(axis=1)
    rows = np.flatnonzero(spans < (racks != NO_RACK).sum(axis=1))
    order = rows[np.argsort(-draft.sizes[rows], kind="stable")].tolist()
    up = draft.racks_of(np.flatnonzero(draft.usable).tolist())
    return [(row, missing) for row in order if (missing := _missing(draft, row, up))]


def _missing(draft: PlanDraft, row: int, up: set[int]) -> int:
    """How many racks more the partition could span."""
    racked = [broker for broker in draft.replicas[row] if draft.racks[broker] != NO_RACK]
    spans = draft.racks_of(racked)
    return min(len(racked), len(spans | up)) - len(spans)


def _spread(draft: PlanDraft, row: int) -> bool:
    """Move one replica to a rack that the partition lacks; say whether that could be done."""
    replicas = draft.replicas[row]
    shared = Counter(draft.racks[broker] for broker in replicas)
    leavers = [
        broker
        for broker in replicas
        if shared[draft.racks[broker]] > 1 and draft.racks[broker] != NO_RACK
    ]
    fresh = draft.candidates(row) & draft.new_rack(draft.racks_of(replicas))
    target = first_least(fresh, draft.used)
    if target is None or not leavers:
        return False
    draft.replace(row, min(leavers, key=lambda broker: _worth(draft, row, broker)), target)
    return True


def _worth(draft: PlanDraft, row: int, broker: int) -> tuple[bool, bool, bool, float]:
    """Least for the replica that can best be moved."""
    first = draft.replicas[row][0] == broker
    in_sync = draft.may_lead(row, broker)
    return draft.leader[row] == broker, first, in_sync, -float(draft.used[broker])


def _why(draft: PlanDraft, row: int, missing: int) -> PlanNote:
    return PlanNote(
        f"It could span {many(missing, 'rack')} more, but no broker there has space below "
        f"{draft.scope.disk_fraction:.0%} of its disks.",
        "Free some space there, add a broker, or raise the disk fraction.",
        draft.name(row),
    )
