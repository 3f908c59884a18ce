"""`kshunt kafka-topics`: flags, words and exit codes, Kafka's where Kafka has them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.domain.shrink.delete_partitions import (
    COPIED,
    KEYED,
    NO_DELAY,
    NOT_ENABLED,
    UNDER_CHANGES,
)
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.tools.topics.actions import INCREASED
from kshunt.backend.tools.topics.command import main
from kshunt.backend.tools.topics.options import COMMAND, FLAGS
from tests.support.admin import fresh_name
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import Running, running
from tests.support.tools import Stub, Tool, run_with
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_runtime_dir")

HOST = "--bootstrap-server h:1"
ALTER = f"--alter {HOST} --topic t --partitions"
ACTIONS = (
    "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
)
JAVA_TOOL = "org.apache.kafka.tools.TopicCommand"
DEADLINE_S = 60.0


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(main, capsys)


# Flags

KAFKAS_MISUSES = {
    HOST: ACTIONS,
    f"--list --describe {HOST}": ACTIONS,
    f"--alter {HOST}": 'Missing required argument "[topic]"',
    f"--alter {HOST} --topic t": 'Missing required argument "[partitions]"',
    f"--list {HOST} --partitions 3": 'Option "[partitions]" can\'t be used with option "[list]"',
    f"--describe {HOST} --topics-with-overrides --unavailable-partitions": 'Option "[',
}
OUR_MISUSES = {
    "": ACTIONS,
    "--list": 'Missing required argument "[bootstrap-server]"',
    f"--list {HOST} --backend unix:/x": "Please don't specify both --bootstrap-server and",
    "--list --bootstrap-server ''": "Option bootstrap-server requires an argument",
    "--list --backend h:1": "'h:1' is not the address of a backend",
    "--list --backend unix:/x --command-config f": "--command-config needs",
    f"--list {HOST} extra": "Unexpected argument 'extra'",
    f"--list {HOST} --under-replicated-partitions": 'Option "[under-replicated-partitions]"',
    f"--list {HOST} --topic '*'": "* is an invalid regex.",
    f"--describe {HOST} --topic ' '": "Option topic requires an argument",
    f"--describe {HOST} --if-exists": "--topic is required",
    f"--create {HOST} --topic t": "--create is not supported. Nothing was done.",
    f"--create {HOST} --topic t --partitions 3 --replication-factor 3 --config a=b --config c=d": (
        "--create is not supported"
    ),
    f"--create --if-not-exists {HOST} --topic t": "--create is not supported",
    f"--delete {HOST} --topic t": "--delete is not supported",
    f"{ALTER} 3 --replication-factor 3": (
        "--replication-factor is not supported. Nothing was done."
    ),
    f"--describe {HOST} --topic-id x": "--topic-id is not supported",
    f"{ALTER} 0": "The partitions must be greater than 0",
    f"{ALTER} -3": "The partitions must be greater than 0",
    f"{ALTER} many": "Cannot parse argument 'many' of option partitions",
    f"{ALTER} {2**31}": "Cannot parse argument '2147483648' of option partitions",
    f"{ALTER} 3 --delete-partitions-delay -1": "Cannot parse argument '-1' of option delete-",
    f"{ALTER} 3 --delete-partitions-delay soon": "Cannot parse argument 'soon' of option delete-",
    f"{ALTER} 3 --delete-partitions-delay {'9' * 5000}": "Cannot parse argument",
    f"{ALTER} 3 --replica-assignment 1:1": "Partition replica lists may not contain duplicate",
    f"{ALTER} 3 --replica-assignment 1:2,3": "Partition 1 has different replication factor",
    f"{ALTER} 3 --replica-assignment 1:x": "Cannot parse argument '1:x' of option replica-",
    f"{ALTER} 3 --exclude-internal": 'Option "[exclude-internal]" can\'t be used with',
}
MISUSES = {**KAFKAS_MISUSES, **OUR_MISUSES}


@pytest.mark.parametrize("line", MISUSES)
def test_a_wrong_command_line_does_nothing_and_says_why(line: str, tool: Tool) -> None:
    code, out, err = tool(*shlex.split(line))
    assert (code, out) == (1, "")
    assert err.startswith(MISUSES[line])
    assert err.splitlines()[-1] == "Run 'kshunt kafka-topics --help' for every option."
    code, out, err = tool(*shlex.split(line), "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["detail"].startswith(MISUSES[line])


@pytest.mark.conforms("kip-694:delay-option")
def test_help_names_every_flag(tool: Tool) -> None:
    code, out, err = tool("--help")
    assert (code, err) == (0, "")
    assert out.rstrip() == help_of(COMMAND).rstrip()
    assert all(f"--{flag.name}" in out for flag in FLAGS)
    assert tool("--version")[:2] == (0, "kshunt 0.1.0\n")


def test_kshunt_lists_the_tool() -> None:
    command = [sys.executable, "-m", "kshunt", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "\n  kafka-topics  " in done.stdout


@pytest.mark.conforms("kip-694:zookeeper-path")
def test_zookeeper_is_not_served(tool: Tool) -> None:
    code, out, err = tool("--list", "--zookeeper", "z:1")
    assert (code, out) == (1, "")
    assert "--zookeeper is deprecated" in err


def test_a_list_by_a_backend_loads_no_heavy_library(stub: Stub) -> None:
    stub.says({"topics": []})
    program = (
        "import sys; from kshunt.backend.cli.main import main;"
        f"main(['kafka-topics', '--list', '--backend', '{stub.address}']);"
        "print(sorted({'numpy', 'kafka', 'confluent_kafka', 'httpx', 'pyarrow', 'fastapi',"
        " 'asyncio', 'subprocess'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "\n[]\n"
    assert done.stderr == ""


# Words


def partition(number: int, **more: object) -> dict[str, object]:
    """A partition on brokers 1 and 2, as a backend describes it."""
    plain: dict[str, object] = {"leader": 1, "replicas": [1, 2], "isr": [1, 2], "offline": []}
    plain |= {"adding": [], "removing": [], "mode": 0, "mode_name": "ReadWrite"}
    plain |= {"elr": None, "last_known_elr": None}
    return {"partition": number, **plain, **more}


def described(*partitions: dict[str, object], **more: object) -> dict[str, object]:
    """What a backend says of topic `foo`."""
    topic = {"topic": "foo", "topic_id": "abc", "internal": False, "replication_factor": 2}
    topic |= {"min_insync_replicas": 2, "configs": {}, "partitions": partitions, **more}
    return {"topics": [topic], "live_brokers": [1, 2]}


def describes(stub: Stub, document: dict[str, object]) -> None:
    """The backend has topic `foo`, and describes it so."""
    listed = {"topic": "foo", "partitions": 1, "replication_factor": 2, "internal": False}
    stub.on["/v1/topics"] = 200, {"topics": [listed]}
    stub.says(document)


TROUBLE = (
    partition(0),
    partition(1, isr=[1]),
    partition(2, leader=-1, isr=[2, 1]),
    partition(3, replicas=[1, 2, 3], adding=[3]),
    partition(4, leader=9, isr=[1, 2, 9]),
    partition(5, leader=-1, isr=[1], mode=-1, mode_name="None"),
)


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ("--under-replicated-partitions", [1]),
        ("--unavailable-partitions", [2, 4]),
        ("--under-min-isr-partitions", [1, 2]),
        ("--at-min-isr-partitions", [0, 2, 3]),
        ("--under-replicated-partitions --unavailable-partitions", [1, 2, 4]),
    ],
)
def test_only_partitions_in_trouble(flags: str, numbers: list[int], tool: Tool, stub: Stub) -> None:
    describes(stub, described(*TROUBLE))
    code, out, _ = tool("--describe", "--backend", stub.address, *flags.split())
    assert code == 0
    assert [
        int(line.split("Partition: ")[1].split("\t")[0]) for line in out.splitlines()
    ] == numbers
    asked = stub.asked[-1][2]
    assert (asked["configs"], asked["min_isr"]) == (False, "min-isr" in flags)


def test_a_description_is_laid_out_as_kafka_does(tool: Tool, stub: Stub) -> None:
    moving = partition(0, replicas=[3, 1, 2], adding=[3], removing=[2], leader=-1)
    going = partition(1, mode=1, mode_name="ReadOnly", elr=[3, 4], last_known_elr=[])
    describes(stub, described(moving, going, configs={"a": "1", "secret": None}))
    code, out, err = tool("--describe", "--backend", stub.address)
    assert (code, err) == (0, "")
    assert out == (
        "Topic: foo\tTopicId: abc\tPartitionCount: 2\tReplicationFactor: 2\t"
        "Configs: a=1,secret=null\n"
        "\tTopic: foo\tPartition: 0\tLeader: none\tReplicas: 3,1,2\tIsr: 1,2\t"
        "Adding Replicas: 3\tRemoving Replicas: 2\tElr: N/A\tLastKnownElr: N/A\n"
        "\tTopic: foo\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\t"
        "Elr: 3,4\tLastKnownElr: \tMode: ReadOnly\n"
    )
    code, out, _ = tool("--describe", "--backend", stub.address, "--topics-with-overrides")
    assert len(out.splitlines()) == 1
    code, out, _ = tool("--describe", "--backend", stub.address, "--json")
    assert json.loads(out)["topics"][0]["partitions"][1]["mode_name"] == "ReadOnly"


# On a cluster

ENABLED = {
    "delete.topic.partition.enable": "true",
    "delete.topic.partition.interval.delay.ms": "1000",
}


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return ClusterSpec(plain_brokers(3), seed=5, static=ENABLED)


@pytest.fixture
def topic(embedded: Running) -> str:
    name = fresh_name("tool")
    create_topic(embedded.bootstrap_servers, name, [[1, 2], [2, 3], [3, 1]])
    return name


def count_of(handle: Running, topic: str) -> int:
    return handle.call(lambda cluster: len(cluster.image.topics[topic].partitions))


@pytest.mark.conforms("kip-694:warning-keys")
def test_a_topic_grows(tool: Tool, embedded: Running, address: str, topic: str) -> None:
    at = ("--alter", "--backend", address, "--topic", topic)
    would = f"Topic {topic} would have 4 partitions. Nothing was changed.\n"
    assert tool(*at, "--partitions", "4", "--validate-only") == (0, would, f"{INCREASED}\n")
    assert count_of(embedded, topic) == 3
    assert tool(*at, "--partitions", "4") == (0, "Adding partitions succeeded!\n", f"{INCREASED}\n")
    lists = "1:2,2:3,3:1,1:2,3:2"
    assert tool(*at, "--partitions", "5", "--replica-assignment", lists)[0] == 0
    found = embedded.call(lambda cluster: cluster.image.partition(topic, 4))
    assert found is not None
    assert found.replicas == (3, 2)
    for n, assignment in (("7", "1:2,2:3,3:1,1:2,3:2,1:2"), ("6", "1:2,2:3,3:1,1:2,3:2,1:9")):
        code, out, err = tool(*at, "--partitions", n, "--replica-assignment", assignment)
        assert (code, out) == (1, "Nothing was changed.\n")
        assert f"Error: {topic}: " in err
    assert count_of(embedded, topic) == 5


def test_what_is_no_change_changes_nothing(
    tool: Tool, embedded: Running, address: str, topic: str
) -> None:
    at = ("--alter", "--backend", address)
    this = (*at, "--topic", topic)
    cases = {
        (*this, "--partitions", "3"): f"Error: Topic {topic} already has 3 partition(s).",
        (*this, "--partitions", "4", "--delete-partitions-delay", "5"): (
            "Error: --delete-partitions-delay needs fewer partitions"
        ),
        (*this, "--partitions", "2", "--replica-assignment", "1:2,2:3"): (
            "Error: --replica-assignment needs more partitions"
        ),
        (*this, "--partitions", "4", "--replica-assignment", "1:2"): (
            "Error: --replica-assignment names 1 partition(s), but topic"
        ),
        (*at, "--topic", "no-such-topic", "--partitions", "2"): (
            "Error: Topic 'no-such-topic' does not exist as expected"
        ),
        (*at, "--topic", f"{topic[:-1]}.", "--partitions", "2"): "Error: Topic '",
    }
    for line, words in cases.items():
        code, out, err = tool(*line)
        assert (code, out) == (1, ""), line
        assert err.startswith(words)
    assert tool(*at, "--topic", "no-such-topic", "--partitions", "2", "--if-exists")[0] == 0
    assert count_of(embedded, topic) == 3


def test_an_internal_topic_does_not_shrink(tool: Tool, embedded: Running, address: str) -> None:
    create_topic(embedded.bootstrap_servers, "__consumer_offsets", [[1], [2]])
    at = ("--alter", "--backend", address, "--topic", "__consumer_offsets")
    code, out, err = tool(*at, "--partitions", "1")
    assert (code, out) == (1, "Nothing was changed.\n")
    assert "INVALID_TOPIC_EXCEPTION: __consumer_offsets is an internal topic" in err


@pytest.mark.conforms(
    "kip-694:fewer-partitions",
    "kip-694:delay-option",
    "kip-694:warning-keys-fewer",
    "kip-694:warning-changes",
)
def test_a_topic_shrinks_after_a_delay_unless_it_is_kept(
    tool: Tool, embedded: Running, address: str, topic: str
) -> None:
    produce(embedded.bootstrap_servers, topic, 10, 100, 0)
    at = ("--alter", "--backend", address, "--topic", topic)
    later = ("--partitions", "1", "--delete-partitions-delay", "3600000")
    code, out, err = tool(*at, *later, "--validate-only")
    assert (code, err) == (0, f"{KEYED}\n")
    assert out.splitlines() == [
        f"{topic}-1: ReadOnly; it would be deleted after 3600000 ms",
        f"{topic}-2: ReadOnly; it would be deleted after 3600000 ms",
        "Nothing was changed.",
    ]
    code, out, err = tool(*at, *later)
    assert (code, err) == (0, f"{KEYED}\n")
    assert out.splitlines()[0] == f"{topic}-1: ReadOnly; it will be deleted after 3600000 ms"
    shown = tool("--describe", "--backend", address, "--topic", topic)[1].splitlines()
    assert [line.endswith("Mode: ReadOnly") for line in shown] == [False, False, True, True]
    code, _, err = tool(*at, "--partitions", "5")
    assert code == 1
    assert "is losing partitions now" in err
    code, out, err = tool(*at, "--partitions", "2")
    assert (code, err) == (0, f"{KEYED}\n{UNDER_CHANGES}\n")
    assert out.splitlines() == [
        f"{topic}-1: ReadWrite; its deletion is cancelled",
        f"{topic}-2: ReadOnly; it will be deleted when the delay that was set before is over",
    ]
    # Only a command that says so shortens a delay.
    code, out, _ = tool(*at, "--partitions", "2", "--delete-partitions-delay", "0")
    assert (code, out) == (0, f"{topic}-2: None; it is being deleted\n")
    wait_until(lambda: count_of(embedded, topic) == 2, DEADLINE_S, "partition 2 is gone")
    assert tool(*at, *later)[0] == 0
    kept = (0, f"{topic}-1: ReadWrite; its deletion is cancelled\n", "")
    assert tool(*at, "--partitions", "2") == kept


@pytest.mark.conforms("kip-694:warning-enabled")
def test_where_partitions_are_not_deleted_it_is_said_and_nothing_changes(tool: Tool) -> None:
    with running(ClusterSpec(plain_brokers(1))) as handle:
        create_topic(handle.bootstrap_servers, "t", [[1], [1]])
        at = ("--bootstrap-server", handle.bootstrap_servers)
        fewer = ("--alter", *at, "--topic", "t", "--partitions", "1", "--validate-only")
        code, out, err = tool(*fewer)
        assert (code, out) == (1, "")
        assert err.splitlines()[:2] == [KEYED, NOT_ENABLED]
        assert err.splitlines()[2].startswith("Error: ")
        assert "Nothing was changed." in err
        assert count_of(handle, "t") == 2
        assert tool("--list", *at) == (0, "t\n", "")


@pytest.mark.conforms("kip-694:not-everywhere")
def test_a_cluster_that_knows_no_such_request_is_offered_a_copy(tool: Tool) -> None:
    with running(ClusterSpec(plain_brokers(1), native=False)) as handle:
        create_topic(handle.bootstrap_servers, "t", [[1], [1]])
        at = ("--bootstrap-server", handle.bootstrap_servers)
        fewer = ("--alter", *at, "--topic", "t", "--partitions", "1", "--validate-only")
        code, out, err = tool(*fewer)
        assert (code, err.splitlines()) == (0, [KEYED, COPIED])
        assert NO_DELAY in out
        waited = tool(*fewer, "--delete-partitions-delay", "300000")[1]
        assert NO_DELAY not in waited
        assert "had no new records for 5m00s" in waited
        assert out.startswith("t: 2 partitions become 1, through t.kshunt-")
        assert "POINT OF NO RETURN" in out
        assert out.endswith("Nothing was changed.\n")
        assert count_of(handle, "t") == 2
        assert tool("--list", *at) == (0, "t\n", "")


# Compared with Kafka's own tool


def ours(line: str) -> str:
    """A line of Kafka's tool as ours has it: configurations by name."""
    head, mark, configs = line.partition("\tConfigs: ")
    return head + mark + ",".join(sorted(configs.split(",")))


