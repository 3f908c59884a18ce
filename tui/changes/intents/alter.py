"""A topic that gets more partitions, or another replication factor: its wizard and its intent.

What a cluster places by itself cannot be throttled from its first byte on. So with a throttle the
replication factor is changed by a reassignment, which the backend plans, throttles and ends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.text.formatting import many, rate_text
from kshunt.backend.domain.topics.alteration import UNCHANGED, AlteredTopic
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard
from kshunt.tui.changes.wizard.parsing import RATE_HINT, a_rate, number_within
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient


SEEN_WITHIN_S: Final = 20.0
"""So long it may take until the backend has seen partitions that were just added."""
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What it shall become."""

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
    count = FormField(
        "Partitions",
        str(present.partitions),
        f"{present.partitions} changes nothing; fewer is a shrink",
        lambda text: number_within(text, present.partitions, PARTITIONS_MOST),
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
        BadInput: nothing would change.
    """
    altered = AlteredTopic(
        UNCHANGED if wanted.partitions == present.partitions else wanted.partitions,
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
    from kshunt.backend.domain.planning.requests import Goal, PlanRequest

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


def _changes(present: Present, altered: AlteredTopic, glyphs: Glyphs) -> list[tuple[str, str]]:
    pairs = (
        ("Partitions", present.partitions, altered.partitions),
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
