"""`kshunt webhooks`: dead letters listed, and sent again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.cli.main import main as kshunt
from kshunt.backend.notify.dead_letters import DeadLetters, Letter, read_letters
from kshunt.backend.tools import webhooks
from tests.support.notify.messages import message, target
from tests.support.notify.receiver import receiving, says
from tests.support.tools import Tool, run_with


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(webhooks.main, capsys)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dead.jsonl"


def letter(url: str, number: int) -> Letter:
    to = target(url)
    return Letter(to.id, to.host, 1_700_000_000_000, 12, "HTTP 500", message(number))


def left(path: Path) -> list[str]:
    return [one.message.id for one in read_letters(path)[0]]


def test_what_is_delivered_leaves_the_file(run: Tool, path: Path) -> None:
    with receiving() as receiver:
        DeadLetters(path).add(letter(receiver.url, n) for n in (1, 2, 3))
        code, out, err = run("resend", str(path), "--webhook", receiver.url)
    assert (code, err) == (0, "")
    assert "3 messages delivered, 0 still" in out
    assert [one.id for one in receiver.received] == ["msg_1", "msg_2", "msg_3"]
    assert [one.body for one in receiver.received] == [message(n).body() for n in (1, 2, 3)]
    assert left(path) == []


def test_what_is_refused_stays_and_the_next_one_is_tried(run: Tool, path: Path) -> None:
    with receiving() as receiver:
        receiver.next += [says(204), says(400, b"too long")]
        DeadLetters(path).add(letter(receiver.url, n) for n in (1, 2, 3))
        code, out, err = run("resend", str(path), "--webhook", receiver.url)
    assert code == 1
    assert "2 messages delivered, 1 still" in out
    assert "HTTP 400: too long" in err
    assert left(path) == ["msg_2"]


def test_who_is_not_there_is_asked_once(run: Tool, path: Path) -> None:
    with receiving() as receiver:
        receiver.always = says(503)
        DeadLetters(path).add(letter(receiver.url, n) for n in (1, 2, 3))
        code, _, err = run("resend", str(path), "--webhook", receiver.url)
    assert code == 1
    assert "HTTP 503" in err
    assert len(receiver.received) == 1
    assert left(path) == ["msg_1", "msg_2", "msg_3"]


def test_a_webhook_that_is_not_named_is_said(run: Tool, path: Path) -> None:
    with receiving() as receiver, receiving() as other:
        DeadLetters(path).add([letter(receiver.url, 1), letter(other.url, 2)])
        code, out, _ = run("resend", str(path), "--webhook", receiver.url, "--json")
        document = json.loads(out)
    assert code == 1
    assert document["delivered"] == document["left"] == 1
    assert document["problems"] == [f"No --webhook is named for {target(other.url).host} (1)."]
    assert left(path) == ["msg_2"]
    assert not other.received


def test_those_of_the_configuration_are_taken(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with receiving() as receiver:
        config = tmp_path / "config.toml"
        config.write_text(f'[serve]\nlisten = "127.0.0.1:1"\nwebhook = ["{receiver.url}"]\n')
        monkeypatch.setenv("KSHUNT_CONFIG", str(config))
        DeadLetters(path).add([letter(receiver.url, 1)])
        assert kshunt(["webhooks", "resend", str(path)]) == 0
    assert "1 message delivered" in capsys.readouterr().out
    assert len(receiver.received) == 1


def test_the_list_shows_what_and_why_and_nothing_that_a_terminal_obeys(
    run: Tool, path: Path
) -> None:
    evil = replace(letter("https://a.example", 1), error="\x1b[31mHTTP 500")
    DeadLetters(path).add([evil, letter("https://b.example", 2)])
    with path.open("ab") as file:
        file.write(b"damaged\n")
    code, out, err = run("list", str(path))
    assert code == 0
    assert "test.event" in out
    assert "a.example" in out
    assert "event 2" in out
    assert "\x1b" not in out
    assert "1 line of" in err
    assert len(json.loads(run("list", str(path), "--json")[1])["letters"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resend", "FILE"], "No --webhook is named"),
        (["resend", "NONE", "--webhook", "https://a.example"], "cannot be read"),
        (["resend", "FILE", "--webhook", "http://a.example"], "unencrypted"),
        (["list", "NONE"], "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    run: Tool, path: Path, words: list[str], said: str
) -> None:
    DeadLetters(path).add([letter("https://a.example", 1)])
    named = {"FILE": str(path), "NONE": str(path.with_name("none"))}
    code, _, err = run(*(named.get(word, word) for word in words))
    assert code == 1
    assert said in err
    assert left(path) == ["msg_1"]


def test_an_empty_file_is_no_failure(run: Tool, path: Path) -> None:
    path.touch()
    assert run("list", str(path))[1] == "There are no dead letters.\n"
    assert run("resend", str(path), "--webhook", "https://a.example")[0] == 0
