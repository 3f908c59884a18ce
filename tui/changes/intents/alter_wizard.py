"""The wizard by which a topic gets more partitions, or another replication factor."""

from __future__ import annotations

from kshunt.backend.domain.text.formatting import many
from kshunt.tui.changes.intents.alter import Present, Wanted, alter_intent
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard
from kshunt.tui.changes.wizard.parsing import RATE_HINT, a_rate, number_within
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.text.glyphs import Glyphs

PARTITIONS_MOST = 100_000
"""More than one request can add."""


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
