"""The chain of the audit's lines: whether its past was rewritten, and where.

Goals
    A reader notices when somebody removes, adds or changes a line of the past, even somebody with a
    key.
Constraints
    Pure. Old lines are dropped: what is left must still be proven.
Algorithm
    Each line is written with the hash of the line before it, and its own hash is over that, its key
    and its body (Haber and Stornetta 1991). The manifest has the newest line's hash and the keys of
    the newest and the oldest line. From the newest one `verified` goes back by hashes; it must end
    at the oldest line. A line that is not met on the way is no part of the chain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from kshunt.backend.operations.journal.entries import AuditSpan, Body, EntryKind, JournalState

NOTHING: Final = ""
"""The hash before the first line."""
NAMED_MAX: Final = 20
"""Lines that are named; others are counted."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of the chain."""

    lines: int
    """That are proven."""
    problems: tuple[str, ...] = ()
    """One sentence each; empty where nothing was rewritten."""
    newest: str = ""
    """Key of the newest line."""
    head: str = ""
    """Its hash."""


def line_hash(key: str, body: Body, previous: str) -> str:
    """The hash of a line.

    Args:
        key: of the line's entry.
        body: of the entry.
        previous: the hash of the line before, or `NOTHING`.
    """
    text = json.dumps([key, body, previous], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Chained:
    """A chain with more lines, or fewer."""

    span: AuditSpan
    links: Mapping[str, tuple[str, str]]
    """Of each line of it: the hash of the one before, and its own."""


def chained(
    span: AuditSpan, links: Mapping[str, tuple[str, str]], lines: Mapping[str, Body | None]
) -> Chained:
    """The chain after an append.

    Args:
        span: Before it.
        links: Of the lines that there are.
        lines: What is written, in its order; None removes a line. A line that is there is written
            once more.
    """
    after, head, newest, oldest = dict(links), span.head, span.newest, span.oldest
    for key, body in lines.items():
        if body is None:
            after.pop(key, None)
        elif key not in after:
            after[key] = head, line_hash(key, body, head)
            head, newest, oldest = after[key][1], key, oldest or key
    if oldest not in after or any(body is None for body in lines.values()):
        oldest = _oldest(after, head)
    return Chained(AuditSpan(oldest, newest, head), after)


def _oldest(links: Mapping[str, tuple[str, str]], head: str) -> str:
    """Where the way back from the newest line ends."""
    by_hash = {own: (key, before) for key, (before, own) in links.items()}
    found = ""
    while head in by_hash:
        found, head = by_hash[head]
    return found


def verified(state: JournalState, remembered: str = "") -> Verification:
    """Go along the chain.

    `remembered` is the key of a line that this host knows to have been written.
    """
    lines = {entry.key: entry for entry in state.of(EntryKind.AUDIT).values()}
    hashes = {
        line_hash(key, entry.body, entry.header.previous): key for key, entry in lines.items()
    }
    span = state.audit or AuditSpan()
    met: list[str] = []
    problems: list[str] = []
    wanted, after = span.head, "the manifest"
    while wanted != NOTHING:
        key = hashes.get(wanted)
        if key is None:
            if after != span.oldest:
                problems.append(f"The line before {after} was changed or removed.")
            break
        met.append(key)
        wanted, after = lines[key].header.previous, key
    problems += _odd([key for key in lines if key not in set(met)])
    problems += _remembered(lines, span, remembered)
    return Verification(len(met), tuple(problems), span.newest, span.head)


def _odd(keys: list[str]) -> list[str]:
    some = sorted(keys)
    found = [f"The line {key} does not belong to the chain." for key in some[:NAMED_MAX]]
    return found + ([f"{len(some) - NAMED_MAX} more are not."] if len(some) > NAMED_MAX else [])


def _remembered(lines: Mapping[str, Any], span: AuditSpan, key: str) -> list[str]:
    """Whether the journal was cut off, or an older one was brought back."""
    if key in lines or not key or (span.oldest and key < span.oldest):
        return []
    return [
        f"This host knows the line {key}, but the journal does not have it: the end of the "
        "journal was cut off."
    ]
