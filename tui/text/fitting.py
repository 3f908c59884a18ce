"""Text made fit for a number of cells of a terminal, with nothing in it that drives one."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from kshunt.tui.text.glyphs import UNICODE, Glyphs


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
    """The parts that fit into `width` cells, most important first."""
    line = ""
    for part in parts:
        longer = f"{line}{separator}{part}" if line else part
        if cell_len(longer) > width:
            break
        line = longer
    return line
