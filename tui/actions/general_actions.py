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
    TOPICS,
    VIEWS,
    number_key,
)

_SHOWS: Final[Mapping[str, str]] = {
    OVERVIEW: "The state of the cluster, the progress of moves, what to check.",
    PARTITIONS: "Every replica, one in each row.",
    BROKERS: "What each broker sends, receives and holds.",
    THROTTLES: "Every rate and replica list.",
    OPERATIONS: "Requested changes and their results.",
    HISTORY: "Lag and throughput over time, and the forecast.",
    TOPICS: "Size, writes and moves of each topic; Enter opens its partitions.",
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
    _line(
        "line(1)", ("j", "down"), "Next line", "Stops only at lines that lead to a view.", "choose"
    ),
    _line("line(-1)", ("k", "up"), "Previous line", "Stops only at lines that lead to a view."),
    _line("line(-999)", ("g", "home"), "First line", "Stops only at lines that lead to a view."),
    _line("line(999)", ("G", "end"), "Last line", "Stops only at lines that lead to a view."),
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
    _move("first", ("g", "home"), "Top", "The first row; new rows at the top then stay in sight."),
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
    Action(
        "settings",
        ("ctrl+s",),
        "Settings",
        "Each setting, its value, and where it comes from; changes are written to the file.",
        "General",
    ),
    Action(
        "contexts",
        ("ctrl+o",),
        "Contexts: open another cluster",
        "Lists contexts, recent clusters, running backends and the demo.",
        "General",
    ),
    Action("palette", ("colon", "ctrl+p"), "Palette", "Find an action by its name.", "General"),
    Action(
        "help",
        ("question_mark",),
        "Help",
        "Every key of this view, and the meaning of the signs.",
        "General",
        hint="help",
        rank=90,
    ),
    Action(
        "suspend",
        ("ctrl+z",),
        "Suspend",
        "Back to the shell; `fg` shows the dashboard again.",
        "General",
    ),
    Action("quit", ("q",), "Quit", "Moves continue in the cluster.", "General"),
)
