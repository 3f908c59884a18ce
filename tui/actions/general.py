"""Going to a view, moving in a table, and what is the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.tui.actions.action import Action
from kshunt.tui.actions.view_names import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    TABLES,
    THROTTLES,
    TITLES,
    VIEWS,
    number_key,
)

_SHOWS: Final[Mapping[str, str]] = {
    OVERVIEW: "Whether all is well, how far the moves are, what to look at.",
    PARTITIONS: "Every replica, one a row.",
    BROKERS: "What each sends, receives and holds.",
    THROTTLES: "Every rate and replica list.",
    OPERATIONS: "What was asked, how it went.",
    HISTORY: "Lag and throughput over time, and what is forecast.",
}

NUMBERED: Final = tuple(
    Action(f"view('{view}')", (number_key(view),), TITLES[view].full, _SHOWS[view], "Views")
    for view in VIEWS
)


def _move(id: str, keys: tuple[str, ...], title: str, help: str) -> Action:
    return Action(id, keys, title, help, "Move", TABLES, where="grid")


_BOARDS: Final = (OVERVIEW, HISTORY)
"""Views of lines, some of which lead elsewhere."""


def _line(id: str, keys: tuple[str, ...], title: str, help: str, hint: str = "") -> Action:
    return Action(id, keys, title, help, "Move", _BOARDS, hint=hint, rank=1 if hint else 0)


MOVES: Final = (
    _line("line(1)", ("j", "down"), "Next line", "Of those that lead somewhere.", "choose"),
    _line("line(-1)", ("k", "up"), "Line before", "Of those that lead somewhere."),
    _line("line(-999)", ("g", "home"), "First line", "Of those that lead somewhere."),
    _line("line(999)", ("G", "end"), "Last line", "Of those that lead somewhere."),
    Action(
        "go",
        ("enter",),
        "Go there",
        "Opens the view, filter and row where you can fix it.",
        "Move",
        _BOARDS,
        hint="go there",
        rank=2,
    ),
    _move("cursor(1)", ("j", "down"), "Down", "One row."),
    _move("cursor(-1)", ("k", "up"), "Up", "One row."),
    _move("page(1)", ("pagedown", "ctrl+f"), "Page down", "A screenful."),
    _move("page(-1)", ("pageup", "ctrl+b"), "Page up", "A screenful."),
    _move("page(0.5)", ("ctrl+d",), "Half a page down", "Half a screenful."),
    _move("page(-0.5)", ("ctrl+u",), "Half a page up", "Half a screenful."),
    _move("first", ("g", "home"), "Top", "The first row; the top then stays in sight."),
    _move("last", ("G", "end"), "Bottom", "The last row."),
)

GENERAL: Final = (
    Action(
        "themes",
        ("ctrl+t",),
        "Choose a theme",
        "From a list; it is applied immediately.",
        "General",
    ),
    Action("palette", ("colon", "ctrl+p"), "Palette", "Find an action by its name.", "General"),
    Action(
        "help",
        ("question_mark",),
        "Help",
        "Every key of this view, and what the signs mean.",
        "General",
        hint="help",
        rank=90,
    ),
    Action("quit", ("q",), "Quit", "Moves continue in the cluster.", "General"),
)
