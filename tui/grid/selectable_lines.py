"""Lines of which some lead somewhere: a cursor stops at those and stays on its line by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kshunt.tui.tables.gauges import HEAT
from kshunt.tui.tables.lines import BLANK, Line
from kshunt.tui.tables.model import Cell, RowKey
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs

LINES_CACHED = 512
"""Lines that were drawn and may be wanted again."""
TONES = ("dim", "good", "warn", "bad", "strong", *HEAT)


class SelectableLines(Widget):
    """Shows lines, and paints again only those that differ."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "board--cursor",
        *(f"board--{tone}" for tone in TONES),
    }

    class Resized(Message):
        """There is another amount of room."""

    class Clicked(Message):
        """The mouse chose a line, or these lines where it leads nowhere."""

        def __init__(self, lines: SelectableLines, *, again: bool) -> None:
            """`again`: the line was under the cursor already."""
            super().__init__()
            self.lines = lines
            self.again = again

    def __init__(self, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._said: tuple[Line, ...] = ()
        self._cursor: int | None = None
        self._top = 0
        self._key: RowKey | None = None
        """The line that the operator chose; None before there was any choice."""
        self._lines: dict[int, Strip] = {}
        self._drawn: dict[tuple[tuple[Cell, ...], bool], Strip] = {}
        """Lines as they were drawn, under the cursor or not: most of them say what they said."""
        self._styles: dict[tuple[bool, str], Style] = {}

    @property
    def cursor_key(self) -> RowKey | None:
        """The key of the line under the cursor."""
        return self._said[self._cursor].key if self._cursor is not None else None

    @property
    def target(self) -> ScreenTarget | None:
        """Where the line under the cursor leads."""
        return self._said[self._cursor].target if self._cursor is not None else None

    def show(self, lines: Sequence[Line]) -> None:
        """Put other lines in the place of these; the cursor goes where its line went."""
        self._said = tuple(lines)
        stops = self._stops()
        keys = [self._said[place].key for place in stops]
        if not stops or self._key is None:
            # Nothing is chosen until a key is pressed: then nothing has to be followed.
            self._cursor = None
        elif self._key in keys:
            self._cursor = stops[keys.index(self._key)]
        else:
            # The line is gone: what stands nearest to its place is the nearest thing to it.
            near = self._cursor if self._cursor is not None else stops[0]
            self._cursor = min(stops, key=lambda place: abs(place - near))
            self._key = self._said[self._cursor].key
        self._keep_in_sight()
        self._paint_changes()

    def _keep_in_sight(self) -> None:
        """Keep the cursor in sight, and the ends with it where it is at the first or last stop."""
        height, count = max(self.size.height, 1), len(self._said)
        stops = self._stops()
        if self._cursor is None or self._cursor == stops[0]:
            self._top = 0
        elif self._cursor == stops[-1]:
            self._top = count - height
        else:
            self._top = min(max(self._top, self._cursor - height + 1), self._cursor)
        self._top = min(max(self._top, 0), max(count - height, 0))

    def _stops(self) -> list[int]:
        return [place for place, line in enumerate(self._said) if line.key is not None]

    def move(self, steps: int) -> None:
        """Move the cursor by this number of the lines that lead somewhere."""
        stops = self._stops()
        if not stops:
            return
        if self._cursor is None:
            place = 0 if steps > 0 else len(stops) - 1
        else:
            place = min(max(stops.index(self._cursor) + steps, 0), len(stops) - 1)
        self._go(stops[place])

    def _go(self, place: int) -> None:
        self._cursor = place
        self._key = self._said[place].key
        self._keep_in_sight()
        self._paint_changes()

    def leave(self) -> bool:
        """Choose nothing any more; False if nothing was chosen."""
        chosen, self._cursor, self._key, self._top = self._cursor, None, None, 0
        self._paint_changes()
        return chosen is not None

    def on_click(self, event: events.Click) -> None:
        """Choose the line under the mouse, and go where it leads at the second click."""
        place = self._top + event.y
        leads = place < len(self._said) and self._said[place].key is not None
        self.post_message(self.Clicked(self, again=leads and self._cursor == place))
        if leads:
            self._go(place)

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its container."""
        return container.height

    def on_resize(self) -> None:
        """Paint the lines anew; the part that says them fits them again on `Resized`."""
        self._keep_in_sight()
        self._forget_lines()
        self.post_message(self.Resized())
        self.refresh()

    def notify_style_update(self) -> None:
        """Colours changed: nothing that was painted holds."""
        super().notify_style_update()
        self._forget_lines()

    def _forget_lines(self) -> None:
        """Nothing that was drawn can be used again."""
        self._lines.clear()
        self._drawn.clear()
        self._styles.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region."""
        lines = [self._line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            lines = [line.apply_filter(line_filter, background) for line in lines]
        return [line.crop(crop.x, crop.right) for line in lines]

    def _line(self, y: int) -> Strip:
        if y not in self._lines:
            self._lines[y] = self._strip(y)
        return self._lines[y]

    def _paint_changes(self) -> None:
        """Ask for the lines whose look is not what is on the screen."""
        before, width = self._lines, self.size.width
        self._lines = {y: self._strip(y) for y in range(self.size.height)}
        stale = [Region(0, y, width, 1) for y, line in self._lines.items() if before.get(y) != line]
        if stale:
            self.refresh(*stale)

    def _strip(self, y: int) -> Strip:
        place = self._top + y
        line = self._said[place] if place < len(self._said) else BLANK
        said = (line.spans, place == self._cursor)
        strip = self._drawn.get(said)
        if strip is None:
            if len(self._drawn) >= LINES_CACHED:
                self._drawn.clear()
            strip = self._drawn[said] = self._draw(*said)
        return strip

    def _draw(self, spans: Sequence[Cell], at_cursor: bool) -> Strip:
        # A cursor that is the line in reverse has no place for colours.
        toned = not (at_cursor and self.app.native_ansi_color)
        # Whatever a cell holds, it drives no terminal.
        segments = [
            Segment(printable(text), self._style(at_cursor, tone if toned else ""))
            for text, tone in spans
        ]
        strip = Strip(segments).adjust_cell_length(self.size.width, self._style(at_cursor, ""))
        return strip.simplify()

    def _style(self, at_cursor: bool, tone: str) -> Style:
        """Textual works a style out anew each time it is asked."""
        style = self._styles.get((at_cursor, tone))
        if style is None:
            names = ["board--cursor"] * at_cursor + [f"board--{tone}"] * bool(tone)
            style = self.rich_style
            for name in names:
                style += self.get_component_rich_style(name, partial=True)
            self._styles[at_cursor, tone] = style
        return style
