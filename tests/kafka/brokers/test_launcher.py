"""The real-Kafka launcher: what it promises to start, and that nothing of it stays behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tests.support.brokers.launcher import (
    PASSWORD,
    USER,
    KafkaLaunchError,
    RealKafka,
    missing_reason,
)
from tests.support.paths import ROOT
from tests.support.ports import HOST, free_ports
from tests.support.topics import create_topic, produce
from tests.support.waiting import require, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealKafka]:
    """A cluster of this file's own, as its brokers are stopped and started."""
    with RealKafka(brokers=3, overrides={"replica.lag.time.max.ms": "3000"}) as kafka:
        yield kafka


def test_brokers_have_two_log_dirs_and_a_rack_each(cluster: RealKafka) -> None:
    admin = AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_cluster().result(timeout=DEADLINE_S)
    assert described.cluster_id == cluster.cluster_id
    racks = {node.id: node.rack for node in described.nodes}
    assert racks == {1: "rack-1", 2: "rack-2", 3: "rack-3"}
    shown = cluster.java_tool(
        "org.apache.kafka.tools.LogDirsCommand",
        *("--bootstrap-server", cluster.bootstrap_servers, "--describe"),
    )
    assert shown.returncode == 0
    assert shown.stderr == ""
    for broker_id in cluster.broker_ids:
        assert len(cluster.log_dirs(broker_id)) == 2
        assert all(str(folder) in shown.stdout for folder in cluster.log_dirs(broker_id))


def test_overrides_reach_every_broker(cluster: RealKafka) -> None:
    admin = AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers})
    for broker_id in cluster.broker_ids:
        broker = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
        configs = admin.describe_configs([broker])[broker].result(timeout=DEADLINE_S)
        assert configs["replica.lag.time.max.ms"].value == "3000"
        assert configs["auto.create.topics.enable"].value == "false"


def test_a_stopped_broker_leaves_and_comes_back_with_its_replicas(cluster: RealKafka) -> None:
    bootstrap, old_pid = cluster.bootstrap_servers, cluster.pids[2]
    create_topic(bootstrap, "stop-start", [[2, 1], [1, 2]], {"min.insync.replicas": "1"})
    produce(bootstrap, "stop-start", count=50, size_bytes=100, partition=0)
    cluster.stop_broker(2)
    assert 2 not in cluster.pids
    assert not _running(old_pid)
    _wait_in_sync(bootstrap, "stop-start", {1})
    cluster.start_broker(2)
    assert cluster.bootstrap_servers == bootstrap
    _wait_in_sync(bootstrap, "stop-start", {1, 2})


def test_a_paused_broker_falls_out_of_sync_and_returns(cluster: RealKafka) -> None:
    bootstrap = cluster.bootstrap_servers
    create_topic(bootstrap, "pause", [[1, 3]], {"min.insync.replicas": "1"})
    cluster.pause_broker(3)
    produce(bootstrap, "pause", count=1, size_bytes=10)
    _wait_in_sync(bootstrap, "pause", {1})
    cluster.resume_broker(3)
    _wait_in_sync(bootstrap, "pause", {1, 3})


@pytest.fixture(scope="module")
def secured() -> Iterator[RealKafka]:
    """One broker with every listener."""
    require(missing_reason(ssl=True))
    with RealKafka(brokers=1, sasl=True, ssl=True) as kafka:
        yield kafka


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_lets_in_who_knows_the_password(secured: RealKafka, mechanism: str) -> None:
    sasl = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    _connect(secured.sasl_bootstrap, "SASL_PLAINTEXT", sasl)
    tls = {"ssl.ca.location": str(secured.ca_pem_path)}
    _connect(secured.sasl_ssl_bootstrap, "SASL_SSL", sasl | tls)
    wrong = sasl | {"sasl.password": "wrong"}
    _is_refused(secured.sasl_bootstrap, "SASL_PLAINTEXT", wrong, KafkaError._AUTHENTICATION)


