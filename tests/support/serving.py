"""A backend as users run it: a process that serves one cluster on a Unix-domain socket."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 10.0


@contextmanager
def serving(bootstrap: str, folder: Path, *options: str) -> Iterator[str]:
    """Its address; the process is ended afterwards, and must end in time."""
    with serve_process(bootstrap, folder / "kshunt.sock", *options) as process:
        yield f"unix:{folder / 'kshunt.sock'}"
        process.terminate()
        process.wait(STOP_DEADLINE_S)


@contextmanager
def serve_process(
    bootstrap: str, socket: Path, *options: str, module: str = "kshunt"
) -> Iterator[subprocess.Popen[str]]:
    """`kshunt serve`, once it has said that it serves; on the socket, unless told `--listen`."""
    log = socket.with_suffix(".log")
    where = [] if "--listen" in options else ["--socket", str(socket)]
    with log.open("w") as output:
        process = _spawn(module, ["--bootstrap-server", bootstrap, *where, *options], output)
    try:
        ready = process.stdout.readline() if process.stdout else ""
        if "kshunt serves" not in ready:
            raise AssertionError(f"the backend did not start: {log.read_text()}")
        yield process
    finally:
        process.kill()
        process.wait(STOP_DEADLINE_S)
        if process.stdout:
            process.stdout.close()


def _spawn(module: str, arguments: Sequence[str], output: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, "serve", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        text=True,
    )
