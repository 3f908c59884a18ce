"""What an action is, the conditions under which it is offered, and how keys are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kshunt.tui.actions.view_names import VIEWS

MOVING: Final = "moving"
IDLE: Final = "idle"
FOLLOWING: Final = "following"
"""Only what moves or ails is shown."""
DRIFTED: Final = "drifted"
"""Somebody else changed a throttle of ours."""
ORPHANED: Final = "orphaned"
"""Throttles are set that no move justifies."""
FOREIGN: Final = "foreign"
"""Throttled moves that no operation here owns."""
PENDING: Final = "pending"
"""Rates were typed or stepped to, and not asked for yet."""
BANDED: Final = "banded"
"""A band of rates was confirmed, and has not ended."""
PAST: Final = "past"
"""The screens show a moment of a recording."""
HELD: Final = "held by another"
"""Somebody else steers the operation under the cursor."""
PROPOSED: Final = "proposed"
"""A change waits until the operator of this dashboard approves it."""
OPENED: Final = "opened"
"""A topic is opened from the topics view, which waits for the way back."""
LED: Final = "led"
"""A line of another view led here, and that view waits for the way back."""
FIELDED: Final = "fielded"
"""A filter of this view has fields, such as `broker:3`."""
PARTED: Final = "parted"
"""The overview shows several parts."""
RATED: Final = "rated"
"""Rates can be set in the rows of this view."""
AWAY: Final = "away"
"""So, and there is a present to return to."""


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
    group: Literal["Views", "Move", "Look", "Change", "Time", "General"]
    views: tuple[str, ...] = VIEWS
    """Where it can be used."""
    hint: str = ""
    """One word for the footer; empty where it is not shown there."""
    rank: int = 0
    """Place in the footer; the lowest come first."""
    when: tuple[str, ...] = ()
    """The footer shows it where any of these conditions holds: `MOVING`, `can("undo")`, ..."""
    first_when: tuple[str, ...] = ()
    """Conditions, any of which puts it before all others in the footer."""
    opposite: str = ""
    """The id of the action that does the reverse; its key is next to this one in the footer."""
    others: tuple[tuple[str, str], ...] = ()
    """A condition and the footer's word for it, where that differs from `hint`."""
    changes: bool = False
    """True where it changes the cluster, and so cannot be done read-only."""
    where: Literal["screen", "grid"] = "screen"

    @property
    def name(self) -> str:
        """What the settings file calls it: the id, or the title where the id has arguments."""
        return self.title.lower().replace(" ", "_") if "(" in self.id else self.id


KEY_NAMES: Final = {
    "slash": "/",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "tab": "Tab",
    "shift+tab": "Shift-Tab",
    "colon": ":",
    "exclamation_mark": "!",
    "question_mark": "?",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "vertical_line": "|",
    "asterisk": "*",
    "comma": ",",
    "full_stop": ".",
    "circumflex_accent": "^",
    "dollar_sign": "$",
    "minus": "-",
    "equals_sign": "=",
    "down": "Down",
    "up": "Up",
    "left": "Left",
    "right": "Right",
    "shift+left": "Shift-Left",
    "shift+right": "Shift-Right",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "home": "Home",
    "end": "End",
    "space": "Space",
    "enter": "Enter",
    "escape": "Esc",
    "backspace": "Bksp",
}


def key_name(key: str) -> str:
    """A key as it is written for people."""
    if key.startswith("ctrl+"):
        return f"Ctrl-{key.removeprefix('ctrl+').upper()}"
    return KEY_NAMES.get(key, key)
