"""`--progress` and `--verify` of a throttled move on real Kafka, compared with Apache's tool."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import format_plan
from kshunt.backend.tools.reassign.command import main
from tests.support.brokers.launcher import RealKafka
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

JAVA_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """Run the tool in this process: its exit code, and the lines that it says."""

    def run(*argv: str) -> tuple[int, list[str]]:
        code = main(argv)
        said = capsys.readouterr()
        return code, [*said.out.splitlines(), *said.err.splitlines()]

    return run


def plan_file(folder: Path, target: Mapping[TopicPartition, list[int]]) -> str:
    path = folder / f"plan-{len(target)}.json"
    path.write_text(format_plan(target))
    return str(path)


@pytest.mark.conforms("kip-179:same-algorithm")
@pytest.mark.kafka
def test_a_throttled_move_is_told_as_apaches_tool_tells_it(
    kafka: RealKafka,
    client: BackendClient,
    tool: Callable[..., tuple[int, list[str]]],
    tmp_path: Path,
) -> None:
    first, second, third = kafka.broker_ids
    create_topic(kafka.bootstrap_servers, "tool-move", [[first], [second]])
    produce(kafka.bootstrap_servers, "tool-move", 60, 100_000, partition=0)
    zero, one = TopicPartition("tool-move", 0), TopicPartition("tool-move", 1)
    plan = plan_file(tmp_path, {zero: [third], one: [second]})
    with_missing = plan_file(
        tmp_path, {zero: [third], one: [second], TopicPartition("tool-none", 0): [first]}
    )

    def ours(action: str, *more: str, plan: str = plan) -> tuple[int, list[str]]:
        named = () if action == "--list" else ("--reassignment-json-file", plan)
        return tool(action, "--backend", client.address, *named, *more)

    def java(action: str, *more: str) -> list[str]:
        named = () if action == "--list" else ("--reassignment-json-file", plan)
        at = ("--bootstrap-server", kafka.bootstrap_servers)
        return kafka.java_tool(JAVA_TOOL, action, *at, *named, *more).stdout.splitlines()

    def throttled() -> list[object]:
        found = client.throttles.list()
        rate = found.rates[third].rate.follower_bytes_per_s
        return [r for r in [rate] if r is not None] + [t for t in found.replicas if t == zero.topic]

    assert ours("--list") == (0, java("--list"))
    code, lines = ours("--execute", "--throttle", "200000")
    assert (code, lines[-1]) == (
        0,
        "Successfully started partition reassignments for tool-move-0,tool-move-1",
    )
    assert throttled() == [200_000, "tool-move"]

    assert ours("--list") == (0, java("--list"))
    assert ours("--verify") == (2, java("--verify"))
    code, lines = ours("--progress")
    assert (code, lines[2].split()[:4]) == (2, ["tool-move", "0", str(third), "Behind:"])
    code, lines = ours("--progress", plan=with_missing)
    (unknown,) = [line.split() for line in lines if line.startswith("tool-none")]
    assert (code, unknown) == (1, ["tool-none", "0", str(first), "Unknown", "topic"])
    code, lines = ours("--execute")
    assert (code, lines[:1]) == (1, java("--execute"))

    code, lines = ours("--execute", "--additional", "--throttle", "100MB/s")
    assert code == 0
    assert "The inter-broker throttle limit was set to 100000000 B/s" in lines
    wait_until(lambda: ours("--verify")[0] == 0, 60, "the move is done")
    wait_until(lambda: not throttled(), 60, "the throttle is off")
    assert ours("--progress")[0] == 0
    assert ours("--verify", "--preserve-throttles") == (
        0,
        java("--verify", "--preserve-throttles"),
    )
    keep = "--preserve-throttles"
    assert ours("--cancel", keep) == (0, java("--cancel", keep))
    code, lines = ours("--verify", plan=with_missing)
    assert (code, lines[3].split(" in ")[0]) == (1, "There is no partition tool-none-0")