def test_tls_is_for_clients_that_trust_the_authority(secured: RealKafka) -> None:
    tls = {"ssl.ca.location": str(secured.ca_pem_path)}
    client = {
        "ssl.certificate.location": str(secured.client_certificate_path),
        "ssl.key.location": str(secured.client_key_path),
    }
    _connect(secured.ssl_bootstrap, "SSL", tls)
    _connect(secured.ssl_bootstrap, "SSL", tls | client)
    _is_refused(secured.ssl_bootstrap, "SSL", {}, KafkaError._SSL)


def test_a_lost_port_is_replaced_once_and_the_folder_is_removed() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        offers = [[taken.getsockname()[1], *free_ports(1)], free_ports(2)]
        with RealKafka(brokers=1, pick_ports=lambda count: offers.pop(0)) as kafka:
            assert offers == []
            assert kafka.folder.is_dir()
            pid = kafka.pids[1]
    assert not kafka.folder.exists()
    assert not _running(pid)


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    kafka = RealKafka(brokers=1, overrides={"log.segment.bytes": "none"})
    with pytest.raises(KafkaLaunchError, match=r"(?s)log\.segment\.bytes"):
        kafka.start()
    assert not kafka.folder.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_cli_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    with _cli(tmp_path) as cli:
        assert cli.stdout is not None
        assert cli.stderr is not None
        ready = cli.stdout.readline()
        assert ready.startswith(f"ready {HOST}:"), ready + cli.stderr.read()
        children = _children(cli.pid)
        assert len(children) == 2, "one broker and the watchdog"
        assert len(list(tmp_path.iterdir())) == 1
        cli.send_signal(number)
        assert cli.wait(DEADLINE_S) == (-number if number == signal.SIGKILL else 0)
        wait_until(lambda: not any(map(_running, children)), DEADLINE_S, "its processes ended")
        wait_until(lambda: not list(tmp_path.iterdir()), DEADLINE_S, "its folder is gone")
        assert cli.stderr.read() == ""


@contextmanager
def _cli(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """`python -m tests.support.brokers.launcher` with its temporary folder in `temporary`."""
    command = [sys.executable, "-m", "tests.support.brokers.launcher", "--brokers", "1"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with ExitStack() as undo:
        process = undo.enter_context(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        undo.callback(process.kill)
        yield process


def _running(pid: int) -> bool:
    """Whether a process is there and no zombie: who inherits an orphan may never reap it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent(entry) == parent:
            found.append(int(entry.name))
    return found


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _wait_in_sync(bootstrap: str, topic: str, expected: set[int]) -> None:
    admin = AdminClient({"log_level": 0, "bootstrap.servers": bootstrap})

    def in_sync() -> bool:
        partitions = admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        return all(set(partition.isrs) == expected for partition in partitions.values())

    wait_until(in_sync, DEADLINE_S, f"replicas {expected} of {topic} in sync")


def _connect(bootstrap: str, protocol: str, settings: dict[str, str]) -> None:
    """Read the cluster's metadata over a listener, or raise."""
    admin = AdminClient(
        {"log_level": 0, "bootstrap.servers": bootstrap, "security.protocol": protocol, **settings}
    )
    assert list(admin.list_topics(timeout=DEADLINE_S).brokers) == [1]


def _is_refused(bootstrap: str, protocol: str, settings: dict[str, str], code: int) -> None:
    """Wait until a client that must not get in says why; it tries, and may first say other things.

    A broker that ends a failed TLS handshake can be seen as a lost connection (`_TRANSPORT`).
    """
    codes: set[int] = set()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": protocol,
            "log_level": 0,
            "reconnect.backoff.max.ms": 100,
            "error_cb": lambda error: codes.add(error.code()),
            **settings,
        }
    )

    def reported() -> bool:
        producer.poll(0)
        return code in codes

    wait_until(reported, DEADLINE_S, f"the client reports error {code}")
