"""`kshunt throttles`: what can be typed, and what is refused before anything is asked."""

from __future__ import annotations

import pytest

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.tools.throttles import main
from tests.support.tools import Tool, run_with

WHERE = ("--backend", "unix:/nowhere/none.sock")


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(main, capsys)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ("--rate", "1=50MB/s", "--leader-rate", "1=4MB/s"),
            "leader rate of broker 1 is given twice",
        ),
        (("--leader-rate", "1=50MB/s"), "broker 1 has one rate only: give its --follower-rate"),
        (("--follower-rate", "2=none"), "broker 2 has one rate only: give its --leader-rate"),
        (("--rate", "1:50MB/s"), "such as 1,2=50MB/s"),
        (("--rate", "x=50MB/s"), "such as 1,2=50MB/s"),
        (("--rate", "1=fast"), "'fast' is not a rate"),
        ((), "name brokers and rates"),
    ],
)
def test_rates_that_cannot_be_meant(tool: Tool, words: tuple[str, ...], part: str) -> None:
    code, _, err = tool("set-rates", *words, *WHERE)
    assert code == ExitCode.USAGE
    assert part in err


def test_replicas_that_cannot_be_meant(tool: Tool) -> None:
    lists = ("--leaders", "0-1", "--followers", "none")
    code, _, err = tool("set-replicas", "--topic", "t", *lists, *WHERE)
    assert code == ExitCode.USAGE
    assert "0-1" in err
    code, _, err = tool("set-replicas", "--topic", "t", "--leaders", "0:1", *WHERE)
    assert code == ExitCode.USAGE
    assert "followers" in err


def test_a_cluster_has_to_be_named_once(tool: Tool) -> None:
    for where in ((), (*WHERE, "--bootstrap-server", "b:1")):
        code, _, err = tool("set-rates", "--rate", "1=none", *where)
        assert code == ExitCode.USAGE
        assert "give either --bootstrap-server, --backend or --context" in err


def test_a_backend_that_does_not_answer_is_an_error(tool: Tool) -> None:
    code, _, err = tool("set-rates", "--rate", "1=none", *WHERE)
    assert code == ExitCode.FAILED
    assert "/nowhere/none.sock" in err
