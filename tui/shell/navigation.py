"""Going where something is to be seen: another view, its filter, the cursor on a row by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.facts.filter_terms import parse_filter
from kshunt.tui.tables.targets import ReturnPoint, ScreenTarget

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard


def back(app: Dashboard, view: str) -> bool:
    """Return to where a line led from, if the view is as the line wanted it; False if it is not."""
    point = app.return_points.get(view)
    text = app.store.queries[view].filter_text
    if point is None or text not in ("", point.filter_text):
        return False
    del app.return_points[view]
    if text:
        app.store.ask(view, terms=(), filter_text="")
    app.switch_mode(point.view)
    return True


def go(app: Dashboard, target: ScreenTarget) -> None:
    """Show a view as the target wants it. The cursor follows once the view's rows are there."""
    if target.view == PARTITIONS:
        # Whatever was narrowed there could hide the row.
        text = target.filter_text or ""
        app.store.ask(
            PARTITIONS,
            terms=parse_filter(text),
            filter_text=text,
            follow=False,
            chosen=True,
            group="",
            inside=None,
            opened_from=None,
        )
    elif app.store.queries[target.view].filter_text:
        app.store.ask(target.view, terms=(), filter_text="")
    if target.key is not None:
        _Arrival(app, target).wait()
    if app.current_mode != target.view:
        app.return_points[target.view] = ReturnPoint(app.current_mode, target.filter_text or "")
        app.switch_mode(target.view)
    app.compute_table(target.view)


class _Arrival:
    """Puts the cursor on a row as soon as the view shows rows of its present query, once."""

    def __init__(self, app: Dashboard, target: ScreenTarget) -> None:
        self._app = app
        self._target = target
        self._query = app.store.queries[target.view]

    def wait(self) -> None:
        """Look whenever the store changes."""
        # Until then the cursor is on another row, which nobody means.
        self._app.underway = self._app.store.scene.snapshot is not None
        self._app.changed.unsubscribe(self._app)
        self._app.changed.subscribe(self._app, self._changed)

    def _end(self) -> None:
        self._app.underway = False
        self._app.changed.unsubscribe(self._app)

    def _changed(self, view: str) -> None:
        app, target = self._app, self._target
        job = app.store.jobs.get(target.view)
        left = app.current_mode != target.view or app.store.queries[target.view] != self._query
        if left:
            self._end()
        elif view == target.view and job is not None and job.query == self._query:
            app.changed.unsubscribe(app)
            # The view shows its rows, and what it says of the first one, before this is called.
            app.call_after_refresh(self._arrive)

    def _arrive(self) -> None:
        self._app.underway = False
        if self._app.current_mode == self._target.view and self._target.key is not None:
            self._app.show_row(self._target.key)
