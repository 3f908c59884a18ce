"""Results of the data pipeline through a backend's API, and how the pipeline is said to stand."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.encoders import jsonable_encoder

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.pipeline.delivered import (
    ABSENT,
    BACKFILL,
    STREAM,
    PipelineProcess,
    PipelineState,
    PipelineStatus,
    RunsAs,
    SampleGap,
    SamplesStatus,
    TableStatus,
)
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.telemetry.recording.gaps import Gap, GapReason
from kshunt.backend.telemetry.recording.recorder import RecorderStatus
from kshunt.backend.telemetry.results.pipeline_status import PipelineFacts, samples_of, status_of
from tests.support.embedded.background import running
from tests.support.pipeline.delivered import write
from tests.support.serving import serving
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

NOW_MS = 1_763_800_000_000
FOLDER = Path("/s/results")
BOUND = "leader throttle of broker 3"
DEADLINE_S = 60.0


def until(client: BackendClient, fits: Callable[[PipelineStatus], bool]) -> PipelineStatus:
    """The status, once it fits."""
    found = [client.pipeline.status()]

    def fitting() -> bool:
        found[:] = [client.pipeline.status()]
        return fits(found[0])

    wait_until(fitting, DEADLINE_S, "the status fits")
    return found[0]


def delivered(results: Path) -> int:
    """Write some of every kind, of now; when that is."""
    now_ms = time.time_ns() // 1_000_000
    replica = {"rid": 7, "topic": "orders", "partition": 0, "broker": 2}
    write(
        results,
        RATES,
        [
            {**replica, "at": now_ms - s * 1_000, "tick": now_ms - s * 1_000, "leader": 1}
            | {"adding": True, "elapsed_s": 5.0, "remaining_bytes": 100, "advanced_bytes": 50}
            for s in range(0, 600, 5)
        ],
    )
    forecast = {"at": now_ms, "tick": now_ms, "operation_id": "op", "p50_s": 60.0, "copies": 1}
    write(results, ETA, [{**forecast, "bound": BOUND}])
    stall = {**replica, "start": now_ms - 30_000, "end": now_ms, "seconds": 30.0, "open": True}
    write(results, STALLS, [{**stall, "cause": "broker_down"}])
    write(results, BROKER_LOAD, [{"start": now_ms, "newest": now_ms, "broker": 2}])
    effect = {"start": now_ms - 9, "end": now_ms, "broker": 2, "direction": "leader"}
    write(results, THROTTLE_EFFECT, [{**effect, "advice": "keep", "reason": "so"}])
    return now_ms


def test_a_backend_that_knows_no_results_says_what_to_do(tmp_path: Path) -> None:
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serving(cluster.bootstrap_servers, tmp_path) as address,
        BackendClient(address) as client,
    ):
        assert client.pipeline.status() == ABSENT
        past = client.pipeline.past()
        assert not any(rows.rows for rows in (past.etas, past.stalls, past.loads))
        assert past.course.of == TableStatus("rates")
        assert client.pipeline.effects().rows == ()


def test_results_are_served_with_age_and_source(tmp_path: Path) -> None:
    samples = tmp_path / "a recording"
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2], [2, 3]])
        with (
            serving(
                *(cluster.bootstrap_servers, tmp_path, "--samples", str(samples), "--record-only")
            ) as address,
            BackendClient(address) as client,
        ):
            first = until(client, lambda one: one.samples is not None)
            assert first.state is PipelineState.ABSENT
            assert first.command == f"kshunt pipeline run --samples '{samples}'"
            written = until(
                client, lambda one: one.samples is not None and bool(one.samples.written_ms)
            )
            assert written.samples is not None
            assert not written.samples.problem
            at_ms = delivered(samples / "results")
            found = client.pipeline.status()
            assert found.state is PipelineState.RUNNING
            assert found.of("rates").newest_ms == at_ms
            assert found.of("rates").source == STREAM
            assert found.behind_s is not None
            assert found.behind_s < 60
            check_rows(client, at_ms)
            assert found.files_aside == 0
            check_files(client, samples / "results", at_ms)


def test_a_day_is_answered_from_roll_ups_when_the_forecasts_of_each_tick_are_gone(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    day_ms = NOW_MS - NOW_MS % DAY_MS
    times = [day_ms + 9 * HOUR_MS + second * 1_000 for second in range(0, 600, 5)]
    forecasts = [{"at": at_ms, "tick": at_ms, "operation_id": "op", "copies": 1} for at_ms in times]
    write(results, ETA, [{**one, "bound": BOUND} for one in forecasts])
    maintain(results, KeptDays(14, 730), lambda: day_ms + 2 * DAY_MS)
    shutil.rmtree(results / ETA.name)
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serving(cluster.bootstrap_servers, tmp_path, "--results", str(results)) as address,
        BackendClient(address) as client,
    ):
        day = datetime.fromtimestamp(day_ms / 1000, UTC).date()
        (row,) = client.pipeline.bottlenecks(day=day).rows
        assert (row.bound, row.seconds, row.operations) == (BOUND, 600.0, 1)
        assert client.pipeline.bottlenecks(day=day + timedelta(days=1)).rows == ()


def check_rows(client: BackendClient, at_ms: int) -> None:
    etas = client.pipeline.etas()
    assert [(one.operation_id, one.p50_s, one.at_ms) for one in etas.rows] == [("op", 60.0, at_ms)]
    assert (etas.of.source, etas.of.newest_ms) == (STREAM, at_ms)
    assert client.pipeline.etas("other").rows == ()
    assert client.pipeline.etas(copies=True).rows == ()
    (stall,) = client.pipeline.stalls(replica=("orders", 0, 2)).rows
    assert (stall.open, stall.cause) == (True, "broker_down")
    assert client.pipeline.stalls(replica=("orders", 0, 3)).rows == ()
    past = client.pipeline.past()
    assert [one.broker for one in past.loads.rows] == [2]
    assert past.causes.rows[0].cause == "broker_down"
    (bottleneck,) = past.bottlenecks.rows
    assert (bottleneck.bound, bottleneck.seconds) == (BOUND, 5.0)
    today = datetime.fromtimestamp(bottleneck.first_ms / 1000, UTC).date()
    assert client.pipeline.bottlenecks(day=today).rows == (bottleneck,)
    assert client.pipeline.bottlenecks(day=today - timedelta(days=1)).rows == ()
    for wrong in ("0", "20261124", "2026-11-31", "2026-11-24T00:00", "tuesday"):
        path = f"/v1/pipeline/bottlenecks?day={wrong}"
        assert client.sender.exchange("GET", path, endless=False).status == 400, wrong
    assert sum(point.copies > 0 for point in past.course.course.points) >= 10
    assert past.course.course.bucket_s == 60.0
    assert client.pipeline.effects().rows[0].reason == "so"


def check_files(client: BackendClient, results: Path, at_ms: int) -> None:
    line = {"start": at_ms, "of": "replicas", "fault": "damaged", "found": at_ms}
    files = [{**line, "file": f"replicas/{n}", "found": at_ms + n} for n in range(5)]
    # A backfill names a file that a stream had named.
    write(results, QUARANTINE_FILES, files)
    write(results, QUARANTINE_FILES, [{**files[0], "found": at_ms + 9}], "batch_id=2")
    found = client.pipeline.status()
    assert found.files_aside == 5
    assert [one.file for one in found.aside] == ["replicas/0", "replicas/4", "replicas/3"]
    answer = client.pipeline.files_aside()
    assert [one.found_ms for one in answer.rows] == [at_ms + n for n in (9, 4, 3, 2, 1)]
    assert answer.of.source == STREAM


def test_results_elsewhere_are_served_too(tmp_path: Path) -> None:
    results = tmp_path / "elsewhere"
    delivered(results)
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serving(cluster.bootstrap_servers, tmp_path, "--results", str(results)) as address,
        BackendClient(address) as client,
    ):
        found = client.pipeline.status()
        assert (found.state, found.samples, found.folder) == (
            PipelineState.RUNNING,
            None,
            str(results),
        )
        (results / "manifest.json").write_text("no")
        assert client.pipeline.status().state is PipelineState.FAILED
        assert "manifest.json cannot be read" in client.pipeline.status().reason


# How it stands


def test_a_process_that_has_just_begun_may_be_late() -> None:
    begun = status_of(seen(NOW_MS - 900_000, process=PipelineProcess(True, NOW_MS - 9_000)))
    assert (begun.state, begun.reason) == (PipelineState.RUNNING, "It has begun, and catches up.")


def seen(
    newest_ms: int | None = NOW_MS - 4_000, source: str = STREAM, **others: Any
) -> PipelineFacts:
    tables = (TableStatus("rates", newest_ms, source), TableStatus("quality", NOW_MS, BACKFILL))
    said: dict[str, Any] = {
        "folder": FOLDER,
        "samples_folder": Path("/s"),
        "samples": SamplesStatus(NOW_MS),
        "process": None,
        "now_ms": NOW_MS,
        "tables": tables if newest_ms is not None else (),
    }
    return PipelineFacts(**{**said, **others})


@pytest.mark.parametrize(
    ("present", "state", "command"),
    [
        (
            seen(folder=None, samples=None),
            PipelineState.ABSENT,
            "kshunt serve --samples DIR",
        ),
        (seen(folder=None), PipelineState.ABSENT, "kshunt serve --results DIR"),
        (seen(None), PipelineState.ABSENT, "kshunt pipeline run --samples /s"),
        (
            seen(None, samples=None, samples_folder=None),
            PipelineState.ABSENT,
            "kshunt pipeline run --samples /s",
        ),
        (
            seen(None, samples=None, samples_folder=None, folder=Path("/r")),
            PipelineState.ABSENT,
            "kshunt pipeline run --samples DIR --results /r",
        ),
        (seen(None, process=PipelineProcess(True, NOW_MS)), PipelineState.RUNNING, ""),
        (seen(), PipelineState.RUNNING, ""),
        (seen(source=BACKFILL), PipelineState.UNATTENDED, "kshunt pipeline run --samples /s"),
        (seen(NOW_MS - 900_000), PipelineState.LATE, "kshunt pipeline run --samples /s"),
        (seen(NOW_MS - 900_000, process=PipelineProcess(True, 0)), PipelineState.LATE, ""),
        (seen(process=PipelineProcess(False, NOW_MS, 2, "no")), PipelineState.RESTARTING, ""),
        (seen(unreadable="torn"), PipelineState.FAILED, ""),
        (seen(process=PipelineProcess(False, NOW_MS)), PipelineState.RESTARTING, ""),
    ],
)
def test_each_standing_says_what_to_run(present: PipelineFacts, state: str, command: str) -> None:
    found = status_of(present)
    assert (found.state, found.command) == (state, command)
    assert bool(found.reason) is (state != PipelineState.RUNNING or not present.tables)


def test_how_far_behind_is_told_by_samples_or_else_by_the_clock() -> None:
    assert status_of(seen()).behind_s == 4.0
    # A cluster that is silent is no reason to call its results old.
    silent = SamplesStatus(NOW_MS - 900_000)
    assert status_of(seen(NOW_MS - 901_000, samples=silent)).state is PipelineState.RUNNING
    assert status_of(seen(NOW_MS - 901_000, samples=None)).state is PipelineState.LATE
    assert status_of(seen(samples=SamplesStatus())).behind_s is None


def test_what_a_recorder_says_of_itself_is_handed_on() -> None:
    gap = Gap(1, 2, GapReason.DROPPED, "Rows were let go.", rows=5)
    recorder = RecorderStatus(10, 7, 0, 5, 2, 3, "No room.", (gap,))
    assert samples_of(recorder) == SamplesStatus(
        7, "No room.", 7, 3, (SampleGap(1, 2, "Rows were let go."),)
    )
    assert samples_of(RecorderStatus()).written_ms is None


def test_a_standing_is_read_as_it_is_written() -> None:
    samples = SamplesStatus(5, "", 0, 0, (SampleGap(1, 2, "a gap"),))
    process = PipelineProcess(False, 5, 2, "The disk is full.", RunsAs.THREAD)
    for found in (status_of(seen(samples=samples, process=process)), ABSENT):
        assert from_document(PipelineStatus, to_document(found)) == found
    earlier = to_document(process)
    del earlier["runs_as"]
    assert from_document(PipelineProcess, earlier) == replace(process, runs_as=RunsAs.PROCESS)
    later = {**jsonable_encoder(asdict(ABSENT)), "of_a_later_version": 1}
    assert from_document(PipelineStatus, later) == ABSENT
    assert replace(ABSENT, newest_ms=1).of("eta") == TableStatus("eta")
