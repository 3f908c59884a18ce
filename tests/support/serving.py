"""A backend as users run it: a process that serves one cluster on a Unix-domain socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.runs.forked import ForkedProgram

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
