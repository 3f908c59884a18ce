"""What comes from the tables but the reader: topics, completion, manual pages."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from kshunt.backend.cli.commands import COMMANDS, whole_table
from kshunt.backend.cli.completion import SHELLS, script
from kshunt.backend.cli.help import TOPICS, variables
from kshunt.backend.cli.main import main
from kshunt.backend.cli.man_page import man_page
from kshunt.backend.commandline.exit_codes import KAFKA_MEANINGS, MEANINGS, ExitCode, KafkaExitCode
from kshunt.backend.commandline.table import Command
from tests.support.paths import ROOT

TABLE = whole_table()
EVERY = [one for command in TABLE.actions for one in command.every()]


def test_every_topic_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for topic, text in TOPICS.items():
        assert main(["help", topic]) == 0
        assert capsys.readouterr().out == f"{text()}\n"
        assert topic in main_help(capsys)


def main_help(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["--help"]) == 0
    return capsys.readouterr().out


def test_a_topic_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "exit-code"]) == 2
    said = capsys.readouterr().err
    assert "Did you mean 'exit-codes'?" in said
    assert "Run 'kshunt --help' for every option." in said
    assert main(["help", "plan", "drian"]) == 2
    assert "Did you mean 'drain'?" in capsys.readouterr().err
    assert main(["help", "serve", "x"]) == 2


def test_the_topic_of_exit_codes_has_each_of_them() -> None:
    text = TOPICS["exit-codes"]()
    assert set(MEANINGS) == set(ExitCode)
    assert set(KAFKA_MEANINGS) == set(KafkaExitCode)
    for code, meaning in (*MEANINGS.items(), *KAFKA_MEANINGS.items()):
        assert re.search(rf"^  {int(code)} +{re.escape(meaning)}$", text, re.MULTILINE)


def test_every_variable_of_the_code_is_a_topic() -> None:
    sources = [path for top in ("backend", "tui") for path in (ROOT / top).rglob("*.py")]
    used = {
        name for path in sources for name in re.findall(r"\bKSHUNT_[A-Z_]+\b", path.read_text())
    }
    known = {*variables(), "KSHUNT_SERVE_", "KSHUNT_SERVE_LISTEN"}
    assert {name for name in used if name not in known} == set()


# Completion


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_flag(shell: str) -> None:
    text = script(shell)
    for command in EVERY:
        assert command.words[-1] in text
        for flag in command.flags:
            shown = flag.name if shell == "fish" else f"--{flag.name}"
            assert (shown in text) or not flag.is_offered, (command.prog, flag.name)


def completed(words: str) -> list[str]:
    """What bash offers for the last of these words."""
    count = len(words.split(" ")) - 1
    line = f"{script('bash')}\nCOMP_WORDS=({words}); COMP_CWORD={count}\n"
    if words.endswith(" "):
        line = line.replace(f"COMP_WORDS=({words})", f'COMP_WORDS=({words} "")')
    line += "f=$(complete -p kshunt | grep -o -- '-F [^ ]*'); ${f#-F }\n"
    line += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_actions_flags_and_choices() -> None:
    assert completed("kshunt pl") == ["plan"]
    assert completed("kshunt plan dr") == ["drain"]
    assert completed("kshunt plan drain --deadl") == ["--deadline"]
    assert completed("kshunt serve --log-format ") == ["text", "json"]
    assert set(completed("kshunt completion ")) >= set(SHELLS)


# Manual pages


@pytest.mark.parametrize("command", [TABLE, *EVERY], ids=lambda one: one.prog)
def test_a_manual_page_has_all_that_the_help_has(command: Command) -> None:
    text = man_page(command).replace("\\-", "-")
    for flag in command.flags:
        assert flag.hidden or f"--{flag.name}" in text
    for code, meaning in command.exit_codes().items():
        assert f".TP\n\\fB{code}\\fR\n{meaning}" in text
    for action in command.actions:
        assert action.words[-1] in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_a_formatter_has_nothing_to_complain_of(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main(["help", "--man", name]) == 0
        page = capsys.readouterr().out
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"],
            input=page,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), name
