"""A document as Markdown, whose plots are plain characters: they survive a mail and a ticket."""

from __future__ import annotations

from typing import Final

from kshunt.backend.domain.text.axes import moment_ticks
from kshunt.backend.domain.text.plots import Series, plot_lines
from kshunt.backend.pipeline.reports.document import (
    Bars,
    Block,
    Bullets,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    PlotLine,
    TableBlock,
)
from kshunt.backend.pipeline.reports.visible_text import visible, visible_name

WIDTH: Final = 78
HEIGHT: Final = 15
_MARKS: Final = ("*", "o", "+")
_LIMIT: Final = "-"
_BAND: Final = "."
_ESCAPES: Final = str.maketrans(
    # A backslash before one of these would be taken for something else in a table.
    {"\\": "&#92;", "`": "&#96;", "|": "&#124;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
    | {character: f"\\{character}" for character in "*_[]~$#"}
)


def as_markdown(document: Document) -> str:
    """The whole document."""
    parts = [f"# {escaped(document.title)}", *map(_block, document.blocks)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """The text on one line of Markdown, without any effect on it."""
    return visible(text).translate(_ESCAPES)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {escaped(block.text)}"
        case Paragraph():
            return escaped(block.text)
        case FactList():
            return "\n".join(f"- **{escaped(name)}**: {escaped(so)}" for name, so in block.rows)
        case Bullets():
            return "\n".join(f"- {escaped(item)}" for item in block.items)
        case TableBlock():
            return _table(block)
        case Plot():
            return f"**{escaped(block.title)}**\n\n```text\n{_plot(block)}\n```"
        case Bars():
            return f"**{escaped(block.title)}**\n\n```text\n{_bars(block)}\n```"


def _table(table: TableBlock) -> str:
    rules = ("---:" if name in table.numbers else "---" for name in table.columns)
    rows = [table.columns, *table.rows]
    lines = [f"| {' | '.join(map(escaped, row))} |" for row in rows]
    return "\n".join([lines[0], f"| {' | '.join(rules)} |", *lines[1:]])


# Plots


def _plot(plot: Plot) -> str:
    lines = _marked(plot)
    times: list[float] = plot.times_ms.tolist()
    series = [Series(line.values.tolist(), mark) for line, mark in lines]
    ticks = moment_ticks(times[0], times[-1], 6) if times else ()
    drawn = plot_lines(times, series, plot.unit, ticks, WIDTH, HEIGHT)
    if not drawn:
        return "(nothing is known about it)"
    names = "   ".join(f"{mark} {visible(line.name)}" for line, mark in lines)
    return "\n".join([*drawn, f"UTC; {names}"])


def _bars(bars: Bars) -> str:
    # Three backticks would end the block.
    names = [visible_name(bar.name).replace("`", "'") for bar in bars.rows]
    wide = max(map(len, names), default=0)
    room = WIDTH - wide - max((len(bar.text) for bar in bars.rows), default=0) - 4
    top = max((bar.value for bar in bars.rows), default=0.0) or 1.0
    return "\n".join(
        f"{name:>{wide}} | {'#' * round(room * bar.value / top)} {visible(bar.text)}".rstrip()
        for name, bar in zip(names, bars.rows, strict=True)
    )


def _marked(plot: Plot) -> list[tuple[PlotLine, str]]:
    """Lines with the characters that draw them, those that may be covered first."""
    limits = [(line, _LIMIT) for line in plot.lines if line.limit]
    others = [line for line in plot.lines if not line.limit]
    band = [(line, _BAND) for line in plot.band or ()]
    return [*band, *limits, *zip(others, _MARKS, strict=False)]
