"""The help of every command, as the command prints it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from kshunt.backend.cli.commands import COMMANDS, table_of
from kshunt.backend.commandline.help_text import help_of
from kshunt.backend.commandline.table import Command

COLUMNS: Final = 96


def help_pages() -> str:
    """A heading and what belongs below it, for each command and for each of its actions."""
    with _columns():
        return "\n\n".join(
            part
            for top in (table_of(""), *map(table_of, COMMANDS))
            for part in (_whole(top), *(_action(top, each) for each in top.actions))
        )


def _whole(command: Command) -> str:
    return f"## `{command.prog}`\n\n```text\n{_stripped(help_of(command))}\n```"


def _action(command: Command, action: Command) -> str:
    """In full, or with the names of the flags where those of the command explain all of them."""
    explained = {(flag.name, flag.help) for flag in command.own_flags}
    taken = [flag for flag in action.own_flags if not flag.hidden]
    if not explained.issuperset((flag.name, flag.help) for flag in taken):
        return _whole(action)
    names = ", ".join(f"`--{flag.name}`" for flag in taken if not flag.group)
    return (
        f"## `{action.prog}`\n\n{action.description.strip()}\n\n"
        f"```text\nusage: {action.usage}\n```\n\n`{command.prog}` explains its flags: {names}."
    )


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@contextlib.contextmanager
def _columns() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS=str(COLUMNS), NO_COLOR="1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
