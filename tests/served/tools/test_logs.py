"""What a backend logs as JSON is one object a line, whatever is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.serve.logs import (
    ALIKE_MAX,
    WINDOW_S,
    WINDOWS_MAX,
    JsonLines,
    Repeats,
    TextLines,
)
from tests.support.embedded.background import running
from tests.support.serving import serve_process


@pytest.mark.parametrize("text", ["plain", "two\nlines", 'a "quote"', "é ⚠ \x1b[31m", ""])
def test_a_line_is_one_object(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        found = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a.b", logging.WARNING, "f", 1, "it said %s", (text,), found)
    line = JsonLines().format(record)
    assert len(line.splitlines()) == 1
    document = json.loads(line)
    assert (document["level"], document["logger"]) == ("warning", "a.b")
    assert document["message"] == f"it said {text}"
    assert "ValueError" in document["exception"]
    assert document["time"].endswith("+00:00")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é ⚠ 'x'", "é ⚠ 'x'"),
        ("no\n2026-11-23 00:00:00,000 INFO all is well", r"no\n2026-11-23 00:00:00,000 INFO all"),
        ("a\r\x1b[31m\u2028b", r"a\r\x1b[31m\u2028b"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_others_say_cannot_pass_for_a_line_of_its_own(text: str, shown: str) -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "f", 1, "it said %s", (text,), None)
    line = TextLines("%(levelname)s %(message)s").format(record)
    assert line.startswith(f"WARNING it said {shown}")
    assert len(line.splitlines()) == 1


def test_a_backend_logs_so_where_it_is_told_to(tmp_path: Path) -> None:
    with (
        running(ClusterSpec(brokers=plain_brokers(1))) as cluster,
        serve_process(
            cluster.bootstrap_servers, tmp_path / "k.sock", "--log-format", "json"
        ) as process,
    ):
        process.terminate()
        process.wait(20)
    for line in (tmp_path / "k.log").read_text().splitlines():
        assert json.loads(line)["level"]


class LoggedLines(logging.Handler):
    """Keeps lines, and lets a test move the time."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.now_s = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.addFilter(Repeats(self, lambda: self.now_s, self._call_later))

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((self.now_s + seconds, call))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        due = [call for at_s, call in self.later if at_s <= self.now_s]
        self.later = [one for one in self.later if one[0] > self.now_s]
        for call in due:
            call()

    def say(self, words: str, *values: object, level: int = logging.WARNING) -> None:
        self.handle(logging.LogRecord("a.b", level, "f", 1, words, values, None))


def test_a_line_that_repeats_is_counted() -> None:
    log = LoggedLines()
    for _ in range(42):
        log.say("The journal cannot be read: %s", "no answer")
        log.passes(1.0)
    assert log.lines == ["The journal cannot be read: no answer"]
    log.passes(WINDOW_S)
    assert log.lines[1:] == ["The journal cannot be read: no answer (41 times in the last minute)"]
    log.say("The journal cannot be read: %s", "no answer")
    assert len(log.lines) == 3
    log.passes(2 * WINDOW_S)
    assert len(log.lines) == 3


def test_other_lines_and_other_levels_are_written() -> None:
    log = LoggedLines()
    log.say("operation %s failed", "a")
    log.say("operation %s failed", "b")
    log.say("operation %s failed", "b", level=logging.ERROR)
    assert len(log.lines) == 3
    log.passes(WINDOW_S + 1)
    log.say("operation %s failed", "a")
    assert len(log.lines) == 4


def test_lines_that_differ_in_their_values_are_bounded_too() -> None:
    log = LoggedLines()
    for number in range(ALIKE_MAX + 50):
        log.say("Too many connections %s.", number)
    assert len(log.lines) == ALIKE_MAX
    log.passes(WINDOW_S)
    assert log.lines[-1] == f"Lines like this one: Too many connections {ALIKE_MAX + 49}. " + (
        "(50 times in the last minute)"
    )


def test_what_is_remembered_of_lines_is_bounded() -> None:
    log = LoggedLines()
    for number in range(2 * WINDOWS_MAX):
        log.say(f"a line of its own: {number}")
    assert len(log.lines) == 2 * WINDOWS_MAX
    log.passes(WINDOW_S)
    log.say("one")
    log.say("one")
    assert len(log.lines) == 2 * WINDOWS_MAX + 1
