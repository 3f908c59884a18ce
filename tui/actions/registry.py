"""Every action, once: bindings, command palette, footer, help and the manual's key table.

An action's id is the name of its method (`action_<id>`) on the widget that `where` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from textual.binding import Binding

from kshunt.tui.actions.action import Action, key_name
from kshunt.tui.actions.change_actions import CHANGES
from kshunt.tui.actions.general_actions import GENERAL, MOVES, NUMBERED
from kshunt.tui.actions.key_settings import with_chosen_keys
from kshunt.tui.actions.team_actions import TEAM
from kshunt.tui.actions.time_actions import TIMES
from kshunt.tui.actions.view_actions import LOOKS
from kshunt.tui.actions.view_names import TABLES, VIEWS

FOOTER_MOST: Final = 6
"""More than this on the last line is noise."""

_PLACES: Final = {VIEWS: "everywhere", TABLES: "every table"}
ACTIONS: Final = (*NUMBERED, *MOVES, *LOOKS, *CHANGES, *TEAM, *TIMES, *GENERAL)


def actions_of(view: str) -> tuple[Action, ...]:
    """What can be done in a view."""
    return tuple(with_chosen_keys(action) for action in ACTIONS if view in action.views)


def action_named(id: str) -> Action | None:
    """The action with this id, with its arguments or without them."""
    found = [a for a in ACTIONS if a.id == id or a.id.partition("(")[0] == id]
    return with_chosen_keys(found[0]) if found else None


def key_of(id: str) -> str:
    """The first key of an action, as it is written for people."""
    return key_name(next(with_chosen_keys(a).keys[0] for a in ACTIONS if a.id == id))


def view_key(view: str) -> str:
    """The key that goes to a view, likewise."""
    return key_of(f"view('{view}')")


def dialog_bindings(id: str, action: str = "close") -> list[Binding]:
    """The keys of an action, for something else in a dialog: what opened it can close it, too."""
    found = action_named(id)
    assert found is not None, id
    return [Binding(key, action, found.title, show=False) for key in found.keys]


def screen_bindings(view: str) -> list[Binding]:
    """The bindings of a view's screen."""
    return list(_bindings(a for a in actions_of(view) if a.where == "screen"))


def grid_bindings() -> list[Binding]:
    """The bindings of every grid."""
    return list(_bindings(with_chosen_keys(a) for a in ACTIONS if a.where == "grid"))


def _bindings(actions: Iterable[Action]) -> Iterable[Binding]:
    for action in actions:
        # One binding a key, so that each can be given to another action by its id.
        for number, key in enumerate(action.keys):
            yield Binding(key, action.id, action.title, show=False, id=f"{action.id}#{number}")


def footer_actions(view: str, now: Collection[str]) -> tuple[Action, ...]:
    """What the last line of a view offers while these conditions hold; help is always among it."""
    offered = [a for a in actions_of(view) if a.hint and (not a.when or set(a.when) & set(now))]
    offered.sort(key=lambda a: (not set(a.first_when) & set(now), a.rank))
    shown = [_worded(action, now) for action in offered]
    *others, last = shown
    return (*others[: FOOTER_MOST - 1], last)


def footer_key(action: Action) -> str:
    """The key of an action as the last line has it: `Enter`, or `+/-` with that of its reverse."""
    key = key_name(action.keys[0])
    return f"{key}/{key_of(action.opposite)}" if action.opposite else key


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
    """The manual's key table, in Markdown."""
    lines = ["| Keys | Action | What it does | Where | Name |", "|---|---|---|---|---|"]
    for action in ACTIONS:
        keys = " ".join(f"`{key_name(key)}`" for key in action.keys)
        where = _PLACES.get(action.views) or ", ".join(action.views)
        lines.append(f"| {keys} | {action.title} | {action.help} | {where} | `{action.name}` |")
    return "\n".join(lines)
