"""What the tests of the command-line tools share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kshunt.backend import local_sockets as sockets
from kshunt.backend.tools.shared import private_backend

Tool = Callable[..., tuple[int, str, str]]
"""Runs a tool in this process; its exit code, standard output and standard error."""
DEADLINE_S = 60.0
PLAN = '{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[3,2]}]}'


def run_with(main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> Tool:
    """The tool whose `main` this is."""

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def own_runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For the sockets of private backends, those of this test alone; its path is short."""
    with TemporaryDirectory(prefix="kt-") as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        monkeypatch.setattr(sockets, "SHORT_FOLDER", Path(name))
        before = set(private_backend._started)
        yield Path(name)
        for child in set(private_backend._started) - before:
            child.terminate()
            child.wait(DEADLINE_S)


def write(folder: Path, name: str, text: str) -> str:
    """A file in that folder; its name."""
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


class Stub(ThreadingMixIn, UnixStreamServer):
    """A backend that gives one answer to almost everything, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), StubHandler)
        self.address = f"unix:{path}"
        self.status, self.content = 200, b"{}"
        self.on: dict[str, tuple[int, object]] = {}
        """Status and document by path, where one has an answer of its own."""
        self.asked: list[tuple[str, str, Any]] = []

    def says(self, document: object, status: int = 200) -> None:
        self.status, self.content = status, json.dumps(document).encode()


class StubHandler(BaseHTTPRequestHandler):
    server: Stub

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = json.loads(body) if body else None
        self.server.asked.append((self.command, self.path, asked))
        status, content = self.server.status, self.server.content
        if self.path in self.server.on:
            status, document = self.server.on[self.path]
            content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(folder: Path) -> Iterator[Stub]:
    """A stub that serves meanwhile, on a socket in that folder."""
    with Stub(folder / "stub.sock") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    """A backend that says what a test tells it to."""
    with answering(tmp_path) as server:
        yield server


def change(*results: tuple[str, str, str], **more: object) -> dict[str, object]:
    """A change's answer: item, error name, message."""
    entries = [
        {"item": item, "error_code": 0 if name == "NONE" else 85, "error_name": name, "message": m}
        for item, name, m in results
    ]
    empty = {"validate_only": False, "operation_id": "1", "notes": [], "rollback_plan": None}
    return {**empty, "results": entries, **more}
