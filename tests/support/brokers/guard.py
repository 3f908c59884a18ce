"""A watchdog that ends the brokers when their launcher is gone, however it went.

It is a process and not `prctl(PR_SET_PDEATHSIG)` for three reasons. That signal fires when the
*thread* which started the child ends, so a broker restarted from a worker thread would die with
that thread. It needs code between fork and exec, which is unsafe in a process with threads. And it
cannot remove the folder.

The launcher holds the only write end of a pipe; the watchdog reads it. A child reports itself on
that pipe (`+pid`) before it becomes Java, so none can start unseen. The launcher takes it off the
list (`-pid`) once it has reaped it, so the watchdog never hits a reused process id. End of file
means that the launcher is gone. The watchdog then kills what is left on the list by process id,
and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

REMOVE_TRIES = 100
REMOVE_PAUSE_S = 0.05

# The broker's standard input is the pipe until the line is written, then /dev/null.
REPORT_THEN_EXEC = 'echo "+$$" >&0; exec "$@" </dev/null'


class Guard:
    """The launcher's end of the pipe."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Ctrl-C in the terminal must not reach the one that cleans up after it.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin

    def spawn(self, command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start `command` in a session of its own, on the watchdog's list from its first moment."""
        return subprocess.Popen(
            _reporting(command),
            stdin=self._pipe,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """`subprocess.run` with captured text, on the watchdog's list while it lasts."""
        with subprocess.Popen(
            _reporting(command),
            stdin=self._pipe,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            finally:
                process.kill()
                process.wait()
                self.forget(process.pid)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def forget(self, pid: int) -> None:
        """Take a process that was reaped off the list."""
        # A watchdog that somebody killed has no list; the launcher cleans up alone then.
        with contextlib.suppress(BrokenPipeError):
            self._pipe.write(b"-%d\n" % pid)

    def close(self) -> None:
        """Let the watchdog go; it removes the folder if that still exists."""
        self._pipe.close()
        self._process.wait()


def _reporting(command: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-c", REPORT_THEN_EXEC, "sh", *command]


def remove_folder(folder: Path) -> None:
    """Remove a folder in which a process that was just killed may still be writing."""
    pause = threading.Event()
    for _ in range(REMOVE_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        pause.wait(REMOVE_PAUSE_S)


def watch(folder: Path, reports: Iterable[str]) -> None:
    """Keep the list until the pipe ends, then kill what is left on it."""
    alive: set[int] = set()
    for report in reports:
        pid = int(report[1:])
        if report[0] == "+":
            alive.add(pid)
        else:
            alive.discard(pid)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    remove_folder(folder)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), sys.stdin)
