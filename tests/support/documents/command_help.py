"""The help of every command, as the command prints it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from kshunt.backend.cli.commands import COMMANDS, table_of
from kshunt.backend.commandline.help_text import help_of

COLUMNS: Final = 96


def help_pages() -> str:
    """A heading and a block for each command, and for each of its actions."""
    with _columns():
        return "\n\n".join(
            f"## `{command.prog}`\n\n```text\n{_stripped(help_of(command))}\n```"
            for top in (table_of(""), *map(table_of, COMMANDS))
            for command in top.every()
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
