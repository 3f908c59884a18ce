"""A topic that gets fewer partitions, by a copy or by the cluster: its wizards and its intents.

Pure, as `kshunt.tui.changes.intents.reassignment`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkProgress, ShrinkRequest
from kshunt.backend.domain.text.formatting import duration_text, many
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.command_line import CommandLine, partitions_command
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard
from kshunt.tui.changes.wizard.parsing import (
    DELAY_HINT,
    SAME,
    a_delay,
    a_new_name,
    codes,
    fewer_than,
    yes_or_no,
)
from kshunt.tui.changes.wizard.shrink_findings import insist_hint, partitioner_hint
from kshunt.tui.dialogs.form import FormField

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient


DELAY: Final = "5m"
"""What KIP-694 waits by itself."""
PARTITIONER: Final = "Keys go by"
FOUND: Final = "found"
"""As the keys of the topic tell."""
PARTITIONER_HINT: Final = (
    "found: as the topic's keys tell; murmur2: Java; crc32: librdkafka; fnv1a: Sarama"
)
INSIST: Final = "Overrule"
INSIST_HINT: Final = "none; the preview shows which refusals you can overrule"
WITHOUT_RETURN = "Nothing is deleted before somebody types the topic's name; until then it can be"


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The topic that the operator wants to shrink."""

    topic: str
    there: int
    """Partitions that it has."""
    known: Collection[str] = ()
    """Every topic that there is."""
    tool_copies: bool = True
    """Whether `kafka-topics` copies, too. It does not where the cluster could delete partitions."""


def shrink_wizard(target: TargetCluster, about: Shrunk) -> Wizard:
    """Copy, verify, and cut over: no record is lost."""
    name = FormField(
        "Name",
        SAME,
        f"{SAME}, or a new topic's name: then nothing is deleted, and the old one stays read-only",
        lambda text: a_new_name(text, about.topic, about.known),
    )
    block = FormField(
        "Reject producers during the copy",
        "no",
        "yes: by an ACL, which needs an authorizer; no: they can write until the cut-over",
        yes_or_no,
    )

    placed = FormField(PARTITIONER, FOUND, PARTITIONER_HINT, a_partitioner)

    def build(
        count: int,
        new: str,
        delay_ms: int,
        blocked: bool,
        partitioner: Partitioner | None,
        insisted: tuple[str, ...],
        why: str,
    ) -> Intent:
        request = ShrinkRequest(
            about.topic,
            count,
            delay_ms,
            way_of(new),
            new,
            blocked,
            insisted,
            partitioner=partitioner,
        )
        intent = shrink_intent(target, request, about.there, why)
        return intent if about.tool_copies else replace(intent, command=None)

    return Wizard(
        f"Shrink {about.topic}",
        build,
        Page((_has(about), "Its records are copied; none is lost."), (_count(about), name)),
        Page((_has(about),), (_delay(DELAY_HINT), block, placed, _insist(), _reason())),
        hints=lambda check: {4: partitioner_hint(check), 5: insist_hint(check)},
    )


def delete_wizard(target: TargetCluster, about: Shrunk) -> Wizard:
    """The cluster deletes partitions itself: what they hold is lost."""

    def build(count: int, delay_ms: int, insisted: tuple[str, ...], why: str) -> Intent:
        request = ShrinkRequest(about.topic, count, delay_ms, insisted=insisted)
        return delete_intent(target, request, about.there, why)

    lost = "The cluster deletes them itself: their records are LOST, not copied."
    hint = "how long they can still be read, but not written: 0, 30s, 5m, 1h30m"
    return Wizard(
        f"Shrink {about.topic}",
        build,
        Page((_has(about), lost), (_count(about),)),
        Page((lost,), (_delay(hint), _insist(), _reason())),
        hints=lambda check: {2: insist_hint(check)},
    )


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
        command=_copy_command(request),
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
        command=_shrink_command(request),
    )


def _shrink_command(request: ShrinkRequest, *more: str) -> CommandLine:
    delay = ("--delete-partitions-delay", str(request.delay_ms))
    return partitions_command(request.topic, request.total_count, *delay, *more)


def _copy_command(request: ShrinkRequest) -> CommandLine | None:
    """None where `kafka-topics` has no flag for something that was chosen."""
    if request.target or request.write_block or request.insisted:
        return None
    by = request.partitioner
    return _shrink_command(request, *(() if by is None else ("--partitioner", by.value)))


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


def a_partitioner(text: str) -> Partitioner | None:
    """The partitioner to place keys by; None: the one that is found.

    Raises:
        BadInput: there is no such partitioner.
    """
    typed = text.strip().lower()
    if typed in ("", FOUND):
        return None
    if typed not in tuple(Partitioner):
        raise BadInput(f"Type {FOUND}, or one of {', '.join(Partitioner)}.")
    return Partitioner(typed)


def _has(about: Shrunk) -> str:
    return f"{about.topic} has {many(about.there, 'partition')}."


def _count(about: Shrunk) -> FormField:
    hint = f"1 to {about.there - 1}"
    return FormField("Partitions to keep", "", hint, lambda text: fewer_than(text, about.there))


def _delay(hint: str) -> FormField:
    return FormField("Delay", DELAY, hint, a_delay)


def _insist() -> FormField:
    return FormField(INSIST, "none", INSIST_HINT, codes)


def _reason() -> FormField:
    return FormField("Reason", "", "the reason, for the audit; may be empty", str.strip)
