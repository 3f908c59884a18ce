"""What partitions that wait for their turn will bring to each broker, once they are moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.facts.moves.waiting_copies import WaitingCopies, waiting_copies
from kshunt.tui.facts.snapshot_facts import Facts


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


def pending_transfers_of(facts: Facts, operations: Iterable[Operation]) -> PendingTransfers:
    """Of every operation that has not ended."""
    found = PendingTransfers()
    untold = 0
    for one in operations:
        copies = waiting_copies(facts, one)
        untold += copies.untold
        _add(copies, found)
    return replace(found, untold=untold)


def _add(copies: WaitingCopies, found: PendingTransfers) -> None:
    """What comes to each broker."""
    for id in np.unique(copies.broker).tolist():
        own = copies.size_bytes[copies.broker == id]
        known = own[own >= 0]
        found.replicas[id] = found.replicas.get(id, 0) + len(own)
        found.size_bytes[id] = found.size_bytes.get(id, 0) + int(known.sum())
        found.unknown[id] = found.unknown.get(id, 0) + len(own) - len(known)
