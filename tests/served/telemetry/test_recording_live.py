"""Recording by `kshunt serve`, on the embedded cluster: clean ends and `kill -9`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.cli.main import main
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.telemetry.recording.gaps import STATE, GapReason, read_state
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.schema import read_recording
from tests.support.embedded.background import running
from tests.support.recording.following import DEADLINE_S
from tests.support.recording.gaps import read_gaps
from tests.support.recording.samples import keys_in, queried
from tests.support.serving import STOP_DEADLINE_S, serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running(ClusterSpec(plain_brokers(3), seed=3)) as cluster:
        create_topic(cluster.bootstrap_servers, "moving", [[1], [1]])
        create_topic(cluster.bootstrap_servers, "resting", [[2, 3]] * 4)
        produce(cluster.bootstrap_servers, "moving", 400, 10_000, 0)
        yield cluster.bootstrap_servers


def move(client: BackendClient, topic: str, target: int) -> str:
    """Begin a move that takes long; the operation's id."""
    plan = ReassignmentPlan({TopicPartition(topic, 0): (target,)})
    return client.reassignments.start(plan, throttle_bytes_per_s=20_000).operation_id or ""


def adding(folder: Path) -> list[dict[str, Any]]:
    """Samples of replicas that are being added."""
    rows = read_recording(folder, SampleTable.REPLICAS)
    found: list[dict[str, Any]] = rows.filter(rows["adding"]).to_pylist()
    return found


def test_a_backend_records_a_move_and_ends_cleanly(servers: str, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    options = ("--samples", str(folder), "--keep-samples", "2")
    with (
        serve_process(servers, tmp_path / "s", *options) as process,
        BackendClient(f"unix:{tmp_path / 's'}") as client,
    ):
        operation = move(client, "moving", 2)
        wait_until(lambda: len(adding(folder)) >= 3, DEADLINE_S, "the move is recorded")
        newest = next(iter(client.snapshots())).taken_ms
        client.reassignments.cancel([TopicPartition("moving", 0)])
        process.terminate()
        process.wait(STOP_DEADLINE_S)
    assert not (folder / STATE).exists()
    assert read_gaps(folder) == ()
    rows = adding(folder)
    assert {row["operation_id"] for row in rows[1:]} == {operation}
    assert {(row["topic"], row["broker"], row["leader"]) for row in rows} == {("moving", 2, 1)}
    held = [row for row in rows if row["follower_throttle_bytes_per_s"] is not None]
    assert {row["follower_throttle_bytes_per_s"] for row in held} == {20_000}
    assert {row["leader_throttle_bytes_per_s"] for row in held} == {20_000}
    assert any(row["lag_bytes"] for row in rows)
    keys = keys_in(folder)
    assert len(keys) == len(set(keys))
    assert keys[-1][0] > newest - 3_000, "what was not flushed yet was flushed at the end"
    counted = queried(
        f"select count(*), count(distinct rid) from '{folder}/replicas/*/*/*.parquet'"
    )
    assert counted == [(len(keys), len({rid for _, rid in keys}))]


def test_kill_9_costs_what_was_not_flushed_and_the_next_one_says_so(
    servers: str, tmp_path: Path
) -> None:
    folder = tmp_path / "samples"
    for place in range(2):
        with serve_process(servers, tmp_path / "s", "--samples", str(folder)) as process:

            def flushed(least: int = place + 1) -> bool:
                return len({at for at, _ in keys_in(folder, SampleTable.BROKERS)}) >= least

            wait_until(flushed, DEADLINE_S, "a moment is flushed")
            process.kill()
            process.wait(STOP_DEADLINE_S)
        keys = keys_in(folder)
        assert len(keys) == len(set(keys))
        assert read_state(folder) is not None
    with serve_process(servers, tmp_path / "s", "--samples", str(folder)) as process:
        wait_until(lambda: len(read_gaps(folder)) == 2, DEADLINE_S, "the last one is said")
        process.terminate()
        process.wait(STOP_DEADLINE_S)
    for gap in read_gaps(folder):
        assert gap.why is GapReason.CRASH
        assert 0 < gap.to_ms - gap.from_ms < DEADLINE_S * 1000
    assert "did not end cleanly" in (tmp_path / "s.log").read_text()
    assert read_state(folder) is None


def test_a_backend_that_cannot_record_serves_all_the_same(servers: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = ("--samples", str(tmp_path / "file" / "below"))
    with (
        serve_process(servers, tmp_path / "s", *options),
        BackendClient(f"unix:{tmp_path / 's'}") as client,
    ):
        log = tmp_path / "s.log"
        wait_until(lambda: "Samples are not recorded" in log.read_text(), DEADLINE_S, "it is said")
        assert "A file is where" in log.read_text()
        assert client.cluster().brokers == 3


@pytest.mark.parametrize(
    "options",
    [
        ("--samples", "x", "--samples-topic", "y"),
        ("--samples", "x", "--keep-samples", "0"),
        ("--samples", "x", "--keep-samples", "long"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--bootstrap-server", "127.0.0.1:1", *options]) == 2
    said = capsys.readouterr().err
    assert "--samples and --samples-topic cannot" in said or "--keep-samples" in said
