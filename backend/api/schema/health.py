"""Whether a backend can do its work, as the API answers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One condition."""

    name: str
    ok: bool
    words: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the backend can be used to read or to change."""

    ready: bool
    checks: tuple[Check, ...]
    """All of them, those that hold too."""
