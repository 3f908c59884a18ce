"""When the moves will be done, in words: a range for the rest, and who never arrives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.text.formatting import NOT_AT_THIS_RATE, duration_text
from kshunt.tui.facts.forecast import LIVE, PIPELINE, PipelineForecast, range_text
from kshunt.tui.tables.model import Cell

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Summary

ETA_RANGE: Final = 1.25
"""Where the latest ETA is later than this many times the earliest, both are said."""


def eta_range_text(earliest_s: float, latest_s: float) -> str:
    """`4m10s`, `4m10s to 9m02s`, or `up to 9m02s` where only the latest is known."""
    if math.isnan(earliest_s) and not math.isnan(latest_s):
        return f"up to {duration_text(latest_s)}"
    text = duration_text(earliest_s)
    return f"{text} to {duration_text(latest_s)}" if latest_s > earliest_s * ETA_RANGE else text


HELD_TEXT: Final = "ETA held"
"""What moves stands still on purpose: a rate tells nothing of when it goes on."""


def eta_cells(summary: Summary) -> list[Cell]:
    """The ETA of what arrives, how many replicas never do at their rate, and how many tell nothing.

    Replicas without an ETA do not hide that of the others.
    """
    never = summary.eta_never
    if summary.paused >= summary.moving_replicas > 0:
        return [Cell(HELD_TEXT, "warn")]
    if never and never + summary.eta_unknown >= summary.moving_replicas > 0:
        return [Cell(f"ETA {NOT_AT_THIS_RATE}", "bad")]
    earliest, latest = summary.eta_s, summary.eta_latest_s
    if summary.eta_unknown and not math.isnan(latest):
        text = f">{duration_text(latest if math.isnan(earliest) else earliest)}"
    else:
        text = eta_range_text(earliest, latest)
    found = [Cell(f"ETA {text}", "strong")]
    if never:
        found.append(Cell(f"{never:,} {NOT_AT_THIS_RATE}", "bad"))
    if summary.paused:
        found.append(Cell(f"{summary.paused:,} paused", "warn"))
    return found


def shown_etas(
    summary: Summary, forecast: PipelineForecast | None, *, has_pipeline: bool, held: bool = False
) -> list[Cell]:
    """The pipeline's forecast where there is one, else the live ETA; which it is stands behind it.

    Where no pipeline ever delivered anything there is nothing to tell apart. Neither counts while
    all that moves is `held`.
    """
    if held:
        return [Cell(HELD_TEXT, "warn")]
    if forecast is None:
        return [*eta_cells(summary), *([Cell(f"({LIVE})", "dim")] if has_pipeline else [])]
    tone = "bad" if forecast.never else "strong"
    return [Cell(f"ETA {range_text(forecast)}", tone), Cell(f"({PIPELINE})", "dim")]


def joined(cells: Sequence[Cell]) -> list[Cell]:
    """Commas between; none before what stands in brackets."""
    after = [cell.text for cell in cells[1:]]
    commas = ["," * (not text.startswith("(")) for text in after]
    return [
        Cell(text + comma, tone) for (text, tone), comma in zip(cells, [*commas, ""], strict=True)
    ]
