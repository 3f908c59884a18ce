"""What is typed into the fields of wizards, as values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from backend.domain.steering import MoveCaps
from backend.domain.throttle import parse_rate
from backend.errors import BadInput

RATE_HINT: Final = "50MB/s, 4MiB/s, 10485760, or none"
LIST_HINT: Final = "partition:broker pairs (0:101,0:102), * for all, or none"
CAPS_HINT: Final = "all, or how many a broker/in the cluster: 5/200, or 5/200 smallest"
EVERY_OPERATION: Final = "all"


def a_rate(text: str) -> int | None:
    """A rate; None for none.

    Raises:
        BadInput: it is no rate, or nothing was typed.
    """
    if not text.strip():
        raise BadInput("Type a rate, or none for no throttle.")
    return parse_rate(text)


def default_caps() -> str:
    """The backend's own caps, as an operator types them."""
    from backend.api.client_steering import DEFAULT_CAPS

    return f"{DEFAULT_CAPS.per_broker}/{DEFAULT_CAPS.in_cluster}"


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
        raise BadInput(f"'{text.strip()}' is not all, nor a cap such as 5/200.")
    if not (1 <= numbers[0] <= 10_000 and 1 <= numbers[1] <= 200_000):
        raise BadInput("A cap is at least 1; 10000 a broker and 200000 in the cluster at most.")
    return MoveCaps(numbers[0], numbers[1], smallest_first=bool(order))


def broker_ids(text: str) -> tuple[int, ...]:
    """Ids with commas between them.

    Raises:
        BadInput: they are not.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput("Type the ids of the brokers, with commas between them.")
    return tuple(sorted({int(part) for part in parts}))


def an_operation(text: str, known: Collection[str]) -> str:
    """The id of an operation, or `all`.

    Raises:
        BadInput: there is none of that id.
    """
    if text.strip() not in {EVERY_OPERATION, *known}:
        raise BadInput(f"There is no operation {text.strip()} here; all is for every one.")
    return text.strip()
