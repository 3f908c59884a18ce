"""Clients that open connections and then say little; a test says how many it wants."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HALF_HEAD = b"GET /v1/cluster HTTP/1.1\r\nHost: lo"
HALF_BODY = (
    b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
    b'content-length: 1000\r\n\r\n{"goal":'
)
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01"
"""The first bytes of a TLS handshake."""


@contextmanager
def slow_clients(
    address: str | tuple[str, int], count: int, said: bytes
) -> Iterator[list[socket.socket]]:
    """That many connections that have each said the same; those that fail are left out."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
            one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            one.settimeout(60.0)
            with suppress(OSError):
                one.connect(address)
                one.sendall(said)
            found.append(one)
        yield found


def is_closed(one: socket.socket) -> bool:
    """Whether the other end has closed a connection; waits for it."""
    try:
        while one.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@contextmanager
def serving_with(
    descriptors: int, bootstrap: str, where: Path, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """`kshunt serve` on a socket or port, in a process that may open only that many files."""
    listening = [] if "--listen" in options else ["--socket", str(where)]
    command = [sys.executable, "-m", "kshunt", "serve", "--bootstrap-server", bootstrap]

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with where.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [*command, *listening, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=lower,
        )
    try:
        assert process.stdout is not None
        assert "kshunt serves" in process.stdout.readline(), where.with_suffix(".log").read_text()
        yield process
    finally:
        process.kill()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


def more_descriptors(wanted: int) -> None:
    """Let this process open that many files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
