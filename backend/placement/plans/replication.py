"""Change the replication factor of topics.

Goals
    1. Every partition of a topic that a pattern names has the factor asked for. Measured as the
       bytes of replicas that are missing or too many.
    2. A replica that is added brings a new rack while there is one, and lies on the broker that
       holds the fewest bytes.
    3. What is dropped is what is needed least: a replica out of sync, else the follower on the
       fullest broker. The racks stay as spread as the smaller factor allows.
Constraints
    - Those of every draft (`kshunt.backend.placement.plans.draft`); with fewer replicas than racks,
      one rack a replica is as spread as before.
    - The leader stays, and so does the order of what stays. A partition without a leader, or whose
      factor would be below its min.insync.replicas, is left as it is.
    - No replica in sync is dropped while one out of sync stays: where racks would want that, the
      partition is left as it is.
Algorithm
    Partition by partition, the largest first, one replica at a time. To drop one at a time loses
    nothing: while a partition has more replicas than racks, two share one, and one of the two is no
    leader. What is added costs its size wherever it goes; to drop costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np

from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft, first_least
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def set_replication_factor(
    situation: Situation, factors: Mapping[str, int], scope: Scope | None = None
) -> Proposal:
    """Give each topic the factor of the first pattern that names it; the others stay.

    Raises:
        BadInput: no pattern is given, one matches no topic, or a factor is below 1.
    """
    _check(situation, factors)
    draft = PlanDraft(situation, scope or Scope())
    topics = {partition.topic for partition in situation.partitions}
    wanted = {topic: _factor(topic, factors) for topic in topics}
    notes, before, after = [], 0, 0
    for row in np.argsort(-draft.sizes, kind="stable").tolist():
        factor = wanted[draft.name(row).topic]
        if factor is None or factor == len(draft.replicas[row]):
            continue
        before += draft.size(row) * abs(factor - len(draft.replicas[row]))
        note = _resize(draft, row, factor) if draft.movable[row] else draft.fixed(row)
        if note is not None:
            notes.append(note)
        after += draft.size(row) * abs(factor - len(draft.replicas[row]))
    measure = Measure("bytes of missing or extra replicas", before, after, in_bytes=True)
    words = listed(f"{pattern} {factor}" for pattern, factor in factors.items())
    return draft.proposal(f"set the replication factor of {words}", measure, notes)


def _check(situation: Situation, factors: Mapping[str, int]) -> None:
    topics = {partition.topic for partition in situation.partitions}
    if not factors:
        raise BadInput("No topic is named.", advice="Nothing was planned.")
    for pattern, factor in factors.items():
        if factor < 1:
            raise BadInput(
                f"A replication factor of {factor} would leave no replica of {pattern}.",
                advice="Give 1 or more; nothing was planned.",
            )
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise BadInput(f"No topic matches {pattern}; nothing was planned.")


def _factor(topic: str, factors: Mapping[str, int]) -> int | None:
    found = (factor for pattern, factor in factors.items() if fnmatchcase(topic, pattern))
    return next(found, None)


def _resize(draft: PlanDraft, row: int, factor: int) -> PlanNote | None:
    """Bring one partition to its factor; what keeps it from that, if anything does."""
    if factor > len(draft.replicas[row]):
        return _grow(draft, row, factor)
    return _hindrance(draft, row, factor) or _shrink(draft, row, factor)


def _grow(draft: PlanDraft, row: int, factor: int) -> PlanNote | None:
    while len(draft.replicas[row]) < factor:
        mask = draft.candidates(row)
        fresh = mask & draft.new_rack(draft.racks_of(draft.replicas[row]))
        broker = first_least(fresh if fresh.any() else mask, draft.used)
        if broker is None:
            return draft.obstacle(row)
        draft.add(row, broker)
    return None


def _hindrance(draft: PlanDraft, row: int, factor: int) -> PlanNote | None:
    """Why replicas of a partition may not be dropped, whichever they are."""
    least = int(draft.situation.min_isr[row])
    if factor < least:
        return PlanNote(
            f"Its min.insync.replicas is {least}: with {factor}, writes with acks=all would fail.",
            "Lower min.insync.replicas first.",
            draft.name(row),
        )
    if draft.leader[row] == NO_BROKER:
        return PlanNote(
            "It has no leader, so every replica may be needed.",
            "Bring back the broker that led it, and plan again.",
            draft.name(row),
        )
    return None


def _shrink(draft: PlanDraft, row: int, factor: int) -> PlanNote | None:
    staying = list(draft.replicas[row])
    lagging = {broker for broker in staying if not _in_sync(draft, row, broker)}
    racks = min(draft.need(row), factor)
    while len(staying) > factor:
        others = [broker for broker in staying if broker != draft.leader[row]]
        spare = [
            broker for broker in others if len(draft.racks_of(set(staying) - {broker})) >= racks
        ]
        behind = lagging & set(staying)
        first = [broker for broker in spare if broker in behind or not behind]
        if not first:
            return _torn(draft, row, sorted(draft.ids[broker] for broker in behind))
        staying.remove(max(first, key=lambda broker: (draft.used[broker], -broker)))
    for broker in set(draft.replicas[row]) - set(staying):
        draft.drop(row, broker)
    return None


def _in_sync(draft: PlanDraft, row: int, broker: int) -> bool:
    return bool((draft.situation.in_sync[row] & (draft.table[row] == broker)).any())


def _torn(draft: PlanDraft, row: int, behind: list[int]) -> PlanNote:
    return PlanNote(
        f"If it loses its replica on broker {listed(behind)}, which is out of sync, it spans "
        "fewer racks. If it loses another one, it loses one that is in sync.",
        "Plan again when that replica is in sync, or repair its racks first.",
        draft.name(row),
    )
