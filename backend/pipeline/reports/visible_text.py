"""Text of a report with every character visible."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Drawn as nothing, although their category says otherwise."""
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
NAME_MOST: Final = 34
"""Characters of the name of a bar."""


def visible(text: str) -> str:
    """The text on one line, with every character visible: those that hide become `[U+202E]`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def visible_name(text: str) -> str:
    """The same of the name of a bar, cut at its end if it is long."""
    name = visible(text)
    return name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - 1]}…"


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs" or character in "\t\r\n":
        return " "
    hidden = category in _UNSEEN or _BLANK.match(character) or _SELECTORS.match(character)
    return f"[U+{ord(character):04X}]" if hidden else character
