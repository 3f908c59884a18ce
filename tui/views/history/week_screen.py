"""A week at a glance: opened from the history, it asks the backend day by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.errors import KshuntError
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.dialogs.row_details import RowDetailsScreen

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.views.history.week_summary import Days


AGAIN_S: Final = 2.0
"""The screen asks again after this time, while the backend still reads."""


class WeekScreen(RowDetailsScreen):
    """What held operations up on each day of a week."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "week(-1)", "Earlier week", show=False),
        Binding("right,l", "week(1)", "Later week", show=False),
    ]

    def __init__(self, app: Dashboard) -> None:
        self._kshunt = app
        self._week = Week.at(app.store.now_ms).before
        self._days: Days | None = None
        self._failure = ""
        super().__init__(self._heading, self._facts)

    @property
    def _heading(self) -> str:
        return f"Week {self._week} (UTC): what held operations up"

    def compose_body(self) -> Iterable[Widget]:
        """The lines, and the keys."""
        with VerticalScroll(id="details"):
            yield Lines(id="said")
        yield Lines("Left Right other weeks, j k scroll, Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Ask for the week."""
        super().on_mount()
        self.ask(self._read)

    def action_week(self, steps: int) -> None:
        """Look at an earlier week, or a later one that has begun."""
        week = self._week.before if steps < 0 else Week.at(self._week.to_ms)
        if week <= Week.at(self._kshunt.store.now_ms):
            self._week, self._days, self._failure = week, None, ""
            self.call_it(self._heading)
            self.show()
            self.ask(self._read)

    async def _read(self) -> None:
        from kshunt.tui.views.history.week_summary import is_whole

        week, now_ms = self._week, self._kshunt.store.now_ms
        begun = [day_ms for day_ms in week.days_ms if day_ms <= now_ms]

        def question(client: BackendClient) -> Days:
            days = {day_ms: datetime.fromtimestamp(day_ms / 1000, UTC).date() for day_ms in begun}
            return {at: client.pipeline.bottlenecks(day=day) for at, day in days.items()}

        try:
            self._days = await self._kshunt.link.ask(question)
        except KshuntError as error:
            self._failure = str(error)
        self.show()
        if self._days is not None and not is_whole(self._days):
            self.set_timer(AGAIN_S, lambda: self.ask(self._read))

    def _facts(self) -> Sequence[tuple[str, str]]:
        from kshunt.tui.views.history.week_summary import is_whole, week_facts

        if self._failure:
            return [("", self._failure)]
        if self._days is None:
            return [("", "Reading the results of the week.")]
        store = self._kshunt.store
        facts = week_facts(
            self._week, self._days, store.scene.operations, store.now_ms, self._kshunt.glyphs
        )
        note = [] if is_whole(self._days) else [("", "Older results are being read.")]
        return [*facts, ("Page", f"kshunt report --week {self._week} --samples DIR"), *note]
