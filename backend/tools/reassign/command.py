"""`kshunt kafka-reassign-partitions`: Kafka's tool, with KIP-179's --progress and throttles that
go by themselves.

Its start-up time counts, so nothing is imported here that needs a data library, a Kafka client
or a web framework; `kshunt.backend.tools.reassign.sources` imports what the way to the cluster
needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import (
    ReassignmentPlan,
    parse_plan,
    parse_topics_to_move,
)
from kshunt.backend.errors import BackendError, Conflict, NotSupported
from kshunt.backend.tools.reassign import reports
from kshunt.backend.tools.reassign.options import (
    COMMAND,
    ReassignAction,
    ReassignCommandLine,
    parse_options,
)
from kshunt.backend.tools.reassign.sources import open_gateway, open_reader
from kshunt.backend.tools.shared.console import (
    check_client_config,
    parsed_file,
    run_tool,
    show_report,
    warn_of_zookeeper,
)
from kshunt.backend.tools.shared.output import ToolReport


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    left = "Interrupted. Moves that were started continue in the cluster."
    return run_tool(COMMAND, _main, argv, interrupted=left)


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    options = parse_options(words.given)
    _refuse_what_is_not_served(options, words.given)
    check_client_config(options.command_config)
    return show_report(_ACTIONS[options.action](options), as_json=options.json)


def _refuse_what_is_not_served(options: ReassignCommandLine, given: Mapping[str, str]) -> None:
    if options.zookeeper:
        warn_of_zookeeper()
    if "bootstrap-controller" in given:
        raise NotSupported(
            "This version does not contact controllers directly. Nothing was done.",
            advice="Name the cluster's brokers with --bootstrap-server.",
        )


# One function an action


def _list(options: ReassignCommandLine) -> ToolReport:
    with open_reader(options) as reader:
        return reports.list_report(reader.list())


def _progress(options: ReassignCommandLine) -> ToolReport:
    plan = _plan(options)
    with open_reader(options) as reader:
        return reports.progress_report(reader.progress(plan))


def _verify(options: ReassignCommandLine) -> ToolReport:
    plan = _plan(options)
    with open_reader(options) as reader:
        answer = reader.verify(plan, preserve_throttles=options.preserve_throttles)
    return reports.verify_report(answer)


def _generate(options: ReassignCommandLine) -> ToolReport:
    topics = parsed_file(options.topics_file, parse_topics_to_move)
    with open_reader(options) as reader:
        generated = reader.generate(topics, options.brokers, rack_aware=options.rack_aware)
    return reports.generate_report(generated)


def _execute(options: ReassignCommandLine) -> ToolReport:
    plan = _plan(options)
    with open_gateway(options) as gateway:
        try:
            answer = gateway.start(
                plan,
                Change(who=options.who, reason=options.reason),
                throttle_bytes_per_s=options.throttle_bytes_per_s,
                log_dirs_throttle_bytes_per_s=options.log_dirs_throttle_bytes_per_s,
                additional=options.additional,
                caps=options.caps,
                allow_replication_factor_change=options.allow_replication_factor_change,
                all_or_nothing=not options.partial,
                timeout_ms=options.timeout_ms,
                deadline_ms=options.deadline_ms,
            )
        except BackendError as error:
            # A backend that is not active, for example, answers 409 with another title.
            if error.title == Conflict.title and not options.additional:
                existing = (
                    reports.EXISTING_IN_ZOOKEEPER
                    if options.zookeeper
                    else reports.EXISTING_ASSIGNMENT
                )
                raise Conflict(f"{existing}\n{error.message}") from None
            raise
    return reports.execute_report(options, plan, answer)


def _cancel(options: ReassignCommandLine) -> ToolReport:
    plan = _plan(options)
    with open_gateway(options) as gateway:
        answer = gateway.cancel(
            tuple(plan.replicas),
            Change(who=options.who, reason=options.reason),
            preserve_throttles=options.preserve_throttles,
            timeout_ms=options.timeout_ms,
        )
    return reports.cancel_report(plan, answer)


_ACTIONS: Final[Mapping[ReassignAction, Callable[[ReassignCommandLine], ToolReport]]] = {
    ReassignAction.LIST: _list,
    ReassignAction.PROGRESS: _progress,
    ReassignAction.VERIFY: _verify,
    ReassignAction.GENERATE: _generate,
    ReassignAction.EXECUTE: _execute,
    ReassignAction.CANCEL: _cancel,
}


def _plan(options: ReassignCommandLine) -> ReassignmentPlan:
    return parsed_file(options.plan_file, parse_plan)
