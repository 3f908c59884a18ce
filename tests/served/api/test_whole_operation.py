"""What waits for its turn counts: in --progress, forecasts, metrics and the history."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.embedded.scenario.model import Scenario, TopicSpec
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.waiting import wait_until

MB = 1_000_000
SIZE = 300 * MB
COUNT = 4
DEADLINE_S = 60.0


def test_every_place_covers_what_waits(tmp_path: Path) -> None:
    topic = TopicSpec(
        "t",
        COUNT,
        replication_factor=2,
        bytes_per_partition=SIZE,
        size_spread=0.0,
        brokers=(1, 2),
        leaders=(1,),
    )
    plan = {TopicPartition("t", number): (1, 3) for number in range(COUNT)}
    with (
        running(Scenario("mine", "t", "a", plain_brokers(3), topics=(topic,))) as cluster,
        serving(cluster.bootstrap_servers, tmp_path) as address,
        BackendClient(address) as client,
    ):
        answer = client.reassignments.start(
            ReassignmentPlan(plan), throttle_bytes_per_s=MB, caps=MoveCaps(1, 1)
        )
        assert not answer.failures

        def statuses() -> list[str]:
            rows = client.reassignments.progress(ReassignmentPlan(plan)).rows
            assert all(row.matches for row in rows)
            return sorted(row.status.partition(":")[0] for row in rows if row.broker == 3)

        begun = ["Behind", *["Waiting"] * (COUNT - 1)]
        wait_until(lambda: statuses() == begun, DEADLINE_S, "one move has begun")
        whole = (COUNT - 1) * SIZE
        snapshots = client.snapshots()
        wait_until(
            lambda: any(p.remaining_bytes > whole for p in next(snapshots).history),
            DEADLINE_S,
            "the history has what waits",
        )
        transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
        with httpx.Client(transport=transport, base_url="http://kshunt") as http:

            def covered() -> bool:
                ends = [one["end"] for one in http.get("/v1/forecasts").json()["forecasts"]]
                known = [end["left_bytes"] or 0 for end in ends if end["copies"] == COUNT]
                return bool(known) and max(known) > whole

            wait_until(covered, DEADLINE_S, "the forecast covers what waits")
            metrics = http.get("/metrics").text
        (left,) = [one for one in metrics.splitlines() if one.startswith("kshunt_remaining_bytes ")]
        assert float(left.split()[1]) > whole
        file = tmp_path / "plan.json"
        file.write_text(format_plan(plan))
        command = [sys.executable, "-m", "kshunt", "kafka-reassign-partitions", "--progress"]
        command += ["--reassignment-json-file", str(file), "--backend", address]
        said = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert said.returncode == 2
        assert said.stdout.count("Waiting: the move has not begun") == COUNT - 1
