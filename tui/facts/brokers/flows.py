"""Who feeds whom: the copies that are under way, from broker to broker.

The source of a copy is its partition's leader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import bytes_text, many, rate_text
from kshunt.tui.facts.snapshot_facts import Facts, known_sum, rate_sum
from kshunt.tui.tables.model import RowKey

ALL: Final = "all"
"""The key of what holds everything."""
NOBODY: Final = -1
"""The source of copies of a partition that has no leader."""


@dataclass(frozen=True, slots=True)
class CopyFlow:
    """Copies from one broker to another, or from or to all."""

    copies: int = 0
    rate_bytes_per_s: float = math.nan
    """NaN where none is known."""
    lag_bytes: int = UNKNOWN
    """What they still lack."""
    stuck: int = 0

    @property
    def words(self) -> str:
        """Everything about it."""
        stuck = f", {self.stuck:,} stuck" if self.stuck else ""
        rate, left = rate_text(self.rate_bytes_per_s), bytes_text(self.lag_bytes)
        return f"{many(self.copies, 'copy', 'copies')} at {rate}, {left} left{stuck}"


@dataclass(frozen=True, slots=True)
class Sent:
    """What one broker sends."""

    source: int | str
    """A broker's id, `NOBODY` or `ALL`."""
    total: CopyFlow
    to: Mapping[int, CopyFlow]
    """By the broker that receives."""


def flows_of(facts: Facts) -> dict[RowKey, Sent]:
    """By the broker that sends, and everything under `ALL`; nothing where nothing is copied."""
    rows = facts.rows
    places = np.flatnonzero(facts.arriving)
    if not len(places):
        return {}
    sources, targets = rows.leader[places], rows.broker[places]
    found: dict[RowKey, Sent] = {
        source: _sent(facts, source, places[sources == source], targets[sources == source])
        for source in np.unique(sources).tolist()
    }
    found[ALL] = _sent(facts, ALL, places, targets)
    return found


def _sent(
    facts: Facts, source: int | str, places: NDArray[np.intp], targets: NDArray[np.int32]
) -> Sent:
    """The copies at these places, and the broker that receives each."""
    # It sorts the copies once: those that one broker receives are then neighbours.
    order = np.argsort(targets, kind="stable")
    receiving, first = np.unique(targets[order], return_index=True)
    parts = np.split(places[order], first[1:])
    to = {
        target: _flow(facts, part) for target, part in zip(receiving.tolist(), parts, strict=True)
    }
    return Sent(source, _flow(facts, places), to)


def _flow(facts: Facts, places: NDArray[np.intp]) -> CopyFlow:
    rows = facts.rows
    return CopyFlow(
        len(places),
        rate_sum(rows.fetched_bytes_per_s[places]),
        known_sum(rows.lag_bytes[places])[0],
        int(facts.stuck[places].sum()),
    )
