"""Every action, once: bindings, command palette, footer, help and the README's key table.

An action's id is the name of its method (`action_<id>`) on the widget that `where` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from textual.binding import Binding

from tui.views import BROKERS, OPERATIONS, PARTITIONS, THROTTLES, VIEWS

FOOTER_MOST: Final = 6
"""More than this on the last line is noise."""


MOVING: Final = "moving"
IDLE: Final = "idle"
DRIFTED: Final = "drifted"
"""Somebody else changed a throttle of ours."""
ORPHANED: Final = "orphaned"
"""Throttles stand that no move justifies."""
FOREIGN: Final = "foreign"
"""Throttled moves that no operation here owns."""


def can(action: str) -> str:
    """The condition that the operation under the cursor can be paused, cancelled, ..."""
    return f"can {action}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing an operator can do."""

    id: str
    """The method, with its arguments where it takes some: `view('brokers')`."""
    keys: tuple[str, ...]
    """Textual's names of the keys; the first one is shown."""
    title: str
    """Two or three words, for the palette."""
    help: str
    """One sentence: what it does."""
    group: Literal["Views", "Move", "Look", "Change", "General"]
    views: tuple[str, ...] = VIEWS
    """Where it can be used."""
    hint: str = ""
    """One word for the footer; empty where it is not shown there."""
    rank: int = 0
    """Place in the footer; the lowest stand first."""
    when: tuple[str, ...] = ()
    """What has to be so, any of them, for the footer to show it: `MOVING`, `can("undo")`, ..."""
    others: tuple[tuple[str, str], ...] = ()
    """A condition and the footer's word for it, where that differs from `hint`."""
    changes: bool = False
    """True where it changes the cluster, and so cannot be done read-only."""
    where: Literal["screen", "grid"] = "screen"


_HERE: Final = (PARTITIONS,)
_PLOTTED: Final = (PARTITIONS, BROKERS)
_RATED: Final = (BROKERS, THROTTLES)
_THROTTLED: Final = (PARTITIONS, BROKERS, THROTTLES)
_THROTTLED_MOVES: Final = (THROTTLES, OPERATIONS)
_OPERATED: Final = (OPERATIONS,)


def _move(id: str, keys: tuple[str, ...], title: str, help: str) -> Action:
    return Action(id, keys, title, help, "Move", where="grid")


ACTIONS: Final = (
    Action("view('partitions')", ("1",), "Partitions", "Every replica, one a row.", "Views"),
    Action("view('brokers')", ("2",), "Brokers", "What each sends, receives and holds.", "Views"),
    Action("view('throttles')", ("3",), "Throttles", "Every rate and replica list.", "Views"),
    Action("view('operations')", ("4",), "Operations", "What was asked, how it went.", "Views"),
    _move("cursor(1)", ("j", "down"), "Down", "One row."),
    _move("cursor(-1)", ("k", "up"), "Up", "One row."),
    _move("page(1)", ("pagedown", "ctrl+f"), "Page down", "A screenful."),
    _move("page(-1)", ("pageup", "ctrl+b"), "Page up", "A screenful."),
    _move("page(0.5)", ("ctrl+d",), "Half a page down", "Half a screenful."),
    _move("page(-0.5)", ("ctrl+u",), "Half a page up", "Half a screenful."),
    _move("first", ("g", "home"), "Top", "The first row; the top then stays in sight."),
    _move("last", ("G", "end"), "Bottom", "The last row."),
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
        hint="sort",
        rank=3,
    ),
    Action("sort_choose", ("o",), "Choose sort column", "From a list.", "Look"),
    Action("sort_reverse", ("S",), "Reverse the sort", "The other way round.", "Look"),
    Action(
        "details",
        ("enter",),
        "Details",
        "Every column of the row, and more.",
        "Look",
        hint="details",
        rank=4,
    ),
    Action(
        "plot", ("p",), "Plot", "Bytes that remain, over time; again to hide.", "Look", _PLOTTED
    ),
    Action(
        "reassign",
        ("r",),
        "Start a reassignment",
        "From a JSON file; rehearsed before it is asked for.",
        "Change",
        hint="start",
        rank=7,
        changes=True,
    ),
    Action(
        "cancel",
        ("c",),
        "Cancel moves",
        "Of the marked partitions, else of the row.",
        "Change",
        _HERE,
        hint="cancel",
        rank=2,
        when=(MOVING,),
        changes=True,
    ),
    Action(
        "pause",
        ("p",),
        "Pause or resume",
        "Holds the operation's copies, which keep what they have; again to go on.",
        "Change",
        _OPERATED,
        hint="pause",
        rank=1,
        when=(can("pause"), can("resume")),
        others=((can("resume"), "resume"),),
        changes=True,
    ),
    Action(
        "cancel_operation",
        ("c",),
        "Cancel the operation",
        "Its partitions return to where they were; what waits does not start.",
        "Change",
        _OPERATED,
        hint="cancel",
        rank=2,
        when=(can("cancel"),),
        changes=True,
    ),
    Action(
        "undo",
        ("u",),
        "Undo the operation",
        "Moves back what it moved, once it has ended.",
        "Change",
        _OPERATED,
        hint="undo",
        rank=1,
        when=(can("undo"),),
        changes=True,
    ),
    Action(
        "abandon",
        ("X",),
        "Abandon the operation",
        "Ends it although brokers that are gone for good still have its throttle.",
        "Change",
        _OPERATED,
        hint="abandon",
        rank=2,
        when=(can("abandon"),),
        changes=True,
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
        "cancel_all",
        ("C",),
        "Cancel all moves",
        "Every partition that moves.",
        "Change",
        changes=True,
    ),
    Action(
        "edit",
        ("e",),
        "Edit throttle",
        "The broker's rates, or the topic's throttled replicas.",
        "Change",
        _THROTTLED,
        hint="throttle",
        rank=5,
        changes=True,
    ),
    Action(
        "edit_all",
        ("a",),
        "Edit all throttles",
        "One leader rate and one follower rate for every broker.",
        "Change",
        _RATED,
        hint="all brokers",
        rank=6,
        changes=True,
    ),
    Action(
        "elect",
        ("l",),
        "Elect preferred leaders",
        "Of the marked partitions, else of the row.",
        "Change",
        _HERE,
        hint="elect",
        rank=8,
        when=(IDLE,),
        changes=True,
    ),
    Action(
        "elect_all",
        ("L",),
        "Elect all preferred leaders",
        "Every partition of the cluster.",
        "Change",
        changes=True,
    ),
    Action(
        "reapply",
        ("d",),
        "Put our throttle back",
        "Where somebody else changed it: of the row, else everywhere.",
        "Change",
        hint="put back",
        rank=-2,
        when=(DRIFTED,),
        changes=True,
    ),
    Action(
        "accept",
        ("D",),
        "Keep their throttle",
        "What somebody else set stays, also when our operation ends.",
        "Change",
        hint="keep theirs",
        rank=-1,
        when=(DRIFTED,),
        changes=True,
    ),
    Action(
        "remove_orphans",
        ("x",),
        "Remove orphan throttles",
        "Rates and lists that no move justifies: of the row, else all.",
        "Change",
        (THROTTLES,),
        hint="remove",
        rank=0,
        when=(ORPHANED,),
        changes=True,
    ),
    Action(
        "remove_all_orphans",
        ("X",),
        "Remove all orphan throttles",
        "Every rate and list that no move justifies.",
        "Change",
        (THROTTLES,),
        changes=True,
    ),
    Action(
        "adopt",
        ("t",),
        "Take over throttles",
        "Of moves that somebody else started, so that they come off at the end.",
        "Change",
        _THROTTLED_MOVES,
        hint="take over",
        rank=0,
        when=(FOREIGN,),
        changes=True,
    ),
    Action(
        "attention",
        ("exclamation_mark",),
        "Attention",
        "Everything that is wrong, in full.",
        "Look",
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
    Action("quit", ("q",), "Quit", "Moves go on in the cluster.", "General"),
)

