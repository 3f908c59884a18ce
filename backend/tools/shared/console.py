"""What the tools share: files that are named, errors in words or JSON, and the exit code.

A tool's start-up time counts, so nothing is imported here that needs a data library, a Kafka
client or a web framework.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from kshunt.backend.addresses import ZOOKEEPER_WARNING
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, usage_lines
from kshunt.backend.commandline.table import Command
from kshunt.backend.domain.text.formatting import printable
from kshunt.backend.errors import (
    AwaitsApproval,
    BadInput,
    ConfigError,
    Conflict,
    KshuntError,
    NotSupported,
    PlanError,
)
from kshunt.backend.limits import LIMITS
from kshunt.backend.tools.shared.output import ToolReport

T = TypeVar("T")


def run_tool(
    command: Command,
    tool: Callable[[Sequence[str]], int],
    argv: Sequence[str],
    *,
    interrupted: str,
) -> int:
    """Run a tool; its exit code, with every error of ours put into words.

    `interrupted` is shown after Ctrl-C. It says what still happens in the cluster, if anything.
    """
    as_json = "--json" in argv
    try:
        return tool(argv)
    except UsageError as error:
        _show_error(error, command, as_json=as_json)
        return command.usage_code
    except KshuntError as error:
        _show_error(error, command, as_json=as_json)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        show(interrupted, sys.stderr)
        return ExitCode.INTERRUPTED


def show(text: str, where: TextIO) -> None:
    """Print a text without what a terminal would obey."""
    print(printable(text), file=where, flush=True)


def show_report(report: ToolReport, *, as_json: bool) -> int:
    """Print what an action has to say; its exit code."""
    if as_json:
        show(json.dumps(report.document), sys.stdout)
        return report.code
    show(report.text, sys.stdout)
    for problem in report.problems:
        show(problem, sys.stderr)
    return report.code


def _show_error(error: KshuntError, command: Command, *, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"title": error.title, "detail": error.message}
        document["advice"] = error.advice
        if isinstance(error, PlanError) and error.line is not None:
            document |= {"line": error.line, "column": error.column}
        if isinstance(error, AwaitsApproval):
            document["proposal"] = error.proposal_id
        show(json.dumps({"error": document}), sys.stdout)
    elif isinstance(error, UsageError):
        show(usage_lines(error, command.prog), sys.stderr)
    elif isinstance(error, Conflict | AwaitsApproval):
        # Kafka's tool names a conflict without calling it an error.
        show(str(error), sys.stderr)
    else:
        show(f"Error: {error}", sys.stderr)


def warn_of_zookeeper() -> None:
    """Warn of the deprecated --zookeeper, as KIP-179 and KIP-183 want it."""
    show(ZOOKEEPER_WARNING, sys.stderr)


def refuse_zookeeper() -> None:
    """Warn of the deprecated --zookeeper, and stop.

    Raises:
        NotSupported: always.
    """
    warn_of_zookeeper()
    raise NotSupported(
        "This tool does not work through ZooKeeper. Nothing was done.",
        advice="Name the cluster's brokers with --bootstrap-server.",
    )


def check_client_config(path: Path | None) -> None:
    """Find an unreadable file here, before it becomes the last words of a backend.

    Raises:
        ConfigError: it cannot be read.
    """
    if path is None:
        return
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"Unable to read file {path}: {error.strerror}.") from None


def parsed_file(name: str, parse: Callable[[str], T]) -> T:
    """What a file holds, with its name in front of what is wrong with it.

    Raises:
        PlanError: `parse` does not take its text.
        BadInput: it cannot be read, is no UTF-8 text, or is larger than any plan.
    """
    try:
        return parse(_read(name))
    except PlanError as error:
        named = PlanError(f"{name}: {error.message}", advice=error.advice)
        named.line, named.column = error.line, error.column
        raise named from None


def _read(name: str) -> str:
    limit = LIMITS.request_body_bytes
    try:
        with Path(name).open("rb") as file:
            content = file.read(limit + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"Unable to read file {name}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"File {name} is not UTF-8 text: byte {error.start} is not valid.") from None
    if len(content) > limit:
        raise BadInput(f"File {name} is larger than {limit} bytes; split the plan.")
    return text
