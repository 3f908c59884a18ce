"""Processes that a backend starts: `kshunt` again, next to it. They end when the backend ends.

Such a process holds on to its standard input and ends when that does. Nobody but the backend holds
the other end, so the process ends with it, even if it is killed. Each has a session of its own:
what it starts (Java, workers) ends with its process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import kshunt

OURS: Final = "kshunt: "
"""Begins an error of ours in a process's words."""
LINE_BYTES_MAX: Final = 1 << 16
LOG_LINES_SHOWN: Final = 12
"""Of the log of a process that ended too early."""


def command_of(*words: str) -> list[str]:
    """The command line of this very kshunt; `--until-end-of-input` has to be among its words."""
    # -P: a folder named `kshunt` in the working directory is not taken for ours.
    return [sys.executable, "-P", "-m", "kshunt", *words]


async def begun(
    command: Sequence[str], *, together: bool, line_bytes_max: int = LINE_BYTES_MAX
) -> Process:
    """Start a process.

    Args:
        command: Its command line.
        together: What it says on standard error comes on standard output.
        line_bytes_max: What is longer is not read as a line.

    Raises:
        OSError: it cannot be started.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT if together else PIPE,
        env=environment(),
        start_new_session=True,
        limit=line_bytes_max,
    )


async def line_of(stream: asyncio.StreamReader) -> str | None:
    """The next line that it says; None at the end."""
    try:
        line = await stream.readline()
    except ValueError:
        return "(a line that is too long)"
    return line.decode(errors="replace").strip() if line else None


async def ended(process: Process, within_s: float) -> None:
    """See to it that a process and what it started have ended.

    It has `within_s` seconds to end by itself once its input has ended.
    """
    assert process.stdin is not None
    process.stdin.close()
    waiting = asyncio.ensure_future(process.wait())
    # `wait_for` of Python 3.11 may swallow a cancellation, and who asked for it waits for ever.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await asyncio.shield(waiting)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await waiting


def environment() -> dict[str, str]:
    """The environment of a process that runs this very kshunt, wherever it is started.

    Python never takes a module of the working directory for one of ours. `PYTHONSAFEPATH` is its
    `-P`, also for what the process starts in turn. Entries of `PYTHONPATH` that stand for the
    working directory (empty or relative ones) are left out.
    """
    root = str(Path(kshunt.__file__).absolute().parent.parent)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    search = [root, *filter(os.path.isabs, given)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search), "PYTHONSAFEPATH": "1"}
