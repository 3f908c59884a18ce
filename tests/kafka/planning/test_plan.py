"""Plans that a cluster cannot carry out, compared with Apache's tool."""

from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import format_plan
from kshunt.backend.tools.reassign.command import main
from tests.support.brokers.launcher import RealKafka
from tests.support.topics import create_topic

JAVA_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.mark.kafka
def test_a_plan_that_the_cluster_cannot_carry_out_changes_nothing(
    kafka: RealKafka,
    client: BackendClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second, third = kafka.broker_ids
    create_topic(kafka.bootstrap_servers, "tool-plan", [[first, second]])
    there = TopicPartition("tool-plan", 0)
    plans: dict[str, dict[TopicPartition, list[int]]] = {
        "tool-none-0: ": {there: [second, third], TopicPartition("tool-none", 0): [first]},
        "tool-plan-9: ": {there: [second, third], TopicPartition("tool-plan", 9): [first]},
        " 77": {there: [second, 77]},
        "replication factor would change from 2 to 1": {there: [third]},
    }
    path = tmp_path / "plan.json"
    argv = ["--execute", "--reassignment-json-file", str(path)]
    ours = [*argv, "--backend", client.address, "--throttle", "1MB/s"]
    java = [*argv, "--bootstrap-server", kafka.bootstrap_servers]
    before = client.throttles.list()
    for words, plan in plans.items():
        path.write_text(format_plan(plan))
        assert main([*ours, "--disallow-replication-factor-change"]) == 1
        out, err = capsys.readouterr()
        assert "Successfully started" not in out
        assert err.startswith("Error reassigning partition(s):\n")
        assert words in err
    assert client.throttles.list() == before
    assert client.reassignments.list() == ()

    refused = kafka.java_tool(JAVA_TOOL, *java, "--disallow-replication-factor-change")
    assert out.splitlines() == refused.stdout.splitlines()[: len(out.splitlines())]
    assert err.splitlines()[0] in refused.stdout.splitlines()
    path.write_text(format_plan({there: [first, second]}))
    assert main(["--verify", "--backend", client.address, *argv[1:]]) == 0
