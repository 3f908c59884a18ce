"""What was perhaps meant by a name that nobody knows."""

from __future__ import annotations

from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is most like it, or empty."""
    # Loaded for a mistake only.
    from difflib import get_close_matches

    found = get_close_matches(name, sorted(known), 1)
    return found[0] if found else ""


def near(name: str, known: Collection[str], otherwise: str = "") -> str:
    """A question about the name that was perhaps meant; where none is like it, all known names.

    Args:
        name: It.
        known: All there is.
        otherwise: What to say where nothing is like it, instead.
    """
    if found := nearest(name, known):
        return f"Did you mean '{found}'?"
    return otherwise or f"The keys are: {', '.join(sorted(known))}."
