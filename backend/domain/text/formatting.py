"""Sizes, times and lists in the words that an operator reads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "?"
NEVER: Final = "never"
_UNITS_S: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))


def size_text(size_bytes: float) -> str:
    """Bytes in SI units with three digits: `71.2 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.4g} PB"


def time_words(milliseconds: float) -> str:
    """A duration in its largest unit, two digits at least: `3.5 h`, `40 s`, `12 d`."""
    seconds = max(milliseconds, 0.0) / 1000
    for unit, length in _UNITS_S:
        if seconds >= length:
            count = seconds / length
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def duration_text(seconds: float) -> str:
    """A duration in at most six characters: `8s`, `2m13s`, `1h04m`, `3d02h`, `120d`.

    `never` for infinity, and `?` for what is not known (NaN, or below 0).
    """
    if math.isnan(seconds) or seconds < 0:
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


def moment_text(at_ms: int) -> str:
    """A moment in milliseconds since the epoch: `2026-11-23 06:00:00 UTC`."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def many(count: int, noun: str, nouns: str = "") -> str:
    """`1 partition`, `2,000 partitions`; `nouns` where an s is not all."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """`a, b, c and 7 more`."""
    names = [str(item) for item in items]
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
