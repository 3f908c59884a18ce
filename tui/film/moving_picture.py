"""A moving picture: an SVG that plays a film in a loop, without a script.

A line of the screen is drawn once for each content that it has, and is visible while it has it. A
reader that plays nothing shows the last frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from kshunt.tui.text.picture import CELL_HEIGHT, portable

_NAMESPACE: Final = "{http://www.w3.org/2000/svg}"
_SCREEN: Final = re.compile(r'<g transform="[^"]*" clip-path="url\(#terminal-clip-terminal\)">')
"""Opens the part of a frame that differs from frame to frame."""
_END: Final = "</g>\n</svg>\n"
_STYLE: Final = re.compile(r"\.(terminal-r\d+) \{([^}]*)\}\s*")
_LINE: Final = re.compile(r'<clipPath id="terminal-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_DOTS: Final = re.compile(r'<path id="dots-[^>]*/>')
_REPEATED: Final = ("clip-path", "shape-rendering")
"""What each piece of a frame says again, and the picture says once."""

Spans = list[tuple[float, float]]
"""When something is visible, from and to, in seconds."""


class MovingPicture:
    """The frames of one moving picture, which are Textual's pictures of one size."""

    def __init__(self) -> None:
        self._frames: list[tuple[float, Mapping[int, str]]] = []
        """When each frame begins, in seconds, and the content of each line."""
        self._classes: dict[str, str] = {}
        """The class of each style."""
        self._dots: dict[str, None] = {}
        self._around = ""
        """The last frame: what is around the screen is that of every frame."""

    def add(self, at_s: float, svg: str) -> None:
        """Show this screen from a moment on; the first one begins at 0. `at_s` never goes back."""
        self._around = portable(svg)
        self._dots |= dict.fromkeys(_DOTS.findall(self._around))
        names = {
            name: self._classes.setdefault(style.strip(), f"s{len(self._classes)}")
            for name, style in _STYLE.findall(self._around)
        }
        lines = _lines(self._around, names)
        if not self._frames or self._frames[-1][1] != lines:
            self._frames.append((round(at_s, 3) if self._frames else 0.0, lines))

    def text(self, duration_s: float) -> str:
        """The file's content; the last frame stays until the duration is over.

        Raises:
            ValueError: there is no frame.
        """
        if not self._frames:
            raise ValueError("a moving picture has at least one frame")
        styles = "\n".join(f".{name} {{ {style} }}" for style, name in self._classes.items())
        styles = f".terminal-matrix rect {{ shape-rendering: crispEdges }}\n{styles}"
        head = self._around[: _screen(self._around).end()]
        head = _LINE.sub("", _DOTS.sub("", _STYLE.sub("", head)))
        head = head.replace("</style>", f"{styles}\n</style>", 1)
        head = head.replace("<defs>", f"<defs>{''.join(self._dots)}", 1)
        lines = "\n".join(self._shown(duration_s))
        return f'{head}\n<g class="terminal-matrix">{lines}</g>{_END}'

    def _shown(self, duration_s: float) -> Iterator[str]:
        """Each content of each line, and when it is visible."""
        ends = [*(at_s for at_s, _ in self._frames[1:]), duration_s]
        for number in sorted({number for _, lines in self._frames for number in lines}):
            contents: dict[str, Spans] = {}
            for (from_s, lines), to_s in zip(self._frames, ends, strict=True):
                spans = contents.setdefault(lines.get(number, ""), [])
                if spans and spans[-1][1] == from_s:
                    from_s = spans.pop()[0]
                spans.append((from_s, to_s))
            for content, spans in contents.items():
                yield _visible(content, spans, duration_s)


def _screen(svg: str) -> re.Match[str]:
    found = _SCREEN.search(svg)
    if found is None:
        raise ValueError("not one of Textual's pictures")
    return found


def _visible(content: str, spans: Spans, duration_s: float) -> str:
    """A content, with what shows and hides it unless it is always there."""
    if not content or spans == [(0, duration_s)]:
        return content
    changes: dict[float, str] = {0.0: "hidden"}
    for from_s, to_s in spans:
        changes |= {from_s: "visible", to_s: "hidden"}
    still = "hidden" if changes.pop(duration_s, None) is None else "visible"
    times = ";".join(f"{at_s / duration_s:.5g}" for at_s in changes)
    return (
        f'<g visibility="{still}"><animate attributeName="visibility" calcMode="discrete" '
        f'dur="{duration_s:g}s" repeatCount="indefinite" keyTimes="{times}" '
        f'values="{";".join(changes.values())}"/>{content}</g>'
    )


def _lines(svg: str, names: Mapping[str, str]) -> dict[int, str]:
    """The content of each line of a frame."""
    found: dict[int, list[str]] = {}
    for piece in _pieces(ElementTree.fromstring(svg)):
        y = next(float(one.attrib["y"]) for one in piece.iter() if "y" in one.attrib)
        found.setdefault(int(y // CELL_HEIGHT), []).append(_text(piece, names))
    return {number: "".join(parts) for number, parts in found.items()}


def _pieces(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Backgrounds, texts and dots of the screen, in the order in which they are painted."""
    [screen] = [part for part in root if part.get("clip-path")]
    for part in screen:
        if part.get("class") == "terminal-matrix":
            yield from part
        else:
            yield part


def _text(piece: ElementTree.Element, names: Mapping[str, str]) -> str:
    """The piece again, with the picture's classes, and without what is said once."""
    tag = piece.tag.removeprefix(_NAMESPACE)
    given = {name: value for name, value in piece.attrib.items() if name not in _REPEATED}
    if "class" in given:
        given["class"] = names.get(given["class"], given["class"])
    words = "".join(f" {name}={quoteattr(value)}" for name, value in given.items())
    inside = escape(piece.text or "") + "".join(_text(one, names) for one in piece)
    return f"<{tag}{words}>{inside}</{tag}>" if inside else f"<{tag}{words}/>"
