"""The filter line of the partitions view: from text to terms (`tui.tables.masks` applies them).

A row passes if every term holds. A bare word looks for itself in the topic's name; a leading `-`
turns a term round::

    payments moving          topics with "payments" in their name, of partitions that move
    topic:pay* broker:3,4    a pattern over the whole name; replicas on broker 3 or 4
    behind:>1000 -throttled  more than 1,000 messages behind and in no throttle list
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from backend.errors import BadInput

WORDS: Final = (
    "moving",
    "behind",
    "insync",
    "unknown",
    "offline",
    "leader",
    "follower",
    "adding",
    "removing",
    "throttled",
    "stale",
    "stuck",
    "misled",
)
"""Terms that name a state of a replica; see `tui.tables.masks`."""

FIELDS: Final = ("topic", "partition", "broker", "behind", "lag", "size")
_COMPARISON = re.compile(r"^(>=|<=|>|<|=)?(\d+(?:\.\d+)?)([kmgt]?)b?$", re.IGNORECASE)
_POWERS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter."""

    field: str
    """One of `FIELDS`, `word` for one of `WORDS`, or `text` for a part of a topic's name."""
    value: str
    negated: bool = False


def parse_filter(text: str) -> tuple[Term, ...]:
    """The terms of a filter line.

    Raises:
        BadInput: a term cannot be meant; the message says which and what can be typed.
    """
    return tuple(_term(word) for word in text.split())


def _term(word: str) -> Term:
    negated = word.startswith("-") and len(word) > 1
    body = word[1:] if negated else word
    name, colon, value = body.partition(":")
    if not colon:
        field = "word" if body.lower() in WORDS else "text"
        return Term(field, body.lower(), negated)
    if name.lower() not in FIELDS:
        raise BadInput(
            f"'{name}:' is no filter.",
            advice=f"Fields are {', '.join(FIELDS)}; words match topics.",
        )
    term = Term(name.lower(), value, negated)
    _check(term)
    return term


def _check(term: Term) -> None:
    if not term.value:
        raise BadInput(
            f"'{term.field}:' needs a value.", advice=f"For example {_EXAMPLE[term.field]}."
        )
    if term.field in ("partition", "broker"):
        numbers_of(term)
    elif term.field != "topic":
        comparison_of(term)


_EXAMPLE: Final = {
    "topic": "topic:pay*",
    "partition": "partition:0,1",
    "broker": "broker:3",
    "behind": "behind:>1000",
    "lag": "lag:>1GB",
    "size": "size:>10GB",
}


def numbers_of(term: Term) -> list[int]:
    """The ids that a term lists."""
    parts = term.value.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 11 for part in parts):
        raise BadInput(f"'{term.value}' is no list of ids.", advice=_EXAMPLE[term.field])
    return [int(part) for part in parts]


def comparison_of(term: Term) -> tuple[str, float]:
    """The sign and the bound that a term compares with; no sign means "at least"."""
    match = _COMPARISON.match(term.value)
    if match is None:
        raise BadInput(
            f"'{term.value}' is no comparison.", advice=f"For example {_EXAMPLE[term.field]}."
        )
    return match[1] or ">=", float(match[2]) * _POWERS[match[3].lower()]
