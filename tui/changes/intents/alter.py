"""A topic that gets more partitions, or another replication factor: its wizard and its intent.

Partitions that wait to be deleted (KIP-694) are taken back by the same wizard, as `kafka-topics`
takes them back: by the number of partitions that the topic is to keep.

Copies that the cluster itself starts cannot be throttled from their first byte on. So with a
throttle a reassignment changes the replication factor; the backend plans, throttles and ends it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.domain.text.formatting import listed, many, rate_text
from kshunt.backend.domain.topics.alteration import UNCHANGED, AlteredTopic
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.command_line import partitions_command
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard
from kshunt.tui.changes.wizard.parsing import RATE_HINT, a_rate, number_within
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient


SEEN_WITHIN_S: Final = 20.0
"""How long the backend may take to see partitions that were just added."""
LOOK_S: Final = 0.5
PARTITIONS_MOST = 100_000
"""More than one request can add."""


@dataclass(frozen=True, slots=True)
class Present:
    """A topic as it is."""

    topic: str
    partitions: int
    factor: int
    """Replicas of its first partition, without those that a move adds."""
    brokers: int
    """How many brokers are up."""
    moving: bool = False
    """Whether anything moves in the cluster."""
    read_only: int = 0
    """Of its partitions, the last ones that can only be read, until they are deleted."""
    going: int = 0
    """Of its partitions, those whose records are being deleted."""

    @property
    def readable(self) -> int:
        """How many partitions have their records."""
        return self.partitions - self.going

    @property
    def stays(self) -> int:
        """How many partitions it keeps, if nothing changes."""
        return self.readable - self.read_only


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator wants the topic to become."""

    partitions: int
    factor: int
    throttle_bytes_per_s: int | None = None
    """Of what is copied; it is lifted when that is done."""
    reason: str = ""


def alter_wizard(target: TargetCluster, present: Present, glyphs: Glyphs) -> Wizard:
    """More partitions, another replication factor, and a throttle for what is copied."""

    def build(partitions: int, factor: int, throttle: int | None, reason: str) -> Intent:
        wanted = Wanted(partitions, factor, throttle, reason)
        return alter_intent(present, target, wanted, glyphs)

    has = (
        f"{present.topic} has {many(present.partitions, 'partition')} of"
        f" {many(present.factor, 'replica')}."
    )
    hint = f"{present.stays} changes nothing; fewer is a shrink"
    if present.read_only:
        waiting = many(present.read_only, "partition")
        are = "is" if present.read_only == 1 else "are"
        has += f" {waiting} {are} read-only until the cluster deletes {_them(present.read_only)}."
        hint = f"{present.stays} changes nothing; {present.readable} takes back the deletion"
    count = FormField(
        "Partitions",
        str(present.stays),
        hint,
        lambda text: number_within(text, present.stays, PARTITIONS_MOST),
    )
    factor = FormField(
        "Replication factor",
        str(present.factor),
        f"1 to {present.brokers}; {present.factor} changes nothing",
        lambda text: number_within(text, 1, max(present.brokers, present.factor)),
    )
    throttle = FormField(
        "Throttle of the copies", "none", f"{RATE_HINT}; removed when done", a_rate
    )
    reason = FormField("Reason", "", "the reason, for the audit; may be empty", str.strip)
    return Wizard(
        f"Alter {present.topic}",
        build,
        Page((has,), (count, factor)),
        Page((has,), (throttle, reason)),
    )


def alter_intent(present: Present, target: TargetCluster, wanted: Wanted, glyphs: Glyphs) -> Intent:
    """Give a topic more partitions, or another replication factor, or both.

    Raises:
        BadInput: nothing would change, or the topic cannot grow while it loses partitions.
    """
    if wanted.partitions > present.stays != present.partitions:
        return _keep_intent(present, target, wanted, glyphs)
    altered = AlteredTopic(
        UNCHANGED if wanted.partitions == present.stays else wanted.partitions,
        UNCHANGED if wanted.factor == present.factor else wanted.factor,
    )
    if altered == AlteredTopic():
        raise BadInput(
            f"{present.topic} already has these partitions and replicas.",
            advice="Type more partitions, or another factor.",
        )
    copies = altered.replication_factor != UNCHANGED and wanted.throttle_bytes_per_s is not None
    throttled = _Throttled(present, altered, wanted) if copies else None

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        if throttled is not None:
            return throttled.send(client, change)
        return client.topics.alter({present.topic: altered}, change)

    changes = _changes(present, altered, glyphs)
    return Intent(
        title=f"Alter {present.topic}",
        button="Alter it",
        target=target,
        touches=(
            ("Topic", present.topic),
            *changes,
            *([("Throttle", _throttle_words(wanted))] if _copies(present, altered) else []),
        ),
        send=send,
        preview=throttled.preview if throttled is not None and not throttled.grows else None,
        changes={present.topic: ", ".join(f"{name.lower()} {text}" for name, text in changes)},
        effect=_effect(present, altered),
        reason=wanted.reason,
        # kafka-topics does not change the replication factor.
        command=partitions_command(present.topic, wanted.partitions)
        if altered.replication_factor == UNCHANGED
        else None,
    )


