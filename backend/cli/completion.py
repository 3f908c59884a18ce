"""`kshunt completion`: a script by which a shell completes commands, flags and their values."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from kshunt.backend.cli.commands import whole_table
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.help_text import about, add_arguments, shape
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command

SHELLS: Final = ("bash", "zsh", "fish")
COMMAND: Final = Command(
    ("completion",),
    "Print a script by which your shell completes commands, flags, files and choices.",
    arguments=(Argument("shell", "SHELL", f"One of {', '.join(SHELLS)}.", choices=SHELLS),),
    epilog="""\
Write it where your shell looks for it:
  bash   kshunt completion bash > ~/.local/share/bash-completion/completions/kshunt
  zsh    kshunt completion zsh > "${fpath[1]}/_kshunt"
  fish   kshunt completion fish > ~/.config/fish/completions/kshunt.fish
""",
)
_FILES: Final = ("FILE", "PATH", "OUT.md", "NAME|FILE", "FILE|URL")


def main(argv: Sequence[str]) -> int:
    """Print the script; the exit code."""
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    sys.stdout.write(f"{script(options.shell)}\n")
    return ExitCode.DONE


def script(shell: str) -> str:
    """What a shell runs once to complete command lines of kshunt."""
    import shtab

    return shtab.complete(
        _filled(argparse.ArgumentParser("kshunt", add_help=False), whole_table()), shell
    )


def _filled(parser: argparse.ArgumentParser, command: Command) -> argparse.ArgumentParser:
    """A parser that knows what a command takes; it is described to a shell, and reads nothing."""
    for flag in command.flags:
        if flag.is_offered:
            words: dict[str, Any] = dict(shape(flag))
            if flag.choices:
                words["choices"] = flag.choices
            _complete(parser.add_argument(*flag.options, **words, help=about(flag)), flag.metavar)
    before = len(parser._actions)
    add_arguments(parser, command.arguments)
    for added, one in zip(parser._actions[before:], command.arguments, strict=True):
        added.choices = one.choices or None
        _complete(added, one.metavar)
    if command.actions:
        found = parser.add_subparsers(metavar="ACTION")
        for each in command.actions:
            _filled(found.add_parser(each.words[-1], help=each.summary, add_help=False), each)
    return parser


def _complete(action: argparse.Action, metavar: str) -> None:
    import shtab

    if metavar == "DIR":
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif metavar in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
