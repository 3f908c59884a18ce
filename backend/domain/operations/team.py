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
    """A person claimed an operation, and wants to be asked before others change it."""

    who: str
    since_ms: TimeMs
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on an operation, for everybody."""

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
    """One connected session, and its view."""

    session: str
    who: str
    screen: str
    """A view's name; empty where that is not said."""
    selected: str
    """What is under its cursor there, in words."""
    since_ms: int


@dataclass(frozen=True, slots=True)
class Presence:
    """The connected people, as a backend reports them to one of them."""

    present: tuple[ConnectedSession, ...] = ()
    """In the order of their arrival."""
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
        raise BadInput("A note needs text. Nothing was written.")
    if len(found) > NOTE_MAX:
        raise BadInput(
            f"The note has {len(found)} characters, and was not written.",
            advice=f"The maximum is {NOTE_MAX}.",
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in found):
        raise BadInput(
            "The note holds control characters, and was not written.",
            advice="Write it on one line.",
        )
    return found
