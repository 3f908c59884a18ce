"""How an operation goes: in one line, and in a pane."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, DRIFT

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Facts
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.tables.lines import PaneLine


async def operation_lines(
    app: Dashboard, operation_id: str | None, room: int, *, looks: bool = True
) -> tuple[str, list[PaneLine]] | None:
    """A title and lines about one operation; None while nothing is known of it.

    `looks`: its audit can be looked at from there, so the keys for that are named.
    """
    store = app.store
    scene, facts = store.scene, store.facts
    operation = scene.operation(operation_id)
    if operation is None or facts is None:
        return None
    from kshunt.tui.facts.progress import progress_of
    from kshunt.tui.views.operations.details import about, title_of
    from kshunt.tui.views.operations.table import OperationRow

    # It reads every row of the cluster a few times.
    progress = await asyncio.to_thread(progress_of, facts, operation)
    drift = tuple(one for one in scene.answer(DRIFT) if operation.id in one.operations)
    row = OperationRow(operation, store.now_ms, progress, drift)
    audit = scene.audits.get(operation.id)
    unknown, status = app.playback.unrecorded, scene.answer(BACKEND_STATUS)
    record = None if status is None else status.forecast_record
    lines = about(row, facts, audit, app.glyphs, room, record=record, unknown=unknown, looks=looks)
    return title_of(row), lines


def progress_text(facts: Facts | None, operation: Operation) -> str:
    """`running: 2 of 6 replicas copied, 31.2 GB left, done 12:16 (12:14-12:20)`."""
    from kshunt.backend.domain.forecast.end_words import HELD, end_text
    from kshunt.tui.facts.progress import held, progress_of
    from kshunt.tui.facts.shrink_phases import brief
    from kshunt.tui.views.operations.table import left_text

    state = operation.state.value
    shrink = operation.details.shrink
    if shrink is not None and not operation.state.ended:
        return f"It is {state}: {brief(shrink)}"
    progress = None if facts is None else progress_of(facts, operation)
    if progress is None:
        took = "" if operation.ended_ms is None else _took(operation)
        return f"It is {state}{took}{f': {operation.outcome}' if operation.outcome else ''}"
    if not progress.replicas:
        return f"It is {state}; the cluster reports no copy of it yet"
    now_ms = facts.snapshot.taken_ms if facts is not None else 0
    end = HELD if held(operation) else f"done {end_text(progress.end, now_ms)}"
    left = left_text(progress)
    waiting = f", {progress.waiting:,} waiting" if progress.waiting else ""
    done = f"{progress.arrived:,} of {progress.replicas:,} replicas copied"
    return f"It is {state}: {done}, {left} left, {end}{waiting}"


def _took(operation: Operation) -> str:
    seconds = ((operation.ended_ms or 0) - operation.started_ms) / 1000
    return f" after {duration_text(seconds)}" if seconds >= 1 else ""
