"""The overview: whether all is well, how far the moves are, what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.widget import Widget

from kshunt.backend.domain.text.formatting import duration_text
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, PolledFact
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.tables.model import Cell
from kshunt.tui.views.attention import overview_attention
from kshunt.tui.views.board_screen import BoardScreen
from kshunt.tui.views.fixes import Fix, fix_of_item
from kshunt.tui.views.status_bar import FRESH_S, STALE_S

if TYPE_CHECKING:
    from kshunt.tui.tables.lines import Line
    from kshunt.tui.views.overview.layout import OverviewState


class OverviewScreen(BoardScreen):
    """Home."""

    VIEW: ClassVar[str] = OVERVIEW

    def compose_body(self) -> Iterable[Widget]:
        """The lines."""
        yield SelectableLines(glyphs=self.kshunt.glyphs, id="home")

    def lines(self, width: int, height: int) -> list[Line]:
        """Health, progress, what runs, what is worst, what to look at."""
        if self.kshunt.store.home is None:
            from kshunt.tui.tables.lines import Line

            text = f" {self._nothing_words()}"
            return [Line(()), Line((Cell(text, "dim"),))]
        from kshunt.tui.views.overview.layout import home_lines

        return home_lines(self._sight(), width, height, self.kshunt.glyphs)

    def _sight(self) -> OverviewState:
        from kshunt.tui.views.overview.layout import OverviewState

        store, scene = self.kshunt.store, self.kshunt.store.scene
        return OverviewState(
            home=store.home,
            items=overview_attention(store),
            data_age=self._age_cell(),
            nothing=self._nothing_words(),
            drift=self._known(DRIFT, needed=scene.running),
            orphans=self._known(ORPHANS, needed=self._throttled),
        )

    @property
    def _throttled(self) -> bool:
        home = self.kshunt.store.home
        return home is not None and home.overview is not None and home.overview.throttled

    def _known(self, fact: PolledFact[tuple[Any, ...]], *, needed: bool) -> int | None:
        """A count, or None while it was not answered; where nobody has to ask there is none."""
        scene = self.kshunt.store.scene
        if fact.name in scene.unanswered or (needed and not scene.answered(fact)):
            return None
        return len(scene.answer(fact))

    def _age_cell(self) -> Cell:
        store = self.kshunt.store
        age = duration_text(store.data_age_s)
        if store.scene.lost:
            return Cell(f"CONNECTION LOST: all of this is {age} old.", "bad")
        if store.data_age_s > STALE_S:
            return Cell(f"Stale: data {age} old.", "bad")
        return Cell(f"Data {age if store.data_age_s >= FRESH_S else '<2s'} old.", "dim")

    def _nothing_words(self) -> str:
        scene = self.kshunt.store.scene
        if scene.lost and scene.snapshot is None:
            return scene.connection.reason
        if scene.snapshot is None:
            return f"Waiting for the first snapshot from {self.kshunt.address}"
        return "Adding up."

    # What can be done

    def chosen_fix(self) -> Fix | None:
        """Of the attention line under the cursor."""
        key, store = self.board.cursor_key, self.kshunt.store
        items = overview_attention(store)
        chosen = (item for item in items if ("item", item.key) == key)
        return next((fix_of_item(store, item) for item in chosen), None)

    def action_plan(self) -> None:
        """Make a plan."""
        if not self.refused("plan"):
            self.kshunt.workflows.plan()
