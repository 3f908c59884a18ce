"""The audit's lines in the journal: those that are there, and the number of the next one.

Goals
    Every line that was ever written is listed, also one that the journal cannot read. Lines keep
    their order although clocks are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.backend.domain.audit.lines import (
    OUTCOME_MAX,
    AuditEntry,
    AuditRow,
    UnreadableAudit,
    clipped,
    place_of,
    read_line,
)
from kshunt.backend.operations.journal.entries import Body, EntryKind, JournalState, Unreadable

CLOCK_SET_MS: Final = 60 * 60 * 1000
"""An entry further ahead than this was written by a clock that was wrong, and holds back none."""
NUMBER_MAX: Final = 9_999
"""Of the entries of one millisecond; keys of four digits sort as their numbers do."""
_PREFIX: Final = f"{EntryKind.AUDIT}/"


def read_audit(state: JournalState) -> tuple[AuditRow, ...]:
    """Every line of the journal, newest last; those whose time is not known come first."""
    rows: list[AuditRow] = [
        read_line(entry.key, entry.body) for entry in state.of(EntryKind.AUDIT).values()
    ]
    rows += [_unread(key, state.unreadable[key]) for key in _unreadable_keys(state)]
    rows += [_unread(key, one) for key, one in state.aside.items() if key.startswith(_PREFIX)]
    return tuple(sorted(rows, key=_order))


def _unreadable_keys(state: JournalState) -> list[str]:
    return [key for key in state.unreadable if key.startswith(_PREFIX)]


def _unread(key: str, unreadable: Unreadable) -> UnreadableAudit:
    detail = clipped(unreadable.detail, OUTCOME_MAX)
    return UnreadableAudit(key, place_of(key), unreadable.why, detail)


def _order(row: AuditRow) -> tuple[int, int, str]:
    if isinstance(row, AuditEntry):
        return row.time_ms, row.number, ""
    return (*(row.place or (-1, -1)), row.key)


def next_number(
    state: JournalState, time_ms: int, *, after: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Time and number of the next entry: later than every one that is there.

    Where the clock was set back, the time is that of the newest entry.

    Args:
        time_ms: the clock's time.
        after: time and number of an entry that the state does not hold yet.
    """
    keys = [*state.entries, *_unreadable_keys(state)]
    places = {place for key in keys if (place := place_of(key)) is not None}
    places |= set() if after is None else {after}
    newest = max((p for p in places if p[0] <= time_ms + CLOCK_SET_MS), default=(-1, 0))
    found = (time_ms, 0) if newest[0] < time_ms else _following(newest)
    while found in places:
        found = _following(found)
    return found


def audited_throttles(body: Body) -> tuple[str, ...]:
    """What the body of a line says of throttles; nothing where it cannot be read."""
    touched = body.get("touched")
    words = touched.get("throttles") if isinstance(touched, Mapping) else None
    return tuple(one for one in words if isinstance(one, str)) if isinstance(words, list) else ()


def _following(place: tuple[int, int]) -> tuple[int, int]:
    time_ms, number = place
    return (time_ms, number + 1) if number < NUMBER_MAX else (time_ms + 1, 0)
