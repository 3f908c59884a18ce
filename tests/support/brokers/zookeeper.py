"""A real ZooKeeper 3.8 on loopback, and Kafka 3.9 brokers that keep their metadata in it.

The ZooKeeper has a plain port and one with TLS. Brokers are under the chroot `/kafka`. Processes
and folders are looked after as those of `tests.support.brokers.launcher`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient

from tests.support.brokers.broker import BrokerProcess
from tests.support.brokers.config import BrokerPlan
from tests.support.brokers.guard import Guard, remove_folder
from tests.support.brokers.java import (
    HERE,
    KafkaLaunchError,
    copy_dependencies,
    java_command,
    java_tool_command,
)
from tests.support.brokers.tls import TlsFiles, make_tls_files
from tests.support.ports import HOST, free_ports
from tests.support.waiting import wait_until

POM = HERE / "zookeeper-pom.xml"
# Below the other brokers' jars, which are no part of the sources either.
JARS = HERE / "libs" / "zookeeper"
CHROOT = "/kafka"
HEAP_MB = 256
READY_S = 90.0
STOP_S = 3.0
TICK_MS = 500
SESSION_LOST, STARTS_AGAIN = "SessionExpiredException", 3
CONNECT_S = 1.0
PACKET_BYTES = 0xFFFFF
"""A server's own default."""


def zookeeper_jars() -> Path:
    """The folder of jars, with Maven's help where they are absent."""
    if not JARS.is_dir():
        JARS.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".libs-", dir=HERE) as folder:
            arriving = Path(folder) / "libs"
            copy_dependencies(POM, arriving)
            shutil.move(arriving, JARS)
    return JARS


class ZooKeeperServer:
    """One server, which can be stopped, frozen and started again with what it held."""

    def __init__(self, folder: Path, guard: Guard, tls: TlsFiles, packet_bytes: int) -> None:
        self._folder, self._guard, self._packet_bytes = folder, guard, packet_bytes
        self.port, self.secure_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        self._file = folder / "zoo.cfg"
        entries = {
            "tickTime": TICK_MS,
            "dataDir": folder / "data",
            "clientPort": self.port,
            "clientPortAddress": HOST,
            "secureClientPort": self.secure_port,
            "secureClientPortAddress": HOST,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": tls.broker_keystore,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": tls.ca,
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "want",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,cons",
        }
        self._file.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))

    @property
    def address(self) -> str:
        """Of the plain port."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        command = java_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            [str(self._file)],
            heap_mb=HEAP_MB,
            log_level="warn",
            libs=zookeeper_jars(),
        )
        command.insert(1, f"-Djute.maxbuffer={self._packet_bytes}")
        with (self._folder / "zookeeper.log").open("ab") as log:
            self._process = self._guard.spawn(command, log)
        wait_until(self._serves, READY_S, f"ZooKeeper serves; see {self._folder}")

    def _serves(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise KafkaLaunchError((self._folder / "zookeeper.log").read_text(errors="replace"))
        try:
            with socket.create_connection((HOST, self.port), CONNECT_S) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it runs; once it is stopped, where that is the signal."""
        if self._process is not None:
            self._process.send_signal(number)
            if number == signal.SIGSTOP:
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def kill(self) -> None:
        """End it immediately, as a crash would; what it acknowledged is on its disk."""
        if self._process is None:
            return
        self.send(signal.SIGKILL)
        self._process.wait(STOP_S)
        self._guard.forget(self._process.pid)
        self._process = None


