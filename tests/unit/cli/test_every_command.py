"""The rules that hold for every command and every action, as the tables name them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshunt import __version__
from kshunt.backend import errors
from kshunt.backend.cli.commands import COMMANDS, summaries, whole_table
from kshunt.backend.cli.main import main
from kshunt.backend.commandline.cluster_flags import BACKEND, COMMAND_CONFIG, CONTEXT
from kshunt.backend.commandline.exit_codes import ExitCode, KafkaExitCode
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.config_file import CLIENT_VARIABLES, CLUSTER_FLAGS, TAKES_CLUSTER
from kshunt.backend.errors import KshuntError

DASHBOARD = whole_table()
EVERY = [
    DASHBOARD,
    *(one for command in DASHBOARD.actions for one in command.every()),
]


def named(command: Command) -> str:
    return command.prog


every_command = pytest.mark.parametrize("command", EVERY, ids=named)


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KSHUNT_CONFIG", raising=False)


class Typed:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(capsys)


# Questions


@every_command
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help(command: Command, word: str, typed: Typed) -> None:
    code, out, err = typed(*command.words, word)
    assert (code, err) == (0, "")
    if command.words:
        assert " ".join(help_of(command).split()) == " ".join(out.split())
    assert out.startswith(f"usage: {command.prog} ")


@every_command
def test_help_by_the_command_help(command: Command, typed: Typed) -> None:
    assert typed("help", *command.words) == typed(*command.words, "--help")


@every_command
def test_version(command: Command, typed: Typed) -> None:
    assert typed(*command.words, "--version") == (0, f"kshunt {__version__}\n", "")


@every_command
def test_the_help_has_every_flag_and_every_exit_code(command: Command) -> None:
    text = help_of(command)
    for flag in command.flags:
        assert flag.hidden or all(option in text for option in flag.options)
    table = KafkaExitCode if command.kafka else ExitCode
    for code in command.exit_codes():
        assert code in set(map(int, table))
        assert f"\n  {code}  " in text


def test_the_help_of_kshunt_lists_every_command(typed: Typed) -> None:
    _, out, _ = typed("--help")
    for name, summary in summaries().items():
        assert f"\n  {name}" in out
        assert summary in out


# Wrong words


@every_command
def test_a_wrong_flag_has_one_exit_code(command: Command, typed: Typed) -> None:
    code, out, err = typed(*command.words, "--no-such-thing-as-this")
    assert (code, out) == (1 if command.kafka else 2, "")
    assert "no-such-thing-as-this" in err
    assert f"Run '{command.prog} --help' for every option." in err


@every_command
def test_a_flag_with_a_letter_too_many_is_answered_with_the_flag(
    command: Command, typed: Typed
) -> None:
    for flag in command.flags:
        if not flag.is_offered or flag.name in CLIENT_VARIABLES:
            continue
        code, _, err = typed(*command.words, f"--{flag.name}x")
        assert code == command.usage_code
        assert f"--{flag.name}?" in err.replace("'", ""), flag.name


def test_an_unknown_command_is_answered_with_the_nearest_and_with_all(typed: Typed) -> None:
    for name in COMMANDS:
        code, out, err = typed(f"{name}x")
        assert (code, out) == (2, "")
        assert f"Did you mean '{name}'?" in err
        assert all(f"\n  {other}" in err for other in COMMANDS)
    assert "Did you mean 'plan'?" in typed("pln")[2]


def test_an_unknown_action_is_answered_with_the_nearest_and_with_all(typed: Typed) -> None:
    for command in EVERY[1:]:
        for action in command.actions:
            code, out, err = typed(*action.words[:-1], f"{action.words[-1]}x")
            assert (code, out) == (2, "")
            assert f"Did you mean '{action.words[-1]}'?" in err
            assert all(other.words[-1] in err for other in command.actions)


@every_command
def test_a_flag_without_its_value(command: Command, typed: Typed) -> None:
    for flag in valued(command):
        code, out, err = typed(*command.words, f"--{flag.name}")
        assert (code, out) == (command.usage_code, "")
        assert f"{flag.name} needs a" in err or f"Option {flag.name} requires an argument" in err


def valued(command: Command) -> Iterator[Flag]:
    return (flag for flag in command.own_flags if flag.metavar)


@every_command
def test_a_value_that_is_no_choice(command: Command, typed: Typed) -> None:
    for flag in valued(command):
        if flag.choices:
            code, _, err = typed(*command.words, f"--{flag.name}", "none-of-these")
            assert code == command.usage_code
            assert all(choice in err for choice in flag.choices)


@every_command
def test_a_word_too_many(command: Command, typed: Typed) -> None:
    if command.actions or not command.words or any(one.many for one in command.arguments):
        return
    words = ["x"] * (len(command.arguments) + 1)
    words[: len(command.arguments)] = [(one.choices or ("x",))[0] for one in command.arguments]
    code, out, _ = typed(*command.words, *words)
    assert (code, out) == (command.usage_code, "")


# Exit codes


def every_error(kind: type[KshuntError] = KshuntError) -> Iterator[type[KshuntError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from every_error(one)


def test_every_error_ends_with_a_code_of_the_table() -> None:
    assert errors.NoTerminal in set(every_error())
    assert {one.exit_code for one in every_error()} <= set(map(int, ExitCode))


def test_kafkas_tools_are_those_with_kafkas_codes() -> None:
    names = {name for name, listed in COMMANDS.items() if listed.kafka}
    assert names == {command.words[0] for command in EVERY if command.kafka}
    assert all(name.startswith("kafka-") for name in names)


# Flags


@every_command
def test_no_two_flags_of_a_command_share_a_name(command: Command) -> None:
    options = [option for flag in command.flags for option in flag.options]
    assert len(options) == len(set(options))
    attributes = [flag.attribute for flag in command.flags]
    assert len(attributes) == len(set(attributes))


@every_command
def test_a_command_that_names_brokers_takes_their_security_under_one_name(
    command: Command,
) -> None:
    options = {option for flag in command.flags for option in flag.options}
    if "--bootstrap-server" in options:
        assert f"--{COMMAND_CONFIG.name}" in options


def test_a_context_may_name_a_cluster_exactly_where_the_table_has_it() -> None:
    takes = {c.words[0] if c.words else "" for c in EVERY if CONTEXT in c.flags}
    assert takes == TAKES_CLUSTER
    for command in EVERY:
        options = {option for flag in command.flags for option in flag.options}
        if CONTEXT in command.flags and not command.actions and command.words != ("serve",):
            assert options >= {f"--{name}" for name in (*CLUSTER_FLAGS, *CLIENT_VARIABLES)}
            assert BACKEND.name in {flag.name for flag in command.flags}


@every_command
def test_a_flag_is_described_by_a_sentence(command: Command) -> None:
    for flag in command.flags:
        if not flag.hidden:
            assert flag.help[:1].isupper() or flag.name == "format", flag.name
            assert flag.help.endswith("."), flag.name


def test_kafkas_own_name_of_the_security_is_accepted_too(typed: Typed, tmp_path: Path) -> None:
    lacks = str(tmp_path / "none.properties")
    for name in ("--admin.config", "--command-config"):
        code, _, err = typed(
            "kafka-preferred-replica-election", "--bootstrap-server", "h:1", name, lacks
        )
        assert code == 1
        assert f"Unable to read file {lacks}" in err


@pytest.mark.parametrize(
    "words",
    [
        "",
        "doctor",
        "audit",
        "report --week last --samples .",
        "web",
        "throttles set-rates --rate 1=1MB",
        "proposals list",
        "plan drain --broker 1",
    ],
)
@pytest.mark.parametrize("way", ["--backend unix:/x", "--context shared"])
def test_client_properties_are_refused_where_a_backend_reads_the_cluster(
    words: str, way: str, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "kshunt").mkdir()
    (tmp_path / "kshunt" / "config.toml").write_text('[contexts.shared]\nbackend = "unix:/x"\n')
    code, out, err = typed(*words.split(), *way.split(), "--command-config", "f")
    assert (code, out) == (2, "")
    message, advice, _ = err.splitlines()
    assert "--command-config needs --bootstrap-server" in message
    assert "Leave out --command-config" in advice


# Processes


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kshunt", *words], capture_output=True, text=True, timeout=60
    )


def test_a_shell_gets_the_exit_codes() -> None:
    assert run("pln").returncode == 2
    assert run("serve", "--bogus").returncode == 2
    assert run("kafka-topics", "--bogus").returncode == 1


def by_itself(code: str, *arguments: str) -> str:
    """What a process prints that loads nothing of its own accord, as measuring coverage would."""
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    return done.stdout


def test_the_version_loads_no_command() -> None:
    look = (
        "import sys; from kshunt.backend.cli.main import main; main(['plan', '--version']); "
        "print(sorted(m for m in sys.modules if m.startswith(('kshunt.backend.tools', "
        "'kshunt.backend.serve', 'kshunt.tui', 'asyncio', 'json', 'numpy', 'shtab'))))"
    )
    assert by_itself(look).splitlines()[-1] == "[]"


ONLY_TO_RUN = {
    "asyncio",
    "confluent_kafka",
    "fastapi",
    "httpx",
    "kafka",
    "msgspec",
    "multiprocessing",
}
ONLY_TO_RUN |= {"numpy", "pyarrow", "pyspark", "socket", "ssl", "subprocess", "textual"}
"""What no command needs to say what can be typed."""
OURS_ONLY_TO_RUN = (
    *("kshunt.backend.admin", "kshunt.backend.operations.", "kshunt.backend.placement"),
    *("kshunt.backend.rehearsal", "kshunt.backend.settings", "kshunt.backend.telemetry"),
    *("kshunt.backend.embedded.core", "kshunt.backend.embedded.running", "kshunt.tui"),
)


def test_no_help_loads_what_only_running_needs() -> None:
    # All commands in one process: the first that needs a module counts as the one that loads it.
    look = (
        "import sys; from kshunt.backend.cli.main import main\n"
        "seen = set()\n"
        "for name in ['', *sys.argv[1:]]:\n"
        "    assert main([*filter(None, [name]), '--help']) == 0\n"
        "    print('\\nLOADED', name or 'kshunt', *sorted(sys.modules.keys() - seen))\n"
        "    seen |= sys.modules.keys()\n"
    )
    printed = by_itself(look, *COMMANDS)
    loaded = [line.split()[1:] for line in printed.splitlines() if line.startswith("LOADED")]
    assert [name for name, *_ in loaded] == ["kshunt", *COMMANDS]
    assert {
        name: heavy
        for name, *modules in loaded
        if (heavy := [m for m in modules if m in ONLY_TO_RUN or m.startswith(OURS_ONLY_TO_RUN)])
    } == {}
