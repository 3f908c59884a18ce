"""What the pipeline's command lines share: folders as they are given, lines, and times in them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path


def absolute(text: str) -> Path:
    """A path of a command line, from the root."""
    # Spark's Java has a working directory of its own on a server.
    return Path(text).absolute()


def say(line: str) -> None:
    """Write a line for an operator, and flush it immediately."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def to_the_minute(at_ms: int) -> str:
    """A time for an operator."""
    return f"{_at(at_ms):%Y-%m-%d %H:%M} UTC"


def for_a_flag(at_ms: int) -> str:
    """A time as --from and --to take it."""
    return f"{_at(at_ms):%Y-%m-%dT%H:%M+00:00}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
