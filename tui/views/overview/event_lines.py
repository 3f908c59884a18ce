"""What happened, the newest first, each with its time."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from kshunt.backend.domain.text.formatting import clock_text, moment_text
from kshunt.tui.actions.view_names import OPERATIONS
from kshunt.tui.facts.cockpit.events import Event
from kshunt.tui.facts.cockpit.marks import INCIDENT
from kshunt.tui.tables.lines import Line, more_line
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

_DAY_MS: Final = 86_400_000
_LINES_MOST: Final = 2
"""Lines that an event may take."""


def event_lines(
    events: Sequence[Event], now_ms: int, width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    """The events that fit; `more` says how to see the rest."""
    if not events:
        return [Line((Cell("Nothing has happened yet.", "dim"),))]
    lines: list[Line] = []
    for number, event in enumerate(events):
        found = _event(event, now_ms, width, glyphs)
        last = number == len(events) - 1
        if len(lines) + len(found) + (0 if last else 1) > height:
            return [*lines, more_line(len(events) - number, "event", more)][:height]
        lines += found
    return lines


def _event(event: Event, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    recent = abs(now_ms - event.at_ms) < _DAY_MS
    when = clock_text(event.at_ms, seconds=True) if recent else moment_text(event.at_ms)
    bad = event.kind == INCIDENT
    label = len(when) + 4
    room = max(width - label, 12)
    rows = wrap(printable(event.text), room) or [""]
    if len(rows) > _LINES_MOST:
        rows = [*rows[: _LINES_MOST - 1], fit(" ".join(rows[_LINES_MOST - 1 :]), room, glyphs)]
    mark = glyphs.alert if bad else " "
    tone = "bad" if bad else ""
    target = ScreenTarget(OPERATIONS, event.operation) if event.operation else None
    key = ("event", event.at_ms, event.text) if target is not None else None
    first = Line(
        (Cell(f"{when} ", "dim"), Cell(f"{mark} ", tone), Cell(rows[0], tone)), key, target
    )
    return [first, *(Line((Cell(" " * (len(when) + 3)), Cell(row, tone))) for row in rows[1:])]
