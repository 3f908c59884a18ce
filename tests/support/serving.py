"""A backend as users run it: a process that serves one cluster on a Unix-domain socket."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from tests.support.runs.forked import ForkedProgram

REFUSED_S = 60.0
STOP_DEADLINE_S = 30.0


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
) -> Iterator[ForkedProgram]:
    """`kshunt serve`, once it has said that it serves; on the socket, unless told `--listen`."""
    log = socket.with_suffix(".log")
    where = [] if "--listen" in options else ["--socket", str(socket)]
    with log.open("w") as output:
        arguments = ["serve", "--bootstrap-server", bootstrap, *where, *options]
        process = ForkedProgram(module, arguments, output)
    try:
        ready = process.stdout.readline()
        if "kshunt serves" not in ready:
            raise AssertionError(f"the backend did not start: {log.read_text()}")
        yield process
    finally:
        process.kill()
        process.wait(STOP_DEADLINE_S)
        process.stdout.close()


def refused_start(*options: str) -> subprocess.CompletedProcess[str]:
    """`kshunt serve` with options by which it does not start: its exit code and what it says."""
    with TemporaryFile("w+") as output:
        process = ForkedProgram("kshunt", ["serve", *options], output)
        try:
            code = process.wait(REFUSED_S)
            output.seek(0)
            return subprocess.CompletedProcess(
                ["serve", *options], code, process.stdout.read(), output.read()
            )
        finally:
            process.kill()
            process.wait(STOP_DEADLINE_S)
            process.stdout.close()
