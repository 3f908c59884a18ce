"""`kshunt serve --reports`: pages of a week and of an operation, from a backend that runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.embedded.background import running
from tests.support.pipeline.reported import write_results
from tests.support.pipeline.weeks import rate
from tests.support.serving import STOP_DEADLINE_S, refused_start, serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 120.0


def test_pages_of_an_operation_and_of_the_last_week_are_written_once(tmp_path: Path) -> None:
    samples, reports, socket = tmp_path / "samples", tmp_path / "reports", tmp_path / "s"
    # Half a day, so that a test at midnight on Monday has the same week.
    last = Week.at(time.time_ns() // 1_000_000 - DAY_MS // 2).before
    moment = last.from_ms + 2 * DAY_MS
    write_results(samples / "results", RATES, [rate(moment), rate(moment + 60_000)])
    page = reports / f"week-{last}.html"
    options = ("--samples", str(samples), "--reports", str(reports))
    with running(ClusterSpec(plain_brokers(3), seed=3)) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "moving", [[1], [1]])
        produce(servers, "moving", 400, 1_000, 0)
        with (
            serve_process(servers, socket, *options) as process,
            BackendClient(f"unix:{socket}") as client,
        ):
            plan = ReassignmentPlan({TopicPartition("moving", 0): (2,)})
            operation = client.reassignments.start(plan, throttle_bytes_per_s=50_000).operation_id
            wait_until(page.exists, DEADLINE_S, "the last week has a page")
            assert operation is not None
            of_operation = reports / f"operation-{operation}.html"
            wait_until(of_operation.exists, DEADLINE_S, "the operation has a page")
            week = report(samples, "--week", "this", "--backend", f"unix:{socket}")
            process.terminate()
            process.wait(STOP_DEADLINE_S)
        assert "the one copy is in the ISR" in text_of(of_operation)
        assert f"<h1>Week {last}</h1>" in text_of(page)
        assert "1 operation of any kind ended: 1 done." in week
        assert operation in week
        before = {path.name: path.stat().st_mtime_ns for path in reports.iterdir()}
        assert set(before) == {page.name, of_operation.name}
        of_operation.unlink()
        with serve_process(servers, socket, *options) as process:
            # It writes what is missing, and leaves the rest.
            wait_until(of_operation.exists, DEADLINE_S, "the operation has a page again")
            assert page.stat().st_mtime_ns == before[page.name]
            process.terminate()
            process.wait(STOP_DEADLINE_S)


def report(samples: Path, *options: str) -> str:
    """What `kshunt report` prints."""
    command = [sys.executable, "-m", "kshunt", "report", "--samples", str(samples), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--reports", "x"), "--reports is about samples in files"),
        (("--samples-topic", "t", "--reports", "x"), "--reports is about samples in files"),
        (("--samples", "s", "--reports"), "--reports needs a value"),
    ],
)
def test_options_that_lack_another_one_are_refused(options: tuple[str, ...], said: str) -> None:
    done = refused_start("--bootstrap-server", "127.0.0.1:1", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_folder_that_cannot_be_written_to_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = ("--samples", str(tmp_path / "samples"), "--reports", str(tmp_path / "file"))
    done = refused_start("--bootstrap-server", "127.0.0.1:1", *options)
    assert done.returncode != 0
    assert "Reports cannot be written to" in done.stderr
    assert "Nothing was started" in done.stderr
