"""One broker's process: started, signalled, waited for, and asked whether it serves."""

import logging
import signal
import socket
import subprocess
from collections.abc import Set as AbstractSet
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.brokers.config import BrokerPlan
from tests.support.brokers.guard import Guard
from tests.support.brokers.java import LIBS, java_command
from tests.support.ports import HOST
from tests.support.waiting import wait_until

HEAP_MB = 400
CONNECT_TIMEOUT_S = 1.0
METADATA_TIMEOUT_S = 2.0
LOG_TAIL_LINES = 25
PORT_TAKEN = "Address already in use"

# librdkafka reports every refused connection of a broker that is still starting.
_silent = logging.getLogger("tests.support.brokers.silent")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class BrokerProcess:
    """A broker as planned, running or not."""

    def __init__(
        self, plan: BrokerPlan, guard: Guard, libs: Path = LIBS, heap_mb: int = HEAP_MB
    ) -> None:
        self.plan = plan
        self._libs, self._heap_mb = libs, heap_mb
        self.paused = False
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    def spawn(self) -> None:
        """Start the process; it is not ready yet."""
        if self._process is not None:
            raise ValueError(f"broker {self.plan.broker_id} runs already")
        args = [str(self.plan.properties_file)]
        command = java_command(
            "kafka.Kafka", args, heap_mb=self._heap_mb, log_level="warn", libs=self._libs
        )
        with self.plan.log_file.open("ab") as log:
            self._process = self._guard.spawn(command, log)

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)
            if number in (signal.SIGSTOP, signal.SIGCONT):
                self.paused = number == signal.SIGSTOP
            if number == signal.SIGSTOP:
                # On a busy machine some of its threads run on for a while.
                wait_until(self._stopped, 30.0, f"broker {self.plan.broker_id} stands still")

    def _stopped(self) -> bool:
        """Whether none of its threads runs."""
        return all(_stopped(task) for task in Path(f"/proc/{self.pid}/task").iterdir())

    def exited(self) -> bool:
        """Whether the process ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def wait_gone(self, deadline_s: float) -> bool:
        """Reap it; False if it still runs at the deadline."""
        if self._process is None:
            return True
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        self._guard.forget(self._process.pid)
        self._process, self.paused = None, False
        return True

    def kill(self) -> None:
        """End it immediately, as a crash would, and reap it."""
        self.send(signal.SIGKILL)
        self.wait_gone(deadline_s=30.0)

    def lists(self, broker_ids: AbstractSet[int]) -> bool:
        """Whether it serves and its own view of the cluster has these brokers unfenced."""
        try:
            address = (HOST, self.plan.ports["PLAINTEXT"])
            # A refused connection says so immediately; librdkafka would wait its timeout out.
            socket.create_connection(address, CONNECT_TIMEOUT_S).close()
            client = AdminClient(
                {"bootstrap.servers": self.plan.address("PLAINTEXT"), "log_level": 0},
                logger=_silent,
            )
            return broker_ids <= client.list_topics(timeout=METADATA_TIMEOUT_S).brokers.keys()
        except (OSError, KafkaException):
            return False

    def log_tail(self) -> str:
        """The last lines of its log, under a heading."""
        tail = "\n".join(self._log().splitlines()[-LOG_TAIL_LINES:]) or "(empty)"
        return f"--- broker {self.plan.broker_id} ---\n{tail}"

    def lost_its_port(self) -> bool:
        """Whether it ended because somebody else listens on one of its ports."""
        return self.exited() and PORT_TAKEN in self._log()

    def _log(self) -> str:
        if not self.plan.log_file.exists():
            return ""
        return self.plan.log_file.read_text(errors="replace")


def _stopped(task: Path) -> bool:
    """Whether one thread of a process is stopped; one that has ended is."""
    try:
        # The name may hold any character; the state comes after its last bracket.
        state = (task / "stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "TtZX"
