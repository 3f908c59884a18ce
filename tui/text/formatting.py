"""How values are written for an operator: bytes, rates, durations, names. Pure functions.

Unknown is `?` everywhere and never 0. Units are SI (1 MB is 10**6 bytes), the same that
`kshunt.backend.domain.throttles.configs.parse_rate` reads, so what is shown can be typed back.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from kshunt.backend.domain.text.formatting import NEVER, UNKNOWN, many
from kshunt.backend.domain.text.formatting import duration_text as duration_text

plural = many
UNKNOWN_TEXT: Final = UNKNOWN
NEVER_SHORT: Final = NEVER
NEVER_TEXT: Final = "not at this rate"

_BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_COUNT_UNITS: Final = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that are not letters; each takes one cell."""

    mark: str
    """A row that was marked."""
    preferred: str
    """The preferred replica of its partition."""
    ascending: str
    descending: str
    ellipsis: str
    dot: str
    """Between two facts on one line."""
    rule: str
    """A horizontal line."""
    alert: str
    arrow: str
    spark: bool
    """True where braille can be shown."""


UNICODE: Final = Glyphs("✓", "*", "▴", "▾", "…", "·", "─", "!", "→", True)
ASCII: Final = Glyphs("x", "*", "^", "v", "~", "-", "-", "!", ">", False)


def _scaled(value: float, units: Sequence[str], gap: str, figures: int = 3) -> str:
    """So many significant figures and a unit: `999 B`, `1.00 kB`, `12.3 MB`."""
    size = abs(value)
    if round(size) < 1000:
        return f"{value:.0f}{gap if units[0] else ''}{units[0]}"
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


def bytes_text(value: float, *, tight: bool = False) -> str:
    """A number of bytes: `1.23 GB`, or `1.23GB` where room is short; negative is unknown."""
    if math.isnan(value) or value < 0:
        return UNKNOWN_TEXT
    return _scaled(value, _BYTE_UNITS, "" if tight else " ")


def rate_text(bytes_per_s: float | None, *, tight: bool = False) -> str:
    """A rate: `12.3 MB/s`, or `12.3MB` where room is short; `none` where no rate is set."""
    if bytes_per_s is None:
        return "none"
    if math.isnan(bytes_per_s):
        return UNKNOWN_TEXT
    if tight:
        # The sign takes the cell of a figure, so that tight rates never pass six cells.
        return _scaled(bytes_per_s, _BYTE_UNITS, "", 3 if bytes_per_s >= 0 else 2)
    return _scaled(bytes_per_s, _BYTE_UNITS, " ") + "/s"


def count_text(value: float, *, tight: bool = False) -> str:
    """A count: `10,456`, or `12.3M` where room is short; negative is unknown."""
    if math.isnan(value) or value < 0:
        return UNKNOWN_TEXT
    if tight:
        return f"{value:.0f}" if value < 99_999.5 else _scaled(value, _COUNT_UNITS, "")
    return f"{value:,.0f}"


def speed_text(per_s: float, *, tight: bool = False) -> str:
    """Messages a second, with its sign."""
    if math.isnan(per_s):
        return UNKNOWN_TEXT
    sign = "-" if per_s < 0 and round(abs(per_s)) else ""
    return f"{sign}{count_text(abs(per_s), tight=tight)}{'' if tight else '/s'}"


def eta_text(seconds: float, width: int = len(NEVER_TEXT)) -> str:
    """Time left; `not at this rate` where it never ends and there is room for the words."""
    if math.isinf(seconds):
        return NEVER_TEXT if width >= len(NEVER_TEXT) else NEVER_SHORT
    return duration_text(seconds)


def names_text(names: Iterable[object], limit: int = 6) -> str:
    """`a, b, c and 4 more`."""
    found = [str(name) for name in names]
    if len(found) <= limit:
        return ", ".join(found)
    return f"{', '.join(found[:limit])} and {len(found) - limit:,} more"


def servers_text(bootstrap_servers: str, limit: int = 3) -> str:
    """The first of some addresses `host:port,host:port`: enough to tell a cluster by."""
    found = bootstrap_servers.split(",")
    if len(found) <= limit:
        return bootstrap_servers
    return f"{','.join(found[:limit])} and {len(found) - limit:,} more"


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would act upon.

    Control and format characters (escape sequences, right-to-left overrides, zero-width marks)
    become `?`; line breaks and tabs become blanks.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_printable_character(character) for character in text)


def _printable_character(character: str) -> str:
    if character in "\n\r\t":
        return " "
    category = unicodedata.category(character)
    return "?" if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


def fit(text: str, width: int, glyphs: Glyphs = UNICODE, *, right: bool = False) -> str:
    """The text in exactly `width` cells: padded, or cut at its end and marked as cut."""
    length = cell_len(text)
    if length > width:
        return _cut(text, width, glyphs)
    padding = " " * (width - length)
    return padding + text if right else text + padding


def _cut(text: str, width: int, glyphs: Glyphs) -> str:
    return set_cell_size(text, width - 1) + glyphs.ellipsis if width > 0 else ""


def fit_middle(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Like `fit`, but cut in the middle: names differ at both ends."""
    if cell_len(text) <= width or width < 8 or not text.isascii():
        return fit(text, width, glyphs)
    tail = (width - 1) // 2
    head = width - 1 - tail
    return text[:head] + glyphs.ellipsis + text[-tail:]


def join_fitting(parts: Sequence[str], width: int, separator: str) -> str:
    """As many of the parts as fit into `width`, most important first."""
    line = ""
    for part in parts:
        longer = f"{line}{separator}{part}" if line else part
        if cell_len(longer) > width:
            break
        line = longer
    return line


_BRAILLE_LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
_BRAILLE_RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_ASCII_LEVELS: Final = "_.-=#"


def sparkline(values: Sequence[float], width: int, glyphs: Glyphs = UNICODE) -> str:
    """The course of `values` in `width` cells, newest at the right; unknown leaves a gap.

    Braille shows two values a cell in five heights; ASCII one value a cell.
    """
    per_cell = 2 if glyphs.spark else 1
    levels = _levels(_resampled(values, width * per_cell))
    if not glyphs.spark:
        return "".join(" " if level < 0 else _ASCII_LEVELS[level] for level in levels)
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return "".join(
        chr(0x2800 + _BRAILLE_LEFT[max(left, 0)] + _BRAILLE_RIGHT[max(right, 0)])
        for left, right in pairs
    )


def _resampled(values: Sequence[float], count: int) -> list[float]:
    if not values or count <= 0:
        return []
    if len(values) <= count:
        return [math.nan] * (count - len(values)) + list(values)
    last = len(values) - 1
    return [values[round(place * last / max(count - 1, 1))] for place in range(count)]


def _levels(values: Sequence[float]) -> list[int]:
    """0 to 4 for a known value, at least 1 where it is more than 0; -1 for unknown."""
    top = max((value for value in values if value >= 0), default=0.0)
    return [_level(value, top) for value in values]


def _level(value: float, top: float) -> int:
    if math.isnan(value) or value < 0:
        return -1
    return 0 if value == 0 else max(1, min(4, math.ceil(value / top * 4)))
