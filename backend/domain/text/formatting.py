"""Sizes, rates, durations, moments, counts and lists in the words that an operator reads.

Whatever writes one of them asks here: the dashboard, the tools, the reports, the backend's own
sentences. What is not known is `?`, and never 0. Units are SI (1 MB is 10**6 bytes), as
`kshunt.backend.domain.throttles.configs.parse_rate` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "?"
NEVER: Final = "never"
NOT_AT_THIS_RATE: Final = "not at this rate"
NONE: Final = "none"
"""No throttle is set."""

_BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_COUNT_UNITS: Final = ("", "k", "M", "G", "T", "P", "E")


def bytes_text(size_bytes: float | None, *, tight: bool = False) -> str:
    """A size in at most seven characters: `1.23 GB`; `1.23GB`, six of them, if `tight`.

    `?` for what is not known (None, NaN, or below 0).
    """
    if size_bytes is None or math.isnan(size_bytes) or size_bytes < 0:
        return UNKNOWN
    return _scaled(size_bytes, _BYTE_UNITS, "" if tight else " ")


def rate_text(bytes_per_s: float | None, *, tight: bool = False) -> str:
    """Bytes a second in at most ten characters: `12.3 MB/s`; `12.3MB`, at most six, if `tight`.

    `?` for what is not known (None or NaN). What falls behind has a rate below 0.
    """
    if bytes_per_s is None or math.isnan(bytes_per_s):
        return UNKNOWN
    if tight:
        # The sign takes the place of a figure.
        return _scaled(bytes_per_s, _BYTE_UNITS, "", 3 if bytes_per_s >= 0 else 2)
    return _scaled(bytes_per_s, _BYTE_UNITS, " ") + "/s"


def terse_rate_text(bytes_per_s: float) -> str:
    """Bytes a second in at most four characters, of 0 or more: `8.3M`, `25M`, `950k`, `?`."""
    return UNKNOWN if math.isnan(bytes_per_s) else _scaled(bytes_per_s, _COUNT_UNITS, "", 2)


def limit_text(bytes_per_s: float | None, *, tight: bool = False) -> str:
    """The rate of a throttle: as `rate_text`, and `none` where none is set."""
    return NONE if bytes_per_s is None else rate_text(bytes_per_s, tight=tight)


def exact_rate_text(bytes_per_s: int | None) -> str:
    """The rate of a throttle with all its figures, for records: `50 MB/s`, `26.2144 MB/s`.

    `parse_rate` reads it back. `none` where none is set.
    """
    if bytes_per_s is None:
        return NONE
    for figures, unit in ((9, "GB/s"), (6, "MB/s"), (3, "kB/s")):
        whole, rest = divmod(bytes_per_s, 10**figures)
        if whole:
            after = f"{rest:0{figures}d}".rstrip("0")
            return f"{whole}{'.' if after else ''}{after} {unit}"
    return f"{bytes_per_s} B/s"


def count_text(count: float | None, *, tight: bool = False) -> str:
    """A count: `10,456`; `12.3M`, at most five characters, if `tight`.

    `?` for what is not known (None, NaN, or below 0).
    """
    if count is None or math.isnan(count) or count < 0:
        return UNKNOWN
    if tight:
        return f"{count:.0f}" if count < 99_999.5 else _scaled(count, _COUNT_UNITS, "")
    return f"{count:,.0f}"


def message_rate_text(messages_per_s: float) -> str:
    """Messages a second: `2,500/s`, `-40/s`; `?` for NaN."""
    return UNKNOWN if math.isnan(messages_per_s) else f"{round(messages_per_s):,}/s"


def _scaled(value: float, units: Sequence[str], gap: str, figures: int = 3) -> str:
    """The value with `figures` significant figures and a unit: `999 B`, `1.00 kB`, `12.3 MB`."""
    size = abs(value)
    if round(size) < 1000:
        return f"{round(value)}{gap if units[0] else ''}{units[0]}"
    power = 0
    # 999.5 would be written 1000: such a value belongs to the next unit.
    while size >= 999.5 and power < len(units) - 1:
        size /= 1000
        power += 1
    # Rounded, 9.96 in two figures has one more digit before the point than it had.
    whole = 1 if size < 10 - 5 / 10**figures else 2 if size < 100 - 50 / 10**figures else 3
    digits = max(figures - whole, 0)
    sign = "-" if value < 0 else ""
    return f"{sign}{size:.{digits}f}{gap}{units[power]}"


def duration_text(seconds: float | None) -> str:
    """A duration in at most six characters: `8s`, `2m13s`, `1h04m`, `3d02h`, `120d`.

    `never` for infinity, and `?` for what is not known (None, NaN, or below 0).
    """
    if seconds is None or math.isnan(seconds) or seconds < 0:
        return UNKNOWN
    if math.isinf(seconds):
        return NEVER
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    days = whole // 86_400
    return f"{days}d{whole % 86_400 // 3600:02d}h" if days < 100 else f"{min(days, 99_999)}d"


def eta_text(seconds: float, width: int = len(NOT_AT_THIS_RATE)) -> str:
    """Time left, as `duration_text`; if it never ends, `not at this rate` where so much fits."""
    if math.isinf(seconds):
        return NOT_AT_THIS_RATE if width >= len(NOT_AT_THIS_RATE) else NEVER
    return duration_text(seconds)


def moment_text(at_ms: float | None) -> str:
    """A moment in milliseconds since the epoch: `2026-11-23 06:00:00 UTC`; `?` for None."""
    if at_ms is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def file_time_text(at_ms: float) -> str:
    """A moment in the name of a file: UTC, as `20261126T063027Z`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"


def clock_text(at_ms: float, *, seconds: bool = False) -> str:
    """The time of day of a moment in milliseconds since the epoch, in UTC: `03:04`, `03:04:05`."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%H:%M:%S}" if seconds else f"{at:%H:%M}"


def percent_text(share: float | None) -> str:
    """A share of 1: `46%`; `?` for what is not known (None or NaN)."""
    return UNKNOWN if share is None or math.isnan(share) else f"{share:.0%}"


def percent_done_text(share: float | None) -> str:
    """As `percent_text`, but rounded down: `100%` is said at the end only."""
    if share is None or math.isnan(share):
        return UNKNOWN
    return f"{math.floor(share * 100)}%"


def many(count: int, noun: str, nouns: str = "") -> str:
    """`1 partition`, `2,000 partitions`; `nouns` where an s is not all."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """`a, b, c and 7 more`."""
    names = [str(item) for item in items]
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def printable(text: str) -> str:
    """The text without what a terminal would obey: a plan may hold any characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
