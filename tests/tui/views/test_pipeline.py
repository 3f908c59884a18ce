"""What the data pipeline delivered, where the dashboard shows it: age and source everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.pipeline.delivered import (
    ABSENT,
    FileAsideRow,
    PipelineProcess,
    PipelineState,
    RunsAs,
    SamplesStatus,
    TableStatus,
)
from kshunt.tui.actions.view_names import HISTORY, OVERVIEW, PARTITIONS, THROTTLES
from kshunt.tui.facts.forecast import PipelineForecast, age_text, end_text, of_operation, range_text
from kshunt.tui.feed.polled_facts import (
    DELIVERED,
    EFFECTS,
    PIPELINE,
    PollingState,
    due,
)
from kshunt.tui.recorder.json_values import decode, encode
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.pipeline_alerts import UNWRITTEN_MS, pipeline_alerts
from tests.support.tui.app import SIZES, Shown, check_frame, dashboard
from tests.support.tui.backend import Problem, ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, moving
from tests.support.tui.delivered import deliver, eta, gap, pipeline_status

NOW_MS = 1_760_000_120_000


async def delivered(shown: Shown) -> None:
    """Have everything delivered, asked for and shown."""
    deliver(shown.backend, shown.backend.cluster.now_ms)
    shown.app.polling.nudge()
    await shown.until(
        lambda: bool(shown.app.store.scene.answer(PIPELINE)), "it is known that it runs"
    )
    shown.app.polling.nudge()


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_the_history_shows_what_was_delivered(size: str, tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), size=SIZES[size], start_view=HISTORY) as shown:
        await delivered(shown)
        await shown.until(
            lambda: shown.app.store.scene.answer(DELIVERED) is not None, "results are known"
        )
        await shown.press("tab", "tab", "tab", "tab")
        await shown.until(lambda: "Throughput over days" in shown.frame(), "the days are plotted")
        await check_frame(f"history-pipeline-{size}", shown)


async def test_tables_without_rows_and_files_that_are_torn_are_said(tmp_path: Path) -> None:
    cluster = moving()
    async with dashboard(
        tmp_path / "s", cluster, size=SIZES["160x50"], start_view=HISTORY
    ) as shown:
        torn = TableStatus("stalls", problem="stalls/batch_id=3/part-0.parquet is ignored")
        found = pipeline_status(cluster.now_ms)
        shown.backend.pipeline = replace(found, tables=(*found.tables[:2], torn))
        shown.app.polling.nudge()
        await shown.until(lambda: "Stalls     none in a day" in shown.frame(), "it is shown")
        assert "Not here: broker load, pairs, quality." in shown.frame()
        assert "batch_id=3/part-0.parquet is ignored" in shown.frame()
        assert "nothing was copied" in shown.frame()
        assert "no running operation has a forecast" in shown.frame()


async def test_an_earlier_backend_does_not_tell_what_held_operations_up(tmp_path: Path) -> None:
    def unknown(_: dict[str, Any]) -> dict[str, Any]:
        raise Problem(404, "There is no /v1/pipeline/bottlenecks.")

    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        shown.backend.scripted["/v1/pipeline/bottlenecks"] = unknown
        await delivered(shown)
        await shown.until(lambda: "Forecast   op-1" in shown.frame(), "the rest is shown")
        assert "nothing was held up in a day (nothing yet)" in shown.frame()


async def test_every_line_of_the_history_can_be_reached(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        await delivered(shown)
        await shown.until(
            lambda: shown.app.store.scene.answer(DELIVERED) is not None, "results are known"
        )
        seen = ""
        for _ in range(40):
            await shown.press("j")
            seen += shown.frame()
        for words in (
            "leader throttle of broker 4",
            "throughput",
            "continues",
            "full in 1d14h",
            "12 dropped: one row a moment",
            "throttled",
        ):
            assert words in seen, words


async def test_why_a_replica_is_stuck_tells_of_its_past(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=PARTITIONS) as shown:
        await delivered(shown)
        await shown.press("f")
        await shown.until(lambda: "6 moving" in shown.frame() or shown.cursor != "", "it follows")
        while shown.cursor != "orders-2 on broker 3":
            await shown.press("j")
        await shown.press("enter")
        await shown.until(lambda: "in a day" in shown.frame(), "its past is told")
        # A dialogue is on the screen before what lies behind it.
        await shown.until(lambda: "kshunt" in shown.lines()[0], "all of it is painted")
        await check_frame("details-stalls-80x24", shown)
        asked = [path for path in shown.backend.looked if "/pipeline/stalls" in path]
        assert any("topic=" in path and "broker=" in path for path in asked)


async def test_a_throttle_is_recommended_with_its_reason(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=THROTTLES) as shown:
        await delivered(shown)
        await shown.until(
            lambda: shown.app.store.scene.answer(EFFECTS) is not None, "effects are known"
        )
        await shown.until(lambda: "raise to 75.0 MB/s" in shown.frame(), "it is recommended")
        await check_frame("throttles-advice-80x24", shown)
        assert "is the limit, and steady followers keep up" in " ".join(shown.frame().split())


async def test_it_fits_every_terminal_and_plain_ascii(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", moving(), start_view=HISTORY, glyphs=ASCII, plain=True
    ) as shown:
        await delivered(shown)
        await shown.until(
            lambda: shown.app.store.scene.answer(DELIVERED) is not None, "results are known"
        )
        for width, height in ((20, 5), (40, 10), (200, 60), (80, 24)):
            await shown.resize(width, height)
            await shown.until(lambda h=height: len(shown.lines()) <= h, "it fits")  # type: ignore[misc]
            assert shown.frame().isascii()


async def test_results_that_are_late_need_attention(tmp_path: Path) -> None:
    cluster: ScriptedCluster = moving()
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as shown:
        shown.backend.pipeline = pipeline_status(
            cluster.now_ms,
            state=PipelineState.LATE,
            behind_s=780.0,
            command="kshunt pipeline run --samples /s",
            process=None,
        )
        shown.app.polling.nudge()
        await shown.until(lambda: "are 13m behind" in shown.frame(), "it is said")


def test_what_was_delivered_can_be_recorded(tmp_path: Path) -> None:
    backend = ScriptedBackend(tmp_path / "s", moving())
    deliver(backend, NOW_MS)
    for value in (backend.pipeline, *backend.delivered.values()):
        assert decode(json.loads(json.dumps(encode(value)))) == value


# What is asked


def test_results_are_asked_for_where_there_are_any() -> None:
    live = PollingState(0.0, live=True, running=True, view=HISTORY)
    assert DELIVERED not in due(live, {})
    assert PIPELINE in due(live, {})
    tables = frozenset({"eta", "throttle_effect", "rates"})
    assert DELIVERED in due(replace(live, tables=tables), {})
    assert EFFECTS in due(replace(live, tables=tables, view=THROTTLES), {})
    assert not due(replace(live, live=False, tables=tables), {})


# Forecasts in words


def test_a_forecast_counts_from_now_and_ends_being_fresh() -> None:
    row = eta("op-1", NOW_MS)
    found = of_operation([row], "op-1", NOW_MS)
    assert found == PipelineForecast(720.0, 1_140.0, 1_860.0, 4_000, "leader throttle of broker 4")
    assert of_operation([row], "op-2", NOW_MS) is None
    assert of_operation([row], "op-1", NOW_MS + 26_000) is None


def test_never_is_said_with_its_reason_and_unknown_is_no_forecast() -> None:
    never = eta(
        "a", NOW_MS, p10_s=None, p50_s=None, p90_s=None, why="never: nothing is let through"
    )
    found = of_operation([never], "a", NOW_MS)
    assert found is not None
    assert found.never
    assert end_text(found) == "never: nothing is let through"
    unknown = replace(never, why="its rate is not known")
    assert of_operation([unknown], "a", NOW_MS) is None


def test_a_far_end_is_open() -> None:
    found = of_operation([eta("a", NOW_MS, p90_s=None)], "a", NOW_MS)
    assert found is not None
    assert range_text(found) == "12m00s to never"


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [(0, "<10s"), (-5, "<10s"), (19_999, "10s"), (185_000, "3m"), (7_900_000, "2h10m")],
)
def test_an_age_does_not_change_each_second(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text


# What needs attention


def said(**others: object) -> list[str]:
    return [item.text for item in pipeline_alerts(pipeline_status(NOW_MS, **others), NOW_MS)]


def test_a_pipeline_that_keeps_up_needs_nothing() -> None:
    assert not said()
    assert not pipeline_alerts(ABSENT, NOW_MS)


def test_a_recorder_that_stands_is_said() -> None:
    stands = SamplesStatus(NOW_MS - 300_000)
    assert said(samples=stands) == ["No sample was recorded for 5m."]
    full = SamplesStatus(NOW_MS - 300_000, "No space left on device (/s).")
    assert said(samples=full) == ["Samples are not recorded: No space left on device (/s)."]
    assert not said(samples=None)
    just = SamplesStatus(NOW_MS - UNWRITTEN_MS)
    assert not said(samples=just)
    assert said(samples=replace(just, written_ms=NOW_MS - UNWRITTEN_MS - 1))


def test_gaps_are_said_for_an_hour() -> None:
    lately = SamplesStatus(NOW_MS, missed=(gap(NOW_MS),))
    assert said(samples=lately) == [
        "Samples lack: The recorder was killed; samples of up to 9 s may lack."
    ]
    assert not said(samples=SamplesStatus(NOW_MS, missed=(gap(NOW_MS - 3_600_000),)))
    older = [replace(gap(NOW_MS - 60_000), text=f"Gap {number}.") for number in (1, 2)]
    twice = SamplesStatus(NOW_MS, missed=(older[0], older[1]))
    assert said(samples=twice) == ["Samples lack: Gap 2. (and 1 more gap)"]
    thrice = SamplesStatus(NOW_MS, missed=(*older, replace(older[0], text="Gap 3.")))
    assert said(samples=thrice) == ["Samples lack: Gap 3. (and 2 more gaps)"]
    edge = replace(older[0], to_ms=NOW_MS - 3_600_000)
    assert not said(samples=SamplesStatus(NOW_MS, missed=(edge,)))


def test_files_that_were_set_aside_are_said() -> None:
    last = FileAsideRow(0, "replicas", "replicas/a.parquet", "damaged")
    older = replace(last, file="replicas/b.parquet", fault="other_cluster")
    assert said(files_aside=2, aside=(last, older)) == [
        "The pipeline set aside 2 files of samples, the last one because it is damaged "
        "(replicas/a.parquet)."
    ]
    assert not said(files_aside=0)


def test_a_pipeline_that_ends_again_and_again_is_said() -> None:
    ended = PipelineProcess(False, NOW_MS, 3, "Spark gave up.")
    found = said(state=PipelineState.RESTARTING, process=ended, reason="Spark gave up.")
    assert found == ["The pipeline ended and is starting again (3 times so far): Spark gave up."]
    thread = replace(ended, runs_as=RunsAs.THREAD)
    found = said(state=PipelineState.RESTARTING, process=thread, reason="The disk is full.")
    assert found == [
        "The backend makes no results of the samples and tries again (it failed 3 times before): "
        "The disk is full."
    ]
    found = said(state=PipelineState.FAILED, reason="No manifest.")
    assert found == ["Results of the pipeline cannot be read: No manifest."]
