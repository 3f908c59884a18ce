"""What a tool says, and the code with which it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kshunt.backend.commandline.exit_codes import ExitCode


class ToolReport(NamedTuple):
    """What an action has to say."""

    text: str
    """For standard output."""
    document: Mapping[str, Any]
    """The same with --json."""
    code: int = ExitCode.DONE
    problems: tuple[str, ...] = ()
    """For standard error, in addition to the text."""
