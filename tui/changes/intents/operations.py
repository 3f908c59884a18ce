"""What an operator does to an operation: pause, resume, cancel, undo and abandon.

Pure, as `kshunt.tui.changes.intents.reassignment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import limit_text
from kshunt.tui.changes.intents.reassignment import cancel_command
from kshunt.tui.changes.wizard.command_line import CommandLine
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster, counted, short_name
from kshunt.tui.changes.wizard.pages import Page, Wizard, goal_page
from kshunt.tui.changes.wizard.parsing import broker_ids
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.facts.progress import cancellable
from kshunt.tui.shell.dashboard import OperationVerb

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.facts.snapshot_facts import Facts


_VERBS: Final[tuple[OperationVerb, ...]] = ("pause", "resume", "cancel", "undo")
_MOVES: Final = (OperationKind.REASSIGN, OperationKind.ADOPT)
_TITLES: Final = {
    "pause": "Pause",
    "resume": "Resume",
    "cancel": "Cancel",
    "undo": "Undo",
}
_EFFECTS: Final = {
    "pause": "Its copies are held at the floor rate and keep their data; none is cancelled.",
    "resume": "Its copies continue at the rates from before the pause.",
    "cancel": "The copied data is dropped; the original replicas stay.",
    "undo": "A new operation moves its partitions back, with the same throttle.",
}
_SHRINK_EFFECTS: Final = {
    "pause": "Its copy stops after the current batch, and continues from there later.",
    "resume": "It continues from the same place.",
    "cancel": "The copy is dropped and the topic's own settings return; the topic stays complete.",
}


def verb_named(name: str) -> OperationVerb:
    """One of the verbs, by its name."""
    found: OperationVerb = next(verb for verb in _VERBS if verb == name)
    return found


def operation_intent(
    facts: Facts | None, target: TargetCluster, operation: Operation, verb: OperationVerb
) -> Intent:
    """Pause, resume, cancel or undo an operation."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        asked = client.operations
        steer = {
            "pause": asked.pause,
            "resume": asked.resume,
            "cancel": asked.cancel,
            "undo": asked.undo,
        }
        return steer[verb](operation.id, change)

    def preview(client: BackendClient) -> Preview:
        assert verb != "resume"
        return client.previews.operation(verb, operation.id)

    shrinks = operation.kind is OperationKind.SHRINK
    return Intent(
        title=f"{_TITLES[verb]} operation {operation.id}",
        button=f"{_TITLES[verb]} it",
        target=target,
        touches=operation_lines(operation),
        send=send,
        preview=None if shrinks or verb == "resume" else preview,
        effect=_SHRINK_EFFECTS.get(verb, "") if shrinks else _EFFECTS[verb],
        command=_cancel_command(facts, operation) if verb == "cancel" else None,
    )


def _cancel_command(facts: Facts | None, operation: Operation) -> CommandLine | None:
    """The command that returns what an operation still moves; None where no command does."""
    if facts is None or operation.kind not in _MOVES:
        return None
    left = cancellable(facts, [operation]).intersection(operation.partitions)
    return cancel_command(facts, sorted(left)) if left else None


def operation_lines(operation: Operation) -> tuple[tuple[str, str], ...]:
    """Which operation it is."""
    asked = f"{operation.who or 'unknown'}{': ' if operation.reason else ''}{operation.reason}"
    return (
        ("Operation", operation.summary),
        ("Asked by", asked),
        ("Partitions", counted(sorted(operation.partitions))),
        ("Throttle", limit_text(operation.throttle_bytes_per_s)),
    )


def abandon_intent(target: TargetCluster, operation: Operation, brokers: Sequence[int]) -> Intent:
    """End an operation although brokers that are gone for good still have its throttle."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.operations.abandon(operation.id, brokers, change)

    return Intent(
        title=f"Abandon operation {operation.id}",
        button="Abandon it",
        target=target,
        touches=(("Operation", operation.summary), ("Brokers", counted(list(brokers)))),
        send=send,
        effect="Its throttle stays in the configuration of these brokers. If one of them comes "
        "back, only you can remove it.",
        typed=(operation.id, short_name(target.cluster_id)),
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
        lambda brokers: abandon_intent(target, operation, brokers),
        goal_page(target),
        Page(fields=(field,)),
    )
