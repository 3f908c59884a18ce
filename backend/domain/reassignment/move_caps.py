"""How many moves may be in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveCaps:
    """Moves in flight, those that others started included."""

    per_broker: int
    in_cluster: int
    smallest_first: bool = False
