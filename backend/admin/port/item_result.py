"""What became of one item of a call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item of a call."""

    error_code: int = 0
    """Kafka's protocol error code; 0 is success."""
    error_name: str = "NONE"
    """Kafka's name of that code."""
    message: str = ""
    """The broker's own words where it sent any, or what kshunt did instead of asking."""
    retriable: bool = False

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error_code == 0


OK = ItemResult()
