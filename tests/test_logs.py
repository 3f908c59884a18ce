"""What a backend logs as JSON is one object a line, whatever is in it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from backend.embedded.background import running
from backend.embedded.spec import ClusterSpec, plain_brokers
from backend.logs import JsonLines, TextLines
from tests.serving import serve_process


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
