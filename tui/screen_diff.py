"""What the terminal shows, so that only cells which differ are sent.

Textual sends every strip that a change touches, anew and in full. `ScreenDiff` takes those same
updates, keeps two screens (what is wanted, and what was sent), and writes the difference with as
few cursor moves and colour changes as it can. A frame that is not sent is not lost: the next one
holds what it held.

Cells are compared by their text and their whole style, so a terminal ends with exactly what
Textual's own output would have left on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from operator import ne, or_
from typing import Final, NamedTuple

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

BRIDGE_CELLS: Final = 4
"""Unchanged cells that cost no more to write again than to step over."""

_ANY: Final = "any"
"""A style that no cell has: what stands there is not known."""

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


class Line(NamedTuple):
    """One line of a screen, one entry a cell. Never changed, only replaced."""

    texts: list[str]
    """What the cell shows; empty where the cell before reaches into this one."""
    styles: list[str]
    """Parameters of the SGR sequence that sets the cell's look on a plain pen."""


class ScreenDiff:
    """Two screens of one size: what is wanted, and what the terminal is known to show."""

    def __init__(self) -> None:
        self.size = (0, 0)
        """Width and height; nothing is known of a terminal of another size."""
        self._wanted: list[Line] = []
        self._shown: list[Line] = []
        self._touched: set[int] = set()

    def resize(self, width: int, height: int) -> None:
        """The terminal is of this size, and shows nobody knows what."""
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
        line = self._wanted[y]
        texts, styles = line.texts.copy(), line.styles.copy()
        for strip in strips:
            cells = cells_of(strip, colors)
            end = x + len(cells.texts)
            texts[x:end], styles[x:end] = cells
            x = end
        width = self.size[0]
        self._wanted[y] = Line(texts[:width], styles[:width])
        self._touched.add(y)

    def send(self) -> str:
        """The characters that turn what is shown into what is wanted; empty if it is that."""
        pen = _Pen()
        for y in sorted(self._touched):
            wanted = self._wanted[y]
            pen.draw(y, self._shown[y], wanted)
            self._shown[y] = wanted
        self._touched.clear()
        return pen.lifted()


class _Pen:
    """Writes changed cells, and knows where the cursor is and in which style it writes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._style = ""
        self._y = -1
        self._x = -1
        """The column of the cursor; -1 where a terminal may differ about it."""

    def draw(self, y: int, shown: Line, wanted: Line) -> None:
        """Write the cells of one line that differ."""
        if shown == wanted:
            return
        texts, styles = wanted
        width = len(texts)
        # All in C: a screenful is ten thousand cells.
        differs = map(or_, map(ne, texts, shown.texts), map(ne, styles, shown.styles))
        for x in compress(range(width), differs):
            # The terminal puts the second half of a wide character where it belongs.
            if not texts[x]:
                continue
            if self._y != y or self._x != x:
                self._move(y, x, wanted)
            if styles[x] != self._style:
                self._parts.append(turned(self._style, styles[x]))
                self._style = styles[x]
            self._parts.append(texts[x])
            wide = x + 1 < width and not texts[x + 1]
            self._x = x + 2 if wide else x + 1
            # Terminals disagree about the width of joined characters, and about the cursor
            # after the last column.
            if len(texts[x]) > 1 or self._x >= width:
                self._x = -1

    def _move(self, y: int, x: int, line: Line) -> None:
        gap = x - self._x
        if self._y != y or self._x < 0 or gap < 0:
            self._parts.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        elif gap <= BRIDGE_CELLS and self._plain(line, self._x, x):
            self._parts.extend(line.texts[self._x : x])
        else:
            self._parts.append(f"\x1b[{gap}C" if gap > 1 else "\x1b[C")
        self._y, self._x = y, x

    def _plain(self, line: Line, start: int, end: int) -> bool:
        """Whether cells that did not change can be written again without another style."""
        styles, texts = line.styles[start:end], line.texts[start:end]
        alike = all(style == self._style for style in styles)
        return alike and all(len(text) == 1 and text.isascii() for text in texts)

    def lifted(self) -> str:
        """Everything that was written; the pen is plain again, as others expect it."""
        if self._style:
            self._parts.append("\x1b[m")
        return "".join(self._parts)


def _nothing(width: int) -> Line:
    return Line([""] * width, [_ANY] * width)


def cells_of(strip: Strip, colors: ColorSystem) -> Line:
    """A strip as cells."""
    texts: list[str] = []
    styles: list[str] = []
    for segment in strip:
        if segment.control:
            continue
        cells = _texts_of(segment)
        texts += cells
        styles += [_style_of(segment, colors)] * len(cells)
    return Line(texts, styles)


def _style_of(segment: Segment, colors: ColorSystem) -> str:
    style = segment.style
    if style is None:
        return ""
    return style._ansi if style._ansi is not None else Strip.render_ansi(style, colors)


def _texts_of(segment: Segment) -> Sequence[str]:
    """One entry a cell: a wide character is followed by an empty one."""
    text = segment.text
    if text.isascii():
        return text
    return _graphemes(text)


@lru_cache(2048)
def _graphemes(text: str) -> Sequence[str]:
    cells: list[str] = []
    for start, end, width in split_graphemes(text)[0]:
        if not width:
            # What has no width belongs to the cell before it.
            if cells:
                cells[-1] += text[start:end]
            continue
        cells.append(text[start:end])
        cells += [""] * (width - 1)
    return cells


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
