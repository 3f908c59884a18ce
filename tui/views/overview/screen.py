"""The overview: whether all is well, how far the moves are, what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events
from textual.containers import Container
from textual.widget import Widget

from kshunt.backend.domain.text.formatting import duration_text
from kshunt.tui.actions import PARTED
from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, OVERVIEW, PARTITIONS
from kshunt.tui.facts.view_query import PARTS as PARTS_ASKED
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, PAST_DRIFT, PolledFact
from kshunt.tui.grid.part import Part
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.tables.model import Cell
from kshunt.tui.views.attention import attention
from kshunt.tui.views.board_screen import BoardScreen
from kshunt.tui.views.overview.parts import BROKERS as BROKERS_PART
from kshunt.tui.views.overview.parts import (
    EVENTS,
    FLOWS,
    HEAD,
    MIDDLE_LEAST,
    MOVES,
    PARTS,
    Layout,
    layout_for,
)
from kshunt.tui.views.status_bar import FRESH_S, STALE_S

if TYPE_CHECKING:
    from kshunt.tui.facts.overview import Home
    from kshunt.tui.tables.lines import Line
    from kshunt.tui.tables.targets import Item
    from kshunt.tui.views.overview.layout import OverviewState


PARTS_MS: Final = 900
"""Parts are made anew for snapshots that lie at least so far apart: they have many numbers."""
ZOOM_SHOWS: Final = "z shows more"
"""How what does not fit can be seen."""


class OverviewScreen(BoardScreen):
    """Home."""

    VIEW: ClassVar[str] = OVERVIEW

    def __init__(self) -> None:
        super().__init__()
        self._chosen = HEAD
        """The part that keys go to."""
        self._zoomed = False
        self._shown_ms = 0
        """When the snapshot was taken that the parts show."""

    def compose_body(self) -> Iterable[Widget]:
        """The lines at the top, and the parts below them."""
        glyphs = self.kshunt.glyphs
        yield SelectableLines(glyphs=glyphs, id=HEAD)
        yield Container(*(Part(name, glyphs=glyphs) for name in PARTS), id="parts")

    def on_mount(self) -> None:
        """There may be room for parts."""
        super().on_mount()
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for parts, or none any more."""
        super().on_resize(event)
        self._lay_out()

    # Parts

    @property
    def layout_now(self) -> Layout:
        """What there is room for."""
        return layout_for(*self.app.size)

    @property
    def board(self) -> SelectableLines:
        """The lines that keys go to."""
        return self.query_one(f"#{self._chosen}", SelectableLines)

    @property
    def places(self) -> tuple[str, ...]:
        """What a key can go to, in the order in which it does."""
        return (HEAD, *self.layout_now.parts)

    def _lay_out(self) -> None:
        """Show what there is room for, and have it computed."""
        layout = self.layout_now
        if self._chosen not in self.places:
            self._chosen, self._zoomed = HEAD, False
        for one in Layout:
            self.set_class(one is layout, one.value)
        self.set_class(self._zoomed, "-zoomed")
        for part in self.query(Part):
            part.set_class(part.part == self._chosen, "-chosen")
            part.display = part.part in layout.parts
            if self._zoomed:
                part.display = part.part == self._chosen
        group = PARTS_ASKED if layout.parts else ""
        if self.kshunt.store.queries[self.VIEW].group != group:
            self.kshunt.store.ask(self.VIEW, group=group)
            self.kshunt.compute_table(self.VIEW)
        self.offer_keys()

    def action_part(self, steps: int) -> None:
        """Let keys go to another part."""
        places = self.places
        if len(places) == 1:
            self.say(f"More parts need a terminal of {MIDDLE_LEAST}.")
            return
        if self._zoomed:
            places = places[1:]
        place = places.index(self._chosen)
        self._choose(places[(place + steps) % len(places)])

    def _choose(self, part: str) -> None:
        self.board.leave()
        self._chosen = part
        self._lay_out()
        self._show_lines()

    def let_keys_go_to(self, lines: SelectableLines) -> None:
        """The part of these lines, which the mouse chose."""
        if lines is not self.board and lines.id in self.places:
            self._choose(lines.id)

    def action_zoom(self) -> None:
        """Give the whole screen to the part that keys go to, or show all again."""
        if not self.layout_now.parts:
            self.say(f"More parts need a terminal of {MIDDLE_LEAST}.")
            return
        if self._chosen == HEAD:
            self._chosen = PARTS[0]
        self._zoomed = not self._zoomed
        self._lay_out()

    def action_back(self) -> None:
        """Show all again, or choose nothing any more."""
        if self._zoomed:
            self.action_zoom()
        else:
            super().action_back()

    def action_go(self) -> None:
        """Go where the line leads, or where its part is shown in full."""
        view = {MOVES: PARTITIONS, FLOWS: BROKERS, BROKERS_PART: BROKERS, EVENTS: OPERATIONS}
        if self.board.cursor_key is None and self._chosen in view:
            self.action_view(view[self._chosen])
        else:
            super().action_go()

    def conditions(self) -> set[str]:
        """Whether there are parts, too."""
        return super().conditions() | ({PARTED} if self.layout_now.parts else set())

    # What is shown

    def show_boards(self) -> None:
        """The head and the parts that are in sight."""
        head = self.query_one(f"#{HEAD}", SelectableLines)
        if head.size.width and head.size.height:
            head.show(self.lines(head.size.width, head.size.height))
        home, glyphs = self.kshunt.store.home, self.kshunt.glyphs
        if home is None:
            # The first frame is shown before data libraries are loaded.
            return
        from kshunt.tui.views.overview.part_lines import part_lines, part_title

        more = "" if self._zoomed else ZOOM_SHOWS
        soon = self._is_soon(home)
        for part in self.query(Part):
            size = part.lines.size
            if (
                part.display
                and size.width
                and size.height
                and part.is_new(home, (size, more), soon=soon)
            ):
                part.title(part_title(part.part, home))
                part.lines.show(part_lines(part.part, home, size.width, size.height, glyphs, more))

    def _is_soon(self, home: Home) -> bool:
        """Whether parts show a snapshot from shortly before; remembers what they show."""
        if home.overview is None or home.cockpit is None:
            self._shown_ms = 0
            return False
        later_ms = home.overview.taken_ms - self._shown_ms
        soon = 0 < later_ms < PARTS_MS and not self.kshunt.playback.past
        if not soon:
            self._shown_ms = home.overview.taken_ms
        return soon

    def lines(self, width: int, height: int) -> list[Line]:
        """Health, progress, what runs, what is worst, what to look at."""
        if self.kshunt.store.home is None:
            from kshunt.tui.tables.lines import Line

            text = f" {self._nothing_words()}"
            return [Line(()), Line((Cell(text, "dim"),))]
        from kshunt.tui.views.overview.layout import head_lines, home_lines

        written = head_lines if self.layout_now.parts else home_lines
        return written(self._sight(), width, height, self.kshunt.glyphs)

    def _sight(self) -> OverviewState:
        from kshunt.tui.views.overview.layout import OverviewState

        store, scene = self.kshunt.store, self.kshunt.store.scene
        return OverviewState(
            home=store.home,
            items=attention(store),
            data_age=self._age_cell(),
            nothing=self._nothing_words(),
            drift=self._known(DRIFT, needed=scene.running),
            orphans=self._known(ORPHANS, needed=self._throttled),
            past_drift=None if scene.running else scene.answer(PAST_DRIFT),
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

    def chosen_item(self) -> Item | None:
        """The attention line under the cursor, else the first one."""
        items = attention(self.kshunt.store)
        chosen = (one for one in items if ("item", one.key) == self.board.cursor_key)
        return next(chosen, None) or next(iter(items), None)

    def action_plan(self) -> None:
        """Make a plan."""
        if not self.refused("plan"):
            self.kshunt.workflows.plan()
