"""The audit as a table: who did what, when and why, newest first. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.text.formatting import duration_text, moment_text
from kshunt.backend.errors import BadInput
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import NATURAL, Cell, Column, RowKey, Unit

LINES_MOST: Final = 5_000
"""Older lines are left to what is written to a file."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)

_BAD: Final = frozenset({"unreadable", "refused", "drift_found"})


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A line, and the time by the backend's clock."""

    line: AuditLine
    now_ms: int

    @property
    def text(self) -> str:
        """What became of it, and why it was asked."""
        return "; ".join(filter(None, (self.line.outcome, self.line.reason))) or self.line.text


Wanted = Callable[[AuditLine, int], bool]
"""Whether a line is shown, by the backend's clock."""


def parse_audit_filter(text: str) -> Wanted:
    """`op:ab12 who:ada since:2h event:started word`: lines to which all of it applies.

    Raises:
        BadInput: a part of it cannot be meant.
    """
    terms = [_term(word) for word in text.split()]
    return lambda line, now_ms: all(term(line, now_ms) for term in terms)


def _term(word: str) -> Wanted:
    name, colon, value = word.lower().partition(":")
    if not colon:
        return lambda line, now_ms: name in _everything(line)
    if not value:
        raise BadInput(f"'{word}' needs a value, such as op:ab12, who:ada or since:2h.")
    match name:
        case "op":
            return lambda line, now_ms: line.operation.lower().startswith(value)
        case "who":
            return lambda line, now_ms: value in line.who.lower()
        case "event":
            return lambda line, now_ms: value in _event(line)
        case "since":
            span_ms = _span_ms(value)
            return lambda line, now_ms: line.time_ms is None or now_ms - line.time_ms <= span_ms
    raise BadInput(f"'{name}:' is not a filter: op:, who:, since:, event:, or a word.")


def _span_ms(value: str) -> int:
    match = _SPAN.fullmatch(value)
    if match is None:
        raise BadInput(f"'since:{value}' is not a time: 30s, 10m, 2h, 7d.")
    return int(match[1]) * _SECONDS[match[2]] * 1000


def _event(line: AuditLine) -> str:
    return line.event.replace("_", " ")


def _everything(line: AuditLine) -> str:
    said = (line.operation, line.kind, line.who, line.text, line.reason, line.outcome)
    return " ".join((*said, *line.touched, _event(line))).lower()


def audit_table(lines: Sequence[AuditLine], wanted: Wanted, now_ms: int) -> ListTable[AuditRow]:
    """The newest lines to which the filter applies, the newest first."""
    first = len(lines) - LINES_MOST
    rows: dict[RowKey, AuditRow] = {
        place: AuditRow(line, now_ms)
        for place, line in reversed(list(enumerate(lines)))
        if place >= first and wanted(line, now_ms)
    }
    return ListTable(FIELDS, rows, NATURAL, more=entry_facts)


def entry_facts(row: AuditRow) -> list[tuple[str, str]]:
    """A whole entry, label by label."""
    line = row.line
    at = "unknown" if line.time_ms is None else moment_text(line.time_ms)
    ago = "" if line.time_ms is None else f" ({_ago(row)} ago)"
    return [
        ("When", f"{at}{ago}"),
        ("Event", _event(line)),
        ("Operation", f"{line.operation or '-'} {line.kind}".rstrip()),
        ("Who", line.who or "-"),
        ("Why", line.reason or "-"),
        ("Outcome", line.outcome or ("" if line.reason else line.text) or "-"),
        *(("Touched", words) for words in line.touched),
        ("Backend", line.backend or "-"),
    ]


def _ago(row: AuditRow) -> str:
    return duration_text(max(row.now_ms - (row.line.time_ms or 0), 0) / 1000)


def _when(row: AuditRow, width: int) -> Cell:
    if row.line.time_ms is None:
        return Cell("?", "dim")
    text = moment_text(row.line.time_ms).removesuffix(" UTC")
    return Cell(text if width >= len(text) else text[5:])


FIELDS: Final[tuple[ListColumn[AuditRow], ...]] = (
    ListColumn(
        Column("when", "When (UTC)", 14, 19, 0, unit=Unit.TIME),
        _when,
        lambda row: row.line.time_ms or 0,
        lambda row: row.line.time_ms,
    ),
    ListColumn(
        Column("event", "Event", 10, 16, 1),
        lambda row, width: Cell(_event(row.line), "bad" if row.line.event in _BAD else ""),
        lambda row: row.line.event,
    ),
    ListColumn(
        Column("operation", "Operation", 9, 14, 2),
        lambda row, width: Cell(row.line.operation),
        lambda row: row.line.operation,
    ),
    ListColumn(
        Column("who", "Who", 10, 24, 3),
        lambda row, width: Cell(
            row.line.who if len(row.line.who) <= width else row.line.who.partition("@")[0]
        ),
        lambda row: row.line.who,
    ),
    ListColumn(
        Column("text", "Its result, and why", 16, 200, 1, grows=True, comfort=40),
        lambda row, width: Cell(row.text),
        lambda row: row.text,
    ),
)