@pytest.mark.kafka
def test_it_prints_what_kafkas_tool_prints(tool: Tool, kafka: RealKafka) -> None:
    at = ("--bootstrap-server", kafka.bootstrap_servers)
    first, second = fresh_name("beside"), fresh_name("beside")
    create_topic(kafka.bootstrap_servers, first, [[1, 2], [2, 3]])
    create_topic(kafka.bootstrap_servers, second, [[3]])
    for line in (
        f"--describe --topic {first}",
        f"--describe --topic {first},{second}",
        "--describe --topic admin-beside.* --at-min-isr-partitions",
        "--describe --topic admin-beside.* --under-replicated-partitions",
        "--describe --topic admin-beside.* --topics-with-overrides",
        "--describe --topic no-such-topic --if-exists",
        "--list --topic admin-beside.* --exclude-internal",
        "--list --topic no-such-topic",
    ):
        java = kafka.java_tool(JAVA_TOOL, *line.split(), *at)
        said = [ours(text) for text in java.stdout.split("\n")]
        # Kafka's tool has topics in the order of a hash table; ours by their names.
        found = tool(*line.split(), *at)[1].split("\n")
        assert sorted(found) == sorted(said)
        assert [x for x in found if first in x] == [x for x in said if first in x]
    code, _, err = tool("--describe", "--topic", "no-such-topic", *at)
    java = kafka.java_tool(JAVA_TOOL, "--describe", "--topic", "no-such-topic", *at)
    assert (code, java.returncode) == (1, 1)
    assert err.removeprefix("Error: ").strip() in java.stdout + java.stderr


@pytest.mark.kafka
@pytest.mark.parametrize("line", KAFKAS_MISUSES)
def test_kafkas_tool_says_the_same_of_a_wrong_command_line(
    line: str, tool: Tool, kafka: RealKafka
) -> None:
    java = kafka.java_tool(JAVA_TOOL, *shlex.split(line))
    said = tool(*shlex.split(line))[2].splitlines()[0]
    assert said in java.stdout + java.stderr
    assert java.returncode == 1


@pytest.mark.kafka
def test_every_flag_of_kafkas_tool_is_known(kafka: RealKafka) -> None:
    java = kafka.java_tool(JAVA_TOOL, "--help")
    kafkas = set(re.findall(r"^--([a-z][a-z-]*)", java.stdout + java.stderr, re.MULTILINE))
    assert {"create", "topic-id"} <= kafkas
    assert kafkas <= {flag.name for flag in COMMAND.flags}
