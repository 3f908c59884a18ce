"""What a proposal does and what a rehearsal found, in lines for an operator. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.impact import Impact
from kshunt.backend.domain.planning.proposal import Measure
from kshunt.backend.domain.planning.requests import PlanAnswer
from kshunt.backend.domain.text.formatting import bytes_text, listed, many
from kshunt.tui.changes.wizard.parsing import default_caps
from kshunt.tui.facts.brokers.disks import peak_tone
from kshunt.tui.text.glyphs import Glyphs

NAMED: Final = 2
"""Partitions that are named one by one; the rest is counted."""

PHASES_NAMED: Final = 5


class TonedLine(NamedTuple):
    """A line and its tone."""

    text: str
    tone: str = ""


def summary(answer: PlanAnswer, glyphs: Glyphs) -> list[TonedLine]:
    """The proposal as a whole, what is wrong with it in `!`."""
    proposal, impact = answer.proposal, answer.impact
    lines = [
        TonedLine(proposal.sentence, "strong"),
        TonedLine(measure_text(proposal.measure, glyphs)),
    ]
    if not proposal.targets:
        return lines
    lines += [TonedLine(_leaders(impact)), _racks(impact), _min_isr(impact), _fullest(impact)]
    return [*lines, TonedLine(_phases(impact))] if len(impact.phases) > 1 else lines


def measure_text(measure: Measure, glyphs: Glyphs) -> str:
    """`Bytes left on the drained brokers: 71.2 GB → 0 B`."""

    def value(number: float) -> str:
        return bytes_text(number) if measure.in_bytes else f"{number:,.6g}"

    name = f"{measure.name[:1].upper()}{measure.name[1:]}"
    return f"{name}: {value(measure.before)} {glyphs.arrow} {value(measure.after)}"


def _leaders(impact: Impact) -> str:
    moved = many(impact.leaders_moved, "leader")
    preferred = many(impact.preferred_moved, "partition")
    gets = "gets" if impact.preferred_moved == 1 else "get"
    return f"Leaders: {moved} must move, {preferred} {gets} another preferred leader."


def _phases(impact: Impact) -> str:
    """How many partitions move in each phase, with the default caps."""
    count, named = len(impact.phases), impact.phases[:PHASES_NAMED]
    more = " and so on" if count > len(named) else ""
    sizes = ", ".join(map(str, named))
    return f"With {default_caps()} moves at a time, {count} phases: {sizes} partitions{more}."


def _racks(impact: Impact) -> TonedLine:
    more = f", {many(impact.more_racks, 'partition')} more" if impact.more_racks else ""
    if not impact.fewer_racks:
        return TonedLine(f"Racks: no partition spans fewer{more}.")
    return TonedLine(f"! Racks: {_named(impact.fewer_racks)} fewer{more}.", "warn")


def _min_isr(impact: Impact) -> TonedLine:
    if impact.under_min_isr:
        return TonedLine(f"! Under min.insync.replicas: {_named(impact.under_min_isr)}.", "bad")
    if impact.on_the_edge:
        return TonedLine(
            f"! No spare replica during the move: {_named(impact.on_the_edge)}.", "warn"
        )
    return TonedLine("Min ISR: every partition keeps a spare replica during the move.")


def _named(partitions: Sequence[TopicPartition]) -> str:
    """`12 partitions (orders-3, orders-4 and 10 more)`."""
    return f"{many(len(partitions), 'partition')} ({listed(partitions, NAMED)})"


def _fullest(impact: Impact) -> TonedLine:
    """The broker whose disks become fullest, or that this is not known."""
    known = [row for row in impact.brokers if row.peak_share is not None]
    if not known:
        return TonedLine("Disks: their sizes are unknown.")
    worst = max(known, key=lambda row: row.peak_share or 0.0)
    share = worst.peak_share or 0.0
    tone = peak_tone(share)
    sign = "! " if tone else ""
    peak = bytes_text(worst.bytes_peak)
    return TonedLine(
        f"{sign}Fullest at its peak: broker {worst.broker}, {share:.0%} ({peak}).", tone
    )


def clock_after(from_ms: int, seconds: float) -> str:
    """The time of day in UTC, `seconds` after a moment: `14:35`, or `+1d 02:10` on a later day."""
    start = datetime.fromtimestamp(from_ms / 1000, UTC)
    then = datetime.fromtimestamp(from_ms / 1000 + seconds, UTC)
    days = (then.date() - start.date()).days
    return f"+{days}d {then:%H:%M}" if days else f"{then:%H:%M}"
