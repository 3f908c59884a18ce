"""How many moves may be in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kshunt.backend.errors import BadInput

CAPS_HINT: Final = "all, or how many per broker/in the cluster: 5/200, or 5/200 smallest"


@dataclass(frozen=True, slots=True)
class MoveCaps:
    """Moves in flight, those that others started included."""

    per_broker: int
    in_cluster: int
    smallest_first: bool = False


def parse_caps(text: str) -> MoveCaps | None:
    """`all` is None; `5/200` is 5 moves a broker and 200 in the cluster.

    Raises:
        BadInput: it is neither.
    """
    limits, *order = text.split() or ["all"]
    if limits == "all" and not order:
        return None
    parts = limits.split("/")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(parts) != 2 or len(numbers) != 2 or order not in ([], ["smallest"]):
        raise BadInput(f"'{text.strip()}' is not all, or a cap such as 5/200.")
    if not (1 <= numbers[0] <= 10_000 and 1 <= numbers[1] <= 200_000):
        raise BadInput("A cap is at least 1, at most 10000 per broker and 200000 in the cluster.")
    return MoveCaps(numbers[0], numbers[1], smallest_first=bool(order))


def caps_text(caps: MoveCaps | None) -> str:
    """What `parse_caps` reads as these caps."""
    if caps is None:
        return "all"
    return f"{caps.per_broker}/{caps.in_cluster}{' smallest' if caps.smallest_first else ''}"
