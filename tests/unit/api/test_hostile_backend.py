"""Clients and tools against answers that no backend gives: each ends in one clear error."""

from __future__ import annotations

import copy
import io
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.client.reassignments import ReassignmentsClient
from kshunt.backend.api.client.sending.stdlib_sender import StdlibSender
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.errors import KshuntError
from kshunt.backend.tools.reassign.command import main

SEED = 20
ROUNDS = 60
PLAN = ReassignmentPlan({TopicPartition("orders", 0): (1, 2)}, {}, None)
Json = dict[str, Any]

CHANGE: Json = to_document(
    ChangeAnswer(False, "op-1", (Result("orders-0", 0, "NONE", ""),), notes=("x",))
)
OPERATION: Json = {
    "id": "op-1",
    "kind": "reassign",
    "state": "running",
    "started_ms": 1,
    "summary": "move",
    "partitions": [{"topic": "orders", "partition": 0}],
    "throttle_bytes_per_s": None,
    "auto_remove_throttle": True,
    "ended_ms": None,
    "outcome": "",
    "details": {},
    "who": "ada",
    "reason": "",
    "actions": ["pause"],
    "waiting": 0,
    "claim": None,
    "notes": [],
}
MOVE: Json = {"topic": "orders", "partition": 0, "replicas": [1, 2], "adding": [2], "removing": []}
CLUSTER: Json = {
    **{"cluster_id": "c", "bootstrap_servers": "b:1", "controller": 1, "brokers": 3},
    **{"topics": 1, "replicas": 2, "moving_partitions": 0, "sampled_ms": 1},
    **{"backend_pid": 1, "backend_version": "1"},
}

Ask = Callable[[Any], object]
CLIENT: Mapping[str, tuple[Ask, Json]] = {
    "cluster": (lambda c: c.cluster(), CLUSTER),
    "reassignments": (lambda c: c.reassignments.list(), {"reassignments": [MOVE]}),
    "operations": (lambda c: c.operations.list(), {"operations": [OPERATION]}),
    "cancel": (lambda c: c.reassignments.cancel([TopicPartition("orders", 0)]), CHANGE),
    "throttles": (lambda c: c.throttles.list(), {"rates": [], "replicas": []}),
    "audit": (lambda c: c.audit.rows(), {"cluster_id": "c", "entries": []}),
    "backend_status": (lambda c: c.backend_status(), {"acting": True, "problems": []}),
    "drift": (lambda c: c.throttles.drift(), {"drift": []}),
    "orphans": (lambda c: c.throttles.orphans(), {"orphans": []}),
    "owned": (lambda c: c.throttles.owned(), {"throttles": []}),
    "progress": (lambda c: c.reassignments.progress(PLAN), {"rows": []}),
    "configs": (lambda c: c.topics.configs("orders"), {"configs": []}),
}
QUICK: Mapping[str, tuple[Ask, Json]] = {
    name: CLIENT[name] for name in ("reassignments", "progress")
}
ODD: list[Any] = [None, True, -1, 2**70, 1.5, "x", "\x1b[31m", [], [[]], {}, {"a": 1}, ["x"], [1]]


@dataclass
class Quick:
    """What is asked by the standard library alone."""

    reassignments: ReassignmentsClient


class Hostile:
    """A server that answers every question with what it was told, byte by byte."""

    def __init__(self) -> None:
        self.body = b"{}"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            do_GET = do_POST = _answer

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    server = Hostile()
    yield server
    server.stop()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a document."""
    yield path
    within: Any = value.items() if isinstance(value, dict) else ()
    within = enumerate(value) if isinstance(value, list) else within
    for key, one in within:
        yield from places(one, (*path, key))


def mutated(document: Json, chance: random.Random) -> Any:
    """One value is another one, or is gone."""
    changed: Any = copy.deepcopy(document)
    path = chance.choice(list(places(document)))
    if not path:
        return chance.choice(ODD)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if chance.random() < 0.4:
        del holder[path[-1]]
    else:
        holder[path[-1]] = chance.choice(ODD)
    return changed


def asked(hostile: Hostile, reader: str, ask: Ask, body: bytes) -> str:
    """What is said of an answer; empty where it was read."""
    hostile.body = body
    try:
        if reader == "client":
            with BackendClient(hostile.address) as client:
                ask(client)
        else:
            with closing(StdlibSender(hostile.address)) as sender:
                ask(Quick(ReassignmentsClient(sender)))
    except KshuntError as error:
        return str(error)
    return ""


CASES = [
    *(("client", name) for name in CLIENT),
    *(("quick", name) for name in QUICK),
]


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_any_wrong_answer_is_one_error(hostile: Hostile, reader: str, name: str) -> None:
    ask, document = (CLIENT if reader == "client" else QUICK)[name]
    for number in range(ROUNDS):
        wrong = mutated(document, random.Random(f"{SEED}-{number}"))
        try:
            said = asked(hostile, reader, ask, json.dumps(wrong).encode())
        except Exception as error:
            raise AssertionError(f"seed {SEED}-{number}, {wrong}: {error!r}") from error
        assert "\n" not in said


@pytest.mark.parametrize(("reader", "name"), CASES)
@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"[" * 100_000, b"9" * 5_000, b'{"reassignments": "\\ud800"}', b"\xff", b"null"],
    ids=["empty", "cut", "deep", "digits", "surrogate", "bytes", "null"],
)
def test_what_is_no_answer_is_said(hostile: Hostile, reader: str, name: str, body: bytes) -> None:
    ask, _ = (CLIENT if reader == "client" else QUICK)[name]
    assert "The backend's answer cannot be read" in asked(hostile, reader, ask, body)


def test_whole_answers_are_read(hostile: Hostile) -> None:
    for name in ("cluster", "reassignments", "operations", "cancel", "drift", "audit"):
        ask, document = CLIENT[name]
        assert asked(hostile, "client", ask, json.dumps(document).encode()) == "", name


@pytest.mark.parametrize("words", [("--list",), ("--progress", "--reassignment-json-file", "PLAN")])
def test_a_tool_says_one_sentence(
    hostile: Hostile, words: tuple[str, ...], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}')
    named = [str(path) if word == "PLAN" else word for word in words]
    for body in (b"{}", b"[]", b"null", b'{"reassignments": [{}], "rows": [{}]}', b"9" * 5_000):
        hostile.body = body
        code = main(["--backend", hostile.address, *named])
        said = io.StringIO(capsys.readouterr().err).getvalue()
        assert code == 1
        assert "The backend's answer cannot be read" in said
        assert "Traceback" not in said
