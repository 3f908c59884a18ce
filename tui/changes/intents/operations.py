"""Intents about operations, and about throttles that are not as they should be.

Pure, as `kshunt.tui.changes.intents.common_intents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import limit_text, many
from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
from kshunt.tui.changes.wizard.intent import (
    NAMES_MOST,
    Intent,
    TargetCluster,
    counted,
    short_name,
)
from kshunt.tui.facts.drift_words import (
    ORIGINS,
    change_words,
    owner_words,
    setting_words,
    value_words,
)
from kshunt.tui.shell.dashboard import OperationVerb
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient

_VERBS: Final[tuple[OperationVerb, ...]] = ("pause", "resume", "cancel", "undo")
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


def operation_intent(target: TargetCluster, operation: Operation, verb: OperationVerb) -> Intent:
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
    )


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


def drift_intent(
    target: TargetCluster, drift: Sequence[ShownDrift], glyphs: Glyphs, *, ours: bool
) -> Intent:
    """Put our throttle back where it drifted (`ours`), or keep what somebody else set."""
    ids = [one.id for one in drift]

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.reapply_or_accept_drift(ids, change, ours=ours)

    whose = sorted({id for one in drift for id in one.operations})
    what = f"{many(len(drift), 'throttle')} that somebody else changed"
    return Intent(
        title=f"Restore {what}" if ours else f"Keep {what}",
        button="Restore ours" if ours else "Keep theirs",
        target=target,
        touches=(
            ("Needed by", owner_words(whose) or "-"),
            *((setting_words(one), change_words(one, glyphs)) for one in drift),
        ),
        send=send,
        effect="Their values are overwritten, and kshunt removes ours when the operation ends."
        if ours
        else "Nothing is written; their values stay when the operation ends.",
    )


def orphans_intent(
    target: TargetCluster, orphans: Sequence[ShownOrphan], *, every: bool = False
) -> Intent:
    """Take off throttles that no move justifies; `every` one has to be meant."""
    ids = [one.id for one in orphans]

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.remove_orphans(ids, change)

    return Intent(
        title=f"Remove {many(len(orphans), 'orphan throttle')}",
        button="Remove",
        target=target,
        touches=_orphan_lines(orphans),
        send=send,
        effect="A rate is deleted from the broker's own configuration; replicas are removed from "
        "the topic's list. kshunt keeps what a move needs at that time.",
        typed=(short_name(target.cluster_id),) if every else (),
    )


def _orphan_lines(orphans: Sequence[ShownOrphan]) -> tuple[tuple[str, str], ...]:
    """What each is; those beyond the first ones are in the items below."""
    lines = [
        (setting_words(one), f"{value_words(one.present_value)}, {ORIGINS[one.origin]}")
        for one in orphans[:NAMES_MOST]
    ]
    more = len(orphans) - len(lines)
    return (*lines, *([("and", f"{more:,} more")] if more else ()))


def adopt_intent(target: TargetCluster, moves: int) -> Intent:
    """Take over the throttle of moves that somebody else started."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.throttles.adopt(None, change)

    return Intent(
        title=f"Take over the throttle of {many(moves, 'move')}",
        button="Take over",
        target=target,
        touches=(("Moves", f"{moves:,} that no operation of kshunt owns"),),
        send=send,
        effect="Nothing is moved or cancelled. kshunt removes their throttle when they end; the "
        "changes are below. Nobody needs to run --verify for them.",
    )
