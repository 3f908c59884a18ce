"""The overview: whether all is well, how far the moves are, what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.widget import Widget

from tui.attention import watchful
from tui.questions import DRIFT, ORPHANS
from tui.screens.board import BoardScreen
from tui.store import ConnectionState
from tui.tables.base import Cell
from tui.text import duration_text
from tui.views import OVERVIEW
from tui.widgets.board import Board
from tui.widgets.status import FRESH_S, STALE_S

if TYPE_CHECKING:
    from tui.tables.home import Sight
    from tui.tables.lines import Line


class OverviewScreen(BoardScreen):
    """Home."""

    VIEW: ClassVar[str] = OVERVIEW

    def compose_body(self) -> Iterable[Widget]:
        """The lines."""
        yield Board(glyphs=self.kshunt.glyphs, id="home")

    def lines(self, width: int, height: int) -> list[Line]:
        """Health, progress, what runs, what is worst, what to look at."""
        if self.kshunt.store.home is None:
            from tui.tables.lines import Line

            text = f" {self._nothing_words()}"
            return [Line(()), Line((Cell(text, "dim"),))]
        from tui.tables.home import home_lines

        return home_lines(self._sight(), width, height, self.kshunt.glyphs)

    def _sight(self) -> Sight:
        from tui.tables.home import Sight

        store = self.kshunt.store
        return Sight(
            home=store.home,
            items=watchful(store),
            data_age=self._age_cell(),
            nothing=self._nothing_words(),
            drift=self._known(DRIFT, len(store.drift), needed=store.running),
            orphans=self._known(ORPHANS, len(store.orphans), needed=self._throttled),
        )

    @property
    def _throttled(self) -> bool:
        home = self.kshunt.store.home
        return home is not None and home.overview is not None and home.overview.throttled

    def _known(self, about: str, count: int, *, needed: bool) -> int | None:
        """A count, or None while it was not answered; where nobody has to ask there is none."""
        store = self.kshunt.store
        if about in store.unanswered or (needed and about not in store.answered):
            return None
        return count

    def _age_cell(self) -> Cell:
        store = self.kshunt.store
        age = duration_text(store.data_age_s)
        if store.connection.state is ConnectionState.LOST:
            return Cell(f"CONNECTION LOST: all of this is {age} old.", "bad")
        if store.data_age_s > STALE_S:
            return Cell(f"Stale: data {age} old.", "bad")
        return Cell(f"Data {age if store.data_age_s >= FRESH_S else '<2s'} old.", "dim")

    def _nothing_words(self) -> str:
        store = self.kshunt.store
        if store.connection.state is ConnectionState.LOST and store.snapshot is None:
            return store.connection.reason
        if store.snapshot is None:
            return f"Waiting for the first snapshot from {self.kshunt.address}"
        return "Adding up."

    # What can be done

    def action_plan(self) -> None:
        """Make a plan."""
        if not self.refused("plan"):
            self.kshunt.flows.plan()
