"""The bell, a notification and a title, as they are sent to a terminal.

Sources: xterm's control sequences (BEL, OSC 2, the stack of titles), iTerm2's OSC 9, rxvt's OSC
777, kitty's OSC 99.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.tui.text.fitting import printable

BELL: Final = "\x07"
KEEP_TITLE: Final = "\x1b[22;0t"
"""The terminal keeps its title until `OLD_TITLE`."""
OLD_TITLE: Final = "\x1b[23;0t"
ESCAPE: Final = "\x1b"
TEXT_MAX: Final = 200
WITHOUT_TITLE: Final = ("linux", "dumb", "vt100", "vt220")
"""Terminals that may print what follows `ESC ]`."""

NOTIFICATIONS: Final[Mapping[str, Callable[[str], str]]] = {
    "osc9": lambda text: f"\x1b]9;{text}\x1b\\",
    "osc777": lambda text: f"\x1b]777;notify;kshunt;{text}\x1b\\",
    "osc99": lambda text: f"\x1b]99;;{text}\x1b\\",
}
"""By the name of the setting. A terminal that does not know one ignores it."""


@dataclass(frozen=True, slots=True)
class Notices:
    """How an operator wants to hear about what happens while they look elsewhere."""

    bell: bool = False
    notification: str = ""
    """One of `NOTIFICATIONS`, or empty for none."""
    title: bool = False
    in_tmux: bool = False
    """Whether the terminal is a pane of tmux."""


def notification(kind: str, text: str, *, in_tmux: bool = False) -> str:
    """The codes that show a notification; nothing where `kind` is empty.

    tmux knows none of them. It hands to its terminal what is wrapped as its manual says, where
    `allow-passthrough` is on.
    """
    codes = NOTIFICATIONS[kind](_clean(text)) if kind else ""
    if not (codes and in_tmux):
        return codes
    return f"\x1bPtmux;{codes.replace(ESCAPE, ESCAPE * 2)}\x1b\\"


def title_codes(text: str) -> str:
    """The codes that set the title of the terminal."""
    return f"\x1b]2;{_clean(text)}\x1b\\"


def _clean(text: str) -> str:
    """At most `TEXT_MAX` characters that drive no terminal; a semicolon would end a field."""
    return printable(text)[:TEXT_MAX].replace(";", ",")
