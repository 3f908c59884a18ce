"""What moves that wait for their turn will copy: each copy with its broker and its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.moves.plan_places import (
    PLANS_KEPT,
    PlanArrays,
    members_of,
    places_of,
    plan_arrays,
    rows_among,
)
from kshunt.tui.facts.snapshot_facts import Facts

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class WaitingCopies:
    """The copies of one operation that have not begun. Arrays have shape (copies,)."""

    broker: NDArray[np.int64]
    """The broker that each copy goes to."""
    size_bytes: NDArray[np.int64]
    """The size of what its leader has; UNKNOWN where nobody has said."""
    untold: int = 0
    """Partitions that wait, and of which the backend does not say where they go."""

    @property
    def left_bytes(self) -> int:
        """What they will copy, as far as it is known."""
        return int(np.maximum(self.size_bytes, 0).sum())

    @property
    def unknown(self) -> int:
        """Copies of a size that nobody has said, and partitions of which nobody knows more."""
        return int((self.size_bytes < 0).sum()) + self.untold


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


def waiting_copies(facts: Facts, operation: Operation) -> WaitingCopies:
    """Of an operation; none where it has ended. What a broker holds already is not copied."""
    if not operation.waiting or operation.state.ended:
        return WaitingCopies(_NONE, _NONE)
    document = operation.details.waiting_plan
    if document is None:
        return WaitingCopies(_NONE, _NONE, operation.waiting)
    plan = _targets(_ByIdentity(document))
    rows, places = facts.rows, places_of(facts, plan)
    here = np.flatnonzero(rows_among(facts, members_of(facts, places)))
    entry = np.searchsorted(facts.starts, here, side="right") - 1
    # A partition that is not in the snapshot has place -1, and a size that is not known.
    sizes = np.append(facts.leader_sizes, UNKNOWN)
    place = places[plan.entry]
    holds = (entry << 32) | rows.broker[here]
    there = np.isin((place << 32) | plan.broker, holds) & (place >= 0)
    return WaitingCopies(plan.broker[~there], sizes[place[~there]])
