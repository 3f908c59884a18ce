"""What the terminal shows, so that only cells which differ are sent.

Textual sends every strip that a change touches, anew and in full. `ScreenDiff` takes those same
updates, keeps two screens (what is wanted, and what was sent), and writes the difference with as
few cursor moves and colour changes as it can. A frame that is not sent is not lost: the next one
holds what it held.

Cells are compared by their text and their whole style, so a terminal ends with exactly what
Textual's own output would have left on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import ne, or_
from typing import Final, NamedTuple

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

BRIDGE_CELLS: Final = 4
"""Unchanged cells that cost no more to write again than to step over."""

JOINED_MOST: Final = 65_000
"""How many combinations of characters that share a cell are told apart."""

_ANY: Final = "any"
"""A style that no cell has: what the terminal shows there is not known."""
_PLAIN, _UNKNOWN = "\0", "\1"
"""The places of no style and of that one."""
_INSIDE: Final = "\0"
"""The cell that a wide character reaches into."""
_JOINED: Final = 0xF0000
"""From here on Unicode has no characters of its own."""
_CELLS: Final = re.compile("[\\x00-\\x7f\\xa1-\\xac\\xae-\\xff\u2026\u2500-\u259f\u2800-\u28ff]*")
"""Texts of one character a cell, as far as that is quickly told: Latin, lines, blocks, braille."""
_TO_ONE: Final = bytes([0, *[1] * 255])

_GROUP_OF: Final = {
    "1": "weight",
    "2": "weight",
    "3": "slant",
    "4": "underline",
    "21": "underline",
    "5": "blink",
    "6": "blink",
    "7": "reverse",
    "8": "conceal",
    "9": "strike",
    "51": "frame",
    "52": "frame",
    "53": "overline",
}
_OFF: Final = {
    "weight": "22",
    "slant": "23",
    "underline": "24",
    "blink": "25",
    "reverse": "27",
    "conceal": "28",
    "strike": "29",
    "ink": "39",
    "ground": "49",
    "frame": "54",
    "overline": "55",
}


class ScreenLine(NamedTuple):
    """One line of a screen, one character a cell. Never changed, only replaced."""

    text: str
    """What the cell shows; `_INSIDE` where the cell before reaches into this one, `_JOINED` and
    above for characters that share a cell."""
    styles: str
    """Of each cell, the place of its style in the `_StyleCodes`."""


class _StyleCodes:
    """Styles, and characters that share a cell, as one character each."""

    def __init__(self) -> None:
        self.styles: list[str] = ["", _ANY]
        """Parameters of the SGR sequence that sets a cell's look on a plain pen."""
        self._style_places: dict[str, str] = {}
        self._joined: list[str] = []
        self._joined_places: dict[str, str] = {}

    def style(self, style: str) -> str:
        """The character that represents a style."""
        if not style:
            return _PLAIN
        if style not in self._style_places:
            self._style_places[style] = chr(len(self.styles))
            self.styles.append(style)
        return self._style_places[style]

    def joined(self, characters: str) -> str:
        """The character that represents several that share a cell."""
        if characters not in self._joined_places:
            if len(self._joined) == JOINED_MOST:
                return "?"
            self._joined_places[characters] = chr(_JOINED + len(self._joined))
            self._joined.append(characters)
        return self._joined_places[characters]

    def characters(self, cell: str) -> str:
        """What is written for a cell."""
        return cell if ord(cell) < _JOINED else self._joined[ord(cell) - _JOINED]


