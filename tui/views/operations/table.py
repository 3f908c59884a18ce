"""The operations view: what the backend was asked to do, and how far it came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.forecast.end_words import HELD, end_text
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkProgress
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    listed,
    percent_done_text,
    rate_text,
)
from kshunt.backend.domain.throttles.owners import ShownDrift
from kshunt.tui.facts.progress import Progress, held, progress_of
from kshunt.tui.facts.shrink_phases import (
    eta_range,
    phase_now,
    share_of,
)
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, Order, RowKey, Unit

_KINDS: Final = {
    "throttled_rates": "rates",
    "throttled_replicas": "lists",
    "alter_topics": "topics",
    "delete_partitions": "shrink",
}
TONES: Final = {
    OperationState.QUEUED: "dim",
    OperationState.PAUSING: "warn",
    OperationState.PAUSED: "warn",
    OperationState.CANCELLING: "warn",
    OperationState.UNKNOWN: "bad",
    OperationState.DONE: "good",
    OperationState.CANCELLED: "dim",
    OperationState.PARTLY_CANCELLED: "warn",
    OperationState.CANCELLED_ELSEWHERE: "bad",
    OperationState.SUPERSEDED: "bad",
    OperationState.FAILED: "bad",
}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation, how far it is, and the time by the backend's clock."""

    operation: Operation
    now_ms: int
    progress: Progress | None = None
    """None where it has ended, or moves nothing."""
    drift: tuple[ShownDrift, ...] = ()
    """Its throttles that somebody else changed."""

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return max(self.now_ms - self.operation.started_ms, 0) / 1000

    @property
    def took_s(self) -> float:
        """Seconds from its beginning to its end, or until now."""
        ended = self.operation.ended_ms
        return max((ended or self.now_ms) - self.operation.started_ms, 0) / 1000


def operation_table(
    facts: Facts,
    operations: Sequence[Operation],
    now_ms: int,
    order: Order,
    drift: Sequence[ShownDrift] = (),
) -> ListTable[OperationRow]:
    """Operations: those that have not ended first, and then the newest."""
    newest = sorted(operations, key=lambda operation: (operation.started_ms, operation.id))[::-1]
    rows: dict[RowKey, OperationRow] = {
        operation.id: OperationRow(
            operation,
            now_ms,
            progress_of(facts, operation),
            tuple(one for one in drift if operation.id in one.operations),
        )
        for operation in sorted(newest, key=lambda operation: operation.state.ended)
    }
    claimed = any(operation.claim is not None for operation in operations)
    return ListTable((*FIELDS, CLAIM) if claimed else FIELDS, rows, order, more=_more)


def kind_words(operation: Operation) -> str:
    """Its kind in one word."""
    return _KINDS.get(operation.kind.value, operation.kind.value)


def _more(row: OperationRow) -> list[tuple[str, str]]:
    """Its id, by which the tools name it, and every partition."""
    operation = row.operation
    removal = "removed when the move ends" if operation.auto_remove_throttle else "stays"
    throttled = operation.throttle_bytes_per_s is not None
    return [
        ("Operation", operation.id),
        ("Reason", operation.reason or "-"),
        *(("Note", f"{note.who or '?'}: {note.text}") for note in operation.notes),
        *([("Its throttle", removal)] if throttled else []),
        ("Partitions", listed(operation.partitions, 40) or "-"),
    ]


def left_text(progress: Progress, *, tight: bool = False) -> str:
    """What is left to copy, at least."""
    text = bytes_text(progress.left_bytes, tight=tight)
    return f">{text}" if progress.at_least and progress.left_bytes >= 0 else text


def _shrink_progress(row: OperationRow) -> ShrinkProgress | None:
    """How a shrink stands that has not ended."""
    return None if row.operation.state.ended else row.operation.details.shrink


def _state(row: OperationRow, width: int) -> Cell:
    state = row.operation.state
    progress = _shrink_progress(row)
    if progress is not None and progress.needs:
        return Cell(f"{state.brief} !", "warn")
    tone = "bad" if row.drift else TONES.get(state, "strong")
    return Cell(f"{state.brief} !" if row.drift else state.brief, tone)


def _arrived(row: OperationRow, width: int) -> Cell:
    progress = _shrink_progress(row)
    if progress is not None:
        share = share_of(phase_now(progress))
        words = progress.phase.value if math.isnan(share) else percent_done_text(share)
        both = f"{progress.phase.value} {words}"
        return Cell(both if not math.isnan(share) and len(both) <= width else words[:width])
    if row.progress is None:
        return Cell("")
    return Cell(f"{row.progress.arrived:,}/{row.progress.replicas:,}")


def _left(row: OperationRow, width: int) -> Cell:
    return Cell("" if row.progress is None else left_text(row.progress, tight=width < 10))


def _eta(row: OperationRow, width: int) -> Cell:
    progress = _shrink_progress(row)
    if progress is not None:
        return _phase_eta(row, progress, width)
    if row.progress is None:
        return Cell("")
    if held(row.operation):
        return Cell(HELD, "warn")
    end = row.progress.end
    never = end is not None and end.never > 0
    return Cell(end_text(end, row.now_ms, width), "bad" if never else "")


