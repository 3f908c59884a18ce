"""The wizards of reassignments, throttles, elections and the audit, as data.

Nothing is asked or sent here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.tui.changes.intents import common_intents, operations
from kshunt.tui.changes.intents.common_intents import Start
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard
from kshunt.tui.changes.wizard.parsing import (
    CAPS_HINT,
    EVERY_OPERATION,
    LIST_HINT,
    RATE_HINT,
    a_rate,
    an_operation,
    broker_ids,
    default_caps,
    parse_caps,
    throttled_replicas,
)
from kshunt.tui.data.files import AUDIT_FORMATS, complete_path, new_audit_file, plan_for, save_text
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.terminal.downloads import Downloads, download_name
from kshunt.tui.text.fitting import servers_text
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


AUDIT_HINT: Final = ".md for Markdown, .json for JSON"


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
        return common_intents.reassign_intent(facts, target, Start(*values), glyphs)

    return Wizard("Start a reassignment", build, _goal(target, goal), Page(fields=_how()))


def planned_wizard(facts: Facts, target: TargetCluster, glyphs: Glyphs, planned: Planned) -> Wizard:
    """Start moving partitions as a plan says that was made here."""

    def build(*values: Any) -> Intent:
        start = replace(Start(planned.plan, *values), deadline_ms=planned.deadline_ms)
        return common_intents.reassign_intent(facts, target, start, glyphs)

    return Wizard(
        f"Start: {planned.goal}",
        build,
        _goal(target),
        Page(fields=_how(planned.throttle, planned.goal)),
        leave="goes back to the plan",
    )


def _how(throttle: str = "", reason: str = "") -> tuple[FormField, ...]:
    """How a reassignment is carried out."""
    return (
        FormField("Throttle", throttle, f"{RATE_HINT}; removed when done", a_rate),
        FormField("Parallel moves", default_caps(), CAPS_HINT, parse_caps),
        FormField("Reason", reason, "the reason, for the audit; may be empty", str.strip),
    )


def rates_wizard(
    facts: Facts, target: TargetCluster, glyphs: Glyphs, brokers: Sequence[int]
) -> Wizard:
    """Set the rates of these brokers."""
    present = facts.snapshot.throttles.rates
    rates = {present[id].rate if id in present else None for id in brokers}
    rate = rates.pop() if len(rates) == 1 else None
    leader = "" if rate is None else typed_rate(rate.leader_bytes_per_s)
    follower = "" if rate is None else typed_rate(rate.follower_bytes_per_s)
    who = f"broker {brokers[0]}" if len(brokers) == 1 else f"all {len(brokers)} brokers"

    def build(*values: Any) -> Intent:
        wanted = dict.fromkeys(brokers, ThrottledRate(*values))
        return common_intents.rates_intent(facts, target, wanted, glyphs)

    fields = (
        FormField("Leader rate (what it sends)", leader, RATE_HINT, a_rate),
        FormField("Follower rate (what it fetches)", follower, RATE_HINT, a_rate),
    )
    return Wizard(f"Throttle of {who}", build, _goal(target), Page(fields=fields))


def lists_wizard(facts: Facts, target: TargetCluster, topic: str) -> Wizard:
    """Set a topic's throttled replicas."""
    present = facts.snapshot.throttles.replicas.get(topic, ThrottledReplicas())

    def build(*values: Any) -> Intent:
        return common_intents.lists_intent(facts, target, topic, ThrottledReplicas(*values))

    def field(label: str, replicas: ReplicaSet) -> FormField:
        def parse(text: str) -> ReplicaSet:
            count, brokers = facts.partitions_in(topic), facts.snapshot.brokers
            return throttled_replicas(text, topic, count, brokers, replicas)

        return FormField(label, str(replicas) or "none", LIST_HINT, parse)

    fields = (field("Leader side", present.leaders), field("Follower side", present.followers))
    return Wizard(f"Throttled replicas of {topic}", build, _goal(target), Page(fields=fields))


def election_wizard(
    facts: Facts, target: TargetCluster, partitions: Sequence[TopicPartition] | None
) -> Wizard:
    """Elect preferred leaders: there is nothing to choose."""
    count = len(facts.starts) if partitions is None else len(partitions)
    return Wizard(
        f"Elect the preferred {'leader' if count == 1 else 'leaders'} of"
        f" {many(count, 'partition')}",
        lambda: common_intents.election_intent(facts, target, partitions),
        _goal(target),
    )


def abandon_wizard(facts: Facts, target: TargetCluster, operation: Operation) -> Wizard:
    """End an operation although brokers that are gone for good still have its throttle."""
    gone = [id for id, one in sorted(facts.snapshot.brokers.items()) if one.stale]
    field = FormField(
        "Brokers that are gone for good",
        ", ".join(map(str, gone)),
        "ids with commas between them; a broker that is up is rejected",
        broker_ids,
    )
    return Wizard(
        f"Abandon operation {operation.id}",
        lambda brokers: operations.abandon_intent(target, operation, brokers),
        _goal(target),
        Page(fields=(field,)),
    )


def audit_wizard(
    target: TargetCluster, known: Sequence[str], chosen: str, downloads: Downloads | None = None
) -> Wizard:
    """Write the audit to a new file, or have the browser download it.

    `chosen` is the id that is proposed, or empty.
    """
    proposed = chosen or EVERY_OPERATION
    which = FormField(
        "Operation", proposed, "its id, or all", lambda text: an_operation(text, known)
    )
    name = f"kshunt-audit-{proposed}.md"
    if downloads is not None:
        file = FormField("Download", name, AUDIT_HINT, _audit_download)
    else:
        hint = f"a new file: {AUDIT_HINT}"
        file = FormField("File", name, hint, new_audit_file, complete_path, reads=True)
    return Wizard(
        "Write the audit",
        lambda operation, path: audit_intent(target, operation, path, downloads),
        _goal(target, which),
        Page(fields=(file,)),
    )


def _audit_download(text: str) -> Path:
    return download_name(text, AUDIT_FORMATS)


def audit_intent(
    target: TargetCluster, operation: str, path: Path, downloads: Downloads | None = None
) -> Intent:
    """Read the audit, and write it to a file: nothing in the cluster changes."""
    id = "" if operation == EVERY_OPERATION else operation

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        text = client.audit.text("json" if path.suffix == ".json" else "markdown", id)
        if not change.validate_only and downloads is not None:
            downloads.offer(path.name, text)
        elif not change.validate_only:
            save_text(text, path)
        lines = many(text.count("\n") + 1, "line")
        words = lines if change.validate_only else f"{lines} written"
        return ChangeAnswer(change.validate_only, None, (Result(str(path), 0, "NONE", words),))

    return Intent(
        title=f"Write the audit to {path.name}",
        button="Write it",
        target=target,
        touches=(("Operation", operation), ("File", str(path))),
        send=send,
        effect="Nothing in the cluster changes.",
        local=True,
    )


def _goal(target: TargetCluster, *fields: FormField) -> Page:
    where = f"Cluster {target.cluster_id} at {servers_text(target.bootstrap_servers)}"
    return Page((where,), fields)
