"""`--generate` compared with Apache's tool."""

from pathlib import Path

import pytest

from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.tools.reassign.command import main
from tests.support.brokers.launcher import RealKafka
from tests.support.topics import create_topic

JAVA_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.mark.kafka
def test_generate_says_what_apaches_tool_says(
    kafka: RealKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = kafka.broker_ids
    create_topic(kafka.bootstrap_servers, "tool-generate", [[first, second], [first, second]])
    path = tmp_path / "topics.json"
    path.write_text('{"version": 1, "topics": [{"topic": "tool-generate"}]}')
    argv = ["--generate", "--bootstrap-server", kafka.bootstrap_servers]
    argv += ["--topics-to-move-json-file", str(path), "--broker-list"]

    assert main([*argv, f"{second},{third}"]) == 0
    *ours, proposed = capsys.readouterr().out.splitlines()
    *theirs, proposed_there = kafka.java_tool(
        JAVA_TOOL, *argv, f"{second},{third}"
    ).stdout.splitlines()
    assert ours == theirs
    for plan in map(parse_plan, (proposed, proposed_there)):
        assert {frozenset(replicas) for replicas in plan.replicas.values()} == {
            frozenset({second, third})
        }

    assert main([*argv, str(first)]) == 1
    why = capsys.readouterr().err
    java = kafka.java_tool(JAVA_TOOL, *argv, str(first)).stdout.splitlines()[0]
    assert java.removeprefix("Error: ") in why
    assert main([*argv, "77"]) == 1
    assert "Unknown broker id 77" in capsys.readouterr().err
    path.write_text('{"version": 1, "topics": [{"topic": "tool-none"}]}')
    assert main([*argv, str(first)]) == 1
    assert "Topic tool-none not found" in capsys.readouterr().err
