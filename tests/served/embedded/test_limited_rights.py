"""A backend, and its tools, with fewer rights on the cluster than a change needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.tools.reassign import command as reassign
from kshunt.backend.tools.topics import command as topics
from tests.support.embedded.background import Running, running
from tests.support.embedded.rights import AUTHORIZED, allow, granted
from tests.support.embedded.users import USERS, login
from tests.support.serving import serving
from tests.support.tools import Tool, run_with, write
from tests.support.waiting import wait_until

DEADLINE_S = 30.0
BACKEND = "User:kshunt"
RIGHTS = (
    "READ topic *",
    "WRITE topic *",
    "CREATE topic *",
    "ALTER_CONFIGS topic *",
    "ALTER_CONFIGS cluster",
    "DESCRIBE cluster",
    "WRITE transactional_id *",
    "READ group *",
)
"""Everything that a backend needs but to alter the cluster, or a topic."""
RATES = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def properties(folder: Path) -> str:
    return write(
        folder,
        "client.properties",
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="kshunt" password="kshunt-secret";\n',
    )


@pytest.fixture
def reassign_tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(reassign.main, capsys)


@pytest.fixture
def topics_tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(topics.main, capsys)


def throttles(cluster: Running) -> dict[str, dict[str, str]]:
    """What is set on brokers and on the topic, if anything is."""

    def found(broker: str) -> dict[str, str]:
        image = cluster.call(lambda here: here.image)
        kind = ResourceType.TOPIC if broker == "t" else ResourceType.BROKER
        return dict(image.dynamic_configs(kind, broker))

    return {name: values for name in ("1", "2", "3", "t") if (values := found(name))}


@pytest.mark.parametrize("native", [True, False], ids=["the seeds' RPCs", "Kafka's RPCs"])
def test_a_backend_that_may_not_alter_the_cluster_is_refused_clearly(
    native: bool, tmp_path: Path, reassign_tool: Tool, topics_tool: Tool
) -> None:
    acls = tuple(allow(right, BACKEND) for right in RIGHTS)
    users = {**USERS, "kshunt": "kshunt-secret"}
    spec = ClusterSpec(plain_brokers(3), static=AUTHORIZED, users=users, acls=acls, native=native)
    with running(spec) as cluster:
        admin = AdminClient(login(cluster, "admin"))
        [made] = admin.create_topics([NewTopic("t", 1, 1)], request_timeout=DEADLINE_S).values()
        made.result(DEADLINE_S)
        before = cluster.call(lambda here: here.image.partition("t", 0))
        assert before is not None
        target = [broker for broker in (1, 2, 3) if broker not in before.replicas][:1]
        moves = [{"topic": "t", "partition": 0, "replicas": target}]
        plan = write(tmp_path, "plan.json", json.dumps({"version": 1, "partitions": moves}))
        flags = ("--command-config", properties(tmp_path))
        with serving(cluster.bootstrap_servers, tmp_path, *flags) as address:
            execute = ("--execute", "--backend", address, "--reassignment-json-file", plan)
            code, _, err = reassign_tool(*execute)
            assert code == 1
            assert "Cluster authorization failed." in err
            grow = ("--alter", "--backend", address, "--topic", "t", "--partitions", "4")
            code, out, err = topics_tool(*grow)
            assert (code, out) == (1, "Nothing was changed.\n")
            assert "authorization failed." in err
            assert cluster.call(lambda here: here.image.partition("t", 0)) == before
            assert not throttles(cluster)
            missing = "ALTER cluster", "CLUSTER_ACTION cluster", "ALTER topic *"
            granted(cluster, *missing, principal=BACKEND)
            assert topics_tool(*grow)[0] == 0
            assert reassign_tool(*execute)[0] == 0

            def moved() -> bool:
                partition = cluster.call(lambda here: here.image.partition("t", 0))
                return partition is not None and list(partition.replicas) == target

            wait_until(moved, DEADLINE_S, f"{TopicPartition('t', 0)} has moved")
