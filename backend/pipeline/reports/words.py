"""How a report writes numbers, times and names. Unknown is `?`, and never 0."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

from kshunt.backend.domain.text import formatting
from kshunt.backend.domain.text.formatting import UNKNOWN

_BYTES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Drawn as nothing, although their category says otherwise."""
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def number_of(value: float | None) -> float:
    """The value, or NaN where it is not known."""
    return math.nan if value is None else float(value)


def bytes_text(value: float | None) -> str:
    """`1.23 GB`; what is below 0 is unknown."""
    size = number_of(value)
    if math.isnan(size) or size < 0:
        return UNKNOWN
    power = 0
    while power < len(_BYTES) - 1 and size >= 999.5:
        size /= 1000
        power += 1
    digits = 0 if power == 0 else 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {_BYTES[power]}"


def rate_text(value: float | None) -> str:
    """`1.23 MB/s`."""
    text = bytes_text(value)
    return text if text == UNKNOWN else f"{text}/s"


def limit_text(value: float | None) -> str:
    """A throttle's rate; `no limit` where there is none."""
    return "no limit" if value is None else rate_text(value)


def share_text(value: float | None) -> str:
    """`93 %`."""
    share = number_of(value)
    return UNKNOWN if math.isnan(share) else f"{100 * share:.0f} %"


def duration_text(seconds: float | None) -> str:
    """`8s`, `2m13s`, `1h04m`, `3d02h`; `never` for infinity."""
    return formatting.duration_text(number_of(seconds))


def utc(at_ms: float | None) -> str:
    """`2026-11-22 03:04:05Z`."""
    return UNKNOWN if at_ms is None else f"{_when(at_ms):%Y-%m-%d %H:%M:%S}Z"


def clock(at_ms: float, *, seconds: bool = True) -> str:
    """`03:04:05`, or `03:04`."""
    return f"{_when(at_ms):%H:%M:%S}" if seconds else f"{_when(at_ms):%H:%M}"


def day(at_ms: float) -> str:
    """`11-22 03:04`."""
    return f"{_when(at_ms):%m-%d %H:%M}"


def brokers_text(brokers: list[int], most: int = 12) -> str:
    """`1, 2 and 5`; `none` where there is none."""
    if not brokers:
        return "none"
    if len(brokers) > most:
        return f"{', '.join(map(str, brokers[:most]))} and {len(brokers) - most} more"
    *others, last = map(str, brokers)
    return f"{', '.join(others)} and {last}" if others else last


def visible(text: str) -> str:
    """The text on one line, with every character visible: those that hide become `[U+202E]`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs" or character in "\t\r\n":
        return " "
    hidden = category in _UNSEEN or _BLANK.match(character) or _SELECTORS.match(character)
    return f"[U+{ord(character):04X}]" if hidden else character


def _when(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
