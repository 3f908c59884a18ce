"""`kshunt demo`: an embedded cluster, a backend for it, and the dashboard on both.

The scenarios are the files in `backend/embedded/scenario/shipped_scenarios`.

Goals: the first rows are on the screen as soon as three processes can be started side by side.
When this process ends, in whatever way, the other two end as well and leave nothing behind.

Constraints: nothing is shared with the user's own private backends, nor with another demo.

Algorithm: cluster and backend are children in sessions of their own. Each holds the reading end
of a pipe as its standard input, and ends when that ends, which it does even if this process is
killed. The backend loads its libraries while the cluster starts, and learns from its first line
of input where the brokers are. Moves that the scenario gives to kshunt come as lines of the
cluster's output, and are submitted through the backend as any client would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Final

from kshunt.backend.child_processes import LOG_LINES_SHOWN, environment
from kshunt.backend.errors import BackendUnreachable, KshuntError
from kshunt.backend.local_sockets import runtime_dir

START_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 5.0
QUIT_S: Final = 0.5
"""How long both processes have to end, once the dashboard is closed: nothing of them is kept."""


Show = Callable[[str, Callable[[], object]], int]
"""Shows the dashboard of an address; the second starts a backend there again."""


def run_demo(scenario: str, seed: int, prepare: Callable[[], object], show: Show) -> int:
    """Run a scenario until the dashboard is closed; returns the dashboard's exit code.

    `prepare` loads the dashboard meanwhile, and `show` shows that of a backend's address.

    Raises:
        KshuntError: the cluster or the backend could not be started, with what it said.
    """
    path = runtime_dir() / f"demo-{os.getpid()}.sock"
    with ExitStack() as stack:
        played = ["--scenario", scenario, "--seed", str(seed), "--control-port", "none"]
        # Another demo has the same cluster's id, and must not find what this one has kept.
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="kshunt-demo-"))
        # A backend ends first: it gives up its lease in the cluster's journal.
        cluster = stack.enter_context(_child("cluster", *played, "--hand-over"))

        def serve() -> Child:
            words = ("serve", "--socket", str(path), "--from-stdin")
            return stack.enter_context(_child(*words, XDG_STATE_HOME=state))

        served = [serve()]
        introduction = _Introduction(cluster, served[0], f"unix:{path}")

        def serve_again() -> None:
            if served[-1].process.poll() is not None:
                served.append(serve())
                introduction.tell(served[-1])

        introduction.start()
        prepare()
        introduction.wait()
        try:
            code = show(f"unix:{path}", serve_again)
        finally:
            end_together([*served, cluster], QUIT_S)
            path.unlink(missing_ok=True)
    if introduction.failed:
        sys.stderr.write(f"kshunt: the scenario's move was not started: {introduction.failed}\n")
    return code


def end_together(children: Sequence[Child], deadline_s: float) -> None:
    """End processes at the same time; those that take longer are killed, with what they started."""
    for child in children:
        child.hang_up()
    give_up_s = time.monotonic() + deadline_s
    for child in children:
        child.wait_or_kill(max(give_up_s - time.monotonic(), 0.0))


class Child:
    """A process of ours, and what it writes to its standard error."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self.process = process
        self._log = log

    def tell(self, line: str) -> None:
        """Write a line to its standard input, if it still reads."""
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def line(self) -> str:
        """The next line of its standard output.

        Raises:
            BackendUnreachable: it ended instead; with its last words.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(STOP_DEADLINE_S)
            raise BackendUnreachable(f"{self._last_words() or f'exit code {code}'}")
        return line.rstrip("\n")

    def hang_up(self) -> None:
        """Close its standard input: it ends."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait_or_kill(self, deadline_s: float) -> None:
        """Wait until it has ended; then kill it, and every process of its session's group."""
        try:
            self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """End it, and wait until it has."""
        self.hang_up()
        self.wait_or_kill(STOP_DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().splitlines()[-LOG_LINES_SHOWN:]
        return "\n".join(line.removeprefix("kshunt: ") for line in lines)


@contextmanager
def _child(*arguments: str, **variables: str) -> Iterator[Child]:
    """A `kshunt` of its own, with these environment variables.

    Its log is a file without a name, which is gone with it.
    """
    with tempfile.TemporaryFile("w+", prefix="kshunt-") as log:
        process = subprocess.Popen(
            # -P: a folder named `kshunt` in the working directory is not taken for ours.
            [sys.executable, "-P", "-m", "kshunt", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**environment(), **variables},
            start_new_session=True,
        )
        child = Child(process, log)
        try:
            yield child
        finally:
            child.stop()


class _Introduction(threading.Thread):
    """Tells the backend where the cluster is, and then submits the moves that come."""

    def __init__(self, cluster: Child, served: Child, address: str) -> None:
        super().__init__(name="kshunt-demo", daemon=True)
        self.failed = ""
        """Why a move could not be started."""
        self._cluster = cluster
        self._served = served
        self._address = address
        self._brokers = ""
        self._done = threading.Event()
        self._error: KshuntError | None = None

    def run(self) -> None:
        try:
            self._brokers = self._cluster.line().removeprefix("ready ")
            self.tell(self._served)
        except KshuntError as error:
            self._error = error
        finally:
            self._done.set()
        if self._error is None:
            self._submit_all()

    def tell(self, served: Child) -> None:
        """Tell a backend where the cluster is; returns once it serves.

        Raises:
            BackendUnreachable: it ended instead.
        """
        served.tell(self._brokers)
        served.line()

    def wait(self) -> None:
        """Returns once the backend serves.

        Raises:
            KshuntError: it does not, or the cluster did not start.
        """
        if not self._done.wait(START_DEADLINE_S):
            raise BackendUnreachable(f"Nothing was ready within {START_DEADLINE_S:g} s.")
        if self._error is not None:
            raise self._error

    def _submit_all(self) -> None:
        try:
            while True:
                self._submit(self._cluster.line().removeprefix("move "))
        except BackendUnreachable:
            # The cluster, or the demo, has ended.
            return
        except ValueError:
            # Its pipe was closed under this thread at the end.
            return

    def _submit(self, document: str) -> None:
        # Loaded when it is wanted: httpx takes a while, and the dashboard does not wait for it.
        from kshunt.backend.api.client.backend_client import BackendClient
        from kshunt.backend.domain.reassignment.plan import parse_plan

        move = json.loads(document)
        plan = parse_plan(json.dumps(move["plan"]))
        try:
            with BackendClient(self._address) as client:
                answer = client.reassignments.start(
                    plan, throttle_bytes_per_s=move["throttle_bytes_per_s"], additional=True
                )
            refused = [f"{one.item}: {one.message or one.error_name}" for one in answer.failures]
            self.failed = "; ".join(refused[:1])
        except KshuntError as error:
            self.failed = str(error)
