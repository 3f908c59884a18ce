"""How often forecasts were right, in the operation's details and in the history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.forecast.scoring.kept_forecasts import VoidReason
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.tui.actions.view_names import HISTORY
from kshunt.tui.facts.progress import progress_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.text.glyphs import UNICODE
from kshunt.tui.views.history.forecast_accuracy import accuracy_lines
from kshunt.tui.views.operations.details import about
from kshunt.tui.views.operations.table import OperationRow
from tests.support.forecast.kept import kept_forecast
from tests.support.tui.app import dashboard
from tests.support.tui.cluster import ScriptedCluster, incident, moving, running_move

RECORD = ForecastRecord("35 operations of this cluster", 34, 41)
WORDS = "right 83 % of 41 forecasts; ranges from 35 operations of this cluster"
KEPT = (
    kept_forecast(point=0.05, actual_s=900.0),
    kept_forecast(point=0.1, actual_s=1_260.0),
    kept_forecast(point=0.25, actual_s=700.0),
    kept_forecast(point=0.5, void=VoidReason.THROTTLE_CHANGED),
    kept_forecast(point=0.75),
)
MADE_MS = KEPT[0].made_ms


def said(cluster: ScriptedCluster, operation: Operation) -> dict[str, str]:
    """The lines of the operation's details by label."""
    facts = Facts(cluster.step(5.0))
    row = OperationRow(operation, facts.snapshot.taken_ms, progress_of(facts, operation))
    return {one.label: one.text for one in about(row, facts, (), UNICODE, 30, record=RECORD)}


def test_a_running_operation_says_how_often_forecasts_were_right_next_to_its_end() -> None:
    cluster = incident()
    lines = said(cluster, running_move(cluster))
    assert lines["Forecasts"] == WORDS
    labels = list(lines)
    assert labels.index("Done") < labels.index("Forecasts") < labels.index("Moves")


def test_an_operation_that_ended_says_how_its_own_turned_out() -> None:
    cluster = incident()
    done = replace(running_move(cluster), state=OperationState.DONE, forecasts=KEPT[:4])
    assert said(cluster, done)["Forecasts"] == (
        "right 1 of 3, 1 void; at 10 %: ended 1m00s after the range; at 25 %: ended 1m20s before "
        "the range; at 50 %: void: somebody changed the throttle"
    )


def test_the_history_has_each_forecast_of_the_newest_operations() -> None:
    operation = replace(running_move(incident()), id="ab12", forecasts=KEPT)
    silent = replace(operation, id="none", forecasts=())
    lines = accuracy_lines(RECORD, [silent, operation], MADE_MS, 100, UNICODE)
    texts = [" ".join(line.text.split()) for line in lines]
    assert texts == [
        WORDS,
        "reassign ab12 right 1 of 3, 1 void",
        "5 % 12:15 (12:13-12:20) right",
        "10 % 12:15 (12:13-12:20) ended 1m00s after the range",
        "25 % 12:15 (12:13-12:20) ended 1m20s before the range",
        "50 % 12:15 (12:13-12:20) void: somebody changed the throttle",
        "75 % 12:15 (12:13-12:20) open",
    ]
    assert len({line.key for line in lines}) == len(lines)
    assert accuracy_lines(None, [silent], MADE_MS, 100, UNICODE) == []


async def test_the_history_shows_what_the_backend_says(tmp_path: Path) -> None:
    cluster = moving()
    async with dashboard(tmp_path / "s", cluster, size=(120, 50), start_view=HISTORY) as shown:
        shown.backend.status = replace(shown.backend.status, forecast_record=RECORD)
        shown.time.now += 10
        await shown.publish()
        await shown.until(lambda: WORDS in shown.frame(), "it is shown")
