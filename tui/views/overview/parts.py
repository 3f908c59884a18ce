"""Which parts the overview has at a size of the terminal."""

from __future__ import annotations

import enum
from typing import Final

HEAD: Final = "home"
"""What stands above the parts."""
MOVES: Final = "moves"
FLOWS: Final = "flows"
BROKERS: Final = "brokers"
EVENTS: Final = "events"
PARTS: Final = (MOVES, FLOWS, BROKERS, EVENTS)
"""In the order of the screen."""
MIDDLE_LEAST: Final = "116x34"
"""The smallest terminal that has parts, for people."""


class Layout(enum.Enum):
    """How much is shown; its value is the class that the style sheet knows it by."""

    PLAIN = "-plain"
    """One column of lines."""
    MIDDLE = "-middle"
    """A head, and parts below it, without events."""
    COCKPIT = "-cockpit"
    """A head, and every part."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Which parts are in sight."""
        return {Layout.PLAIN: (), Layout.MIDDLE: PARTS[:3], Layout.COCKPIT: PARTS}[self]


_LEAST: Final = ((160, 45, Layout.COCKPIT), (116, 34, Layout.MIDDLE))
"""Cells and lines of the terminal from which on there is room for a layout."""


def layout_for(width: int, height: int) -> Layout:
    """The layout for a size of the terminal."""
    fitting = (one for cells, lines, one in _LEAST if width >= cells and height >= lines)
    return next(fitting, Layout.PLAIN)