class ScreenDiff:
    """Two screens of one size: what is wanted, and what the terminal is known to show."""

    def __init__(self) -> None:
        self.size = (0, 0)
        """Width and height; nothing is known of a terminal of another size."""
        self._palette = _StyleCodes()
        self._wanted: list[ScreenLine] = []
        self._shown: list[ScreenLine] = []
        self._touched: set[int] = set()

    def resize(self, width: int, height: int) -> None:
        """The terminal is of this size, and what it shows is unknown."""
        self.size = (width, height)
        self._wanted = [_nothing(width)] * height
        self.forget()

    def forget(self) -> None:
        """Somebody else wrote to the terminal: everything is to be sent again."""
        width, height = self.size
        self._shown = [_nothing(width)] * height
        self._touched = set(range(height))

    @property
    def pending(self) -> bool:
        """True where something was taken and may not have been sent."""
        return bool(self._touched)

    def take(self, update: LayoutUpdate | ChopsUpdate, colors: ColorSystem) -> None:
        """What Textual wants on the screen from here on."""
        if isinstance(update, LayoutUpdate):
            left = update.region.x
            for y, strips in enumerate(update.strips, update.region.y):
                self._put(y, left, strips, colors)
            return
        for y, first, last in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                # Textual may leave a place to whatever is there.
                if strip is None or x > last or end <= first:
                    continue
                self._put(y, x, [strip.crop(0, min(end, last) - x)], colors)

    def _put(self, y: int, x: int, strips: Iterable[Strip], colors: ColorSystem) -> None:
        if not 0 <= y < len(self._wanted):
            return
        before, width = self._wanted[y], self.size[0]
        text, styles = self._cells_of(strips, colors)
        end = x + len(text)
        if x or end != width:
            text = (before.text[:x] + text + before.text[end:])[:width]
            styles = (before.styles[:x] + styles + before.styles[end:])[:width]
        self._wanted[y] = ScreenLine(text, styles)
        self._touched.add(y)

    def _cells_of(self, strips: Iterable[Strip], colors: ColorSystem) -> ScreenLine:
        """Strips that stand side by side as cells."""
        palette = self._palette
        texts: list[str] = []
        styles: list[str] = []
        for strip in strips:
            for text, style, control in strip:
                if control:
                    continue
                cells = text if _CELLS.fullmatch(text) else _graphemes(text, palette)
                texts.append(cells)
                styles.append(palette.style(_ansi(style, colors)) * len(cells))
        return ScreenLine("".join(texts), "".join(styles))

    def send(self) -> str:
        """The characters that turn what is shown into what is wanted; empty if it is that."""
        pen = _Pen(self._palette)
        for y in sorted(self._touched):
            wanted = self._wanted[y]
            pen.draw(y, self._shown[y], wanted)
            self._shown[y] = wanted
        self._touched.clear()
        return pen.lifted()


class _Pen:
    """Writes changed cells, and knows where the cursor is and in which style it writes."""

    def __init__(self, palette: _StyleCodes) -> None:
        self._palette = palette
        self._parts: list[str] = []
        self._style = _PLAIN
        self._y = -1
        self._x = -1
        """The column of the cursor; -1 where a terminal may differ about it."""

    def draw(self, y: int, shown: ScreenLine, wanted: ScreenLine) -> None:
        """Write the cells of one line that differ."""
        if shown == wanted:
            return
        text, differs = wanted.text, _differing(shown, wanted)
        simple = _INSIDE not in text and max(text) < chr(_JOINED)
        write = self._write_simple if simple else self._write_cells
        start = differs.find(1)
        while start >= 0:
            end = differs.find(0, start)
            end = end if end >= 0 else len(differs)
            write(y, start, end, wanted)
            start = differs.find(1, end)

    def _write_simple(self, y: int, start: int, end: int, line: ScreenLine) -> None:
        """Write cells of one character and one column each; one write takes those of one style."""
        text, styles = line
        while start < end:
            style, stop = styles[start], end
            if styles.count(style, start, end) < end - start:
                stop -= len(styles[start:end].lstrip(style))
            self._write(y, start, text[start:stop], style, line)
            start = stop
        # Terminals disagree about the cursor after the last column.
        self._x = end if end < len(text) else -1

    def _write_cells(self, y: int, start: int, end: int, line: ScreenLine) -> None:
        """Write cells that may be wide, or of several characters."""
        for x in range(start, end):
            self._write_cell(y, x, line)

    def _write_cell(self, y: int, x: int, line: ScreenLine) -> None:
        # The terminal puts the second half of a wide character where it belongs.
        if line.text[x] == _INSIDE:
            return
        characters = self._palette.characters(line.text[x])
        self._write(y, x, characters, line.styles[x], line)
        self._x = x + 2 if line.text[x + 1 : x + 2] == _INSIDE else x + 1
        # Terminals disagree about the width of joined characters.
        if len(characters) > 1 or self._x >= len(line.text):
            self._x = -1

    def _write(self, y: int, x: int, characters: str, style: str, line: ScreenLine) -> None:
        if self._x != x or self._y != y:
            self._move(y, x, line)
        if style != self._style:
            styles = self._palette.styles
            self._parts.append(turned(styles[ord(self._style)], styles[ord(style)]))
            self._style = style
        self._parts.append(characters)
        self._x = x + len(characters)

    def _move(self, y: int, x: int, line: ScreenLine) -> None:
        gap = x - self._x
        if self._y != y or self._x < 0 or gap < 0:
            self._parts.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        elif gap <= BRIDGE_CELLS and self._plain(line, self._x, x):
            self._parts.append(line.text[self._x : x])
        else:
            self._parts.append(f"\x1b[{gap}C" if gap > 1 else "\x1b[C")
        self._y, self._x = y, x

    def _plain(self, line: ScreenLine, start: int, end: int) -> bool:
        """Whether cells that did not change can be written again without another style."""
        text = line.text[start:end]
        alike = line.styles.count(self._style, start, end) == end - start
        return alike and text.isascii() and _INSIDE not in text

    def lifted(self) -> str:
        """Everything that was written; the pen is plain again, as others expect it."""
        if self._style != _PLAIN:
            self._parts.append("\x1b[m")
        return "".join(self._parts)


