"""Programs that start as forks of one process, which has imported what a backend needs.

A fork starts in a third of the processor time of a new Python. Everything else is as in a process
of its own: signals, streams, environment, working directory, exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext
from typing import IO, Any, Final

PRELOADED: Final = (
    "tests.support.faults.kill_backend",
    "tests.support.zookeeper.kill_backend",
    "kshunt.backend.serve.command",
    "kshunt.backend.serve.webhook_events",
    "kshunt.backend.telemetry.recording.recorder",
    "encodings.idna",
    "numpy.ma",
    "pydantic.v1",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "tests.support.runs.frozen_heap",
)
"""All that backends need, what they import only as they start, and what leaves it to the parent.

All forks of a process have the same parent, so all kinds of them share this list.
"""


def fork_context() -> ForkServerContext:
    """Processes of this context are forks of one that has imported `PRELOADED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


class _Descriptor:
    """A file descriptor that a new process of the context gets."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        duplicate: Any = reduction.DupFd(self._number)
        return _received, (duplicate,)


def _received(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


class ForkedProgram:
    """`python -m MODULE ARGUMENTS` as a fork, with what tests use of `subprocess.Popen`."""

    def __init__(self, module: str, arguments: Sequence[str], output: IO[str]) -> None:
        """Start it; its standard error goes to `output`."""
        read, write = os.pipe()
        self.stdout: IO[str] = os.fdopen(read)
        """What it prints."""
        self._process = fork_context().Process(
            target=_run,
            args=(
                module,
                list(arguments),
                dict(os.environ),
                os.getcwd(),
                (_Descriptor(write), _Descriptor(output.fileno())),
            ),
        )
        self._process.start()
        os.close(write)

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As `Popen.returncode`, without a call of `poll`."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(f"the fork {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it."""
        self._process.kill()


def _run(
    module: str,
    arguments: list[str],
    environment: Mapping[str, str],
    folder: str,
    streams: tuple[int, int],
) -> None:
    """In the fork."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, standard in zip(streams, (1, 2), strict=True):
        os.dup2(number, standard)
        os.close(number)
    # Streams of a new Python are buffered as those of a pipe and of standard error are.
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
