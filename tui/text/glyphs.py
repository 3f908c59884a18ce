"""The characters of the screen that are not letters: Unicode, or plain ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that are not letters; each takes one cell."""

    mark: str
    """A row that was marked."""
    preferred: str
    """The preferred replica of its partition."""
    ascending: str
    descending: str
    ellipsis: str
    dot: str
    """Between two facts on one line."""
    rule: str
    """A horizontal line."""
    alert: str
    arrow: str
    flow: str
    """The end of a line along which something flows."""
    spark: bool
    """True where braille can be shown."""


UNICODE: Final = Glyphs("✓", "*", "▴", "▾", "…", "·", "─", "!", "→", "▸", True)
ASCII: Final = Glyphs("x", "*", "^", "v", "~", "-", "-", "!", ">", ">", False)