def _phase_eta(row: OperationRow, progress: ShrinkProgress, width: int) -> Cell:
    """Of the phase that a shrink is in; or that it waits."""
    if held(row.operation):
        return Cell("held", "warn")
    if progress.needs:
        return Cell("waits", "warn")
    phase = phase_now(progress)
    words = eta_range(phase, "-")
    if len(words) > width and phase is not None and phase.eta_ms is not None:
        words = duration_text(phase.eta_ms[1] / 1000)
    return Cell(words)


def _claim(row: OperationRow, width: int) -> Cell:
    """Who steers it; the user alone where there is no room for the host."""
    who = row.operation.claim.who if row.operation.claim is not None else ""
    return Cell(who if len(who) <= width else who.partition("@")[0], "strong")


def _waiting(row: OperationRow, width: int) -> Cell:
    return Cell(f"{row.operation.waiting:,}" if row.operation.waiting else "")


def _throttle(row: OperationRow, width: int) -> Cell:
    rate = row.operation.throttle_bytes_per_s
    if rate is None:
        return Cell("-", "dim")
    stays = "" if row.operation.auto_remove_throttle else " kept"
    return Cell(rate_text(rate, tight=width < 10) + (stays if width >= 15 else ""))


def _outcome(row: OperationRow, width: int) -> Cell:
    tone = "bad" if row.operation.state.went_wrong else ""
    return Cell(row.operation.outcome, tone)


def _who(row: OperationRow, width: int) -> Cell:
    """Who asked; the user alone where there is no room for the host."""
    who = row.operation.who
    if not who:
        return Cell("-", "dim")
    return Cell(who if len(who) <= width else who.partition("@")[0])


def _left_value(row: OperationRow) -> int:
    return -2 if row.progress is None else row.progress.left_bytes


def _eta_value(row: OperationRow) -> float:
    if row.progress is None:
        return -2.0
    end = row.progress.end
    if end is None or (end.p50_s is None and not end.never):
        return -1.0
    return math.inf if end.p50_s is None else end.p50_s


FIELDS: Final[tuple[ListColumn[OperationRow], ...]] = (
    ListColumn(
        Column("state", "State", 10, 0, 0),
        _state,
        lambda row: row.operation.state.value,
    ),
    ListColumn(
        Column("kind", "What", 8, 0, 9, extra=True),
        lambda row, width: Cell(kind_words(row.operation)),
        lambda row: kind_words(row.operation),
    ),
    ListColumn(
        Column("summary", "Summary", 20, 70, 0, grows=True, comfort=40, identifies=True),
        lambda row, width: Cell(row.operation.summary),
        lambda row: row.operation.summary,
    ),
    ListColumn(
        Column("arrived", "Copied", 7, 11, 1, 2, right=True, label="Replicas", unit=Unit.COUNT),
        _arrived,
        lambda row: -1 if row.progress is None else row.progress.arrived,
    ),
    ListColumn(
        Column("left", "Left", 7, 10, 1, 2, right=True, label="Bytes left", unit=Unit.BYTES),
        _left,
        _left_value,
    ),
    ListColumn(
        Column("eta", "Done", 5, 19, 1, 1, right=True, unit=Unit.SECONDS),
        _eta,
        _eta_value,
        lambda row: None if held(row.operation) or _eta_value(row) < 0 else _eta_value(row),
    ),
    ListColumn(
        Column("waiting", "Wait", 5, 7, 8, 2, right=True, label="Waiting", unit=Unit.COUNT),
        _waiting,
        lambda row: row.operation.waiting,
    ),
    ListColumn(
        Column("age", "Ago", 6, 0, 2, right=True, unit=Unit.SECONDS),
        lambda row, width: Cell(duration_text(row.age_s)),
        lambda row: row.age_s,
    ),
    ListColumn(
        Column("took", "Took", 6, 0, 5, right=True, extra=True, unit=Unit.SECONDS),
        lambda row, width: Cell(duration_text(row.took_s), "dim"),
        lambda row: row.took_s,
    ),
    ListColumn(
        Column("throttle", "Thr", 6, 15, 6, 4, right=True, label="Throttle", unit=Unit.RATE),
        _throttle,
        lambda row: row.operation.throttle_bytes_per_s or 0,
        lambda row: row.operation.throttle_bytes_per_s or math.inf,
    ),
    ListColumn(
        Column("who", "Who", 10, 24, 3, 3),
        _who,
        lambda row: row.operation.who,
    ),
    ListColumn(
        Column("outcome", "Outcome", 14, 70, 7, grows=True, comfort=24),
        _outcome,
        lambda row: row.operation.outcome,
    ),
)
CLAIM: Final[ListColumn[OperationRow]] = ListColumn(
    Column("claim", "Claimed by", 10, 24, 2, 2),
    _claim,
    lambda row: row.operation.claim.who if row.operation.claim is not None else "",
)
"""Shown where somebody steers an operation."""