def _keep_intent(present: Present, target: TargetCluster, wanted: Wanted, glyphs: Glyphs) -> Intent:
    """Take back the deletion of partitions whose records are still there.

    Raises:
        BadInput: more partitions are wanted than can be kept, or another factor too.
    """
    topic, count = present.topic, wanted.partitions
    if count > present.readable:
        kept = f"Type {present.readable} to keep those that can still be read."
        raise BadInput(
            f"{topic} is losing partitions. It cannot grow before they are deleted.",
            advice=kept if present.read_only else "Try again when they are deleted.",
        )
    if wanted.factor != present.factor:
        raise BadInput(
            "Take back the deletion first, and change the replication factor after that.",
            advice=f"Type {present.factor} as the replication factor.",
        )

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        return client.shrinks.delete_partitions(
            {topic: DeletePartitions(count)}, change
        ).as_change()

    names = listed(TopicPartition(topic, number) for number in range(present.stays, count))
    return Intent(
        title=f"Keep partitions of {topic}",
        button="Keep them",
        target=target,
        touches=(
            ("Topic", topic),
            ("Partitions", f"{present.stays} {glyphs.arrow} {count}"),
            ("No longer deleted", names),
        ),
        send=send,
        effect="Producers can write to them again. No record of them is lost.",
        reason=wanted.reason,
        command=partitions_command(topic, count),
    )


class _Throttled:
    """Another replication factor, by a reassignment; more partitions before it."""

    def __init__(self, present: Present, altered: AlteredTopic, wanted: Wanted) -> None:
        self._present, self._altered, self._wanted = present, altered, wanted
        self._plan: ReassignmentPlan | None = None
        self.grows = altered.partitions != UNCHANGED

    def preview(self, client: BackendClient) -> Preview:
        """What the reassignment would touch."""
        # Each preview is of a plan that was made just before it.
        self._plan = None
        return client.previews.start(self._planned(client), self._wanted.throttle_bytes_per_s)

    def send(self, client: BackendClient, change: Change) -> ChangeAnswer:
        """First the partitions, as they are empty; then the replicas."""
        topic = self._present.topic
        if not self.grows:
            return self._reassigned(client, change)
        if change.validate_only:
            return client.topics.alter({topic: self._altered}, change)
        more = AlteredTopic(self._altered.partitions)
        grown = client.topics.alter({topic: more}, change)
        if grown.failures:
            return grown
        self._plan = _seen_plan(client, topic, self._wanted)
        missing = self._wanted.partitions - len(self._plan.replicas)
        moved = self._reassigned(client, replace(change, preview=""))
        notes = (f"It has {many(self._wanted.partitions, 'partition')}.", *moved.notes)
        if missing > 0:
            notes += (f"{many(missing, 'partition')} keep their replicas: alter it again.",)
        return replace(moved, results=(*grown.results, *moved.results), notes=notes)

    def _planned(self, client: BackendClient) -> ReassignmentPlan:
        if self._plan is None:
            self._plan = _plan_of(client, self._present.topic, self._wanted.factor)
        return self._plan

    def _reassigned(self, client: BackendClient, change: Change) -> ChangeAnswer:
        return client.reassignments.start(
            self._planned(client),
            change,
            throttle_bytes_per_s=self._wanted.throttle_bytes_per_s,
            additional=self._present.moving,
        )


def _plan_of(client: BackendClient, topic: str, factor: int) -> ReassignmentPlan:
    from kshunt.backend.domain.planning.goals import Goal
    from kshunt.backend.domain.planning.requests import PlanRequest

    request = PlanRequest(Goal.REPLICATION_FACTOR, topics=(topic,), factors={topic: factor})
    return client.plans.propose(request).plan


def _seen_plan(client: BackendClient, topic: str, wanted: Wanted) -> ReassignmentPlan:
    """The plan of every partition, once the backend has seen those that were added."""
    until_s = time.monotonic() + SEEN_WITHIN_S
    while True:
        plan = _plan_of(client, topic, wanted.factor)
        if len(plan.replicas) >= wanted.partitions or time.monotonic() > until_s:
            return plan
        time.sleep(LOOK_S)


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _changes(present: Present, altered: AlteredTopic, glyphs: Glyphs) -> list[tuple[str, str]]:
    pairs = (
        ("Partitions", present.stays, altered.partitions),
        ("Replication factor", present.factor, altered.replication_factor),
    )
    return [
        (name, f"{before} {glyphs.arrow} {after}")
        for name, before, after in pairs
        if after != UNCHANGED
    ]


def _copies(present: Present, altered: AlteredTopic) -> bool:
    return altered.replication_factor > present.factor


def _throttle_words(wanted: Wanted) -> str:
    if wanted.throttle_bytes_per_s is None:
        return "none"
    return f"{rate_text(wanted.throttle_bytes_per_s)}, removed when the move ends"


def _effect(present: Present, altered: AlteredTopic) -> str:
    """What cannot be taken back, and what it costs."""
    said = []
    if altered.partitions != UNCHANGED:
        said.append("From now on, records with keys go to other partitions.")
    if altered.replication_factor != UNCHANGED:
        more = altered.replication_factor > present.factor
        said.append(
            "New replicas copy whole partitions."
            if more
            else "Replicas are removed, with their data."
        )
    return " ".join(said)
