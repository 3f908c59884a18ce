"""A band of rates: inside it, for some minutes, no change needs another confirmation. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.text.formatting import duration_text, rate_text
from kshunt.backend.domain.throttles.configs import ThrottledRate

KEPT: Final = 20
"""Changes of rates that can be taken back."""


@dataclass(frozen=True, slots=True)
class RateBand:
    """What an operator confirmed once."""

    cluster_id: str
    brokers: frozenset[int]
    low_bytes_per_s: int
    high_bytes_per_s: int
    span_s: float
    until_s: float
    """By the clock of the live feed."""
    why: str = ""

    def open_for(self, brokers: Collection[int], cluster_id: str, now_s: float) -> bool:
        """Whether it holds for all of these brokers at this moment."""
        here = self.cluster_id == cluster_id and now_s < self.until_s
        return here and bool(brokers) and self.brokers.issuperset(brokers)

    def holds(self, rates: Iterable[ThrottledRate]) -> bool:
        """Whether every side of these rates that is set is inside, and any is set."""
        pairs = [(one.leader_bytes_per_s, one.follower_bytes_per_s) for one in rates]
        known = [side for pair in pairs for side in pair if side is not None]
        inside = all(self.low_bytes_per_s <= side <= self.high_bytes_per_s for side in known)
        return inside and bool(known)

    @property
    def limits(self) -> str:
        """`20.0 MB/s to 80.0 MB/s`."""
        return f"{rate_text(self.low_bytes_per_s)} to {rate_text(self.high_bytes_per_s)}"

    @property
    def reason(self) -> str:
        """What the audit says of each change inside."""
        band = f"within the band {self.limits} for {duration_text(self.span_s)}"
        return f"{self.why} ({band})" if self.why else band

    def text(self, now_s: float) -> str:
        """What the head says; empty once it has ended."""
        left_s = self.until_s - now_s
        return f"band {self.limits}, {duration_text(left_s)} left" if left_s > 0 else ""


@dataclass(frozen=True, slots=True)
class RateChange:
    """A change of rates that was sent from here: what was set before it, and what it has set."""

    cluster_id: str
    before: Mapping[int, ThrottledRate]
    after: Mapping[int, ThrottledRate]
