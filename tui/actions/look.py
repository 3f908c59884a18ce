"""What only looks: filters, orders, details, plots, what is written to a file."""

from __future__ import annotations

from typing import Final

from tui.actions.action import MOVING, Action
from tui.views import BROKERS, OPERATIONS, PARTITIONS, TABLES

_HERE: Final = (PARTITIONS,)
_PLOTTED: Final = (PARTITIONS, BROKERS)
_OPERATED: Final = (OPERATIONS,)

LOOKS: Final = (
    Action(
        "mark",
        ("space",),
        "Mark",
        "Mark or unmark the row, for what changes several partitions at once.",
        "Look",
        _HERE,
        where="grid",
    ),
    Action("mark_all", ("A",), "Mark all", "Every row that is shown, or none.", "Look", _HERE),
    Action(
        "back", ("escape",), "Back", "Unmark every row; without marks, drop the filter.", "Look"
    ),
    Action(
        "filter",
        ("slash",),
        "Filter",
        "Rows that match: a part of a topic, broker:3, moving, behind:>1000, -throttled.",
        "Look",
        _HERE,
        hint="filter",
        rank=1,
    ),
    Action(
        "follow",
        ("f",),
        "Follow the moves",
        "Only partitions that move, the replica furthest behind first; again for all.",
        "Look",
        _HERE,
        hint="follow",
        rank=2,
        when=(MOVING,),
    ),
    Action(
        "sort_next",
        ("s",),
        "Sort by next column",
        "Numbers from the largest, words from the first.",
        "Look",
        TABLES,
        hint="sort",
        rank=3,
    ),
    Action("sort_choose", ("o",), "Choose sort column", "From a list.", "Look", TABLES),
    Action("sort_reverse", ("S",), "Reverse the sort", "The other way round.", "Look", TABLES),
    Action(
        "details",
        ("enter",),
        "Details",
        "Every column of the row, and more.",
        "Look",
        TABLES,
        hint="details",
        rank=4,
    ),
    Action(
        "plot", ("p",), "Plot", "Bytes that remain, over time; again to hide.", "Look", _PLOTTED
    ),
    Action(
        "export",
        ("w",),
        "Write the audit",
        "Who did what, when and why, to a new file: Markdown or JSON.",
        "Look",
        _OPERATED,
        hint="write audit",
        rank=6,
    ),
    Action(
        "attention",
        ("exclamation_mark",),
        "Attention",
        "Everything that is wrong, in full.",
        "Look",
    ),
)
