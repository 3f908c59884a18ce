"""A reassignment that an operator starts or cancels: its wizards and its intents.

Pure: nothing is sent from here. Each intent names the cluster that was on the screen, and its call
passes that id on, so that the backend refuses if another cluster answers by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.move_caps import CAPS_HINT, MoveCaps, caps_text, parse_caps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.text.formatting import limit_text, many, moment_text
from kshunt.tui.changes.wizard.command_line import CommandLine
from kshunt.tui.changes.wizard.intent import (
    Intent,
    TargetCluster,
    counted,
    partition_lines,
    short_name,
)
from kshunt.tui.changes.wizard.pages import Page, Wizard, goal_page
from kshunt.tui.changes.wizard.parsing import RATE_HINT, a_rate, default_caps
from kshunt.tui.data.files import complete_path, plan_for
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


_TOOL: Final = ("kafka-reassign-partitions",)
_PLAN_FLAG: Final = "reassignment-json-file"


@dataclass(frozen=True, slots=True)
class Start:
    """What the form of a new reassignment was filled in with."""

    plan: ReassignmentPlan
    throttle_bytes_per_s: int | None
    caps: MoveCaps | None
    """None: every move at the same time."""
    reason: str = ""
    deadline_ms: int | None = None
    """The deadline, in milliseconds since the epoch; None: no deadline."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it was made for."""

    plan: ReassignmentPlan
    goal: str
    """In words: `drain broker 7`."""
    throttle: str = ""
    """The rate that was chosen, as it is typed; empty where none was."""
    deadline_ms: int | None = None
    """The moment by which it is to be done, milliseconds since the epoch; None: none was typed."""


def start_wizard(facts: Facts, target: TargetCluster, glyphs: Glyphs) -> Wizard:
    """Start moving partitions as a JSON file says."""
    goal = FormField(
        "Plan file",
        "",
        "Kafka's reassignment JSON",
        lambda text: plan_for(text, target.cluster_id),
        complete_path,
        reads=True,
    )

    def build(*values: Any) -> Intent:
        return reassign_intent(facts, target, Start(*values), glyphs)

    return Wizard("Start a reassignment", build, goal_page(target, goal), Page(fields=_how()))


def planned_wizard(facts: Facts, target: TargetCluster, glyphs: Glyphs, planned: Planned) -> Wizard:
    """Start moving partitions as a plan says that was made here.

    With a throttle that was rehearsed nothing is left to ask: it begins with the preview.
    """

    def build(*values: Any) -> Intent:
        start = replace(Start(planned.plan, *values), deadline_ms=planned.deadline_ms)
        return reassign_intent(facts, target, start, glyphs)

    return Wizard(
        f"Start: {planned.goal}",
        build,
        goal_page(target),
        Page(fields=_how(planned.throttle, planned.goal)),
        leave="goes back to the plan",
        filled=bool(planned.throttle),
    )


def _how(throttle: str = "", reason: str = "") -> tuple[FormField, ...]:
    """How a reassignment is carried out."""
    return (
        FormField("Throttle", throttle, f"{RATE_HINT}; removed when done", a_rate),
        FormField("Parallel moves", default_caps(), CAPS_HINT, parse_caps),
        FormField("Reason", reason, "the reason, for the audit; may be empty", str.strip),
    )


def reassign_intent(facts: Facts, target: TargetCluster, start: Start, glyphs: Glyphs) -> Intent:
    """Start moving partitions as a plan says."""
    plan, throttle = start.plan, start.throttle_bytes_per_s
    moving = facts.summary.moving_partitions
    present = {partition: facts.replicas_of(partition) for partition in plan.replicas}
    brokers = set(plan.brokers).union(*present.values())
    changes = {
        str(partition): f"{_ids(present[partition])} {glyphs.arrow} {_ids(wanted)}"
        for partition, wanted in plan.replicas.items()
    }
    for (partition, broker), path in plan.log_dirs.items():
        if present.get(partition) == plan.replicas.get(partition):
            changes[str(partition)] = f"on {broker} {glyphs.arrow} {path}"

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.reassignments.start(
            plan,
            change,
            throttle_bytes_per_s=throttle,
            caps=start.caps,
            additional=moving > 0,
            all_or_nothing=True,
            deadline_ms=start.deadline_ms,
        )

    by = [] if start.deadline_ms is None else [("Done by", moment_text(start.deadline_ms))]
    lifted = "" if throttle is None else ", removed when the move ends"
    return Intent(
        title=f"Start moving {many(len(plan), 'partition')}",
        button="Start the move",
        target=target,
        touches=(
            *partition_lines(plan.replicas),
            ("Brokers", counted(sorted(brokers))),
            ("Throttle", limit_text(throttle) + lifted),
            ("Parallel", caps_words(start.caps)),
            *by,
            *([("Also", f"{many(moving, 'partition')} that already move")] if moving else []),
        ),
        send=send,
        preview=lambda client: client.previews.start(plan, throttle),
        command=_start_command(target, start, additional=moving > 0),
        changes=changes,
        reason=start.reason,
    )


def cancel_intent(
    facts: Facts,
    target: TargetCluster,
    partitions: Sequence[TopicPartition],
    *,
    every: bool = False,
) -> Intent:
    """Return moving partitions to their original replicas.

    `every`: these are all that move, so the operator has to type the cluster's short name.
    """
    brokers = {broker for partition in partitions for broker in facts.replicas_of(partition)}

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.reassignments.cancel(partitions, change)

    return Intent(
        title=f"Cancel the move of {many(len(partitions), 'partition')}",
        button="Cancel the move",
        target=target,
        touches=(*partition_lines(partitions), ("Brokers", counted(sorted(brokers)))),
        send=send,
        preview=lambda client: client.previews.cancel(partitions),
        command=cancel_command(facts, partitions),
        effect="The copied data is dropped; the original replicas stay.",
        typed=(short_name(target.cluster_id),) if every else (),
    )


def cancel_command(facts: Facts, partitions: Iterable[TopicPartition]) -> CommandLine:
    """The command that returns these partitions; where they are now is all that it needs."""
    plan = format_plan({one: facts.replicas_of(one) for one in partitions})
    return CommandLine((*_TOOL, "--cancel"), plan, _PLAN_FLAG)


def _start_command(target: TargetCluster, start: Start, *, additional: bool) -> CommandLine:
    plan, throttle = start.plan, start.throttle_bytes_per_s
    words = [*_TOOL, "--execute"]
    if throttle is not None:
        words += ["--throttle", typed_rate(throttle)]
    if start.caps is not None:
        words += ["--parallel-moves", caps_text(start.caps)]
    if start.deadline_ms is not None:
        # The clock of the host that shows it: that of the shell as well.
        words += [
            "--deadline",
            f"{_local(start.deadline_ms):%Y-%m-%dT%H:%M}",
        ]
    if additional:
        words.append("--additional")
    text = format_plan(plan.replicas, plan.log_dirs, cluster_id=target.cluster_id)
    return CommandLine(tuple(words), text, _PLAN_FLAG)


def _local(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()


def caps_words(caps: MoveCaps | None) -> str:
    """How many moves are in flight at the same time."""
    if caps is None:
        return "all of them"
    first = "smallest" if caps.smallest_first else "largest"
    most = f"at most {caps.per_broker:,} a broker and {caps.in_cluster:,} in the cluster"
    return f"{most}, {first} first"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "?"