class ZooKeeperKafka:
    """A ZooKeeper with brokers, or without any; a context manager."""

    def __init__(
        self,
        brokers: int = 3,
        overrides: Mapping[str, str] | None = None,
        *,
        packet_bytes: int = PACKET_BYTES,
    ) -> None:
        """`packet_bytes`: what the server takes in one request."""
        self.broker_ids = tuple(range(1, brokers + 1))
        self._overrides = dict(overrides or {})
        self._packet_bytes = packet_bytes
        self._brokers: dict[int, BrokerProcess] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.folder = Path(tempfile.mkdtemp(prefix="kshunt-zookeeper-"))
            undo.callback(remove_folder, self.folder)
            self._guard = Guard(self.folder)
            undo.callback(self._guard.close)
            self.tls = make_tls_files(self.folder / "tls")
            place = self.folder / "zookeeper"
            self.server = ZooKeeperServer(place, self._guard, self.tls, self._packet_bytes)
            undo.callback(self.server.kill)
            undo.callback(self._end_brokers)
            self.server.start()
            self._start_brokers()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    @property
    def connect(self) -> str:
        """What Kafka calls `zookeeper.connect`."""
        return f"{self.server.address}{CHROOT}"

    @property
    def secure_connect(self) -> str:
        """The same over TLS; a client certificate is asked for, and not insisted on."""
        return f"{HOST}:{self.server.secure_port}{CHROOT}"

    @property
    def bootstrap_servers(self) -> str:
        """Of the brokers."""
        return ",".join(b.plan.address("PLAINTEXT") for b in self._brokers.values())

    @property
    def cluster_id(self) -> str:
        """What the first broker has called the cluster."""
        client = KazooClient(self.connect)
        client.start(READY_S)
        try:
            return str(json.loads(client.get("/cluster/id")[0])["id"])
        finally:
            client.stop()
            client.close()

    def log_dirs(self, broker_id: int) -> tuple[Path, ...]:
        """Where a broker keeps replicas."""
        return self._brokers[broker_id].plan.log_dirs

    def kill_broker(self, broker_id: int) -> None:
        """Crash a broker; its znode goes when its session times out."""
        self._brokers[broker_id].kill()

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was killed, and wait until all that run list it."""
        self._brokers[broker_id].spawn()
        self._wait_ready({broker_id})

    def java_tool(self, main_class: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run one of Apache's own tools of Kafka 3.9."""
        command = java_tool_command(main_class, args)
        at = command.index("-cp") + 1
        command[at] = f"{JARS}/*"
        return self._guard.run(command, READY_S)

    def _start_brokers(self) -> None:
        ports = free_ports(len(self.broker_ids))
        for broker_id, port in zip(self.broker_ids, ports, strict=True):
            plan = BrokerPlan(broker_id, self.folder / f"broker-{broker_id}", {"PLAINTEXT": port})
            plan.folder.mkdir()
            plan.properties_file.write_text(self._properties(plan))
            self._brokers[broker_id] = BrokerProcess(plan, self._guard, JARS, HEAP_MB)
            self._brokers[broker_id].spawn()
        self._wait_ready(set(self.broker_ids))

    def _wait_ready(self, broker_ids: set[int]) -> None:
        again = dict.fromkeys(self._brokers, STARTS_AGAIN)

        def ready() -> bool:
            running = [broker for broker in self._brokers.values() if broker.pid is not None]
            for broker in running:
                if broker.exited():
                    tail = broker.log_tail()
                    again[broker.plan.broker_id] -= 1
                    if again[broker.plan.broker_id] < 0 or SESSION_LOST not in tail:
                        raise KafkaLaunchError(tail)
                    # A broker that starts on a busy machine may be late for its own session.
                    broker.wait_gone(READY_S)
                    broker.spawn()
            return all(broker.lists(broker_ids) for broker in running)

        wait_until(ready, READY_S, f"brokers {sorted(broker_ids)} are ready")

    def _properties(self, plan: BrokerPlan) -> str:
        address = f"PLAINTEXT://{plan.address('PLAINTEXT')}"
        entries = {
            "broker.id": plan.broker_id,
            "broker.rack": plan.rack,
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": 4_000,
            "listeners": address,
            "log.dirs": ",".join(map(str, plan.log_dirs)),
            "offsets.topic.replication.factor": min(3, len(self.broker_ids)),
            "offsets.topic.num.partitions": 4,
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.ms": -1,
            **self._overrides,
        }
        return "".join(f"{key}={value}\n" for key, value in entries.items())

    def _end_brokers(self) -> None:
        for broker in self._brokers.values():
            with suppress(ProcessLookupError):
                # Their disks go with the folder, and an orderly end takes seconds.
                broker.kill()
