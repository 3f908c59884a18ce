"""`kafka-reassign-partitions --execute`: plans with a mistake, and the running plan once more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import format_plan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.embedded.scenario.model import Scenario, TopicSpec
from kshunt.backend.tools.reassign import command
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.tools import run_with, write

Execute = Callable[..., tuple[int, str, str]]
T0, T1, ABSENT = (TopicPartition("t", number) for number in (0, 1, 9))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[str]:
    topic = TopicSpec("t", 2, bytes_per_partition=300_000_000, brokers=(1, 2), replication_factor=2)
    scenario = Scenario("again", "t", "a", plain_brokers(4), topics=(topic,))
    with running(scenario) as cluster, serving(cluster.bootstrap_servers, tmp_path) as address:
        yield address


@pytest.fixture
def execute(backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Execute:
    tool = run_with(command.main, capsys)

    def run(plan: dict[TopicPartition, Sequence[int]], *flags: str) -> tuple[int, str, str]:
        file = write(tmp_path, "plan.json", format_plan({p: tuple(r) for p, r in plan.items()}))
        at = ("--backend", backend, "--reassignment-json-file", file)
        return tool("--execute", *at, *flags)

    return run


@pytest.mark.conforms("kip-179:tool-otherwise-unchanged", "kip-179:whole-file")
def test_a_mistake_stops_the_whole_file_as_in_kafkas_tool_unless_told_otherwise(
    backend: str, execute: Execute
) -> None:
    plan = {T0: [1, 3], ABSENT: [1]}
    code, out, err = execute(plan)
    assert code == 1
    assert "Successfully" not in out
    assert "t-0: nothing was submitted because t-9 cannot" in err
    with BackendClient(backend) as client:
        assert client.reassignments.list() == ()
        code, out, err = execute(plan, "--allow-partial", "--throttle", "50KB/s")
        assert code == 1
        assert "Successfully started partition reassignment for t-0" in out
        assert "t-9: the cluster does not have this partition" in err
        assert [one.partition for one in client.reassignments.list()] == [T0]


@pytest.mark.conforms("kip-179:change-throttle", "kip-179:bootstrap-server")
def test_the_plan_that_runs_needs_no_flag_to_get_another_rate(
    backend: str, execute: Execute
) -> None:
    plan = {T0: [1, 3], T1: [2, 3]}
    with BackendClient(backend) as client:
        before = client.throttles.list()
        assert execute(plan, "--throttle", "50KB/s")[0] == 0
        code, out, _ = execute(plan, "--throttle", "60KB/s", "--json")
        assert code == 0
        assert json.loads(out)["results"][0]["error_code"] == 0
        assert client.throttles.list().rates[3].rate == ThrottledRate(60_000, 60_000)
        assert "existing partition assignment" in execute({T0: [1, 4]}, "--throttle", "1MB")[2]
        assert "existing partition assignment" in execute(plan)[2]
        client.reassignments.cancel([T0, T1])
        assert client.reassignments.list() == ()
        assert client.throttles.list() == before
