"""Going to a view, moving in a table, and what is the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tui.actions.action import Action
from tui.views import (
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


MOVES: Final = (
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
    Action("quit", ("q",), "Quit", "Moves go on in the cluster.", "General"),
)
