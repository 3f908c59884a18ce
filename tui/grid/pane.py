"""Lines below a table: what it has no room for about the row under the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Span, Text
from textual.widget import Widget

from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

LABEL_WIDTH = 10


class Pane(Widget):
    """A rule with a title, and lines; as high as they are, within what its style allows."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "pane--title",
        "pane--label",
        "pane--dim",
        "pane--good",
        "pane--warn",
        "pane--bad",
        "pane--strong",
    }

    def __init__(self, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._title = ""
        self._said: tuple[PaneLine, ...] = ()
        self._shown: list[Text] = []

    def show(self, title: str, lines: Sequence[PaneLine]) -> None:
        """Say something else; without lines it takes no room."""
        self._title, self._said = title, tuple(lines)
        self._update()

    def on_resize(self) -> None:
        """Wrap again."""
        self._update()

    def _update(self) -> None:
        if not self._said:
            self.display = False
            self._shown = []
            return
        self.display = True
        # Hidden, it has no size yet.
        width = max(self.size.width or self.app.size.width, 1)
        shown = [self._rule(width), *self._lines(width)]
        if [_look(line) for line in shown] == [_look(line) for line in self._shown]:
            return
        self.styles.height = len(shown)
        self._shown = shown
        self.refresh()

    def _style(self, name: str):  # type: ignore[no-untyped-def]
        return self.get_component_rich_style(f"pane--{name}", partial=True)

    def _rule(self, width: int) -> Text:
        rule = self._glyphs.rule
        title = fit(f" {printable(self._title)} ", max(width - 4, 1), self._glyphs).rstrip() + " "
        line = Text(f"{rule}{rule}", self._style("dim"), no_wrap=True, end="")
        line.append(title, self._style("title"))
        line.append(rule * max(width - cell_len(line.plain), 0), self._style("dim"))
        return line

    def _lines(self, width: int) -> Iterable[Text]:
        room = max(width - LABEL_WIDTH - 2, 8)
        for said in self._said:
            text = printable(said.text)
            rows = self._wrapped(text, room, said.lines)
            for number, row in enumerate(rows or [""]):
                line = Text(" ", no_wrap=True, end="")
                label = "" if number else said.label
                line.append(fit(label, LABEL_WIDTH, self._glyphs), self._style("label"))
                line.append(row, self._style(said.tone) if said.tone else "")
                yield line

    def _wrapped(self, text: str, room: int, most: int) -> list[str]:
        """The text in at most `most` lines; the last one is cut where there is more of it."""
        rows = wrap(text, room) if most > 1 else [text]
        if len(rows) > most:
            rows = [*rows[: most - 1], " ".join(rows[most - 1 :])]
        return [fit(row, room, self._glyphs).rstrip() for row in rows]

    def render(self) -> Text:
        """The lines."""
        return Text("\n", end="").join(self._shown)


def _look(line: Text) -> tuple[str, list[Span]]:
    """What makes a line the same on the screen."""
    return line.plain, line.spans
