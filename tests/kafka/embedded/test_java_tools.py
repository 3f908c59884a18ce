"""Apache's own command-line tools, unmodified, on the embedded cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.metadata.acls import AclOperationCode, ResourceKind
from kshunt.backend.embedded.security.authorizer import Client
from tests.support.brokers.java import ensure_jars, java_tool_command
from tests.support.embedded.background import Running, running
from tests.support.embedded.rights import AUTHORIZED
from tests.support.embedded.unchanging import (
    CLUSTER_ID,
    DemoCluster,
    demo_cluster,
)

pytestmark = pytest.mark.kafka

TOOL_DEADLINE_S = 60.0
SCALA = ("ConfigCommand",)
"""Tools that Kafka 4.1 still has in its Scala package."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Running]:
    ensure_jars()
    with running(ClusterSpec(plain_brokers(4, log_dirs=2), native=True)) as handle:
        yield handle


class Tools:
    """Runs a tool to its end and gives what it printed."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = ["--bootstrap-server", bootstrap_servers]

    def __call__(self, name: str, *args: str, stdin: str = "", code: int = 0) -> str:
        package = "kafka.admin" if name in SCALA else "org.apache.kafka.tools"
        command = java_tool_command(f"{package}.{name}", [*args, *self._servers])
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TOOL_DEADLINE_S
        )
        assert done.returncode == code, f"{name} {args}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def tools(embedded: Running) -> Tools:
    return Tools(embedded.bootstrap_servers)


def create(tools: Tools, topic: str, assignment: str) -> None:
    tools("TopicCommand", "--create", "--topic", topic, "--replica-assignment", assignment)


def lines(text: str) -> Sequence[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_kafka_topics(tools: Tools) -> None:
    made = tools("TopicCommand", "--create", "--topic", "j-t", "--partitions", "3", *RF)
    assert "Created topic j-t." in made
    again = tools("TopicCommand", "--create", "--topic", "j-t", *RF, code=1)
    assert "Topic 'j-t' already exists" in again
    tools("TopicCommand", "--alter", "--topic", "j-t", "--partitions", "4")
    shown = lines(tools("TopicCommand", "--describe", "--topic", "j-t"))
    assert "PartitionCount: 4 ReplicationFactor: 2" in shown[0]
    assert len(shown) == 5
    tools("TopicCommand", "--delete", "--topic", "j-t")
    assert "j-t" not in lines(tools("TopicCommand", "--list"))


RF = ("--replication-factor", "2")


@pytest.mark.conforms("kip-179:same-algorithm")
def test_kafka_reassign_partitions(tools: Tools, tmp_path: Path) -> None:
    create(tools, "j-move", "1:2,2:3")
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "j-move", "partition": 0, "replicas": [2, 4]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    asked = ("--reassignment-json-file", str(plan))
    begun = tools("reassign.ReassignPartitionsCommand", "--execute", *asked, "--throttle", "5000")
    assert "Successfully started partition reassignment for j-move-0" in begun
    configs = tools("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "4")
    assert "follower.replication.throttled.rate=5000" in configs
    ended = tools("reassign.ReassignPartitionsCommand", "--verify", *asked)
    assert "Reassignment of partition j-move-0 is completed." in ended
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in ended
    left = tools("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "4")
    assert "throttled.rate" not in left


def test_kafka_leader_election(tools: Tools, embedded: Running) -> None:
    create(tools, "j-lead", "3:4")
    embedded.call(lambda cluster: cluster.stop_broker(3))
    embedded.call(lambda cluster: cluster.start_broker(3))
    asked = ("--election-type", "preferred", "--topic", "j-lead", "--partition", "0")
    assert "Successfully completed leader election (PREFERRED)" in tools(
        "LeaderElectionCommand", *asked
    )
    assert "Valid replica already elected for partitions j-lead-0" in tools(
        "LeaderElectionCommand", *asked
    )


def test_console_producer_consumer_groups_and_offsets(tools: Tools) -> None:
    create(tools, "j-data", "1:2:3")
    tools(
        "ConsoleProducer",
        *("--topic", "j-data", "--property", "parse.key=true"),
        *("--property", "key.separator=:"),
        stdin="a:one\nb:two\nc:three\n",
    )
    offsets = tools("GetOffsetShell", "--topic", "j-data")
    assert "j-data:0:3" in lines(offsets)
    read = tools(
        "consumer.ConsoleConsumer",
        *("--topic", "j-data", "--group", "j-group", "--from-beginning", "--max-messages", "3"),
        *("--property", "print.key=true", "--timeout-ms", "30000"),
    )
    assert [line for line in lines(read) if " " in line][:3] == ["a one", "b two", "c three"]
    described = tools("consumer.group.ConsumerGroupCommand", "--describe", "--group", "j-group")
    assert "j-group j-data 0 3 3 0" in " ".join(described.split())
    reset = tools(
        "consumer.group.ConsumerGroupCommand",
        *("--group", "j-group", "--topic", "j-data", "--reset-offsets", "--to-earliest"),
        "--execute",
    )
    assert "j-group j-data 0 0" in " ".join(reset.split())
    tools("consumer.group.ConsumerGroupCommand", "--delete", "--group", "j-group")


def test_log_dirs_configs_and_deleted_records(tools: Tools, tmp_path: Path) -> None:
    create(tools, "j-disk", "1:2")
    tools("ConsoleProducer", "--topic", "j-disk", stdin="x\ny\nz\n")
    shown = tools("LogDirsCommand", "--describe", "--topic-list", "j-disk")
    found = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    dirs = {log_dir["logDir"] for broker in found["brokers"] for log_dir in broker["logDirs"]}
    assert dirs == {"/kafka/d1", "/kafka/d2"}
    sizes = [
        partition["size"]
        for broker in found["brokers"]
        for log_dir in broker["logDirs"]
        for partition in log_dir["partitions"]
    ]
    assert len(sizes) == 2
    assert min(sizes) > 0
    entity = ("--entity-type", "topics", "--entity-name", "j-disk")
    tools("ConfigCommand", "--alter", *entity, "--add-config", "retention.ms=4242")
    assert "retention.ms=4242" in tools("ConfigCommand", "--describe", *entity)
    plan = tmp_path / "delete.json"
    partitions = [{"topic": "j-disk", "partition": 0, "offset": 2}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    deleted = tools("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert "low_watermark: 2" in deleted


def test_kafka_acls(tmp_path: Path) -> None:
    ensure_jars()
    config = tmp_path / "admin.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="admin" password="admin-secret";\n'
    )
    users = {"admin": "admin-secret", "alice": "alice-secret"}
    spec = ClusterSpec(plain_brokers(2), static=AUTHORIZED, users=users)
    with running(spec) as secured:
        acls = partial(
            Tools(secured.bootstrap_servers), "AclCommand", "--command-config", str(config)
        )
        right = ("--allow-principal", "User:alice", "--producer", "--topic", "j-")
        acls("--add", *right, "--resource-pattern-type", "prefixed")
        alice = Client("User:alice", "127.0.0.1")

        def may_write(cluster: EmbeddedCluster) -> bool:
            authorizer = cluster.world.authorizer
            assert authorizer is not None
            return authorizer.allows(alice, AclOperationCode.WRITE, ResourceKind.TOPIC, "j-orders")

        assert secured.call(may_write)
        shown = acls("--list", "--topic", "j-orders", "--resource-pattern-type", "match")
        assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in shown
        acls("--remove", "--force", *right, "--resource-pattern-type", "prefixed")
        assert not secured.call(may_write)


def test_kafka_acls_without_an_authorizer(tools: Tools) -> None:
    said = tools("AclCommand", "--list", code=1)
    assert "SecurityDisabledException: No Authorizer is configured" in said


JAVA_TOOLS = {
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand --list": [
        "Current partition reassignments:",
        "events-0: replicas: 3,1,2. adding: 2.",
    ],
    "org.apache.kafka.tools.TopicCommand --list": ["events", "orders"],
    "org.apache.kafka.tools.GetOffsetShell --topic orders": ["orders:0:5000", "orders:1:70"],
    "org.apache.kafka.tools.ClusterTool cluster-id": [f"Cluster ID: {CLUSTER_ID}"],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DemoCluster]:
    with demo_cluster() as running:
        yield running


@pytest.mark.parametrize("line", JAVA_TOOLS)
def test_apaches_tools_print_the_right_answer(cluster: DemoCluster, line: str) -> None:
    ensure_jars()
    tool, *args = line.split()
    command = java_tool_command(tool, [*args, "--bootstrap-server", cluster.bootstrap_servers])
    shown = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    printed = [text for text in shown.stdout.splitlines() if text]
    assert (shown.returncode, printed, shown.stderr) == (0, JAVA_TOOLS[line], "")
