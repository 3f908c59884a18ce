"""The home screen in lines, for a size of the terminal.

Goals
    The top of the screen has what matters in the first five seconds, and never leaves it out. It
    says whether the cluster is well, how far the moves are, and what runs. It also says which
    replicas hold the moves up, and what to look at.
Constraints
    Nothing scrolls and nothing jumps: a section keeps its place while the terminal keeps its size.
Algorithm
    Each section says how many lines it could fill. Room is granted by a list, most important
    first, until there is no more; what is cut says how much of it there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.tui.facts.overview import Home, Overview
from kshunt.tui.tables.lines import BLANK, Line, beside, clipped, labelled
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import Item
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.overview import sections as parts
from kshunt.tui.views.overview.traffic_lines import traffic_lines

LABEL_WIDTH: Final = 11
LABELS_FROM: Final = 60
"""Narrower, there is no room for labels."""


UNSAID: Final = Cell("")


@dataclass(frozen=True, slots=True)
class OverviewState:
    """What the home screen is made of."""

    home: Home | None
    items: tuple[Item, ...] = ()
    data_age: Cell = UNSAID
    """How old the data are, in words."""
    nothing: str = ""
    """Why there is nothing to show yet."""
    drift: int | None = None
    """None while it is not known."""
    orphans: int | None = None
    """None while it is not known."""
    past_drift: PastDrift | None = None
    """Of the last day; None where it is not known, or something runs."""


_ORDER: Final = ("health", "progress", "plot", "operations", "worst", "items", "traffic")
_GRANTS: Final = (
    *(("health", 1), ("progress", 1), ("items", 1), ("progress", 2), ("health", 2)),
    *(("operations", 1), ("worst", 1), ("worst", 3), ("items", 2), ("operations", 2)),
    *(("plot", 3), ("worst", 5), ("health", 3), ("operations", 4), ("items", 4)),
    *(("traffic", 5), ("gaps", 5), ("plot", 10), ("worst", 10), ("items", 12), ("operations", 10)),
    *(("worst", 15), ("plot", 16), ("traffic", 18)),
)
"""Sections and the lines that they get, the most important first."""
HEAD: Final = ("health", "progress", "operations", "items")
"""The sections above the parts, where the rate is next to them."""
NARROW_HEAD: Final = ("health", "progress", "plot", "operations", "items")
"""The sections above the parts, where the rate is not next to them."""
CHART: Final = 66
CHART_FROM: Final = 150
"""Cells of the rate at the right of the head, and of the screen where there is room for it."""
PLOT_LEAST: Final = 3
"""A lower plot tells nothing."""

WANTED: Final = parts.WANTED

Builder = Callable[[int, int], list[Line]]
"""Lines of a section from the cells of a line and the most lines that it may take."""


def home_lines(
    sight: OverviewState,
    width: int,
    height: int,
    glyphs: Glyphs,
    sections: Sequence[str] = _ORDER,
) -> list[Line]:
    """The screen, or these sections of it, at most `height` lines of `width` cells."""
    overview = sight.home.overview if sight.home is not None else None
    if overview is None or sight.home is None:
        return [BLANK, Line((Cell(" " + printable(sight.nothing), "dim"),))][:height]
    label = LABEL_WIDTH if width >= LABELS_FROM else 0
    room = max(width - label - 2, 1)
    builders = _builders(sight, sight.home, overview, label, glyphs)
    wanted = {name: len(builders[name][1](room, WANTED)) for name in sections}
    lines: list[Line] = []
    granted = _granted(wanted, height)
    gaps = granted.pop("gaps", 0)
    for name in sections:
        if not granted.get(name):
            continue
        if lines and gaps:
            lines.append(BLANK)
            gaps -= 1
        title, build = builders[name]
        found = build(room, granted[name])
        lines += labelled(title, found, label) if label and title else found
    return [clipped(_indented(line), width, glyphs) for line in lines[:height]]


def head_lines(sight: OverviewState, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """What stands above the parts: sentences, and the rate at their right while there is one."""
    home = sight.home
    chart: list[Line] = []
    if home is not None and home.overview is not None and width >= CHART_FROM:
        chart = parts.plot(home.history, _plot_span_s(home.overview), CHART, height, glyphs)
    sections: tuple[str, ...] = HEAD if chart else NARROW_HEAD
    if home is None or home.overview is None or not home.overview.running:
        # What has ended stands among the parts.
        sections = tuple(name for name in sections if name != "operations")
    if not chart:
        return home_lines(sight, width, height, glyphs, sections)
    left = width - CHART - 2
    return beside(home_lines(sight, left, height, glyphs, sections), chart, left, 2, glyphs)


def _indented(line: Line) -> Line:
    return line._replace(spans=(Cell(" "), *line.spans)) if line.spans else line


def _plot_span_s(overview: Overview) -> float:
    """How much of the past the plot shows: the whole operation; 0 while nothing moves."""
    moving = overview.summary.moving_replicas > 0 or overview.total.waiting
    return max(overview.running_s, parts.PLOT_SPAN_S) if moving else 0.0


def _builders(
    sight: OverviewState, home: Home, overview: Overview, label: int, glyphs: Glyphs
) -> Mapping[str, tuple[str, Builder]]:
    """Title and builder of each section; `label` is how wide the titles are."""
    span_s = _plot_span_s(overview)
    counts = parts.ThrottleCounts(sight.drift, sight.orphans, sight.data_age)
    listed = overview.running or overview.ended

    def traffic(width: int, most: int) -> list[Line]:
        if home.cockpit is None or not overview.idle:
            return []
        seen, rows = home.cockpit.traffic, home.cockpit.brokers
        return traffic_lines(seen, overview.health, rows, width + label, most, glyphs, label)

    return {
        "health": ("Health", lambda w, n: parts.health(overview, counts, w, n, glyphs)),
        "progress": ("Progress", lambda w, n: parts.progress(home, w, n, glyphs, sight.past_drift)),
        "plot": ("Rate", lambda w, n: parts.plot(home.history, span_s, w, n, glyphs)),
        "operations": (
            "Running" if overview.running else "Last" if listed else "",
            lambda w, n: parts.operations(overview, w, n, glyphs),
        ),
        "worst": ("Worst", lambda w, n: parts.worst(overview, w, n, glyphs)),
        "items": ("Look at", lambda w, n: parts.items(sight.items, w, n, glyphs)),
        # Its lines have labels of their own.
        "traffic": ("", traffic),
    }


def _granted(wanted: Mapping[str, int], height: int) -> dict[str, int]:
    """Lines of each section; together at most `height`."""
    granted: dict[str, int] = {}
    left = height
    for name, most in _GRANTS:
        present = granted.get(name, 0)
        if name == "gaps":
            limit = min(most, sum(1 for count in granted.values() if count) - 1)
        else:
            limit = min(most, wanted.get(name, 0))
        more = min(limit - present, left)
        if more <= 0 or (name == "plot" and present + more < PLOT_LEAST):
            continue
        granted[name] = present + more
        left -= more
    return granted
