"""When what moves will be done, in cells: `done ≈ 12:16 (12:14-12:20)`.

Whatever says so on the screen says it of the one forecast that a snapshot brings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.forecast.end_words import measuring_text, never_text, when_text
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.text.formatting import NEVER, NOT_AT_THIS_RATE, UNKNOWN
from kshunt.tui.tables.model import Cell
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.tui.facts.overview import Home
    from kshunt.tui.facts.snapshot_facts import Summary

HELD_TEXT: Final = "held by a pause"
_NO_RATE_HELPS: Final = {
    cause.key
    for cause in (
        Cause.BROKER_DOWN,
        Cause.LOG_DIR_OFFLINE,
        Cause.NO_LEADER,
        Cause.CONTROLLER,
        Cause.SOURCE_UNREACHABLE,
        Cause.REMAINING_OUT_OF_ISR,
        Cause.DISK_FULL,
    )
}


def done_cells(
    end: ExpectedEnd | None,
    now_ms: int,
    glyphs: Glyphs,
    *,
    stuck_said: int = 0,
    brief: bool = False,
) -> list[Cell]:
    """When all that moves is done, and who is not in it.

    Replicas that never arrive do not hide when the others do. `stuck_said` are the stuck ones that
    the reader is told of anyway; `brief` leaves out the range, and what a rate has to be.
    """
    if end is None or not end.copies:
        return [Cell(f"done {UNKNOWN}", "strong")]
    if end.held == end.copies:
        return [Cell(HELD_TEXT, "warn")]
    cells = []
    if end.p50_s is not None:
        about = "≈" if glyphs.spark else "~"
        when = when_text(end, now_ms, 0) if brief else when_text(end, now_ms)
        cells.append(Cell(f"done {about} {when}", "strong"))
        if end.never and not _is_said(end, stuck_said):
            cells.append(Cell(_apart(end), "bad"))
    elif end.never:
        why = "" if brief and end.shortage is not None else never_text(end)
        cells.append(Cell(f"{NEVER}: {why}" if why else NOT_AT_THIS_RATE, "bad"))
    elif end.unknown:
        return [Cell(measuring_text(end, now_ms))]
    if end.unknown:
        cells.append(Cell(f"{end.unknown:,} not known yet"))
    if end.held:
        cells.append(Cell(f"{end.held:,} paused", "warn"))
    return cells


def _apart(end: ExpectedEnd) -> str:
    """Who is not in when the others are: a higher rate helps, or what they wait for is named."""
    if _no_rate_helps(end):
        return f"{end.never:,} {NEVER}: {never_text(end)}"
    return f"{end.never:,} {NOT_AT_THIS_RATE}"


def _no_rate_helps(end: ExpectedEnd) -> bool:
    """Whether what most of them wait for is no throttle."""
    return end.shortage is None and end.why in _NO_RATE_HELPS


def _is_said(end: ExpectedEnd, stuck_said: int) -> bool:
    """Whether those that never arrive are among the stuck ones that were told of."""
    return end.never == stuck_said or (end.never < stuck_said and _no_rate_helps(end))


def title_text(home: Home | None, summary: Summary | None, now_ms: int, glyphs: Glyphs) -> str:
    """`45%, done ≈ 12:16 - kshunt`, for the terminal's title; `kshunt` while nothing moves."""
    from kshunt.tui.facts.overview import share_text

    if home is None or summary is None or not summary.moving_partitions:
        return "kshunt"
    share = [share_text(home.total)] if home.total.known else []
    end = [HELD_TEXT] if home.held else [done_cells(summary.end, now_ms, glyphs)[0].text]
    return f"{', '.join(share + end)} - kshunt"


def joined(cells: list[Cell]) -> list[Cell]:
    """Commas between."""
    return [Cell(f"{text},", tone) for text, tone in cells[:-1]] + cells[-1:]
