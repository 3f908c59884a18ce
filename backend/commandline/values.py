"""Values of flags that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.domain.audit.requester_limits import REASON_MAX

REASON_HELP: Final = (
    f"The reason, for the audit (kshunt audit shows it); at most {REASON_MAX} characters."
)
DEFAULT_TIMEOUT_MS: Final = 10_000
TIMEOUT_MS_MAX: Final = 600_000
"""How long a change may take to begin."""
ANSWER_MARGIN_S: Final = 20.0
"""A backend may take this much longer than the --timeout that it hands to the cluster."""


def reason(given: Mapping[str, str]) -> str:
    """Why a change is made, or empty where nothing was given.

    Raises:
        UsageError: it is empty or too long.
    """
    if "reason" not in given:
        return ""
    text = _sound(given["reason"]).strip()
    if not text:
        raise UsageError("Option reason requires an argument")
    if len(text) > REASON_MAX:
        raise UsageError(
            f"The argument of option reason has {len(text)} characters; the maximum is {REASON_MAX}"
        )
    return text


def _sound(text: str) -> str:
    """The text without what UTF-8 cannot write: bytes of the command line that were no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def path_of(given: Mapping[str, str], name: str) -> Path | None:
    """The absolute path that a flag names, or None."""
    text = given.get(name)
    return None if text is None else Path(text).absolute()


def whole(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """A whole number of at most sixteen digits, or None where the flag was not given.

    Raises:
        UsageError: it is no such number, or not within `least` and `most`.
    """
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise UsageError(
            f"Cannot parse argument '{text}' of option {name}: a whole number from {least} to "
            f"{most} is needed"
        )
    return int(text)


def between(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number within these bounds."""

    def read(text: str) -> int:
        number = whole_number(text)
        if not least <= number <= most:
            raise ValueError(f"{text} is not from {least} to {most}")
        return number

    return read


def whole_number(text: str) -> int:
    """A whole number of at most sixteen digits.

    Raises:
        ValueError: the text is not such a number.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise ValueError(f"'{text}' is not a whole number")
    return int(text)


def days(text: str) -> int:
    """A number of days, at least one.

    Raises:
        ValueError: the text is not such a number.
    """
    number = whole_number(text)
    if number < 1:
        raise ValueError("it is a number of days, at least 1")
    return number
