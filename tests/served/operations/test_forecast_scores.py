"""A backend keeps the forecasts of an operation, and the next one scores them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.schema.forecasts import Forecasts
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.calibration import Bin, Calibration
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.schema import read_recording
from tests.support.embedded.background import running
from tests.support.serving import serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 120.0
BINS = tuple(Bin(kind, None, None, None, 50, 500, -2.0, 0.0, 2.0) for kind in ("copy", "operation"))


def test_forecasts_survive_their_backend_and_are_scored_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clusters of other tests have the same id, and this host remembers their throttles.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, samples, calibration = tmp_path / "k.sock", tmp_path / "s", tmp_path / "prod.json"
    options = ("--samples", str(samples), "--calibration", str(calibration))
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "big", [[1]] * 2)
        for partition in range(2):
            produce(cluster.bootstrap_servers, "big", 400, 10_000, partition)
        with (
            serve_process(cluster.bootstrap_servers, path, *options) as first,
            BackendClient(f"unix:{path}") as client,
        ):
            id = started(client)
            wait_until(lambda: len(now(client, id).forecasts) >= 2, DEADLINE_S, "two are kept")
            before = now(client, id).forecasts
            remarks = client.backend_status().remarks
            assert any("prod.json cannot be read" in one for one in remarks), remarks
            first.kill()
        calibration.write_text(Calibration(BINS, "50 operations of prod").to_json())
        with (
            serve_process(cluster.bootstrap_servers, path, *options),
            BackendClient(f"unix:{path}") as client,
        ):
            wait_until(lambda: ended(client, id), DEADLINE_S, "it ends")
            operation = now(client, id)
            assert operation.state is OperationState.DONE
            kept = operation.forecasts
            assert [one.point for one in kept[: len(before)]] == [one.point for one in before]
            assert len(kept) > len(before)
            assert all(one.void is None and one.actual_s for one in kept), kept
            record = client.sender.ask(Forecasts, "/v1/forecasts").record
            assert record is not None
            assert record.calibration == "prod.json (50 operations of prod)"
            assert record.counted == len(kept)
            assert record.right == sum(bool(one.right) for one in kept)
            lines = [one for one in client.audit.lines(id) if one.event == "forecast"]
            assert len(lines) == len(kept) + 1
            assert not client.backend_status().remarks
            wait_until(
                lambda: read_recording(samples, SampleTable.FORECASTS).num_rows == len(kept),
                DEADLINE_S,
                "they are recorded",
            )


def started(client: BackendClient) -> str:
    targets = {TopicPartition("big", n): (2 + n,) for n in range(2)}
    answer = client.reassignments.start(ReassignmentPlan(targets), throttle_bytes_per_s=100_000)
    assert answer.operation_id is not None
    return answer.operation_id


def now(client: BackendClient, id: str) -> Operation:
    return next(one for one in client.operations.list() if one.id == id)


def ended(client: BackendClient, id: str) -> bool:
    return any(one.id == id and one.state.ended for one in client.operations.list())
