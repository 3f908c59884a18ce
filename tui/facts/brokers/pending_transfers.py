"""What partitions that wait for their turn will bring to each broker, once they are moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.facts.progress import PlanArrays, members_of, places_of, plan_arrays, rows_among
from kshunt.tui.facts.snapshot_facts import Facts

PLANS_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class PendingTransfers:
    """By broker; one to which nothing will come is in none of them."""

    replicas: dict[int, int] = field(default_factory=dict)
    """How many will come."""
    size_bytes: dict[int, int] = field(default_factory=dict)
    """What they will bring, as far as it is known."""
    unknown: dict[int, int] = field(default_factory=dict)
    """Of `replicas`, those of a size that nobody has said."""
    untold: int = 0
    """Partitions that wait, and of which the backend does not say where they go."""


class _ByIdentity:
    """A document as a key: a newer one is another object."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def __hash__(self) -> int:
        return id(self.document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.document is self.document


@lru_cache(PLANS_KEPT)
def _targets(key: _ByIdentity) -> PlanArrays:
    targets = {
        TopicPartition(entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for entry in key.document.get("partitions", ())
    }
    return plan_arrays(tuple(targets), targets)


def pending_transfers_of(facts: Facts, operations: Iterable[Operation]) -> PendingTransfers:
    """Of every operation that has not ended."""
    found = PendingTransfers()
    untold = 0
    for one in operations:
        if not one.waiting or one.state.ended:
            continue
        document = one.details.waiting_plan
        if document is None:
            untold += one.waiting
        else:
            _add(facts, _targets(_ByIdentity(document)), found)
    return replace(found, untold=untold)


def _add(facts: Facts, plan: PlanArrays, found: PendingTransfers) -> None:
    """What comes to each broker that does not hold the partition yet."""
    rows, places = facts.rows, places_of(facts, plan)
    here = np.flatnonzero(rows_among(facts, members_of(facts, places)))
    entry = np.searchsorted(facts.starts, here, side="right") - 1
    broker, size = rows.broker[here], rows.size_bytes[here]
    # A partition that is not in the snapshot has place -1, and a size that is not known.
    sizes = np.full(len(facts.starts) + 1, -1, np.int64)
    leads = broker == rows.leader[here]
    sizes[entry[leads]] = size[leads]
    place = places[plan.entry]
    there = np.isin((place << 32) | plan.broker, (entry << 32) | broker) & (place >= 0)
    coming, target = sizes[place[~there]], plan.broker[~there]
    for id in np.unique(target).tolist():
        own = coming[target == id]
        known = own[own >= 0]
        found.replicas[id] = found.replicas.get(id, 0) + len(own)
        found.size_bytes[id] = found.size_bytes.get(id, 0) + int(known.sum())
        found.unknown[id] = found.unknown.get(id, 0) + len(own) - len(known)
