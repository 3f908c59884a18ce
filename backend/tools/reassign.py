"""`kshunt kafka-reassign-partitions`: Kafka's tool, with KIP-179's --progress and throttles that
go by themselves.

Its start-up time counts, so nothing is imported here that needs a data library, a Kafka client
or a web framework; `backend.tools.gateway` imports what the way to the cluster needs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from backend import __version__
from backend.domain.plan import ReassignmentPlan, parse_plan, parse_topics_to_move
from backend.errors import (
    BackendError,
    BadInput,
    ConfigError,
    Conflict,
    KshuntError,
    NotSupported,
    PlanError,
)
from backend.settings import LIMITS
from backend.tools import output
from backend.tools.gateway import open_gateway, open_reader
from backend.tools.options import (
    PROG,
    Action,
    Options,
    UsageError,
    build_parser,
    parse_options,
    read_arguments,
)
from backend.tools.output import Report

T = TypeVar("T")

INTERRUPTED: Final = 130


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    as_json = "--json" in argv
    try:
        return _main(argv)
    except UsageError as error:
        _show_error(error, as_json=as_json)
        return output.USAGE
    except KshuntError as error:
        _show_error(error, as_json=as_json)
        return output.FAILED
    except KeyboardInterrupt:
        _print("Interrupted. Moves that were started go on in the cluster.", sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.FAILED


def _main(argv: Sequence[str]) -> int:
    given = read_arguments(argv)
    if "help" in given:
        _print(build_parser().format_help().rstrip(), sys.stdout)
        return output.DONE
    if "version" in given:
        _print(f"kshunt {__version__}", sys.stdout)
        return output.DONE
    options = parse_options(given)
    _refuse_what_is_not_served(options, given)
    _check_command_config(options)
    report = _ACTIONS[options.action](options)
    if options.json:
        _print(json.dumps(report.document), sys.stdout)
    else:
        _print(report.text, sys.stdout)
        for problem in report.problems:
            _print(problem, sys.stderr)
    return report.code


def _print(text: str, where: TextIO) -> None:
    print(output.printable(text), file=where, flush=True)


def _show_error(error: KshuntError, *, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"title": error.title, "detail": error.message}
        document["advice"] = error.advice
        if isinstance(error, PlanError) and error.line is not None:
            document |= {"line": error.line, "column": error.column}
        _print(json.dumps({"error": document}), sys.stdout)
    elif isinstance(error, UsageError):
        # The message stands alone on its line, as Kafka's tool prints it.
        hint = f"Run '{PROG} --help' for every option."
        _print("\n".join(filter(None, [error.message, error.advice, hint])), sys.stderr)
    elif isinstance(error, Conflict):
        # Kafka's tool names a conflict without calling it an error.
        _print(str(error), sys.stderr)
    else:
        _print(f"Error: {error}", sys.stderr)


def _refuse_what_is_not_served(options: Options, given: Mapping[str, str]) -> None:
    if options.zookeeper:
        _print(
            "Warning: --zookeeper is deprecated and will be removed in a future version; "
            "--bootstrap-server replaces it.",
            sys.stderr,
        )
        raise NotSupported(
            "This version does not serve clusters through ZooKeeper. Nothing was done.",
            advice="Name the cluster's brokers with --bootstrap-server.",
        )
    if "bootstrap-controller" in given:
        raise NotSupported(
            "This version does not ask controllers directly. Nothing was done.",
            advice="Name the cluster's brokers with --bootstrap-server.",
        )


def _check_command_config(options: Options) -> None:
    """Find an unreadable file here, before it becomes the last words of a backend."""
    if options.command_config is None:
        return
    try:
        options.command_config.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"Unable to read file {options.command_config}: {error.strerror}."
        ) from None


# One function an action


def _list(options: Options) -> Report:
    with open_reader(options) as reader:
        return output.list_report(reader.reassignments())


def _progress(options: Options) -> Report:
    plan = _plan(options)
    with open_reader(options) as reader:
        return output.progress_report(reader.progress(plan))


def _verify(options: Options) -> Report:
    plan = _plan(options)
    with open_reader(options) as reader:
        answer = reader.verify(plan, preserve_throttles=options.preserve_throttles)
    return output.verify_report(answer)


def _generate(options: Options) -> Report:
    topics = _parsed(options.topics_file, parse_topics_to_move)
    with open_reader(options) as reader:
        generated = reader.generate(topics, options.brokers, rack_aware=options.rack_aware)
    return output.generate_report(generated)


def _execute(options: Options) -> Report:
    plan = _plan(options)
    with open_gateway(options) as gateway:
        try:
            answer = gateway.reassign(
                plan,
                throttle_bytes_per_s=options.throttle_bytes_per_s,
                log_dirs_throttle_bytes_per_s=options.log_dirs_throttle_bytes_per_s,
                additional=options.additional,
                allow_replication_factor_change=options.allow_replication_factor_change,
                timeout_ms=options.timeout_ms,
            )
        except BackendError as error:
            if error.status == Conflict.http_status and not options.additional:
                raise Conflict(f"{output.EXISTING_ASSIGNMENT}\n{error.message}") from None
            raise
    return output.execute_report(options, plan, answer)


def _cancel(options: Options) -> Report:
    plan = _plan(options)
    with open_gateway(options) as gateway:
        answer = gateway.cancel(
            tuple(plan.replicas),
            preserve_throttles=options.preserve_throttles,
            timeout_ms=options.timeout_ms,
        )
    return output.cancel_report(plan, answer)


_ACTIONS: Final[Mapping[Action, Callable[[Options], Report]]] = {
    Action.LIST: _list,
    Action.PROGRESS: _progress,
    Action.VERIFY: _verify,
    Action.GENERATE: _generate,
    Action.EXECUTE: _execute,
    Action.CANCEL: _cancel,
}


def _plan(options: Options) -> ReassignmentPlan:
    return _parsed(options.plan_file, parse_plan)


def _parsed(name: str, parse: Callable[[str], T]) -> T:
    """What a file holds, with its name in front of what is wrong with it."""
    try:
        return parse(_read(name))
    except PlanError as error:
        named = PlanError(f"{name}: {error.message}", advice=error.advice)
        named.line, named.column = error.line, error.column
        raise named from None


def _read(name: str) -> str:
    """A file that the operator named.

    Raises:
        BadInput: it cannot be read, is no UTF-8 text, or is larger than any plan.
    """
    limit = LIMITS.request_body_bytes
    try:
        with Path(name).open("rb") as file:
            content = file.read(limit + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"Unable to read file {name}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"File {name} is not UTF-8 text: byte {error.start} cannot be.") from None
    if len(content) > limit:
        raise BadInput(f"File {name} is larger than {limit} bytes; split the plan.")
    return text
