"""What only looks: filters, orders, details, plots, what is written to a file."""

from __future__ import annotations

from typing import Final

from kshunt.tui.actions.action import MOVING, PENDING, Action
from kshunt.tui.actions.view_names import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    PARTITIONS,
    TABLES,
    THROTTLES,
)

_HERE: Final = (PARTITIONS,)
_MARKED: Final = (PARTITIONS, THROTTLES)
_PLOTTED: Final = (PARTITIONS, BROKERS)
_OPERATED: Final = (OPERATIONS,)
_PAST: Final = (HISTORY,)

LOOKS: Final = (
    Action(
        "mark",
        ("space",),
        "Mark",
        "Mark or unmark the row, to change several rows together.",
        "Look",
        _MARKED,
        where="grid",
    ),
    Action("mark_all", ("A",), "Mark all", "Every row that is shown, or none.", "Look", _MARKED),
    Action(
        "back",
        ("escape",),
        "Back",
        "Drop what was typed; else unmark every row, leave the group, drop the filter.",
        "Look",
        hint="drop",
        rank=4,
        when=(PENDING,),
    ),
    Action(
        "filter",
        ("slash",),
        "Filter",
        "Rows that match: a part of a topic, broker:3, stuck, behind:>1000, eta:>10m, -moving.",
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
        "matrix",
        ("m",),
        "Who feeds whom",
        "Moves from broker to broker, then partition by broker, then the brokers again.",
        "Look",
        (BROKERS,),
        hint="matrix",
        rank=4,
    ),
    Action(
        "shift(1)",
        ("l", "right"),
        "Columns to the right",
        "Those of a matrix that do not fit.",
        "Look",
        (BROKERS,),
    ),
    Action("shift(-1)", ("h", "left"), "Columns to the left", "Back again.", "Look", (BROKERS,)),
    Action(
        "group",
        ("v",),
        "Group",
        "By topic, by broker, by operation, and one row a replica again; Enter opens a group.",
        "Look",
        _HERE,
        hint="group",
        rank=9,
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
    Action(
        "sort_choose",
        ("o",),
        "Choose sort columns",
        "One alone, or up to three behind each other.",
        "Look",
        TABLES,
    ),
    Action("sort_reverse", ("S",), "Reverse the sort", "The other way round.", "Look", TABLES),
    Action(
        "details",
        ("enter",),
        "Details",
        "Every column of the row, and more; with a rate typed, on to its preview.",
        "Look",
        TABLES,
        hint="details",
        rank=4,
        others=((PENDING, "go on"),),
    ),
    Action(
        "plot", ("p",), "Plot", "Bytes that remain, over time; again to hide.", "Look", _PLOTTED
    ),
    Action(
        "audit",
        ("v",),
        "Audit",
        "Who did what, when and why, newest first, to be filtered; Enter for a whole entry.",
        "Look",
        _OPERATED,
        hint="audit",
        rank=5,
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
        "span(1)",
        ("greater_than_sign",),
        "Longer span",
        "Plot more of the past.",
        "Look",
        _PAST,
        hint="longer",
        rank=4,
    ),
    Action(
        "span(-1)",
        ("less_than_sign",),
        "Shorter span",
        "Plot less of the past.",
        "Look",
        _PAST,
        hint="shorter",
        rank=3,
    ),
    Action(
        "plotted",
        ("tab",),
        "Plot something else",
        "Throughput under its throttle, bytes that remain, stuck replicas; days of the pipeline.",
        "Look",
        _PAST,
        hint="plot",
        rank=5,
    ),
    Action(
        "attention",
        ("exclamation_mark",),
        "Attention",
        "Everything that is wrong, in full.",
        "Look",
    ),
)
