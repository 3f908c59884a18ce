"""Rehearsals side by side, and the course of the one that is chosen."""

from __future__ import annotations

from typing import Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical

from kshunt.backend.domain.planning.requests import RehearsalAnswer
from kshunt.tui.changes.plan.comparison import Comparison
from kshunt.tui.changes.plan.proposal_part import AROUND, Tabs
from kshunt.tui.changes.plan.rehearsal_tables import (
    RehearsedThrottle,
    broker_table,
    candidates,
    deadline_words,
    event_table,
    plotted,
    rows_of,
)
from kshunt.tui.dialogs.dialog import Composed, Lines
from kshunt.tui.grid.grid import Grid
from kshunt.tui.grid.plot_panel import PlotPanel
from kshunt.tui.text.glyphs import Glyphs

_NAMES: Final = {
    "rehearsed": "Course",
    "rehearsed-brokers": "Brokers",
    "rehearsed-events": "ISR, notes",
}


class RehearsalPart(Composed, Vertical):
    """A column a throttle; below it the course, the brokers or the ISRs of the chosen one."""

    def __init__(self, answer: RehearsalAnswer, glyphs: Glyphs) -> None:
        super().__init__(classes="part")
        self.answer = answer
        self._glyphs = glyphs
        self._asked = candidates(answer)

    @property
    def chosen(self) -> RehearsedThrottle:
        """The column that is chosen."""
        return self._asked[self.query_one(Comparison).chosen]

    def compose(self) -> ComposeResult:
        """The comparison, the deadline, the tables below."""
        glyphs = self._glyphs
        yield Comparison(glyphs=glyphs, id="compared")
        words = deadline_words(self.answer)
        if words is not None:
            yield Lines(words.text, classes=f"-{words.tone}", id="deadline")
        yield Lines("", id="never", classes="-bad")
        yield Tabs(_NAMES)
        yield PlotPanel(glyphs=glyphs, id="rehearsed")
        for id in ("rehearsed-brokers", "rehearsed-events"):
            grid = Grid(id=id, cursor=False, glyphs=glyphs)
            # Shown for a moment, it would take room from the plot, which would be drawn twice.
            grid.display = False
            yield grid

    def on_mount(self) -> None:
        """Compare; the first column is chosen."""
        table = [(row.label, row.cells) for row in rows_of(self.answer, self._asked)]
        self.query_one(Comparison).show([one.title for one in self._asked], table)
        self._show_chosen()

    def begin(self) -> None:
        """The keys choose a column."""
        self.query_one(Comparison).focus()

    def turn(self) -> None:
        """Show the next table below."""
        self.query_one(Tabs).turn()
        self._fit()

    def scroll(self, rows: int) -> None:
        """Move through the table below."""
        for grid in self.query(Grid):
            if grid.display:
                grid.action_cursor(rows)

    def page(self, pages: int) -> None:
        """Move through the table below by whole pages."""
        for grid in self.query(Grid):
            if grid.display:
                grid.action_cursor(pages * max(grid.page_rows - 1, 1))

    @on(Comparison.Chosen)
    def _show_chosen(self) -> None:
        chosen = self.chosen
        run, glyphs = chosen.rehearsal, self._glyphs
        self.query_one("#rehearsed-brokers", Grid).show_table(broker_table(self.answer, chosen))
        self._show_events()
        never = self.query_one("#never", Lines)
        never.say(chosen.remark)
        never.display = bool(chosen.remark)
        title, lines = plotted(run)
        times = run.timeline.at_s.tolist()

        def build(width: int, height: int) -> Text:
            from kshunt.backend.domain.text.axes import Unit
            from kshunt.backend.domain.text.plots import Series
            from kshunt.tui.text.plots import plot_ahead

            series = [Series(values, mark) for mark, values in lines]
            return plot_ahead(title, times, series, Unit.BYTES_PER_S, width, height, glyphs)

        self.query_one(PlotPanel).show(build, 0, self.query_one(Comparison).chosen)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap again."""
        self._show_events()

    def _show_events(self) -> None:
        table = event_table(self.chosen, self.answer.notes, self.app.size.width - AROUND)
        self.query_one("#rehearsed-events", Grid).show_table(table, home=True)

    def _fit(self) -> None:
        chosen = self.query_one(Tabs).chosen
        for id in _NAMES:
            part = self.query_one(f"#{id}")
            part.display = id == chosen
