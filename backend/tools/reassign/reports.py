"""What `kafka-reassign-partitions` says: Kafka's words, or the same facts as JSON.

Where Kafka's tool has a line for it, the line is Kafka's to the letter, trailing blanks included,
because scripts compare them. Each report carries its exit code (`options.COMMAND`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.reassignments import (
    GeneratedPlans,
    MovingPartition,
    MovingPartitions,
)
from kshunt.backend.commandline.exit_codes import KafkaExitCode
from kshunt.backend.domain.cluster.metadata import OngoingReassignment
from kshunt.backend.domain.reassignment.answers import (
    ChangeAnswer,
    GeneratedPlan,
    Result,
    VerifyAnswer,
)
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.reassignment.progress_words import (
    format_log_dirs,
    format_progress,
    format_verify,
    is_not_as_planned,
)
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document
from kshunt.backend.error_codes import NO_REASSIGNMENT_IN_PROGRESS, error_name
from kshunt.backend.tools.reassign.options import ReassignCommandLine
from kshunt.backend.tools.shared.output import ToolReport

if TYPE_CHECKING:
    from kshunt.backend.api.schema.progress import ProgressRows

EXISTING_ASSIGNMENT: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
EXISTING_IN_ZOOKEEPER: Final = (
    "There is an existing assignment running.  Through ZooKeeper nothing can be added to it: wait "
    "until it has ended.  The --additional flag can be used to change the throttle by resubmitting "
    "the current reassignment."
)
"""The first sentence is that of Kafka's tool, when it spoke to ZooKeeper."""
NOT_MOVING: Final = error_name(NO_REASSIGNMENT_IN_PROGRESS)


def list_report(moves: Iterable[OngoingReassignment]) -> ToolReport:
    """`--list`."""
    ordered = sorted(moves, key=lambda move: move.partition)
    document = to_document(MovingPartitions(tuple(map(MovingPartition.of, ordered))))
    if not ordered:
        return ToolReport("No partition reassignments found.", document)
    lines = [
        f"{move.partition}: replicas: {_ids(move.replicas)}."
        + (f" adding: {_ids(move.adding)}." if move.adding else "")
        + (f" removing: {_ids(move.removing)}." if move.removing else "")
        for move in ordered
    ]
    return ToolReport("\n".join(["Current partition reassignments:", *lines]), document)


def progress_report(answer: ProgressRows) -> ToolReport:
    """`--progress`. Below the table stands when the plan will be done, where that is watched."""
    rows, end, record = answer.rows, answer.expected_end, answer.forecast_record
    code = KafkaExitCode.DONE if all(row.in_sync for row in rows) else KafkaExitCode.IN_PROGRESS
    if not all(row.matches for row in rows):
        code = KafkaExitCode.FAILED
    lines = [format_progress(rows)]
    if end is not None:
        from kshunt.backend.domain.forecast.end_words import full_text

        lines += ["", f"Done: {full_text(end, end.at_ms)}"]
        lines += [] if record is None else [f"Forecasts: {record}"]
    return ToolReport("\n".join(lines), to_document(answer), code)


def verify_report(answer: VerifyAnswer) -> ToolReport:
    """`--verify`. The empty line where no log directory is in question is Kafka's."""
    lines = [format_verify(answer.rows), format_log_dirs(answer.log_dirs)]
    if answer.cleared_brokers:
        lines.append(
            f"Clearing broker-level throttles on broker{_s(answer.cleared_brokers)} "
            f"{_ids(answer.cleared_brokers)}"
        )
    if answer.cleared_topics:
        lines.append(
            f"Clearing topic-level throttles on topic{_s(answer.cleared_topics)} "
            f"{','.join(answer.cleared_topics)}"
        )
    if answer.active_elsewhere:
        lines.append("Other partitions still move, so no throttle was changed.")
    code = KafkaExitCode.DONE if answer.done else KafkaExitCode.IN_PROGRESS
    if is_not_as_planned(answer):
        code = KafkaExitCode.FAILED
    return ToolReport("\n".join(lines), to_document(answer), code, answer.notes)


def generate_report(generated: GeneratedPlan) -> ToolReport:
    """`--generate`."""
    text = (
        "Current partition replica assignment\n"
        f"{_kafka_json(generated.current)}\n\n"
        "Proposed partition reassignment configuration\n"
        f"{_kafka_json(generated.proposed)}"
    )
    return ToolReport(text, to_document(GeneratedPlans.of(generated)), problems=generated.notes)


