"""`kshunt kafka-preferred-replica-election`: flags, words, exit codes, and both ways to a cluster;
and the API's elections end to end."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.election import UncleanAnswer
from kshunt.backend.domain.reassignment.plan import parse_partitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError, PlanError
from kshunt.backend.local_sockets import socket_path
from kshunt.backend.operator_identity import who_am_i
from kshunt.backend.tools.election import COMMAND, FLAGS, main
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import Running
from tests.support.tools import Stub, Tool, change, run_with, write
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_runtime_dir")

HOST = "--bootstrap-server h:1"
ONE_SOURCE = "Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided"
DEADLINE_S = 60.0


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(main, capsys)


# Flags and files

MISUSES = {
    "": ONE_SOURCE,
    f"{HOST} --zookeeper z:1": ONE_SOURCE,
    f"{HOST} --backend unix:/x": ONE_SOURCE,
    "--path-to-json-file f": ONE_SOURCE,
    "--bootstrap-server ''": "Option bootstrap-server requires an argument",
    "--bootstrap-server": "Option bootstrap-server requires an argument",
    f"{HOST} {HOST}": "Found multiple arguments for option bootstrap-server",
    "--backend unix:/x --admin.config f": "--admin.config needs --bootstrap-server",
    "--zookeeper z:1 --admin.config f": "--admin.config needs --bootstrap-server",
    "--backend localhost:80": "'localhost:80' is not the address of a backend",
    f"{HOST} --election-type unclean": ("--election-type is not supported. Nothing was done."),
    f"{HOST} --all-topic-partitions": "--all-topic-partitions is not supported",
    f"{HOST} --topic t --partition 0": "--topic is not supported",
    f"{HOST} extra": "Unexpected argument 'extra'",
    f"{HOST} --batch-pause 10": "--batch-pause needs --batch-size",
    f"{HOST} --batch-size 0": "Cannot parse argument '0' of option batch-size",
    f"{HOST} --batch-size -1": "Cannot parse argument '-1' of option batch-size",
    f"{HOST} --batch-size ٣": "Cannot parse argument '٣' of option batch-size",
    f"{HOST} --batch-size 5 --batch-pause 60001": "Cannot parse argument '60001'",
    f"{HOST} --timeout soon": "Cannot parse argument 'soon' of option timeout",
    f"{HOST} --timeout {'9' * 5000}": "Cannot parse argument",
    f"{HOST} --json=yes": "Option json: ignored explicit argument 'yes'",
}


@pytest.mark.conforms("kip-183:not-both", "kip-183:admin-config")
@pytest.mark.parametrize("line", MISUSES)
def test_a_wrong_command_line_does_nothing_and_says_why(line: str, tool: Tool) -> None:
    code, out, err = tool(*shlex.split(line))
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith(MISUSES[line])
    assert err.splitlines()[-1].endswith(
        "kafka-preferred-replica-election --help' for every option."
    )
    code, out, err = tool(*shlex.split(line), "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["detail"].startswith(MISUSES[line])


@pytest.mark.conforms("kip-183:zookeeper-warning", "kip-183:deprecation")
def test_zookeeper_warns_before_anything_else_is_done(tool: Tool) -> None:
    code, out, err = tool("--zookeeper", "z:1", "--path-to-json-file", "missing")
    assert (code, out) == (1, "")
    warning, error = err.splitlines()
    assert "--zookeeper is deprecated and will be removed in a future version" in warning
    assert "--bootstrap-server" in warning
    assert error.startswith("Error: Unable to read file missing")


@pytest.mark.conforms("kip-183:help-preferred-replica", "kip-183:help-not-necessary")
def test_help_says_what_a_preferred_replica_is_and_when_nothing_is_needed(tool: Tool) -> None:
    code, out, err = tool("--help")
    assert (code, err) == (0, "")
    assert out.rstrip() == help_of(COMMAND).rstrip()
    assert all(f"--{flag.name}" in out for flag in FLAGS)
    assert "is the first broker in its list of replicas" in out
    assert "This command is not necessary" in out
    assert "auto.leader.rebalance.enable=true" in out
    assert tool("--version")[:2] == (0, "kshunt 0.1.0\n")


BAD_FILES = {
    "": "not JSON",
    "[]": "",
    "{}": '"partitions" must be a list',
    '{"partitions": []}': "Preferred replica election data is empty",
    '{"partitions": {}}': '"partitions" must be a list',
    '{"partitions": [{"topic": "a"}]}': '"partition" must be a whole number',
    '{"partitions": [{"topic": "", "partition": 0}]}': 'needs a "topic"',
    '{"partitions": [{"topic": "a", "partition": -1}]}': "whole number of 0 or more",
    '{"partitions": [{"topic": "a", "partition": true}]}': "whole number of 0 or more",
    '{"partitions": [7]}': "each entry must be an object",
    "[" * 100_000: "",
}


@pytest.mark.parametrize("text", BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_bad_file_is_named_and_nothing_is_asked(
    text: str, tool: Tool, stub: Stub, tmp_path: Path
) -> None:
    path = write(tmp_path, "election.json", text)
    code, out, err = tool("--backend", stub.address, "--path-to-json-file", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {path}: ")
    assert BAD_FILES[text] in err
    assert stub.asked == []


def test_a_file_that_cannot_be_read_is_named(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    at = ("--backend", stub.address, "--path-to-json-file")
    missing = str(tmp_path / "missing.json")
    assert f"Unable to read file {missing}: No such file" in tool(*at, missing)[2]
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in tool(*at, str(binary))[2]
    code, _, err = tool(*shlex.split(HOST), "--admin.config", missing)
    assert code == 1
    assert "missing.json: No such file" in err
    assert stub.asked == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["partitions", "topic", "partition", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_partitions_or_a_plan_error(document: object) -> None:
    try:
        found = parse_partitions(json.dumps(document))
    except PlanError:
        return
    assert len(set(found)) == len(found)
    assert all(topic and number >= 0 for topic, number in found)


# Words and exit codes


def entries(*partitions: tuple[str, int]) -> str:
    named = [{"topic": topic, "partition": number} for topic, number in partitions]
    return json.dumps({"partitions": named})


def test_what_was_elected_and_what_was_not(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    path = write(tmp_path, "election.json", entries(("foo", 1), ("foo", 1), ("bar", 0)))
    at = ("--backend", stub.address, "--path-to-json-file", path)
    stub.says(change(("bar-0", "NONE", ""), ("foo-1", "NONE", ""), notes=["A note."]))
    assert tool(*at) == (
        0,
        "Successfully completed preferred replica election for partitions bar-0, foo-1\nA note.\n",
        "",
    )
    assert stub.asked[-1] == (
        "POST",
        "/v1/elections/preferred",
        {
            "partitions": [{"topic": "foo", "partition": 1}, {"topic": "bar", "partition": 0}],
            "batch_size": None,
            "pause_ms": 0,
            "timeout_ms": 30_000,
            "validate_only": False,
            "who": who_am_i(),
            "reason": "",
        },
    )
    stub.says(change(("bar-0", "NONE", ""), ("foo-1", "OFFLINE", "broker 3 is offline")))
    assert tool(*at) == (
        1,
        "Successfully completed preferred replica election for partitions bar-0\n"
        "Error completing preferred replica election for partition foo-1: OFFLINE: broker 3 is "
        "offline\n",
        "1 preferred replica(s) could not be elected\n",
    )
    code, out, err = tool(*at, "--json")
    assert (code, err) == (1, "")
    assert [entry["item"] for entry in json.loads(out)["results"]] == ["bar-0", "foo-1"]


def test_all_partitions_in_batches(tool: Tool, stub: Stub) -> None:
    stub.says(change())
    paced = ("--batch-size", "50", "--batch-pause", "700", "--timeout", "9000")
    code, out, _ = tool("--backend", stub.address, *paced)
    assert (code, out) == (0, "No partition needed a preferred replica election.\n")
    asked = stub.asked[-1][2]
    assert (asked["partitions"], asked["batch_size"]) == (None, 50)
    assert (asked["pause_ms"], asked["timeout_ms"]) == (700, 9000)


def test_a_preview_shows_how_the_leaders_would_be_spread(tool: Tool, stub: Stub) -> None:
    count = {"broker": 1, "leaders_before": 6, "leaders_after": 4, "leaders_preferred": 4}
    leaders = [{**count, "skew_before": 0.5, "skew_after": 0.0}]
    result = ("foo-1", "NONE", "leadership would move from 1 to 2")
    stub.says(change(result, validate_only=True, leaders=leaders))
    code, out, err = tool("--backend", stub.address, "--validate-only")
    assert (code, err) == (0, "")
    assert out == (
        "foo-1: leadership would move from 1 to 2\n"
        "Broker     Leads      Then  Preferred  Skew before  Skew after\n"
        "     1         6         4          4         +50%         +0%\n"
    )
    assert stub.asked[-1][2]["validate_only"]


def test_errors_of_the_backend_are_told(tool: Tool, stub: Stub, tmp_path: Path) -> None:
    stub.says({"detail": "The cluster \x1b[31mrefuses.", "advice": "Wait."}, 403)
    assert tool("--backend", stub.address)[::2] == (1, "Error: The cluster ?[31mrefuses. Wait.\n")
    code, _, err = tool("--backend", f"unix:{tmp_path}/none.sock")
    assert code == 1
    assert "No backend answers" in err


def test_an_election_by_a_backend_loads_no_heavy_library(stub: Stub) -> None:
    stub.says(change())
    program = (
        "import sys; from kshunt.backend.cli.main import main;"
        f"main(['kafka-preferred-replica-election', '--backend', '{stub.address}']);"
        "print(sorted({'numpy', 'kafka', 'confluent_kafka', 'httpx', 'pyarrow', 'fastapi',"
        " 'asyncio', 'subprocess'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "No partition needed a preferred replica election.\n[]\n"
    assert done.stderr == ""


# On a cluster: by the tool's own process, by a backend, and by the API


@pytest.fixture(scope="module", params=[True, False], ids=["native", "emulated"])
def spec(request: pytest.FixtureRequest) -> ClusterSpec:
    return ClusterSpec(plain_brokers(3), seed=5, native=request.param)


def leaders_of(handle: Running, topic: str, count: int) -> list[int]:
    def read(number: int) -> int:
        found = handle.call(lambda cluster: cluster.image.partition(topic, number))
        assert found is not None
        return found.leader

    return [read(number) for number in range(count)]


def unbalance(handle: Running, topic: str, *replicas: Sequence[int]) -> None:
    """A topic whose preferred leader 1 has been away."""
    create_topic(handle.bootstrap_servers, topic, replicas)
    handle.call(lambda cluster: cluster.stop_broker(1))
    handle.call(lambda cluster: cluster.start_broker(1))
    wait_until(lambda: in_sync(handle, topic, len(replicas)), DEADLINE_S, "broker 1 is in sync")


def in_sync(handle: Running, topic: str, count: int) -> bool:
    found = [
        handle.call(lambda cluster, n=number: cluster.image.partition(topic, n))  # type: ignore[misc]
        for number in range(count)
    ]
    return all(one is not None and set(one.isr) == set(one.replicas) for one in found)


def test_unclean_elections_by_the_api(embedded: Running, address: str) -> None:
    create_topic(embedded.bootstrap_servers, "lossy", [[2, 3]])
    partition = TopicPartition("lossy", 0)
    embedded.call(lambda cluster: cluster.stop_broker(3))
    produce(embedded.bootstrap_servers, "lossy", 20, 10, 0)
    with BackendClient(address) as client:
        with pytest.raises(BackendError, match="must be exactly lossy-0") as refused:
            client.elections.elect_unclean_leaders([partition], confirm=["lossy-1"])
        assert refused.value.status == 422
        kept = client.elections.elect_unclean_leaders([partition], confirm=["lossy-0"])
        assert kept.failures[0].error_name == "ELECTION_NOT_NEEDED"

        # That attempt made the sampler look again; the end of broker 2 is known from then.
        def sampled() -> bool:
            page = client.sender.get("/v1/replicas?topic=lossy&broker=2")["replicas"]
            return bool(page) and page[0]["log_end_offset"] == 20

        wait_until(sampled, DEADLINE_S, "the sampler has seen the leader's log end")
        embedded.call(lambda cluster: cluster.stop_broker(2))
        embedded.call(lambda cluster: cluster.start_broker(3))

        def rehearsed() -> UncleanAnswer:
            return client.elections.elect_unclean_leaders([partition], Change(validate_only=True))

        wait_until(
            lambda: rehearsed().losses[0].candidate_end is not None,
            DEADLINE_S,
            "broker 3, which has just started, has said where its log ends",
        )
        preview = rehearsed()
        (loss,) = preview.losses
        assert (loss.candidate, loss.candidate_end, loss.known_end) == (3, 0, 20)
        assert loss.lost_messages == 20
        assert leaders_of(embedded, "lossy", 1) == [-1]
        answer = client.elections.elect_unclean_leaders([partition], confirm=["lossy-0"])
        assert answer.failures == ()
        assert client.operations.list()[0].summary == "UNCLEAN election of 1 partition: lossy-0"
    assert leaders_of(embedded, "lossy", 1) == [3]
    embedded.call(lambda cluster: cluster.start_broker(2))


@pytest.mark.conforms("kip-183:bootstrap-server", "kip-183:admin-config")
def test_a_preview_needs_no_backend_and_an_election_starts_one(
    embedded: Running, tool: Tool, tmp_path: Path, own_runtime_dir: Path
) -> None:
    unbalance(embedded, "own", [1, 2], [1, 3], [2, 1])
    path = write(tmp_path, "election.json", entries(("own", 0), ("own", 2), ("own", 0)))
    at = ("--bootstrap-server", embedded.bootstrap_servers)
    assert tool(*at, "--path-to-json-file", path, "--validate-only")[0] == 0
    assert not socket_path(embedded.bootstrap_servers, None).exists()
    code, out, err = tool(*at, "--path-to-json-file", path)
    assert (code, err) == (0, "")
    assert socket_path(embedded.bootstrap_servers, None).exists()
    assert out.splitlines()[0] == (
        "Successfully completed preferred replica election for partitions own-0, own-2"
    )
    assert leaders_of(embedded, "own", 3) == [1, 3, 2]
    code, out, _ = tool(*at, "--batch-size", "1")
    assert code == 0
    assert "own-1" in out.splitlines()[0].split()
    assert leaders_of(embedded, "own", 3) == [1, 1, 2]


@pytest.mark.conforms("kip-183:bootstrap-server")
def test_a_backend_elects_and_tells_of_it(embedded: Running, address: str, tool: Tool) -> None:
    unbalance(embedded, "via", [1, 2])
    code, out, _ = tool("--backend", address, "--json", "--validate-only")
    preview = json.loads(out)
    assert code == 0
    moves = {
        one["broker"]: one["leaders_after"] - one["leaders_before"] for one in preview["leaders"]
    }
    assert moves[1] >= 1
    assert sum(moves.values()) == 0
    assert leaders_of(embedded, "via", 1) == [2]
    code, out, err = tool("--backend", address)
    assert (code, err) == (0, "")
    assert "via-0" in out
    assert leaders_of(embedded, "via", 1) == [1]
    with BackendClient(address) as client:
        assert client.operations.list()[0].summary.startswith("preferred election of")
        paced = client.elections.elect_preferred_leaders(None, batch_size=10, pause_ms=1)
        assert paced.results == ()


@pytest.mark.kafka
def test_the_tool_on_real_brokers(kafka: RealKafka, tool: Tool, tmp_path: Path) -> None:
    create_topic(kafka.bootstrap_servers, "tool-elected", [[1, 2]])
    path = write(tmp_path, "election.json", entries(("tool-elected", 0), ("tool-elected", 9)))
    at = ("--bootstrap-server", kafka.bootstrap_servers, "--path-to-json-file", path)
    code, out, err = tool(*at)
    assert code == 1
    assert out.splitlines()[:2] == [
        "Successfully completed preferred replica election for partitions tool-elected-0",
        "Error completing preferred replica election for partition tool-elected-9: "
        "UNKNOWN_TOPIC_OR_PARTITION: the cluster has no such partition",
    ]
    assert err == "1 preferred replica(s) could not be elected\n"
