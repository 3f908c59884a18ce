"""What is typed into the fields of the plan wizard, as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC
from fnmatch import fnmatchcase
from typing import Final

from kshunt.backend.domain.planning.goals import (
    THROTTLES_MAX,
    Goal,
    Weighing,
    parse_size,
)
from kshunt.backend.domain.text.deadlines import deadline_ms
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import parse_rate
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.parsing import yes_or_no as yes_or_no

ALL: Final = "all"
NOTHING: Final = "none"
PATTERNS_MOST: Final = 1_000
"""Of topics, in one question."""
TOLERANCE_MOST: Final = 10.0

_PATTERN: Final = re.compile(r"[a-zA-Z0-9._*?\[\]!-]{1,249}")
_PERCENT: Final = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*%?", re.ASCII)
_SIZE_MOST: Final = 2**63 - 1


@dataclass(frozen=True)
class ShownCluster:
    """The cluster that was on the screen, as far as fields are about it."""

    brokers: Collection[int]
    """Every broker that there is, or that is in a list of replicas, by id."""
    topics: Sequence[str]
    paths: Sequence[str] = ()
    """Of log directories, each once."""


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[,\s]+", text.strip()) if part]


def brokers(text: str, goal: Goal, known: Collection[int]) -> tuple[int, ...]:
    """Ids in the order in which they are typed, each once. The goal limits their number.

    Raises:
        BadInput: they are no ids, too few or too many, or there is no such broker.
    """
    parts = _parts(text)
    if not parts or not all(p.isascii() and p.isdigit() and len(p) <= 10 for p in parts):
        raise BadInput("Type the ids of brokers, with commas between them.")
    found = tuple(dict.fromkeys(int(part) for part in parts))
    for id in found:
        if id not in known:
            raise BadInput(f"There is no broker {id}; the brokers are {listed(sorted(known), 12)}.")
    if goal is Goal.REPLACE and len(found) != 2:
        raise BadInput("Type two brokers: the old one, then the new one.")
    if goal is Goal.MOVE_LOG_DIRS and len(found) != 1:
        raise BadInput("Type one broker: directories are on one broker at a time.")
    if goal is Goal.DRAIN and set(found) >= set(known):
        raise BadInput("No broker would be left to take the replicas.")
    return found


def patterns(text: str, topics: Collection[str]) -> tuple[str, ...]:
    """Topics, or patterns of their names; each fits one at least.

    Raises:
        BadInput: one is no name and no pattern, or fits no topic, or nothing was typed.
    """
    found = _patterns(text)
    if not found:
        raise BadInput("Type topics, or * for all of them.")
    names = set(topics)
    for one in found:
        if one not in names and not any(fnmatchcase(name, one) for name in topics):
            raise BadInput(f"No topic matches '{one}'.")
    return found


def excluded(text: str) -> tuple[str, ...]:
    """Topics that stay as they are; `none` and nothing are none.

    Raises:
        BadInput: one is no name and no pattern.
    """
    return () if text.strip() == NOTHING else _patterns(text)


def _patterns(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_parts(text)))
    for one in found:
        if not _PATTERN.fullmatch(one):
            raise BadInput(f"'{one}' is not a topic: letters, digits, . _ - and * ? [...] only.")
    if len(found) > PATTERNS_MOST:
        raise BadInput(f"{len(found):,} topics are too many to name; type a pattern such as pay*.")
    return found


def a_weighing(text: str) -> Weighing:
    """What is levelled.

    Raises:
        BadInput: there is no such thing.
    """
    typed = text.strip().lower()
    fitting = [one for one in Weighing if typed and one.value.startswith(typed)]
    if len(fitting) != 1:
        raise BadInput("Type bytes, replicas, or load.")
    return fitting[0]


def a_tolerance(text: str) -> float:
    """A share of the mean: 0.1 for `10%`.

    Raises:
        BadInput: it is no percentage, or more than any cluster needs.
    """
    share = _percent(text)
    if share > TOLERANCE_MOST:
        raise BadInput(f"A tolerance is at most {TOLERANCE_MOST:.0%}.")
    return share


def a_share(text: str) -> float:
    """A share of a disk, above 0 and at most 1, from a percentage.

    Raises:
        BadInput: it is not.
    """
    share = _percent(text)
    if not 0 < share <= 1:
        raise BadInput("Type a percentage above 0 and at most 100%.")
    return share


def _percent(text: str) -> float:
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"'{text.strip()}' is not a percentage; type one such as 10%.")
    return float(found.group(1)) / 100


def a_limit(text: str) -> int | None:
    """Bytes; None for `none`.

    Raises:
        BadInput: it is no size.
    """
    typed = text.strip()
    if typed.lower() == NOTHING:
        return None
    try:
        return min(parse_size(typed), _SIZE_MOST)
    except BadInput:
        raise BadInput(f"'{typed}' is not a size; type one such as 500GB, or {NOTHING}.") from None


def a_factor(text: str, brokers: int) -> int:
    """A replication factor that this number of brokers can hold.

    Raises:
        BadInput: it is not.
    """
    typed = text.strip()
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 4):
        raise BadInput(f"Type a number from 1 to {brokers}.")
    if not 1 <= int(typed) <= brokers:
        raise BadInput(f"There are {brokers} brokers: type a number from 1 to {brokers}.")
    return int(typed)


def directories(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Paths, with commas between them; none of them for `all`.

    Raises:
        BadInput: no broker has such a directory, or nothing was typed.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if parts == [ALL]:
        return ()
    if not parts:
        raise BadInput(f"Type {ALL}, or the directories to empty.")
    for part in parts:
        if known and part not in known:
            raise BadInput(f"No broker has a directory {part}; there are {listed(known, 4)}.")
    return tuple(dict.fromkeys(parts))


def throttles(text: str) -> tuple[int | None, ...]:
    """Rates to rehearse, each once, with commas between them; None for `none`; empty for nothing.

    Raises:
        BadInput: one is no rate, or they are too many for one question.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(dict.fromkeys(parse_rate(part) for part in parts))
    if len(found) > THROTTLES_MAX:
        raise BadInput(f"{len(found)} throttles are too many; the maximum is {THROTTLES_MAX}.")
    return found


def a_deadline(text: str, now_ms: int) -> int | None:
    """A deadline by the clock of UTC, as everything on the screen is, in milliseconds since the
    epoch; None for `none` or nothing.

    Raises:
        BadInput: it is none, or over.
    """
    typed = text.strip()
    if typed.lower() in ("", NOTHING):
        return None
    return deadline_ms(typed, now_ms, UTC)
