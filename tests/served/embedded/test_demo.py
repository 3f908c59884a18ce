"""`kshunt demo` keeps its backend running, and leaves nothing behind for another demo."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kshunt.backend.cli.demo import Child, end_together
from tests.support.terminal import terminal
from tests.support.tui.emulated_terminal import emulated
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


def test_a_backend_of_a_demo_that_ends_is_started_again(tmp_path: Path) -> None:
    own = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    with emulated([sys.executable, "-m", "kshunt", "demo"], own, (80, 24)) as shown:
        program = shown.program
        program.until(b"Starting a cluster in memory", DEADLINE_S)
        shown.until(r"Moving \d+ partitions", DEADLINE_S)
        (backend,) = [one for one in children(program.process.pid) if "serve" in words_of(one)]
        # It has sent a snapshot by now, for which Arrow alone would have loaded pandas.
        assert "pandas" not in Path(f"/proc/{backend}/maps").read_text()
        os.kill(backend, signal.SIGKILL)
        shown.until("CONNECTION LOST", DEADLINE_S)
        shown.until(r"live, <?\d+s old", DEADLINE_S)


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words_of(pid: int) -> list[str]:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_a_demo_keeps_nothing_but_its_recording(tmp_path: Path) -> None:
    """Demos of one scenario have one cluster's id; a backend keeps records by that."""
    own = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR")}
    with terminal([sys.executable, "-m", "kshunt", "demo"], own) as shown:
        # The move has begun, so the backend has owned throttles.
        shown.until(rb"Moving \d+ partitions", DEADLINE_S)
        shown.press(b"q")
        assert shown.ended(DEADLINE_S) == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in kept} == {tmp_path / "kshunt" / "recordings"}


# The end


@contextmanager
def child(code: str) -> Iterator[Child]:
    """A process in a session of its own, as those of a demo are."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    found = Child(process, io.StringIO())
    assert found.line() == "ready"
    try:
        yield found
    finally:
        found.stop()


def test_both_processes_are_asked_to_end_before_either_is_waited_for(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    waits = f"""
import pathlib, sys
print("ready", flush=True)
sys.stdin.read()
while not pathlib.Path({str(sign)!r}).exists():
    pass
"""
    gives = f"""
import pathlib, sys
print("ready", flush=True)
sys.stdin.read()
pathlib.Path({str(sign)!r}).touch()
"""
    with child(waits) as first, child(gives) as second:
        end_together([first, second], 30.0)
        assert (first.process.returncode, second.process.returncode) == (0, 0)


def test_what_does_not_end_in_time_is_killed_with_what_it_started() -> None:
    stubborn = """
import subprocess, sys
below = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("ready", flush=True)
print(below.pid, flush=True)
below.wait()
"""
    with child(stubborn) as found:
        below = int(found.line())
        end_together([found], 0.0)
        assert found.process.returncode == -signal.SIGKILL
    wait_until(lambda: not is_running(below), 60, "what it started has ended, too")


def is_running(pid: int) -> bool:
    """Whether a process is there, and more than an entry that nobody has taken."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