_KEY_NAMES: Final = {
    "slash": "/",
    "colon": ":",
    "exclamation_mark": "!",
    "question_mark": "?",
    "down": "Down",
    "up": "Up",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "home": "Home",
    "end": "End",
    "space": "Space",
    "enter": "Enter",
    "escape": "Esc",
}


def key_name(key: str) -> str:
    """A key as it is written for people."""
    if key.startswith("ctrl+"):
        return f"Ctrl-{key.removeprefix('ctrl+').upper()}"
    return _KEY_NAMES.get(key, key)


def actions_of(view: str) -> tuple[Action, ...]:
    """What can be done in a view."""
    return tuple(action for action in ACTIONS if view in action.views)


def action_named(id: str) -> Action | None:
    """The action with this id, its arguments left out."""
    return next((a for a in ACTIONS if a.id.partition("(")[0] == id.partition("(")[0]), None)


def screen_bindings(view: str) -> list[Binding]:
    """The bindings of a view's screen."""
    return list(_bindings(a for a in actions_of(view) if a.where == "screen"))


def grid_bindings() -> list[Binding]:
    """The bindings of every grid."""
    return list(_bindings(action for action in ACTIONS if action.where == "grid"))


def _bindings(actions: Iterable[Action]) -> Iterable[Binding]:
    for action in actions:
        # One binding a key, so that each can be given to another action by its id.
        for number, key in enumerate(action.keys):
            yield Binding(key, action.id, action.title, show=False, id=f"{action.id}#{number}")


def footer_actions(view: str, now: Collection[str]) -> tuple[Action, ...]:
    """What the last line of a view offers while these conditions hold; help is always among it."""
    offered = [a for a in actions_of(view) if a.hint and (not a.when or set(a.when) & set(now))]
    shown = [_worded(action, now) for action in sorted(offered, key=lambda action: action.rank)]
    *others, last = shown
    return (*others[: FOOTER_MOST - 1], last)


def _worded(action: Action, now: Collection[str]) -> Action:
    """The action with the word that fits."""
    words = [word for condition, word in action.others if condition in now]
    return replace(action, hint=words[0]) if words else action


def help_groups(view: str) -> dict[str, list[Action]]:
    """A view's actions by group, in the order of the registry."""
    groups: dict[str, list[Action]] = {}
    for action in actions_of(view):
        groups.setdefault(action.group, []).append(action)
    return groups


def key_table() -> str:
    """The README's key table, in Markdown."""
    lines = ["| Keys | Action | What it does | Where |", "|---|---|---|---|"]
    for action in ACTIONS:
        keys = " ".join(f"`{key_name(key)}`" for key in action.keys)
        where = "everywhere" if action.views == VIEWS else ", ".join(action.views)
        lines.append(f"| {keys} | {action.title} | {action.help} | {where} |")
    return "\n".join(lines)
