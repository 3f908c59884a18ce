"""How large the terminal is, in classes of the application, so that style sheets lay out by it.

Textual's own breakpoints are classes of each screen: every dialogue that opens would be styled a
second time for them.
"""

from __future__ import annotations

from typing import Final

from textual.geometry import Size

WIDE_COLUMNS: Final = 100
NORMAL_LINES: Final = 8
TALL_LINES: Final = 36


def size_classes(size: Size) -> dict[str, bool]:
    """Each class, and whether a terminal of this size has it."""
    width, height = size
    return {
        "-wide": width >= WIDE_COLUMNS,
        "-short": height < NORMAL_LINES,
        "-normal": NORMAL_LINES <= height < TALL_LINES,
        "-tall": height >= TALL_LINES,
    }
