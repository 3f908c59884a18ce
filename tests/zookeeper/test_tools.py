"""The tools and the dashboard's backend with `--zookeeper`, on a real ZooKeeper with Kafka 3.9."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from kshunt.backend.addresses import zookeeper_address
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.cli.main import main as kshunt
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import BackendError
from kshunt.backend.local_sockets import answers, socket_path
from kshunt.backend.tools import audit, election
from kshunt.backend.tools.reassign import command as reassign
from kshunt.backend.tools.reassign.reports import EXISTING_IN_ZOOKEEPER
from kshunt.backend.tools.shared.private_backend import private_backend
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.terminal import terminal as in_terminal
from tests.support.tools import Tool, run_with, write
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until
from tests.support.zookeeper.znodes import (
    DEADLINE_S,
    ON_ZOOKEEPER,
    client_of,
    named_for_removal,
    unjsoned,
)

pytestmark = [*ON_ZOOKEEPER, pytest.mark.usefixtures("own_runtime_dir")]

RATE = "1000000"
"""Two megabytes take some seconds at that rate."""


@pytest.fixture
def client(zookeeper: ZooKeeperKafka) -> Iterator[KazooClient]:
    with client_of(zookeeper.connect) as found:
        yield found


@pytest.fixture
def reassigning(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(reassign.main, capsys)


@pytest.fixture
def electing(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(election.main, capsys)


@pytest.fixture
def topic(zookeeper: ZooKeeperKafka, request: pytest.FixtureRequest) -> str:
    name = f"tool-{request.node.name}".replace("_", "-")[:80]
    create_topic(zookeeper.bootstrap_servers, name, [[1, 2], [2, 1]])
    produce(zookeeper.bootstrap_servers, name, count=2_000, size_bytes=1_000, partition=0)
    return name


def plan_file(folder: Path, topic: str, targets: Mapping[int, Sequence[int]]) -> str:
    entries = [
        {"topic": topic, "partition": number, "replicas": list(target)}
        for number, target in targets.items()
    ]
    return write(folder, "plan.json", json.dumps({"version": 1, "partitions": entries}))


def throttled(client: KazooClient, topic: str) -> list[str]:
    """What is throttled, by the znodes of configurations."""
    found = []
    for entity in (f"topics/{topic}", "brokers/1", "brokers/2", "brokers/3"):
        config = (unjsoned(client, f"/config/{entity}") or {"config": {}})["config"]
        found += [f"{entity} {key}" for key in config if ".replication.throttled." in key]
    return found


def warned(err: str) -> str:
    """The rest of what was said, after the warning."""
    first, _, rest = err.partition("\n")
    assert "--zookeeper is deprecated and will be removed in a future version" in first
    assert "--bootstrap-server replaces it" in first
    return rest


@pytest.mark.conforms("kip-179:zookeeper-as-before")
def test_a_throttled_move_by_the_tool_and_its_throttle_goes_at_the_end(
    zookeeper: ZooKeeperKafka, client: KazooClient, reassigning: Tool, topic: str, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path, topic, {0: [1, 3]})
    at = ("--zookeeper", zookeeper.connect, "--reassignment-json-file", plan)
    code, out, err = reassigning("--execute", *at, "--throttle", RATE)
    assert (code, warned(err)) == (0, "")
    assert "Successfully started" in out
    assert named_for_removal(client) == ([topic], [1, 2, 3])
    assert len(throttled(client, topic)) == 8
    assert unjsoned(client, "/admin/reassign_partitions") is not None
    code, out, err = reassigning("--list", *at[:2])
    assert f"{topic}-0" in out
    assert warned(err) == ""
    assert reassigning("--verify", *at)[0] == 2
    wait_until(lambda: not throttled(client, topic), DEADLINE_S, "the throttle has gone")
    wait_until(lambda: named_for_removal(client) == ([], []), DEADLINE_S, "so have its records")
    code, out, err = reassigning("--verify", *at)
    assert (code, warned(err)) == (0, "")
    assert f"Reassignment of partition {topic}-0 is completed." in out


def test_a_second_move_is_refused_as_by_kafkas_tool(
    zookeeper: ZooKeeperKafka, client: KazooClient, reassigning: Tool, topic: str, tmp_path: Path
) -> None:
    first = plan_file(tmp_path, topic, {0: [1, 3]})
    at = ("--zookeeper", zookeeper.connect, "--execute", "--throttle", "20000")
    assert reassigning(*at, "--reassignment-json-file", first)[0] == 0
    other = plan_file(tmp_path, topic, {1: [2, 3]})
    code, _, err = reassigning(*at, "--reassignment-json-file", other)
    assert code == 1
    assert EXISTING_IN_ZOOKEEPER in err
    code, out, err = reassigning(*at, "--additional", "--reassignment-json-file", other)
    assert code == 1
    assert "/admin/reassign_partitions exists" in out + err
    with BackendClient(f"unix:{socket_path(zookeeper_address(zookeeper.connect), None)}") as live:
        (operation,) = [o for o in live.operations.list() if not o.state.ended]
        assert "cancel" not in operation.actions
        with pytest.raises(BackendError, match="does not support cancel") as refused:
            live.reassignments.cancel(
                (TopicPartition(topic, 0),), preserve_throttles=False, timeout_ms=5000
            )
        assert refused.value.status == 501
        # What is offered works: at full speed it is over immediately.
        fast = dict.fromkeys((1, 2, 3), ThrottledRate(10**9, 10**9))
        live.throttles.alter_rates(fast)
    wait_until(lambda: not throttled(client, topic), DEADLINE_S, "the throttle has gone")


def test_the_audit_is_read_without_a_backend_and_by_one(
    zookeeper: ZooKeeperKafka, client: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = run_with(audit.main, capsys)
    at = ("--zookeeper", zookeeper.connect)
    address = private_backend(zookeeper_address(zookeeper.connect), None)
    with BackendClient(address) as live:
        live.throttles.alter_rates({1: ThrottledRate(12_345, None)})
        code, by_backend, err = tool(*at, "--format", "json")
        assert (code, warned(err)) == (0, "")
        live.throttles.alter_rates({1: ThrottledRate(None, None)})
        os.kill(live.cluster().backend_pid, signal.SIGKILL)
    path = socket_path(zookeeper_address(zookeeper.connect), None)
    wait_until(lambda: not answers(path), DEADLINE_S, "the backend is gone")
    code, by_itself, err = tool(*at, "--format", "json")
    assert (code, warned(err)) == (0, "")
    assert len(json.loads(by_itself)["entries"]) > len(json.loads(by_backend)["entries"]) > 0
    code, _, err = tool(*at, "--bootstrap-server", zookeeper.bootstrap_servers)
    assert code == 2
    assert "either" in err


@pytest.mark.conforms("kip-183:zookeeper-as-before")
def test_preferred_leaders_by_the_tool(
    zookeeper: ZooKeeperKafka, client: KazooClient, electing: Tool, topic: str, tmp_path: Path
) -> None:
    state = f"/brokers/topics/{topic}/partitions/0/state"
    entry = {"topic": topic, "partition": 0, "replicas": [2, 1]}
    client.create(
        "/admin/reassign_partitions", json.dumps({"version": 1, "partitions": [entry]}).encode()
    )
    wait_until(
        lambda: client.exists("/admin/reassign_partitions") is None, DEADLINE_S, "it is reordered"
    )
    assert unjsoned(client, state)["leader"] == 1
    file = write(tmp_path, "p.json", json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    code, out, err = electing("--zookeeper", zookeeper.connect, "--path-to-json-file", file)
    assert (code, warned(err)) == (0, "")
    assert f"for partitions {topic}-0" in out
    assert unjsoned(client, state)["leader"] == 2


@pytest.mark.conforms("kip-179:not-both", "kip-179:progress-not-zookeeper", "kip-183:not-both")
def test_both_ways_at_once_and_progress_are_refused_before_anything_is_done(
    zookeeper: ZooKeeperKafka,
    client: KazooClient,
    reassigning: Tool,
    electing: Tool,
    tmp_path: Path,
    own_runtime_dir: Path,
) -> None:
    plan = plan_file(tmp_path, "t", {0: [1]})
    both = ("--zookeeper", zookeeper.connect, "--bootstrap-server", zookeeper.bootstrap_servers)
    cases: list[tuple[Callable[..., tuple[int, str, str]], tuple[str, ...]]] = [
        (reassigning, ("--execute", *both, "--reassignment-json-file", plan)),
        (reassigning, ("--progress", *both[:2], "--reassignment-json-file", plan)),
        (reassigning, ("--cancel", *both[:2], "--reassignment-json-file", plan)),
        (electing, both),
    ]
    for tool, argv in cases:
        code, out, err = tool(*argv)
        assert (code, out) == (1, "")
        assert "zookeeper" in err
    # No backend was started for any of them.
    assert list(own_runtime_dir.iterdir()) == []
    assert client.exists("/admin/reassign_partitions") is None


def test_digest_credentials_let_a_tool_work_where_others_are_refused(
    zookeeper: ZooKeeperKafka, client: KazooClient, reassigning: Tool, topic: str, tmp_path: Path
) -> None:
    """Who makes the znode is restricted; brokers, who have no such credentials, take it away."""
    plan = plan_file(tmp_path, topic, {0: [1, 3]})
    argv = ("--zookeeper", zookeeper.connect, "--execute", "--reassignment-json-file", plan)
    open_to_all = client.get_acls("/admin")[0]
    client.set_acls(
        "/admin",
        [
            make_acl("world", "anyone", read=True, write=True, delete=True, admin=True),
            make_digest_acl("ops", "secret", all=True),
        ],
    )
    try:
        code, out, err = reassigning(*argv, "--throttle", RATE)
        assert code == 1
        assert "does not allow access anonymously" in out + err
        assert throttled(client, topic) == []
        config = write(tmp_path, "zk.properties", "zookeeper.digest=ops:secret\n")
        code, out, err = reassigning(*argv, "--throttle", RATE, "--zk-tls-config-file", config)
        assert (code, warned(err)) == (0, ""), out
        wait_until(lambda: not throttled(client, topic), DEADLINE_S, "the throttle has gone")
    finally:
        client.set_acls("/admin", open_to_all)


def test_a_tool_over_tls(zookeeper: ZooKeeperKafka, reassigning: Tool, tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "zk.properties",
        "zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.type=PEM\n"
        f"zookeeper.ssl.truststore.location={zookeeper.tls.ca}\n",
    )
    at = ("--list", "--zookeeper", zookeeper.secure_connect)
    code, out, err = reassigning(*at, "--zk-tls-config-file", config)
    assert (code, warned(err)) == (0, "")
    assert "No partition reassignments found." in out
    code, _, err = reassigning(*at)
    assert code == 1
    assert "Does the port expect TLS?" in err


def test_the_dashboards_backend_says_what_it_cannot_offer(
    zookeeper: ZooKeeperKafka, topic: str
) -> None:
    address = private_backend(zookeeper_address(zookeeper.connect), None)
    with BackendClient(address) as live:
        cluster = live.cluster()
        assert cluster.bootstrap_servers == zookeeper_address(zookeeper.connect)
        assert cluster.brokers == 3
        offered_not = {what for what, _ in live.backend_status().not_offered}
        assert offered_not >= {"cancel", "unclean election", "shrinking topics"}
        with pytest.raises(BackendError, match="does not support unclean election"):
            live.elections.elect_unclean_leaders(
                (TopicPartition(topic, 0),), Change(validate_only=True)
            )


def test_the_dashboard_shows_such_a_cluster_and_warns(
    zookeeper: ZooKeeperKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "kshunt", "--zookeeper", zookeeper.connect, "--no-record"]
    path = socket_path(zookeeper_address(zookeeper.connect), None)
    with in_terminal(command, {}) as shown:
        shown.until(b"--zookeeper is deprecated", DEADLINE_S)
        shown.until(b"brokers up", DEADLINE_S)
        with BackendClient(f"unix:{path}") as live:
            shown.until(re.escape(live.cluster().cluster_id.encode()), DEADLINE_S)
            os.kill(live.cluster().backend_pid, signal.SIGTERM)
    assert kshunt(["--zookeeper", "z:1", "--bootstrap-server", "b:1"]) == 2
    assert "both --zookeeper and --bootstrap-server" in capsys.readouterr().err
