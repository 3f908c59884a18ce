"""The help of every command, as the command prints it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Final

from kshunt.backend.cli.main import main

COLUMNS: Final = 96
COMMANDS: Final = (
    (),
    ("demo",),
    ("cluster",),
    ("serve",),
    ("kafka-reassign-partitions",),
    ("kafka-preferred-replica-election",),
    ("kafka-topics",),
    ("plan",),
    ("audit",),
    ("replay",),
    ("proposals",),
    ("tokens",),
    ("tokens", "create"),
    ("tokens", "revoke"),
    ("tokens", "list"),
    ("keys",),
    ("webhooks",),
    ("config",),
    ("doctor",),
    ("web",),
    ("pipeline",),
    ("pipeline", "run"),
    ("pipeline", "backfill"),
    ("pipeline", "report"),
    ("pipeline", "backtest"),
    ("pipeline", "repartition"),
)
"""Each command, and each action with a help of its own."""
_BEFORE_ACTION: Final = {"tokens": ("--tokens", "tokens.json")}
"""What a command needs before it reads its action."""


def help_pages() -> str:
    """A heading and a block for each command."""
    return "\n\n".join(
        f"## `{' '.join(('kshunt', *command))}`\n\n```text\n{help_of(command)}\n```"
        for command in COMMANDS
    )


def help_of(command: tuple[str, ...]) -> str:
    """What `--help` prints."""
    out = io.StringIO()
    first, rest = command[:1], command[1:]
    before = _BEFORE_ACTION.get(first[0], ()) if rest else ()
    with _columns(), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*first, *before, *rest, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


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
