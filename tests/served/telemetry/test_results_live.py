"""A backend that records samples has results of them, without Spark and without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.pipeline.delivered import PipelineState
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.pipeline.results.stream_state import newest
from tests.support.embedded.background import running
from tests.support.pipeline.light import made
from tests.support.pipeline.spark import same
from tests.support.pipeline.streamed import rows_in
from tests.support.serving import STOP_DEADLINE_S, refused_start, serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
BATCHES = 2


def test_a_recorded_move_has_a_forecast_and_kill_9_doubles_no_row(tmp_path: Path) -> None:
    samples, socket = tmp_path / "samples", tmp_path / "s"
    results = samples / "results"
    with running(ClusterSpec(plain_brokers(3), seed=3)) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "moving", [[1], [1]])
        produce(servers, "moving", 400, 10_000, 0)
        with (
            serve_process(servers, socket, "--samples", str(samples)) as process,
            BackendClient(f"unix:{socket}") as client,
        ):
            plan = ReassignmentPlan({TopicPartition("moving", 0): (2,)})
            operation = client.reassignments.start(plan, throttle_bytes_per_s=20_000).operation_id
            wait_until(
                lambda: [row.operation_id for row in client.pipeline.etas().rows] == [operation],
                DEADLINE_S,
                "the move has a forecast",
            )
            status = client.pipeline.status()
            assert status.state is PipelineState.RUNNING
            assert status.process is not None
            process.kill()
            process.wait(STOP_DEADLINE_S)
        former = newest(results)
        assert former is not None
        with serve_process(servers, socket, "--samples", str(samples)) as process:

            def more() -> bool:
                found = newest(results)
                return found is not None and found.batch >= former.batch + BATCHES

            wait_until(more, DEADLINE_S, "results go on")
            process.terminate()
            process.wait(STOP_DEADLINE_S)
    # Each has what was recorded last, too, and was not made before the end.
    made(samples, results)
    made(samples, tmp_path / "again")
    for table in ("rates", "stalls"):
        same(rows_in(results, table), rows_in(tmp_path / "again", table))
    assert rows_in(results, "rates")


def test_record_only_makes_no_results(tmp_path: Path) -> None:
    samples, socket = tmp_path / "samples", tmp_path / "s"
    with (
        running(ClusterSpec(plain_brokers(3), seed=3)) as cluster,
        serve_process(
            cluster.bootstrap_servers, socket, "--samples", str(samples), "--record-only"
        ) as process,
        BackendClient(f"unix:{socket}") as client,
    ):

        def recorded() -> bool:
            found = client.pipeline.status().samples
            return found is not None and bool(found.written_ms)

        wait_until(recorded, DEADLINE_S, "samples are recorded")
        assert client.pipeline.status().process is None
        process.terminate()
        process.wait(STOP_DEADLINE_S)
    assert not (samples / "results").exists()


@pytest.mark.parametrize(
    "options",
    [("--samples", "x", "--record-only", "--pipeline"), ("--record-only",)],
)
def test_options_that_contradict_each_other_are_refused(options: tuple[str, ...]) -> None:
    done = refused_start("--bootstrap-server", "127.0.0.1:1", *options)
    assert done.returncode == 2
    assert "--record-only" in done.stderr
