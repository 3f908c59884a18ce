"""When what moves will be done, in cells: `done ≈ 12:16 (12:14-12:20)`.

Whatever says so on the screen says it of the one forecast that a snapshot brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.forecast.end_words import measuring_text, never_text, when_text
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.formatting import NEVER, NOT_AT_THIS_RATE, UNKNOWN
from kshunt.tui.tables.model import Cell
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.tui.facts.overview import Home
    from kshunt.tui.facts.snapshot_facts import Summary

HELD_TEXT: Final = "held by a pause"
NOTHING_STUCK: Final[Mapping[Cause, int]] = {}
_NO_RATE_HELPS: Final = {
    Cause.BROKER_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.NO_LEADER,
    Cause.CONTROLLER,
    Cause.SOURCE_UNREACHABLE,
    Cause.REMAINING_OUT_OF_ISR,
    Cause.DISK_FULL,
}
"""What is no throttle."""


def done_cells(
    end: ExpectedEnd | None,
    now_ms: int,
    glyphs: Glyphs,
    stuck: Mapping[Cause, int] = NOTHING_STUCK,
    *,
    stuck_said: bool = False,
    brief: bool = False,
) -> list[Cell]:
    """When all that moves is done, and who is not in it.

    Replicas that never arrive do not hide when the others do. `stuck` counts replicas by cause, and
    is said anyway or not; `brief` leaves out the range, and what a rate has to be.
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
        if end.never and not (stuck_said and _are_stuck(end, stuck)):
            cells.append(Cell(_apart(end, stuck), "bad"))
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


def _apart(end: ExpectedEnd, stuck: Mapping[Cause, int]) -> str:
    """Who is not in when the others are: a higher rate helps, or what they wait for is named."""
    waits = {cause: count for cause, count in stuck.items() if cause in _NO_RATE_HELPS}
    if end.shortage is None and end.never <= sum(waits.values()):
        cause = max(sorted(waits), key=lambda one: waits[one])
        return f"{end.never:,} {NEVER}: {CAUSE_TEXTS[cause].short}"
    return f"{end.never:,} {NOT_AT_THIS_RATE}"


def _are_stuck(end: ExpectedEnd, stuck: Mapping[Cause, int]) -> bool:
    """Whether all that never arrive are among the stuck ones."""
    waits = sum(count for cause, count in stuck.items() if cause in _NO_RATE_HELPS)
    return end.never == sum(stuck.values()) or (end.shortage is None and end.never <= waits)


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
