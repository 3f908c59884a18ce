"""What is typed into the fields of wizards, as values."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from kshunt.backend.domain.throttles.configs import ReplicaSet, parse_rate
from kshunt.backend.errors import BadInput

RATE_HINT: Final = "50MB/s, 4MiB/s, 10485760, or none"
LIST_HINT: Final = "partition:broker pairs (0:101,0:102), * for all, or none"
EVERY_OPERATION: Final = "all"
SAME: Final = "same"
DELAY_HINT: Final = "how long without new records before the copy: 0, 30s, 5m, 1h30m"

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_CODE: Final = re.compile(r"[a-z0-9-]{1,64}")
_SPAN: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS_S: Final = (86_400, 3_600, 60, 1)
_DELAY_DAYS_MOST: Final = 365


def a_rate(text: str) -> int | None:
    """A rate; None for none.

    Raises:
        BadInput: it is no rate, or nothing was typed.
    """
    if not text.strip():
        raise BadInput("Type a rate, or none for no throttle.")
    return parse_rate(text)


def default_caps() -> str:
    """The backend's own caps, as an operator types them."""
    from kshunt.backend.api.client.operations import DEFAULT_CAPS

    return f"{DEFAULT_CAPS.per_broker}/{DEFAULT_CAPS.in_cluster}"


def broker_ids(text: str) -> tuple[int, ...]:
    """Ids with commas between them.

    Raises:
        BadInput: they are not.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput("Type the ids of the brokers, with commas between them.")
    return tuple(sorted({int(part) for part in parts}))


def an_operation(text: str, known: Collection[str]) -> str:
    """The id of an operation, or `all`.

    Raises:
        BadInput: there is none of that id.
    """
    if text.strip() not in {EVERY_OPERATION, *known}:
        raise BadInput(f"There is no operation {text.strip()} here; type all for every one.")
    return text.strip()


def fewer_than(text: str, there: int) -> int:
    """A number of partitions that is smaller.

    Raises:
        BadInput: it is not.
    """
    typed = text.strip()
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 9):
        raise BadInput(f"Type a number from 1 to {there - 1}.")
    if not 1 <= int(typed) < there:
        raise BadInput(f"It has {there}: type a number from 1 to {there - 1}.")
    return int(typed)


def number_within(text: str, least: int, most: int) -> int:
    """A whole number in a range.

    Raises:
        BadInput: it is none, or outside.
    """
    typed = text.strip()
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 9):
        raise BadInput(f"Type a number from {least} to {most}.")
    if not least <= int(typed) <= most:
        raise BadInput(f"{typed} is not from {least} to {most}.")
    return int(typed)


def a_delay(text: str) -> int:
    """Milliseconds, from `0`, `90s`, `5m`, `1h30m`, `2d`.

    Raises:
        BadInput: it is no time, or longer than a year.
    """
    typed = text.strip()
    if typed == "0":
        return 0
    found = _SPAN.fullmatch(typed)
    parts = found.groups() if found is not None else ()
    if not any(parts) or len(typed) > 12:
        raise BadInput(f"'{typed}' is not a time; type 0, or one such as 30s, 5m, 1h30m.")
    span_s = sum(int(part or 0) * unit for part, unit in zip(parts, _UNITS_S, strict=True))
    if span_s > _DELAY_DAYS_MOST * _UNITS_S[0]:
        raise BadInput("A delay is at most a year.")
    return span_s * 1000


def a_new_name(text: str, topic: str, known: Collection[str]) -> str:
    """The name of a topic that there is not; empty for `same`.

    Raises:
        BadInput: it is no name, or a topic has it.
    """
    typed = text.strip()
    if typed == SAME:
        return ""
    if typed == topic:
        raise BadInput(f"{topic} is its present name: type {SAME} to keep it.")
    if not _NAME.fullmatch(typed) or typed in (".", ".."):
        raise BadInput(f"'{typed}' cannot be a topic's name: letters, digits, . _ and - only.")
    if typed in known:
        raise BadInput(f"There is already a topic {typed}.")
    return typed


def throttled_replicas(
    text: str, topic: str, partitions: int, brokers: Collection[int], present: ReplicaSet
) -> ReplicaSet:
    """A list of replicas; what is in it already may stay.

    Raises:
        BadInput: it is no list, or names a partition or a broker that there is not.
    """
    found = ReplicaSet.parse(text)
    for partition, broker in sorted(found.pairs - present.pairs):
        if partition >= partitions:
            known = f"{topic} has partitions 0 to {partitions - 1}"
            raise BadInput(f"{partition}:{broker} cannot be: {known}.")
        if broker not in brokers:
            raise BadInput(f"{partition}:{broker} cannot be: there is no broker {broker}.")
    return found


def yes_or_no(text: str) -> bool:
    """A choice.

    Raises:
        BadInput: it is neither.
    """
    typed = text.strip().lower()
    if typed not in ("yes", "no", "y", "n"):
        raise BadInput("Type yes or no.")
    return typed.startswith("y")


def codes(text: str) -> tuple[str, ...]:
    """Codes of findings, with commas or blanks between them; `none` and nothing are none.

    Raises:
        BadInput: one cannot be a code.
    """
    typed = [one for one in re.split(r"[,\s]+", text.strip()) if one]
    if typed == ["none"]:
        return ()
    wrong = [one for one in typed if not _CODE.fullmatch(one)]
    if wrong:
        raise BadInput(f"'{wrong[0]}' is not a code; the preview lists the codes.")
    return tuple(dict.fromkeys(typed))
