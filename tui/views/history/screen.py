"""The history: lag and throughput over time, and what is forecast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.widget import Widget

from kshunt.backend.domain.text.formatting import duration_text
from kshunt.tui.actions.view_names import HISTORY
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, DELIVERED, PIPELINE
from kshunt.tui.grid.plot_panel import PlotPanel
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.tables.model import Cell
from kshunt.tui.views.board_screen import BoardScreen

if TYPE_CHECKING:
    from kshunt.tui.facts.transfer_history import SeenTransfer
    from kshunt.tui.tables.lines import Line
    from kshunt.tui.views.history.sections import HistoryChoice


class HistoryScreen(BoardScreen):
    """What was, and what will be."""

    VIEW: ClassVar[str] = HISTORY

    _chosen: HistoryChoice | None = None

    def compose_body(self) -> Iterable[Widget]:
        """A plot, a second one where there is room, and the lines."""
        glyphs = self.kshunt.glyphs
        yield PlotPanel(glyphs=glyphs, id="history-plot")
        yield PlotPanel(glyphs=glyphs, id="history-plot-2")
        yield SelectableLines(glyphs=glyphs, id="past")

    @property
    def chosen(self) -> HistoryChoice:
        """What the operator looks at."""
        if self._chosen is not None:
            return self._chosen
        # Until they choose, the whole of what runs; if nothing moves, what is produced.
        from kshunt.tui.facts.transfer_history import running_s
        from kshunt.tui.views.history.sections import (
            SPANS_S,
            HistoryChoice,
            first_kind,
            span_covering,
        )

        store = self.kshunt.store
        span = span_covering(running_s(store.scene.operations, store.now_ms))
        return HistoryChoice(span, first_kind(self.history, SPANS_S[span]))

    @property
    def history(self) -> tuple[SeenTransfer, ...]:
        """What was seen so far."""
        home = self.kshunt.store.home
        return home.history if home is not None else ()

    def note(self) -> str:
        """How much of the past is shown."""
        if self.kshunt.store.home is None:
            return ""
        return f"at most {duration_text(self.chosen.span_s)}"

    def lines(self, width: int, height: int) -> list[Line]:
        """The data pipeline, then brokers."""
        store = self.kshunt.store
        if store.home is None:
            from kshunt.tui.tables.lines import Line

            text = f" Waiting for the first snapshot from {self.kshunt.address}"
            return [Line((Cell(text, "dim"),))]
        from kshunt.tui.views.history.sections import history_lines

        status = store.scene.answer(BACKEND_STATUS)
        return history_lines(
            self.history,
            self.chosen,
            store.scene.answer(PIPELINE),
            store.scene.answer(DELIVERED),
            store.now_ms,
            width,
            self.kshunt.glyphs,
            record=None if status is None else status.forecast_record,
            operations=store.scene.operations,
            unknown=self.kshunt.playback.unrecorded,
        )

    def update_view(self) -> None:
        """The plots too."""
        super().update_view()
        if self.kshunt.store.home is not None:
            self._plot("#history-plot", self.chosen)
            self._plot("#history-plot-2", self._after(self.chosen))

    def _after(self, chosen: HistoryChoice) -> HistoryChoice:
        """What stands in the second plot, and what Tab brings into the first."""
        from kshunt.tui.views.history.sections import kinds

        count = len(kinds(self.kshunt.store.scene.answer(DELIVERED)))
        return replace(chosen, kind=(chosen.kind % count + 1) % count)

    def _plot(self, id: str, chosen: HistoryChoice) -> None:
        from kshunt.tui.views.history.sections import KINDS, kinds, nothing_words

        store, glyphs = self.kshunt.store, self.kshunt.glyphs
        delivered = store.scene.answer(DELIVERED)
        named = kinds(delivered)
        kind = named[chosen.kind % len(named)]
        panel = self.query_one(id, PlotPanel)
        if kind in KINDS or delivered is None:
            history = self.history
            seen = replace(chosen, kind=KINDS.index(kind))
            if words := nothing_words(history, seen):
                panel.say(words)
                return
            end = None if store.summary is None else store.summary.end

            def build(width: int, height: int) -> Text:
                from kshunt.tui.views.history.sections import draw_history

                return draw_history(history, seen, end, glyphs, width, height)

            newest_ms = history[-1].at_ms if history else 0
            panel.show(build, newest_ms, chosen, self.plot_every_ms)
            return
        days = delivered.course.course

        def build_days(width: int, height: int) -> Text:
            from kshunt.tui.views.history.sections import draw_days

            return draw_days(days, kind, glyphs, width, height)

        panel.show(build_days, days.points[-1].at_ms, (chosen, len(days.points)))

    def action_span(self, steps: int) -> None:
        """Look at more of the past, or at less."""
        from kshunt.tui.views.history.sections import SPANS_S

        span = min(max(self.chosen.span + steps, 0), len(SPANS_S) - 1)
        self._chosen = replace(self.chosen, span=span)
        self.update_view()

    def action_plotted(self) -> None:
        """Plot something else."""
        self._chosen = self._after(self.chosen)
        self.update_view()

    def action_week(self) -> None:
        """Look at last week, day by day."""
        if self.kshunt.playback.past:
            self.say("Only a live backend has results of a week.", "warn")
            return
        from kshunt.tui.views.history.week_screen import WeekScreen

        self.app.push_screen(WeekScreen(self.kshunt))
