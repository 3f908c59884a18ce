"""A throttled move on real brokers: recorded, streamed, forecast while it runs, and reported."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.pipeline.delivered import STREAM, EtaRow
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from tests.support.brokers.launcher import RealKafka
from tests.support.documents.printed import printed
from tests.support.pipeline.spark import QUICK_JAVA, missing_java
from tests.support.serving import serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import require, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "forecast"
RECORD_BYTES = 50_000
MEGABYTES = (7, 4, 3)
THROTTLE_BYTES_PER_S = 60_000
"""So little that the move waits for a pipeline on a busy machine. It is raised after that."""
RAISED_BYTES_PER_S = 10_000_000
TO_BROKER = 3
RANGES = 2
"""Forecasts with a range that have to be there before the throttle is raised."""
START_DEADLINE_S, DEADLINE_S, END_DEADLINE_S = 300.0, 600.0, 60.0
ASK_S = 0.2
"""A backend reads results for each answer, and they change each few seconds."""
FAR = 3.0
"""A range so much wider on both sides is missed by a defect alone."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A move, and what was said of it."""

    operation: Operation
    forecasts: tuple[EtaRow, ...]
    """Those with a range, each moment's once, until the throttle was raised."""
    started_ms: int
    samples: Path


def moved(client: BackendClient, samples: Path) -> Moved:
    """Move all partitions to one broker; raise its throttle once there are forecasts."""
    targets = {TopicPartition(TOPIC, number): (TO_BROKER,) for number in range(len(MEGABYTES))}
    started_ms = now_ms()
    answer = client.reassignments.start(
        ReassignmentPlan(targets), throttle_bytes_per_s=THROTTLE_BYTES_PER_S
    )
    assert answer.operation_id is not None
    operation_id = answer.operation_id
    said: dict[int, EtaRow] = {}

    def forecast() -> bool:
        assert not found().state.ended
        rows = client.pipeline.etas(operation_id)
        said.update({row.at_ms: row for row in rows.rows if row.p50_s is not None})
        assert not rows.rows or rows.of.source == STREAM
        return len(said) >= RANGES

    def found() -> Operation:
        return next(one for one in client.operations.list() if one.id == operation_id)

    wait_until(forecast, DEADLINE_S, "the pipeline says when the move is done", ASK_S)
    raised = ThrottledRate(RAISED_BYTES_PER_S, RAISED_BYTES_PER_S)
    client.throttles.alter_rates(dict.fromkeys((1, 2, TO_BROKER), raised))
    wait_until(lambda: found().state.ended, DEADLINE_S, "the move has ended", ASK_S)
    ended_ms = now_ms()

    def seen() -> bool:
        newest_ms = client.pipeline.status().of("rates").newest_ms
        return newest_ms is not None and newest_ms > ended_ms

    wait_until(seen, DEADLINE_S, "the end of the move is among the results", ASK_S)
    forecasts = tuple(row for _, row in sorted(said.items()))
    return Moved(found(), forecasts, started_ms, samples)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def move(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    """The move, by a backend that records and runs the pipeline."""
    require(missing_java())
    folder = tmp_path_factory.mktemp("end-to-end")
    samples = folder / "samples"
    create_topic(kafka.bootstrap_servers, TOPIC, [[1], [2], [1]])
    for number, size in enumerate(MEGABYTES):
        produce(
            kafka.bootstrap_servers, TOPIC, size * 1_000_000 // RECORD_BYTES, RECORD_BYTES, number
        )
    names = {"broker1:9092": kafka.bootstrap_servers, "/data/kshunt/prod": samples}
    beginning = (
        "kshunt serve --bootstrap-server broker1:9092 --samples /data/kshunt/prod --pipeline"
    )
    serve, flag, servers, *options = printed("docs/operating/pipeline.md", beginning, names)
    assert [serve, flag, servers] == ["serve", "--bootstrap-server", kafka.bootstrap_servers]
    options += ["--pipeline-master", "local[2]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA)
        with (
            serve_process(kafka.bootstrap_servers, folder / "s", *options) as process,
            BackendClient(f"unix:{folder / 's'}") as client,
        ):
            wait_until(
                lambda: client.pipeline.status().of("rates").newest_ms,
                START_DEADLINE_S,
                "the pipeline delivers",
                ASK_S,
            )
            yield moved(client, samples)
            process.terminate()
            process.wait(END_DEADLINE_S)


def test_its_end_is_forecast_while_it_runs(move: Moved) -> None:
    assert move.operation.state is OperationState.DONE
    takes_s = sum(MEGABYTES) * 1_000_000 / THROTTLE_BYTES_PER_S
    for row in move.forecasts:
        assert row.p10_s is not None
        assert row.p50_s is not None
        assert row.p90_s is not None
        assert row.p10_s <= row.p50_s <= row.p90_s
        left_s = takes_s - (row.at_ms - move.started_ms) / 1000
        assert row.p10_s / FAR <= left_s <= row.p90_s * FAR


def test_its_report_tells_the_whole_of_it(move: Moved) -> None:
    command = [sys.executable, "-m", "kshunt", "report", move.operation.id]
    command += ["--samples", str(move.samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"# Operation {move.operation.id}" in done.stdout
    assert "done: all 3 copies are in the ISR" in done.stdout
    assert f"into 3 replicas of 3 partitions of {TOPIC}" in done.stdout
    assert "60.0 kB/s" in done.stdout
