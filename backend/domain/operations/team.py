"""What people who share a backend say to each other: claims, notes, and who is here."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.untrusted.json_codec import TimeMs
from kshunt.backend.errors import BadInput

NOTE_MAX: Final = 2_000
"""Characters of one note."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody steers an operation, and wants to be asked before another one does."""

    who: str
    since_ms: TimeMs
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on an operation, for everybody."""

    who: str
    at_ms: TimeMs
    text: str


@dataclass(frozen=True, slots=True)
class Team:
    """What people said about one operation."""

    claim: Claim | None = None
    notes: tuple[Note, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class ConnectedSession:
    """One session that is connected, and what it looks at."""

    session: str
    who: str
    screen: str
    """A view's name; empty where that is not said."""
    selected: str
    """What is under its cursor there, in words."""
    since_ms: int


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is connected, as a backend tells one of them."""

    present: tuple[ConnectedSession, ...] = ()
    """Those who came first stand first."""
    you: str = ""
    """The name that the backend knows the caller by; empty where it asks for no credentials."""
    session: str = ""
    """Which of them was told; empty where it is none."""


def note_text(text: str) -> str:
    """A note as it is kept: without blanks around it.

    Raises:
        BadInput: it is empty, too long, or holds control characters.
    """
    found = text.strip(" ")
    if not found:
        raise BadInput("A note without text was not written.")
    if len(found) > NOTE_MAX:
        raise BadInput(
            f"The note has {len(found)} characters, and was not written.",
            advice=f"{NOTE_MAX} are the most.",
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in found):
        raise BadInput(
            "The note holds control characters, and was not written.",
            advice="Write it on one line.",
        )
    return found
