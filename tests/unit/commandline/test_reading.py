"""The grammar of command lines, on a command of our own."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Argument, Command, Flag, not_supported
from kshunt.backend.commandline.values import between

FLAGS = (
    Flag("size", "How large.", "N", value=between(1, 9), default=3),
    Flag("path", "Where.", "PATH", value=Path, either="where"),
    Flag("address", "Or where.", "URL", either="where", also=("at",)),
    Flag("tag", "Words.", "WORD", repeatable=True),
    Flag("shape", "Which.", "SHAPE", choices=("round", "square"), default="round"),
    Flag("native", "Whether.", negatable=True, default=True),
    Flag("secret", "", hidden=True),
)
PLAIN = Command(("draw",), "Draw.", FLAGS, (Argument("file", "FILE", many=True, optional=True),))
ACTIONS = Command(
    ("draw",),
    "Draw.",
    FLAGS,
    actions=(
        Command(("draw", "line"), "A line.", FLAGS, (Argument("name", "NAME"),)),
        Command(("draw", "area"), "An area.", (*FLAGS, Flag("fill", "Fill it.", "COLOUR"))),
    ),
)
KAFKAS = PLAIN._replace(arguments=(), kafka=True)


def given(command: Command, *words: str) -> argparse.Namespace:
    options = read(command, words)
    assert options is not None
    return options


def refused(command: Command, *words: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(command, words)
    return str(caught.value)


def test_values_have_types_and_defaults() -> None:
    options = given(PLAIN)
    assert (options.size, options.path, options.tag, options.shape) == (3, None, [], "round")
    assert (options.native, options.secret, options.file, options.given) == (True, False, [], {})
    options = given(PLAIN, "--size", "5", "--path=/x", "--tag", "a", "--tag=b", "--no-native")
    assert (options.size, options.path, options.tag) == (5, Path("/x"), ["a", "b"])
    assert options.native is False
    assert list(options.given) == ["size", "path", "tag", "native"]


def test_another_name_means_the_same_flag() -> None:
    assert given(PLAIN, "--at", "x").address == "x"
    assert given(PLAIN, "--at", "x").given == {"address": "x"}
    assert "twice" in refused(PLAIN, "--at", "x", "--address", "y")


def test_flags_and_arguments_come_in_any_order() -> None:
    for words in (["a", "--size", "5", "b"], ["--size", "5", "a", "b"], ["a", "b", "--size=5"]):
        assert (given(PLAIN, *words).file, given(PLAIN, *words).size) == (["a", "b"], 5)
    assert given(PLAIN, "--size", "5", "--", "--size", "-h").file == ["--size", "-h"]
    assert given(PLAIN, "-1", "-", "-a b").file == ["-1", "-", "-a b"]


def test_an_action_is_found_between_flags() -> None:
    for words in (["line", "a"], ["--size", "5", "line", "a"], ["--no-native", "line", "a"]):
        options = given(ACTIONS, *words)
        assert (options.action, options.name) == ("line", "a")
    assert given(ACTIONS, "--fill", "red", "area").fill == "red"
    assert refused(ACTIONS) == "kshunt draw needs an action: line, area."
    assert "'lime' is not an action of kshunt draw. Did you mean 'line'?" in refused(
        ACTIONS, "lime"
    )
    assert (
        refused(ACTIONS, "line", "a", "--fill", "x")
        == "--fill cannot be used with kshunt draw line."
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size"], "--size needs a value."),
        (["--size", "--path", "x"], "--size needs a value."),
        (["--native=x"], "--native takes no value."),
        (["--size", "x"], "--size: 'x' is not a whole number"),
        (["--size", "10"], "--size: 10 is not from 1 to 9"),
        (["--size", "1", "--size", "2"], "--size is given twice; give it once."),
        (["--shape", "rond"], "--shape 'rond' must be one of round, square. Did you mean 'round'?"),
        (["--path", "x", "--address", "y"], "--path and --address cannot be used together."),
        (["--siz", "5"], "unknown option --siz. Did you mean '--size'?"),
        (["--secre"], "unknown option --secre."),
        (["-x"], "unknown option -x."),
    ],
)
def test_what_cannot_be_meant(words: list[str], said: str) -> None:
    assert refused(PLAIN, *words) == said


def test_what_an_unknown_flag_holds_is_not_repeated() -> None:
    assert "hunter2" not in refused(PLAIN, "--pasword=hunter2", "hunter2")


def test_too_few_and_too_many_words() -> None:
    assert refused(ACTIONS, "line") == "kshunt draw line needs NAME."
    assert refused(ACTIONS, "line", "a", "b") == "unexpected word 'b'."
    needs = PLAIN._replace(own_flags=(FLAGS[0]._replace(required=True),))
    assert refused(needs) == "kshunt draw needs --size N."


def test_tools_of_kafka_keep_kafkas_words() -> None:
    assert refused(KAFKAS, "--siz", "5") == "siz is not a recognized option Did you mean --size?"
    assert refused(KAFKAS, "--nothing") == "nothing is not a recognized option"
    assert refused(KAFKAS, "--size") == "Option size requires an argument"
    assert refused(KAFKAS, "x") == "Unexpected argument 'x'"
    assert "but you asked for only one" in refused(KAFKAS, "--size", "1", "--size", "1")


def test_a_flag_that_is_not_supported_is_rejected_with_what_to_use() -> None:
    lacks = KAFKAS._replace(
        own_flags=(*FLAGS, not_supported("fill", "Use a brush."), not_supported("hue", "No.", "H"))
    )
    said = "--fill is not supported. Nothing was done. Use a brush."
    assert refused(lacks, "--hue=red", "--fill", "--nothing") == said
    assert refused(lacks, "--fil") == "fil is not a recognized option"
    assert "--fill                Use a brush." in help_of(lacks)


def test_a_question_is_answered_whatever_else_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-h"], ["--help"], ["--bogus", "--help"], ["--size", "x", "-h"]):
        assert read(PLAIN, words) is None
        assert capsys.readouterr().out == help_of(PLAIN)
    assert read(ACTIONS, ["area", "--help"]) is None
    assert capsys.readouterr().out == help_of(ACTIONS.actions[1])
    assert read(PLAIN, ["--version"]) is None
    assert capsys.readouterr().out.startswith("kshunt ")


def test_the_help_says_choices_and_defaults() -> None:
    text = " ".join(help_of(PLAIN).split())
    assert "How large (default 3)." in text
    assert "Which (one of round, square; default round)." in text
    assert "--native, --no-native Whether." in text
    assert "--secret" not in text
