"""What a planner may touch, and what it has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from kshunt.backend.domain.planning.goals import DISK_FRACTION
from kshunt.backend.errors import BadInput


@dataclass(frozen=True, slots=True)
class Scope:
    """Topics in and out, limits, and the seed that settles ties."""

    include: tuple[str, ...] = ("*",)
    """Topics that may change: names, or patterns with `*`, `?` and `[...]` as in a shell."""
    exclude: tuple[str, ...] = ()
    """Topics that stay as they are, though `include` names them."""
    disk_fraction: float = DISK_FRACTION
    """See `DISK_FRACTION`; a broker whose volumes are not known has no limit, and a note."""
    keep_racks: bool = True
    """False lets a partition span fewer racks where a broker cannot be drained or replaced in any
    other way; a note names it. Other goals never give up a rack."""
    seed: int = 0
    """Which of two equally good brokers is taken; the same seed gives the same proposal."""

    def __post_init__(self) -> None:
        if not 0 < self.disk_fraction <= 1:
            raise BadInput(
                f"The disk fraction {self.disk_fraction:g} must be above 0 and at most 1.",
                advice="Nothing was planned; 0.85 leaves 15 % of each volume free.",
            )

    def selects(self, topic: str) -> bool:
        """Whether a topic may change."""
        return any(fnmatchcase(topic, pattern) for pattern in self.include) and not any(
            fnmatchcase(topic, pattern) for pattern in self.exclude
        )
