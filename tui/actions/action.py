"""What an action is, the conditions under which it is offered, and how keys are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tui.views import VIEWS

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
