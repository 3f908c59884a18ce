"""`kshunt serve --webhook` as a process: signed over TLS, killed, stopped, two for a cluster."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.options import FLAGS, dead_letter_path, notifier_of, targets_of
from tests.support.access.certificates import Authority
from tests.support.faults.truth_ground import untrue_of
from tests.support.notify.messages import SECRET
from tests.support.notify.receiver import Received, Receiver, receiving, says
from tests.support.serving import serve_process
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Scene:
    """A cluster, a receiver over TLS, and the flags that name it."""

    bootstrap: str
    folder: Path
    receiver: Receiver
    ca: Path
    secret: Path

    def options(self, name: str = "a") -> list[str]:
        return [
            *("--webhook", self.receiver.url, "--webhook-secret-file", str(self.secret)),
            *("--webhook-ca", str(self.ca)),
            *("--webhook-dead-letter", str(self.folder / f"{name}.dead")),
        ]


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3]])
    return bootstrap


@pytest.fixture
def scene(bootstrap: str, tmp_path: Path) -> Iterator[Scene]:
    authority = Authority()
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(f"{SECRET}\n")
    with receiving(authority.issue("127.0.0.1").context(tmp_path)) as receiver:
        yield Scene(bootstrap, tmp_path, receiver, authority.file(tmp_path), secret)


def of(receiver: Receiver, kind: str) -> list[Received]:
    return [one for one in tuple(receiver.received) if one.document["type"] == kind]


def told(receiver: Receiver, kind: str, count: int = 1) -> Received:
    words = f"{kind} is told {count} times"
    wait_until(lambda: len(of(receiver, kind)) >= count, DEADLINE_S, words)
    return of(receiver, kind)[-1]


@contextmanager
def changing(path: Path) -> Iterator[BackendClient]:
    with BackendClient(f"unix:{path}") as client:
        yield client


def throttle(client: BackendClient, rate: int) -> str:
    """A change that is an operation of its own; its id."""
    answer = client.throttles.alter_rates(
        {1: ThrottledRate(rate, rate)}, Change(who="ada", reason="a test")
    )
    assert answer.operation_id is not None
    return answer.operation_id


def test_a_webhook_is_told_over_tls_and_can_tell_who_it_is(scene: Scene) -> None:
    socket = scene.folder / "k.sock"
    with serve_process(scene.bootstrap, socket, *scene.options()) as process:
        with changing(socket) as client:
            operation = throttle(client, 1_000_000)
            ended = told(scene.receiver, "operation.ended")
            assert Webhook(SECRET).verify(ended.body, dict(ended.headers)) == ended.document
            found = ended.document["data"]["operation"]
            assert (found["id"], found["state"], found["who"]) == (operation, "done", "ada")
            assert "ada" in of(scene.receiver, "operation.started")[0].document["text"]
            transport = httpx.HTTPTransport(uds=str(socket))
            with httpx.Client(base_url="http://kshunt", transport=transport) as http:
                metrics = http.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    assert told(scene.receiver, "backend.stopped")
    assert 'kshunt_webhook_messages_total{hook="127.0.0.1:' in metrics
    assert 'result="delivered"} 0.0' not in metrics
    assert "secret-of-the-path" not in metrics
    log = (scene.folder / "k.log").read_text()
    assert "secret-of-the-path" not in log
    assert SECRET not in log


def test_killed_or_stopped_nothing_is_lost(scene: Scene) -> None:
    receiver, socket = scene.receiver, scene.folder / "k.sock"
    receiver.always = says(503)
    ids = set()
    for number in (signal.SIGKILL, signal.SIGTERM):
        with serve_process(scene.bootstrap, socket, *scene.options()) as process:
            with changing(socket) as client:
                operation = throttle(client, 2_000_000 + number)
            ids.add(operation)
            waiting = scene.folder / "a.dead.waiting"
            words = f"the end of {operation} is kept"
            wait_until(partial(_kept, waiting, operation), DEADLINE_S, words)
            with changing(socket) as client:
                assert untrue_of(client, scene.bootstrap, "orders") == []
            process.send_signal(number)
            process.wait(DEADLINE_S)
    receiver.always = says(204)
    receiver.received.clear()
    with serve_process(scene.bootstrap, socket, *scene.options()):
        told(receiver, "backend.stopped")
        told(receiver, "operation.ended", len(ids))
    assert {
        one.document["data"]["operation"]["id"] for one in of(receiver, "operation.ended")
    } == ids
    assert not (scene.folder / "a.dead").exists()


def _kept(waiting: Path, operation: str) -> bool:
    lines = waiting.read_text().splitlines() if waiting.exists() else []
    return any('"operation.ended"' in line and operation in line for line in lines)


def test_two_backends_tell_of_an_operation_once(scene: Scene) -> None:
    one, other = scene.folder / "one.sock", scene.folder / "other.sock"
    with (
        serve_process(scene.bootstrap, one, *scene.options("one")),
        serve_process(scene.bootstrap, other, *scene.options("other")),
        changing(one) as client,
        changing(other) as follower,
    ):
        operations = [throttle(client, 3_000_000), throttle(follower, 4_000_000)]
        told(scene.receiver, "operation.ended", 2)
        for operation in operations:
            wait_until(
                partial(_knows, follower, operation), DEADLINE_S, "the other one has read it"
            )
        throttle(client, 5_000_000)
        told(scene.receiver, "operation.ended", 3)
    for kind in ("operation.started", "operation.ended"):
        found = [each.document["data"]["operation"]["id"] for each in of(scene.receiver, kind)]
        assert len(found) == len(set(found)) == 3
    assert len({each.id for each in scene.receiver.received}) == len(scene.receiver.received)


def _knows(client: BackendClient, operation: str) -> bool:
    return any(one.id == operation for one in client.operations.list())


def test_a_second_backend_needs_files_of_its_own(scene: Scene) -> None:
    one, other = scene.folder / "one.sock", scene.folder / "other.sock"
    with (
        serve_process(scene.bootstrap, one, *scene.options()),
        pytest.raises(AssertionError, match="Another backend keeps the messages of its webhooks"),
        serve_process(scene.bootstrap, other, *scene.options()),
    ):
        pass


# Flags


def parsed(*words: str) -> argparse.Namespace:
    options = read(Command(("serve",), "", FLAGS), words)
    assert options is not None
    return options


def test_a_key_for_each_or_one_for_all_or_that_of_the_environment(tmp_path: Path) -> None:
    keys = []
    for name in ("one", "two"):
        path = tmp_path / name
        path.touch(0o600)
        path.write_text(f"key of {name}".replace(" ", "-") + "-long-enough")
        keys += ["--webhook-secret-file", str(path)]
    hooks = ["--webhook", "https://a.example", "--webhook", "https://b.example"]
    each = [one.keys for one in targets_of(parsed(*hooks, *keys), {})]
    assert each == [(b"key-of-one-long-enough",), (b"key-of-two-long-enough",)]
    shared = [one.keys for one in targets_of(parsed(*hooks, *keys[:2]), {})]
    assert shared == [(b"key-of-one-long-enough",)] * 2
    said = {"KSHUNT_WEBHOOK_SECRET": SECRET}
    assert [len(one.keys) for one in targets_of(parsed(*hooks), said)] == [1, 1]
    assert [one.keys for one in targets_of(parsed(*hooks), {})] == [(), ()]
    with pytest.raises(UsageError, match="2 --webhook-secret-file are given for 1"):
        targets_of(parsed(*hooks[:2], *keys), {})


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="open to other users") as caught:
        targets_of(parsed("--webhook", "https://a.example", "--webhook-secret-file", str(path)), {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--webhook-ca", "x"], "need --webhook"),
        (["--webhook-secret-file", "x"], "need --webhook"),
        (["--webhook", "https://a.example", "--webhook", "https://a.example"], "given twice"),
        (["--webhook", "https://a.example", "--webhook-secret-file", "/none/x"], "cannot be read"),
        (["--webhook", "http://a.example"], "unencrypted"),
    ],
)
def test_flags_that_do_not_fit_are_refused(words: list[str], said: str) -> None:
    with pytest.raises((ConfigError, UsageError), match=said):
        targets_of(parsed(*words), {})


def test_without_a_webhook_nothing_is_made(tmp_path: Path) -> None:
    assert notifier_of(parsed(), SystemClock(), {"XDG_STATE_HOME": str(tmp_path)}) is None
    assert not list(tmp_path.iterdir())


def test_where_dead_letters_go() -> None:
    assert dead_letter_path(parsed(), {"XDG_STATE_HOME": "/state"}) == Path(
        "/state/kshunt/webhooks/dead-letters.jsonl"
    )
    assert dead_letter_path(parsed("--webhook-dead-letter", "/x/y"), {}) == Path("/x/y")
    fallback = dead_letter_path(parsed(), {"XDG_STATE_HOME": "relative"})
    assert fallback.parts[-5:] == (".local", "state", "kshunt", "webhooks", "dead-letters.jsonl")
