"""The filter line of the partitions view: from text to terms
(`kshunt.tui.views.partitions.filter_masks` applies them).

A row passes if every term holds. A bare word looks for itself in the topic's name; a leading `-`
reverses a term::

    payments moving          topics with "payments" in their name, of partitions that move
    topic:pay* broker:3,4    a pattern over the whole name; replicas on broker 3 or 4
    behind:>1000 -throttled  more than 1,000 messages behind and in no throttle list
    eta:>10m rate:<1MB       not done within ten minutes, and slower than 1 MB/s
    leader:2 op:1f3a         fed by broker 2, and moved by an operation whose id begins with 1f3a
    mode:readonly,none       of partitions that are about to be deleted, or being deleted
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY, PartitionMode
from kshunt.backend.errors import BadInput

ABOUT_WORDS: Final[Mapping[str, str]] = {
    "moving": "partitions that gain or lose a replica",
    "behind": "out of the in-sync set, by a known lag",
    "insync": "in the in-sync set",
    "unknown": "out of the in-sync set, by an unknown lag",
    "offline": "its broker or its directory is down",
    "leader": "leads its partition",
    "follower": "does not lead",
    "adding": "being copied",
    "removing": "is removed when the copy is done",
    "throttled": "in a throttle list",
    "stale": "its broker has not answered in time",
    "stuck": "cannot arrive without help",
    "misled": "preferred, but another replica leads",
}
WORDS: Final = tuple(ABOUT_WORDS)
"""Terms that name a state of a replica; see `kshunt.tui.views.partitions.filter_masks`."""

EXAMPLES: Final[Mapping[str, str]] = {
    "topic": "topic:pay*",
    "partition": "partition:0,1",
    "broker": "broker:3",
    "leader": "leader:2",
    "behind": "behind:>1000",
    "lag": "lag:>1GB",
    "size": "size:>10GB",
    "rate": "rate:<1MB",
    "eta": "eta:>10m",
    "op": "op:1f3a",
    "mode": "mode:readonly",
}
ABOUT_FIELDS: Final[Mapping[str, str]] = {
    "topic": "the whole name, * for any text",
    "partition": "one number or several",
    "broker": "brokers that hold the replica, one id or several",
    "leader": "brokers that lead the partition, and so send its copies",
    "behind": "messages behind, more or less than",
    "lag": "bytes behind, more or less than",
    "size": "bytes on disk, more or less than",
    "rate": "bytes caught up a second, more or less than",
    "eta": "time left, more or less than; eta:never for not at this rate",
    "op": "the operation that moves it, by the first characters of its id",
    "mode": "readonly (about to be deleted), none (being deleted) or readwrite",
}
FIELDS: Final = tuple(EXAMPLES)

NEVER: Final = "never"
_SIGNS = "(>=|<=|>|<|=)?"
_COMPARISON = re.compile(rf"^{_SIGNS}(\d+(?:\.\d+)?)([kmgt]?)(?:b?|b/s)$", re.IGNORECASE)
_DURATION = re.compile(rf"^{_SIGNS}(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?$", re.IGNORECASE)
_POWERS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_IDS: Final = ("partition", "broker", "leader")
_NAMES: Final = ("topic", "op")


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
            f"'{name}:' is not a filter.",
            advice=f"Fields are {', '.join(FIELDS)}; words match topics.",
        )
    term = Term(name.lower(), value, negated)
    _check(term)
    return term


def _check(term: Term) -> None:
    if not term.value:
        raise BadInput(
            f"'{term.field}:' needs a value.", advice=f"For example {EXAMPLES[term.field]}."
        )
    if term.field in _IDS:
        numbers_of(term)
    elif term.field == "mode":
        modes_of(term)
    elif term.field not in _NAMES:
        comparison_of(term)


def numbers_of(term: Term) -> list[int]:
    """The ids that a term lists."""
    parts = term.value.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 11 for part in parts):
        raise BadInput(
            f"'{term.value}' is not a list of ids.", advice=f"For example {EXAMPLES[term.field]}."
        )
    return [int(part) for part in parts]


def modes_of(term: Term) -> list[PartitionMode]:
    """The modes that a term lists."""
    parts = term.value.lower().split(",")
    if not all(part in MODES_BY_KEY for part in parts):
        raise BadInput(
            f"'{term.value}' is not a mode.", advice=f"Modes are {', '.join(MODES_BY_KEY)}."
        )
    return [MODES_BY_KEY[part] for part in parts]


def comparison_of(term: Term) -> tuple[str, float]:
    """The sign and the bound that a term compares with; no sign means "at least".

    Durations are in seconds; `never` is longer than any.
    """
    found = _time(term.value) if term.field == "eta" else _amount(term.value)
    if found is None:
        raise BadInput(
            f"'{term.value}' is not a comparison.", advice=f"For example {EXAMPLES[term.field]}."
        )
    return found


def _amount(text: str) -> tuple[str, float] | None:
    match = _COMPARISON.match(text)
    if match is None or not text.isascii():
        return None
    return match[1] or ">=", float(match[2]) * _POWERS[match[3].lower()]


def _time(text: str) -> tuple[str, float] | None:
    """`>10m`, `<1h30m`, `45s`, `90` (seconds), `never`."""
    if text.lower() == NEVER:
        return "=", float("inf")
    match = _DURATION.match(text)
    parts = match.groups()[1:] if match is not None and text.isascii() else ()
    if match is None or not any(parts):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in parts)
    return match[1] or ">=", ((days * 24 + hours) * 60 + minutes) * 60 + seconds
