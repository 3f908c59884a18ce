"""The safety view of a shrink in lines: what speaks against it, what goes, who reads and writes it.

Pure. What matters stands first: refusals, then what goes and who is concerned, then each partition
and each group on a line of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeVar

from kshunt.backend.domain.shrink.check import (
    DoomedPartition,
    Finding,
    GroupLag,
    KeyUse,
    Severity,
    ShrinkCheck,
)
from kshunt.backend.domain.shrink.phases import (
    POINT_OF_NO_RETURN,
    CutOver,
    ShrinkRequest,
    phases_of,
)
from kshunt.backend.domain.text.formatting import (
    UNKNOWN,
    bytes_text,
    count_text,
    duration_text,
    many,
)
from kshunt.backend.domain.topics.partitioners import KeyPlacing
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.fitting import fit_middle
from kshunt.tui.text.glyphs import Glyphs

ROWS_MOST: Final = 40
"""Partitions, and groups, that are listed one by one."""
NAME_CELLS: Final = 18
WORDS_LINES: Final = 5
"""The most lines of one finding; its advice gets the same number."""

T = TypeVar("T")

_LABELS: Final = {Severity.REFUSE: "Refused", Severity.WARN: "Warning", Severity.NOTE: "Note"}
_TONES: Final = {Severity.REFUSE: "bad", Severity.WARN: "warn", Severity.NOTE: ""}


def headline(check: ShrinkCheck, insisted: Collection[str]) -> tuple[str, str]:
    """Whether it can be started, in one line, and its tone."""
    refusals = check.refusals(insisted)
    warnings = sum(1 for one in check.findings if one.severity is Severity.WARN)
    more = f", {many(warnings, 'warning')}" if warnings else ""
    if refusals:
        return f"It cannot start: {many(len(refusals), 'refusal')}{more}.", "bad"
    over = sum(1 for one in check.findings if one.severity is Severity.REFUSE)
    insist = f"{many(over, 'refusal')} overruled" if over else "nothing refuses it"
    return f"It can start: {insist}{more}.", "warn" if warnings or over else "good"


def insist_hint(check: ShrinkCheck) -> str:
    """What an operator may type to overrule what was found."""
    found = [one for one in check.findings if one.severity is Severity.REFUSE and one.insistable]
    if not found:
        return "none: there is no refusal that you can overrule"
    return f"none, or codes: {', '.join(one.code for one in found)}"


def partitioner_hint(check: ShrinkCheck) -> str:
    """What an operator may type for the partitioner, with how many keys speak for each."""
    hits = ", ".join(f"{one.partitioner} ({one.keys:,})" for one in check.partitioners)
    if not check.distinct_keys:
        return "found, or murmur2, crc32, fnv1a; kshunt saw no key"
    return f"found, or one of {hits} of {many(check.distinct_keys, 'key')}"


def safety_lines(check: ShrinkCheck, request: ShrinkRequest, glyphs: Glyphs) -> list[PaneLine]:
    """Everything, the most urgent first."""

    def found(*severities: Severity) -> Iterable[PaneLine]:
        for one in check.findings:
            if one.severity in severities:
                yield from _finding(one, request.insisted)

    return [
        *found(Severity.REFUSE),
        *_summary(check),
        *found(Severity.WARN),
        *_phases(check, request),
        *found(Severity.NOTE),
        *_partitions(check),
        *_groups(check, glyphs),
    ]


def _finding(one: Finding, insisted: Collection[str]) -> Iterable[PaneLine]:
    label, tone, advice = _LABELS[one.severity], _TONES[one.severity], one.advice
    if one.severity is Severity.REFUSE and one.insistable:
        if one.code in insisted:
            label, tone = "Overruled", "warn"
        else:
            advice = f"{advice} Overrule: {one.code}.".strip()
    yield PaneLine(label, one.words, tone, WORDS_LINES)
    if advice:
        yield PaneLine("", advice, "dim", WORDS_LINES)


def _summary(check: ShrinkCheck) -> Iterable[PaneLine]:
    count = len(check.partitions)
    writing = sum(1 for one in check.partitions if one.written_meanwhile or one.producers)
    held = f"{count_text(check.doomed_records)} records, {bytes_text(check.doomed_bytes)}"
    known = all(one.producers is not None for one in check.partitions)
    written = "; no writer seen" if known else "; the writers are unknown"
    if writing:
        written = f"; {writing:,} written to recently"
    yield PaneLine("Goes", f"{_range(check)}: {held}{written}", "warn" if writing else "", 2)
    if check.native and count:
        yield PaneLine("", "These records are LOST: nothing is copied.", "bad", 2)
    yield PaneLine("Readers", _readers(check), "warn" if _active(check) else "", 2)
    if not check.native:
        yield PaneLine("Copy", _copy(check), "", 2)
    yield PaneLine("Keys", _keys(check), "", 2)


def _range(check: ShrinkCheck) -> str:
    numbers = [one.number for one in check.partitions]
    if not numbers:
        return "no partition"
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    return f"partitions {numbers[0]} to {numbers[-1]}"


def _active(check: ShrinkCheck) -> int:
    return sum(1 for one in check.groups if one.active)


def _readers(check: ShrinkCheck) -> str:
    if not check.groups:
        return "no consumer group has committed offsets or reads it"
    behind = sum(1 for one in check.groups if one.unread_doomed)
    words = [many(len(check.groups), "consumer group")]
    words.append(
        f"{behind:,} with unread records on partitions to remove"
        if behind
        else "all records were read"
    )
    active = _active(check)
    words.append(f"{active:,} with members" if active else "none with members")
    return ", ".join(words)


def _copy(check: ShrinkCheck) -> str:
    records = f"{count_text(check.total_records)} records, {bytes_text(check.total_bytes)}"
    takes = "" if check.copy_ms is None else f", about {duration_text(check.copy_ms / 1000)}"
    return f"{records}{takes}; {bytes_text(check.copy_bytes)} on the disks of all brokers"


def _keys(check: ShrinkCheck) -> str:
    return f"{_use_of_keys(check)}{_placed(check)}"


def _placed(check: ShrinkCheck) -> str:
    """By which partitioner the keys of a copy are placed."""
    if check.native or not check.distinct_keys:
        return ""
    about = {
        KeyPlacing.ONE: "which they follow",
        KeyPlacing.MIXED: "and they follow several",
        KeyPlacing.OTHER: "which they do not follow",
        KeyPlacing.UNKNOWN: "and too few tell",
    }
    return f"; placed by {check.partitioner}, {about[check.placing]}"


def _use_of_keys(check: ShrinkCheck) -> str:
    seen = f" ({check.sampled:,} checked)" if check.sampled else ""
    match check.keys:
        case KeyUse.ALL:
            return f"all of the newest records have keys{seen}"
        case KeyUse.SOME:
            return f"some of the newest records have keys{seen}"
        case KeyUse.NONE:
            return f"none of the newest records has a key{seen}"
        case _:
            return "unknown: kshunt saw no record"


# The phases


def _phases(check: ShrinkCheck, request: ShrinkRequest) -> Iterable[PaneLine]:
    """What will be done, and where the way back ends."""
    if check.native:
        delay = duration_text(request.delay_ms / 1000)
        if request.delay_ms:
            yield PaneLine("Then", f"They can be read for {delay} more, but not written.", "", 2)
        yield PaneLine("NO RETURN", f"{_gone(check)}: the cluster deletes them.", "bad", 2)
        return
    before, from_here = _parts(request)
    yield PaneLine("Phases", f"{', '.join(before)}. Until then p pauses and c cancels it.", "", 4)
    if request.cut_over is CutOver.NEW_NAME:
        words = f"Nothing is deleted: {request.topic} stays, read-only; {request.target} is new."
        yield PaneLine("", words, "", 2)
        return
    words = f"{request.topic} is deleted after you type its name, if its copy is equal."
    yield PaneLine("NO RETURN", words, "bad", 3)
    yield PaneLine("", f"Then, without you: {', '.join(from_here[1:])}.", "", 3)


def _gone(check: ShrinkCheck) -> str:
    text = _range(check)
    return f"{text[:1].upper()}{text[1:]}"


def _parts(request: ShrinkRequest) -> tuple[list[str], list[str]]:
    """Names of the phases before the point of no return, and from it on."""
    phases = phases_of(request.cut_over)
    place = phases.index(POINT_OF_NO_RETURN) if POINT_OF_NO_RETURN in phases else len(phases)
    delay = duration_text(request.delay_ms / 1000)
    words = {
        "quiesce": f"quiesce (no write for {delay}{', ACL' if request.write_block else ''})",
        "confirm": f"confirm (you type {request.topic})",
    }
    named = [words.get(one.value, one.value) for one in phases]
    return named[:place], named[place:]


# Partition by partition, group by group


def _partitions(check: ShrinkCheck) -> Iterable[PaneLine]:
    if not check.partitions:
        return
    head = f"{'Part':>5} {'Records':>11} {'Size':>9} {'Expires':>8} {'Written':>8} Producers"
    yield PaneLine("Goes", head, "dim")
    for one in _first(check.partitions):
        writes = bool(one.written_meanwhile or one.producers or one.open_transaction_at is not None)
        yield PaneLine("", _partition(check, one), "warn" if writes else "")
    yield from _more(check.partitions, "partition")


def _partition(check: ShrinkCheck, one: DoomedPartition) -> str:
    written = one.written_meanwhile
    return (
        f"{one.number:>5} {count_text(one.records):>11} {bytes_text(one.size_bytes):>9}"
        f" {_expires(check, one):>8} {UNKNOWN if written is None else f'+{written:,}':>8}"
        f" {_producers(one)}"
    )


def _expires(check: ShrinkCheck, one: DoomedPartition) -> str:
    """Until retention has deleted its last record."""
    if one.expires_in_ms is not None:
        return duration_text(one.expires_in_ms / 1000)
    if one.records == 0:
        return "-"
    return "never" if check.retention_ms is None and not check.unread else UNKNOWN


def _producers(one: DoomedPartition) -> str:
    if one.producers is None:
        return UNKNOWN
    transaction = ", open txn" if one.open_transaction_at is not None else ""
    return f"{len(one.producers) or '-'}{transaction}"


def _groups(check: ShrinkCheck, glyphs: Glyphs) -> Iterable[PaneLine]:
    if not check.groups:
        return
    name = "Group".ljust(NAME_CELLS)
    head = f"{name} {'Committed':>9} {'Unread there':>12} {'Unread':>9} {'Members':>7}"
    yield PaneLine("Groups", head, "dim")
    for one in _first(check.groups):
        yield PaneLine("", _group(check, one, glyphs), "warn" if one.active else "")
    yield from _more(check.groups, "group")


def _group(check: ShrinkCheck, one: GroupLag, glyphs: Glyphs) -> str:
    doomed = {partition.number for partition in check.partitions}
    committed = f"{sum(1 for at in one.committed if at.partition in doomed)}/{len(doomed)}"
    members = f"{len(one.members):,}" if one.members or not one.active else one.state[:7]
    return (
        f"{fit_middle(one.name, NAME_CELLS, glyphs)} {committed:>9} "
        f"{count_text(one.unread_doomed):>12} {count_text(one.unread_all):>9} {members:>7}"
    )


def _first(rows: Sequence[T]) -> Sequence[T]:
    return rows if len(rows) <= ROWS_MOST else rows[: ROWS_MOST - 1]


def _more(rows: Sequence[object], noun: str) -> Iterable[PaneLine]:
    left = len(rows) - len(_first(rows))
    if left:
        yield PaneLine("", f"and {many(left, f'more {noun}')}", "dim")
