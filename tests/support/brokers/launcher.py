"""Real Apache Kafka brokers (KRaft, combined roles) on loopback, for tests and the demo.

    with RealKafka() as kafka:
        AdminClient({"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers})

Each broker has two log directories and a rack of its own. Everything lives in one temporary
folder, which is gone after `stop`, after Ctrl-C and after `kill -9` of this process. A watchdog
removes it after a `kill -9` (`guard.py` says why that is a process and not PR_SET_PDEATHSIG).
`python -m tests.support.brokers.launcher` runs a cluster until it is interrupted.
"""

import argparse
import atexit
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.brokers.broker import BrokerProcess
from tests.support.brokers.config import (
    FAR,
    NETWORK,
    PASSWORD,
    USER,
    BrokerPlan,
    listener_names,
    plan_brokers,
    properties,
)
from tests.support.brokers.guard import Guard, remove_folder
from tests.support.brokers.java import (
    KafkaLaunchError,
    ensure_jars,
    java_tool_command,
    missing_reason,
)
from tests.support.brokers.storage import format_brokers, new_kafka_id
from tests.support.brokers.tls import TlsFiles, make_tls_files
from tests.support.ports import free_ports

__all__ = ["PASSWORD", "USER", "KafkaLaunchError", "RealKafka", "ensure_jars", "missing_reason"]

BROKER_STOP_DEADLINE_S = 30.0
# Most brokers end in 0.4 s. The last one waits for a quorum that is gone, and would do so for
# minutes: it is killed at the deadline, as nothing on these disks outlives the cluster.
CLUSTER_STOP_DEADLINE_S = 1.0
POLL_S = 0.1


class PortTakenError(KafkaLaunchError):
    """Somebody else took a port between finding it free and the broker's bind."""


