"""A picture of a screen that loads nothing from elsewhere: readers without a network see it too."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len

if TYPE_CHECKING:
    from textual.app import App

FONTS: Final = "Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
CELL_WIDTH, CELL_HEIGHT, BASELINE = 12.2, 24.4, 19.0
"""Of a character in the picture, in its units."""
DOT: Final = 3
_BLANK: Final = "\u2800"
_BRAILLE: Final = re.compile("[\u2800-\u28ff]")
_PLACES: Final = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of the dot that each bit of a Braille sign stands for."""
_TEXT: Final = re.compile(
    r'<text (class="[^"]*") x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"([^>]*)>([^<]*)</text>'
)
_RUN: Final = re.compile("[^\u00a0\u2800-\u28ff]+(?:\u00a0[^\u00a0\u2800-\u28ff]+)*")
"""Words with one blank between them."""


def screenshot(app: App[Any]) -> str:
    """The screen as Textual draws it as an SVG."""
    return app.export_screenshot(title="kshunt", simplify=True)


def portable(svg: str) -> str:
    """The picture with fonts that readers have, with drawn dots, and without ids that change.

    Each run of words has its own place. Some programs leave out blanks at the beginning of a text,
    and the fonts of some are narrower: columns would not be below each other.
    """
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {FONTS}")
    svg = re.sub(r"terminal-\d+-", "terminal-", svg)
    used = sorted(set(_BRAILLE.findall(svg)))
    svg = _TEXT.sub(_placed, svg)
    shapes = "".join(f'<path id="dots-{ord(sign):x}" d="{_dots(sign)}"/>' for sign in used)
    return svg.replace("<defs>", f"<defs>{shapes}", 1)


def _placed(found: re.Match[str]) -> str:
    """A text as runs of words, each where it begins, and its Braille signs drawn."""
    about, x, y, rest, escaped = found.groups()
    text = html.unescape(escaped)

    def at(place: int) -> float:
        return float(x) + cell_len(text[:place]) * CELL_WIDTH

    runs = (
        f'<text {about} x="{at(run.start()):.1f}" y="{y}"'
        f' textLength="{cell_len(run[0]) * CELL_WIDTH:.1f}"{rest}>{_escaped(run[0])}</text>'
        for run in _RUN.finditer(text)
    )
    uses = "".join(
        f'<use href="#dots-{ord(sign):x}" x="{at(place):.1f}" y="{float(y) - BASELINE:.1f}"/>'
        for place, sign in enumerate(text)
        if _BRAILLE.match(sign) and sign != _BLANK
    )
    return "".join(runs) + (f"<g {about}>{uses}</g>" if uses else "")


def _escaped(text: str) -> str:
    return html.escape(text).replace("\u00a0", "&#160;")


def _dots(sign: str) -> str:
    """The dots of a Braille sign, in a cell that begins at 0, as an SVG path."""
    bits = ord(sign) - ord(_BLANK)
    return "".join(
        f"M{CELL_WIDTH * (1 + 2 * column) / 4 - DOT / 2:.1f} "
        f"{CELL_HEIGHT * (1 + 2 * row) / 8 - DOT / 2:.1f}h{DOT}v{DOT}h-{DOT}z"
        for bit, (column, row) in enumerate(_PLACES)
        if bits >> bit & 1
    )
