"""What each action of `kafka-reassign-partitions` asks for, and what it has to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import (
    ReassignmentPlan,
    parse_plan,
    parse_topics_to_move,
)
from kshunt.backend.errors import BackendError, Conflict
from kshunt.backend.tools.reassign import reports
from kshunt.backend.tools.reassign.options import ReassignAction, ReassignCommandLine
from kshunt.backend.tools.reassign.sources import open_gateway, open_reader
from kshunt.backend.tools.shared.console import parsed_file
from kshunt.backend.tools.shared.output import ToolReport


def report_of(options: ReassignCommandLine) -> ToolReport:
    """Do what is asked for."""
    return _ACTIONS[options.action](options)


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