class RealKafka:
    """A cluster of real brokers; a context manager."""

    def __init__(
        self,
        brokers: int = 3,
        overrides: Mapping[str, str] | None = None,
        *,
        sasl: bool = False,
        ssl: bool = False,
        far: bool = False,
        ready_deadline_s: float = 90.0,
        pick_ports: Callable[[int], Sequence[int]] = free_ports,
    ) -> None:
        """`overrides` go into every broker's properties, over the launcher's own.

        `sasl` adds a listener with PLAIN and SCRAM for `USER`/`PASSWORD`, `ssl` one with TLS,
        and both together a third with SASL over TLS. Clients pick one by its bootstrap property.
        `far` adds one that is reached over a network, which the caller has to lay: `far_ports`.
        """
        self.broker_ids = tuple(range(1, brokers + 1))
        self.cluster_id = new_kafka_id()
        self.tls: TlsFiles | None = None
        self._overrides = dict(overrides or {})
        self._sasl, self._ssl, self._far = sasl, ssl, far
        self._ready_deadline_s = ready_deadline_s
        self._pick_ports = pick_ports
        self._brokers: dict[int, BrokerProcess] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- where it is -----------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the plaintext listeners, for `bootstrap.servers`."""
        return self._bootstrap("PLAINTEXT")

    @property
    def sasl_bootstrap(self) -> str:
        """SASL_PLAINTEXT: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 with `USER` and `PASSWORD`."""
        return self._bootstrap("SASL")

    @property
    def ssl_bootstrap(self) -> str:
        """TLS; the broker asks for a client certificate and does not insist on one."""
        return self._bootstrap("SSL")

    @property
    def sasl_ssl_bootstrap(self) -> str:
        """SASL over TLS."""
        return self._bootstrap("SASLSSL")

    @property
    def far_bootstrap(self) -> str:
        """PLAINTEXT over a network."""
        return self._bootstrap(NETWORK)

    @property
    def far_ports(self) -> dict[int, int]:
        """What the network has to pass on: from the ports that clients are told to the brokers'."""
        plans = [broker.plan for broker in self._brokers.values()]
        return {plan.ports[NETWORK]: plan.ports[FAR] for plan in plans}

    @property
    def ca_pem_path(self) -> Path:
        """What a TLS client trusts."""
        return self._tls_files().ca

    @property
    def client_certificate_path(self) -> Path:
        return self._tls_files().client_certificate

    @property
    def client_key_path(self) -> Path:
        return self._tls_files().client_key

    @property
    def folder(self) -> Path:
        """The temporary folder that holds everything."""
        return self._folder

    @property
    def pids(self) -> dict[int, int]:
        """Process id of each broker that runs, by broker id."""
        return {i: b.pid for i, b in self._brokers.items() if b.pid is not None}

    def log_dirs(self, broker_id: int) -> tuple[Path, ...]:
        return self._brokers[broker_id].plan.log_dirs

    # --- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every broker and wait until each sees all of them."""
        reason = missing_reason(ssl=self._ssl)
        if reason is not None:
            raise KafkaLaunchError(reason)
        ensure_jars()
        with ExitStack() as undo:
            self._folder = Path(tempfile.mkdtemp(prefix="kshunt-kafka-"))
            undo.callback(remove_folder, self._folder)
            self._guard = Guard(self._folder)
            undo.callback(self._guard.close)
            undo.callback(self._end_brokers)
            self.tls = make_tls_files(self._folder / "tls") if self._ssl else None
            try:
                self._launch()
            except PortTakenError:
                self._end_brokers()
                self._launch()
            self._undo = undo.pop_all()
        atexit.register(self.stop)

    def stop(self) -> None:
        """End every broker and remove the folder; harmless when done twice."""
        atexit.unregister(self.stop)
        self._undo.close()

    def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down in order: it hands its leaderships over first."""
        broker = self._brokers[broker_id]
        broker.send(signal.SIGCONT)
        broker.send(signal.SIGTERM)
        if not broker.wait_gone(BROKER_STOP_DEADLINE_S):
            tail = broker.log_tail()
            broker.kill()
            raise KafkaLaunchError(f"broker {broker_id} had to be killed to stop\n{tail}")

    def kill_broker(self, broker_id: int) -> None:
        """Crash a broker; the cluster notices when its session times out."""
        self._brokers[broker_id].kill()

    def pause_broker(self, broker_id: int) -> None:
        """Freeze a broker: its sockets stay open and nothing answers."""
        self._brokers[broker_id].send(signal.SIGSTOP)

    def resume_broker(self, broker_id: int) -> None:
        """Let a frozen broker continue."""
        self._brokers[broker_id].send(signal.SIGCONT)

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker with its ports and folders; wait until the others list it."""
        self._brokers[broker_id].spawn()
        self._wait_ready({broker_id})

    def java_tool(
        self, main_class: str, *args: str, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Apache's own tools, such as `org.apache.kafka.tools.TopicCommand`."""
        return self._guard.run(java_tool_command(main_class, args), timeout_s)

    # --- within ----------------------------------------------------------------------------

    def _launch(self) -> None:
        listeners = listener_names(sasl=self._sasl, ssl=self._ssl, far=self._far)
        ports = self._pick_ports(len(self.broker_ids) * len(listeners))
        plans = plan_brokers(len(self.broker_ids), listeners, ports, self._folder)
        for plan in plans:
            # A launch that lost a port leaves folders behind that know the old quorum.
            shutil.rmtree(plan.folder, ignore_errors=True)
            plan.folder.mkdir()
            text = properties(plan, plans, self.tls, self._overrides)
            plan.properties_file.write_text(text)
        format_brokers(plans, self.cluster_id, self._guard, sasl=self._sasl)
        self._brokers = {plan.broker_id: BrokerProcess(plan, self._guard) for plan in plans}
        for broker in self._brokers.values():
            broker.spawn()
        self._wait_ready(set(self.broker_ids))

    def _wait_ready(self, broker_ids: set[int]) -> None:
        """Wait until every broker that can answer lists `broker_ids`."""
        deadline = time.monotonic() + self._ready_deadline_s
        pause = threading.Event()
        waiting = [b for b in self._brokers.values() if b.pid is not None and not b.paused]
        while waiting:
            self._refuse_exited(waiting)
            if time.monotonic() > deadline:
                raise self._failure(f"brokers not ready in {self._ready_deadline_s:g} s")
            waiting = [broker for broker in waiting if not broker.lists(broker_ids)]
            pause.wait(POLL_S if waiting else 0)

    def _refuse_exited(self, brokers: Iterable[BrokerProcess]) -> None:
        if any(broker.lost_its_port() for broker in brokers):
            raise PortTakenError(str(self._failure("a port was taken by somebody else")))
        gone = [broker.plan.broker_id for broker in brokers if broker.exited()]
        if gone:
            raise self._failure(f"broker {gone} ended while starting")

    def _failure(self, what: str) -> KafkaLaunchError:
        tails = [broker.log_tail() for broker in self._brokers.values()]
        return KafkaLaunchError("\n".join([what, *tails]))

    def _end_brokers(self) -> None:
        brokers = self._brokers.values()
        for broker in brokers:
            broker.send(signal.SIGCONT)
            broker.send(signal.SIGTERM)
        deadline = time.monotonic() + CLUSTER_STOP_DEADLINE_S
        for broker in brokers:
            if not broker.wait_gone(max(0.0, deadline - time.monotonic())):
                broker.kill()

    def _bootstrap(self, listener: str) -> str:
        plans: list[BrokerPlan] = [broker.plan for broker in self._brokers.values()]
        if any(listener not in plan.ports for plan in plans):
            raise ValueError(f"this cluster has no {listener} listener")
        return ",".join(plan.address(listener) for plan in plans)

    def _tls_files(self) -> TlsFiles:
        if self.tls is None:
            raise ValueError("this cluster has no TLS listener")
        return self.tls


def main(argv: Sequence[str] | None = None) -> int:
    """Run a cluster until SIGINT or SIGTERM, then clean up."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.brokers.launcher", description=__doc__
    )
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--sasl", action="store_true", help="add a SASL_PLAINTEXT listener")
    parser.add_argument("--ssl", action="store_true", help="add a TLS listener")
    args = parser.parse_args(argv)
    # SIGINT too: a shell starts background jobs with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        try:
            with RealKafka(args.brokers, sasl=args.sasl, ssl=args.ssl) as kafka:
                print(f"ready {kafka.bootstrap_servers}", flush=True)
                forever = threading.Event()
                while not forever.wait(1.0):
                    pass
        except KafkaLaunchError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