def execute_report(
    options: ReassignCommandLine, plan: ReassignmentPlan, answer: ChangeAnswer
) -> ToolReport:
    """`--execute`."""
    outcomes = {result.item: result for result in answer.results}
    ordered = _of_partitions(plan, outcomes)
    refused = [result for result in ordered if not result.ok]
    moving = set(answer.already_moving)
    accepted = [result.item for result in ordered if result.ok]
    started = [item for item in accepted if item not in moving]
    lines = _rollback_lines(answer)
    if accepted:
        lines += _throttle_lines(options)
    if carried := [item for item in accepted if item in moving]:
        lines.append(f"Already moving, and not started again: {','.join(carried)}")
    if started:
        lines.append(
            f"Successfully started partition reassignment{_s(started)} for {','.join(started)}"
        )
    problems = [*answer.warnings, *answer.notes]
    if refused:
        problems.append("\n".join(["Error reassigning partition(s):", *map(_failure, refused)]))
    moved, unmoved = _log_dir_lines(plan, outcomes)
    return ToolReport(
        "\n".join([*lines, *moved]),
        to_document(answer),
        KafkaExitCode.FAILED if answer.failures else KafkaExitCode.DONE,
        (*problems, *unmoved),
    )


def _rollback_lines(answer: ChangeAnswer) -> list[str]:
    if answer.rollback_plan is None:
        return []
    rollback = from_document(PlanDocument, answer.rollback_plan).plan()
    if not rollback.replicas:
        return []
    return [
        "Current partition replica assignment",
        "",
        _kafka_json(rollback),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
    ]


def _throttle_lines(options: ReassignCommandLine) -> list[str]:
    """Kafka warns here that --verify has to be run; kshunt has nothing to warn of."""
    rates = (
        ("inter-broker", options.throttle_bytes_per_s),
        ("replica-alter-dir", options.log_dirs_throttle_bytes_per_s),
    )
    lines = [
        f"The {name} throttle limit was set to {rate} B/s"
        for name, rate in rates
        if rate is not None
    ]
    if lines:
        lines.append(
            "The throttle will be removed automatically when the reassignment completes; "
            "--verify is not needed for that."
        )
    return lines


def _log_dir_lines(
    plan: ReassignmentPlan, outcomes: Mapping[str, Result]
) -> tuple[list[str], list[str]]:
    """What to say of each replica with a directory of its own: begun, and failed."""
    moved, failed = [], []
    for (partition, broker), directory in sorted(
        plan.log_dirs.items(), key=lambda item: (item[0][1], item[0][0])
    ):
        outcome = outcomes.get(f"{partition} on broker {broker}")
        if outcome is None:
            continue
        if outcome.ok:
            moved.append(
                f"Successfully started moving log directory to {directory} for replica "
                f"{partition} with broker {broker} "
            )
        else:
            why = outcome.message or outcome.error_name
            failed.append(f"Failed to alter dir for {partition}-{broker}: {why}")
    return moved, failed


def cancel_report(plan: ReassignmentPlan, answer: ChangeAnswer) -> ToolReport:
    """`--cancel`. A partition that did not move is no failure, as in Kafka's tool."""
    outcomes = {result.item: result for result in answer.results}
    ordered = _of_partitions(plan, outcomes)
    cancelled = [result.item for result in ordered if result.ok]
    failed = [r for r in ordered if not r.ok and r.error_name != NOT_MOVING]
    lines, problems = [], []
    if cancelled:
        lines.append(
            f"Successfully cancelled partition reassignment{_s(cancelled)} for: "
            f"{','.join(cancelled)}"
        )
    elif not failed:
        lines.append("None of the specified partition reassignments are active.")
    if failed:
        problems.append(
            "\n".join(
                [
                    f"Error cancelling partition reassignment{_s(failed)} for:",
                    *map(_failure, failed),
                ]
            )
        )
    if plan.log_dirs:
        problems.append("This version cannot cancel moves between log directories.")
    else:
        lines.append("None of the specified partition moves are active.")
    return ToolReport(
        "\n".join([*lines, *answer.notes]),
        to_document(answer),
        KafkaExitCode.FAILED if failed or plan.log_dirs else KafkaExitCode.DONE,
        tuple(problems),
    )


def _of_partitions(plan: ReassignmentPlan, outcomes: Mapping[str, Result]) -> list[Result]:
    """The results of the plan's partitions in Kafka's order: by topic, then by number."""
    names = map(str, sorted(plan.replicas))
    return [outcomes[name] for name in names if name in outcomes]


def _failure(result: Result) -> str:
    return f"{result.item}: {result.message or result.error_name}"


def _kafka_json(plan: ReassignmentPlan) -> str:
    return format_plan(plan.replicas, plan.log_dirs)


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _s(items: Sequence[object]) -> str:
    return "" if len(items) == 1 else "s"
