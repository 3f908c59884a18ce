"""`kshunt demo` keeps its backend running, and leaves nothing behind for another demo."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.support.terminal import terminal

DEADLINE_S = 60.0


def test_a_backend_of_a_demo_that_ends_is_started_again(tmp_path: Path) -> None:
    own = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    with terminal([sys.executable, "-m", "kshunt", "demo"], own) as shown:
        shown.until(b"Starting a cluster in memory", DEADLINE_S)
        shown.until(b"Moving 52 partitions", DEADLINE_S)
        (backend,) = [one for one in children(shown.process.pid) if "serve" in words_of(one)]
        shown.written = b""
        os.kill(backend, signal.SIGKILL)
        shown.until(b"CONNECTION LOST", DEADLINE_S)
        shown.until(b"live, <2s", DEADLINE_S)


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
        shown.until(b"Moving 52 partitions", DEADLINE_S)
        shown.press(b"q")
        assert shown.ended(DEADLINE_S) == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in kept} == {tmp_path / "kshunt" / "recordings"}