def _nothing(width: int) -> ScreenLine:
    return ScreenLine(_INSIDE * width, _UNKNOWN * width)


def _differing(one: ScreenLine, other: ScreenLine) -> bytes:
    """Of each cell 1 where the lines are not the same, else 0."""
    try:
        # As numbers, of a byte a cell: a screenful is ten thousand cells.
        texts = _number(one.text) ^ _number(other.text)
        styles = _number(one.styles) ^ _number(other.styles)
        return (texts | styles).to_bytes(len(one.text)).translate(_TO_ONE)
    except UnicodeEncodeError:
        texts_differ = map(ne, one.text, other.text)
        return bytes(map(or_, texts_differ, map(ne, one.styles, other.styles)))


def _number(text: str) -> int:
    return int.from_bytes(text.encode("latin-1"))


def _ansi(style: Style | None, colors: ColorSystem) -> str:
    if style is None:
        return ""
    return style._ansi if style._ansi is not None else Strip.render_ansi(style, colors)


@lru_cache(2048)
def _graphemes(text: str, palette: _StyleCodes) -> str:
    """One character a cell: a wide one is followed by `_INSIDE`."""
    cells: list[str] = []
    for characters, width in _split(text):
        one = len(characters) == 1 and characters < chr(_JOINED)
        cells.append(characters if one else palette.joined(characters))
        cells.append(_INSIDE * (width - 1))
    return "".join(cells)


def _split(text: str) -> Sequence[tuple[str, int]]:
    """The characters in each cell of the text, and how many cells they take."""
    found: list[tuple[str, int]] = []
    for start, end, width in split_graphemes(text)[0]:
        if width:
            found.append((text[start:end], width))
        elif found:
            # What has no width belongs to the cell before it.
            before, cells = found[-1]
            found[-1] = before + text[start:end], cells
    return found


@lru_cache(8192)
def turned(before: str, after: str) -> str:
    """The sequence that takes a pen from one style to another, the shorter of two ways."""
    fresh = f"\x1b[0;{after}m" if after else "\x1b[m"
    have, want = _attributes(before), _attributes(after)
    codes: list[str] = []
    for group in {**have, **want}:
        old, new = have.get(group, ""), want.get(group, "")
        if old == new:
            continue
        # An attribute is added to what stands in its group; a colour replaces it.
        if old and (not new or group not in ("ink", "ground")):
            codes.append(_OFF[group])
        if new:
            codes.append(new)
    step = f"\x1b[{';'.join(codes)}m"
    return step if codes and len(step) < len(fresh) else fresh


def _attributes(style: str) -> dict[str, str]:
    """SGR parameters by what they set."""
    found: dict[str, str] = {}
    codes = iter(style.split(";") if style else ())
    for code in codes:
        if code in _GROUP_OF:
            group = _GROUP_OF[code]
            found[group] = f"{found[group]};{code}" if group in found else code
            continue
        if code in ("38", "48"):
            kind = next(codes, "")
            more = [next(codes, "0") for _ in range(1 if kind == "5" else 3)]
            found["ink" if code == "38" else "ground"] = ";".join([code, kind, *more])
            continue
        found["ground" if code[:1] == "4" or code[:2] == "10" else "ink"] = code
    return found
