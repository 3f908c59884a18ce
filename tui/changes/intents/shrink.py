"""Intents about a topic that shall have fewer partitions. Pure, as
`kshunt.tui.changes.intents.common_intents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletePartitions,
)
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkProgress, ShrinkRequest
from kshunt.backend.domain.text.formatting import duration_text, many
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.operations.operation import Operation

WITHOUT_RETURN = "Nothing is deleted before somebody types the topic's name; until then it can be"


def shrink_intent(target: TargetCluster, request: ShrinkRequest, there: int, reason: str) -> Intent:
    """Let a topic have fewer partitions, by copying it."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.shrinks.start(request, change)

    return Intent(
        title=_title(request, there),
        button="Start it",
        target=target,
        touches=(("Topic", request.topic),),
        send=send,
        effect=f"{WITHOUT_RETURN} paused, and cancelled.",
        reason=reason,
        shrink=request,
        phased=True,
    )


def delete_intent(target: TargetCluster, request: ShrinkRequest, there: int, reason: str) -> Intent:
    """Let the cluster itself delete a topic's last partitions, with what they hold."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        wanted = {request.topic: DeletePartitions(request.total_count, request.delay_ms)}
        return client.shrinks.delete_partitions(wanted, change).as_change()

    goes = many(there - request.total_count, "partition")
    when = f"in {duration_text(request.delay_ms / 1000)}" if request.delay_ms else "immediately"
    return Intent(
        title=_title(request, there),
        button="Delete them",
        target=target,
        touches=(("Topic", request.topic),),
        send=send,
        effect=f"The records of {goes} are LOST {when}: nothing is copied.",
        reason=reason,
        typed=(request.topic,),
        shrink=request,
    )


def _title(request: ShrinkRequest, there: int) -> str:
    return f"Shrink {request.topic} from {there} to {many(request.total_count, 'partition')}"


def confirm_intent(target: TargetCluster, operation: Operation, progress: ShrinkProgress) -> Intent:
    """Agree to what a shrink cannot take back."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.shrinks.confirm(operation.id, progress.topic, change)

    what = "Continue with" if progress.past_no_return else "Cut over"
    return Intent(
        title=f"{what} {progress.topic}: operation {operation.id}",
        button=what,
        target=target,
        touches=(("Topic", progress.topic),),
        send=send,
        typed=(progress.topic,),
    )


def way_of(name: str) -> CutOver:
    """How it is cut over; `name` is that of the smaller topic, empty for the same."""
    return CutOver.NEW_NAME if name else CutOver.SAME_NAME
