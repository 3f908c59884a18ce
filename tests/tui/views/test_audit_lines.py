"""Lines of the audit in the dashboard: found by their filter, and told whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.errors import BadInput
from kshunt.tui.tables.model import Cell, Placed
from kshunt.tui.views.audit.table import (
    LINES_MOST,
    AuditRow,
    audit_table,
    entry_facts,
    parse_audit_filter,
)

NOW_MS = 1_763_780_645_000
"""2025-11-22 03:04:05 UTC."""
LINE = AuditLine(
    NOW_MS - 133_000, "claim_taken", "ada@bastion-1.example.org", "words", "op-12", "reassign",
    reason="full disks", outcome="taken over", touched=("2 brokers: 1, 2",), backend="one",
)  # fmt: skip
PLAIN = AuditLine(None, "ended")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("op:op-1", True),
        ("op:p-1", False),
        ("who:BASTION", True),
        ("who:bob", False),
        ("event:taken", True),
        ("event:started", False),
        ("since:133s", True),
        ("since:132s", False),
        ("since:3m", True),
        ("since:2m", False),
        ("since:1h", True),
        ("since:1d", True),
        ("disks", True),
        ("brokers:", None),
        ("brokers who:ada", True),
        ("brokers who:bob", False),
        ("claim taken", True),
        ("who:", None),
        ("since:soon", None),
        ("since:5w", None),
    ],
)
def test_a_filter_finds_lines_or_cannot_be_meant(text: str, found: bool | None) -> None:
    if found is None:
        with pytest.raises(BadInput):
            parse_audit_filter(text)
        return
    assert parse_audit_filter(text)(LINE, NOW_MS) is found
    assert parse_audit_filter("since:1s")(PLAIN, NOW_MS), "nobody knows when"


def test_an_entry_is_told_whole() -> None:
    assert entry_facts(AuditRow(LINE, NOW_MS)) == [
        ("When", "2025-11-22 03:01:52 UTC (2m13s ago)"),
        ("Event", "claim taken"),
        ("Operation", "op-12 reassign"),
        ("Who", "ada@bastion-1.example.org"),
        ("Why", "full disks"),
        ("Outcome", "taken over"),
        ("Touched", "2 brokers: 1, 2"),
        ("Backend", "one"),
    ]
    assert entry_facts(AuditRow(PLAIN, NOW_MS)) == [
        ("When", "unknown"),
        ("Event", "ended"),
        ("Operation", "-"),
        *((label, "-") for label in ("Who", "Why", "Outcome", "Backend")),
    ]
    said = replace(PLAIN, time_ms=NOW_MS + 5, text="words")
    assert entry_facts(AuditRow(said, NOW_MS))[0][1].endswith("(0s ago)")
    assert entry_facts(AuditRow(said, NOW_MS))[5] == ("Outcome", "words")
    assert entry_facts(AuditRow(replace(said, reason="why"), NOW_MS))[5] == ("Outcome", "-")


@pytest.mark.parametrize(
    ("column", "width", "cell"),
    [
        ("when", 19, Cell("2025-11-22 03:01:52")),
        ("when", 18, Cell("11-22 03:01:52")),
        ("event", 16, Cell("claim taken")),
        ("operation", 14, Cell("op-12")),
        ("who", 25, Cell("ada@bastion-1.example.org")),
        ("who", 24, Cell("ada")),
        ("text", 40, Cell("taken over; full disks")),
    ],
)
def test_a_cell_says_as_much_as_there_is_room_for(column: str, width: int, cell: Cell) -> None:
    table = audit_table([LINE], parse_audit_filter(""), NOW_MS)
    placed = [Placed(one, width) for one in table.columns if one.key == column]
    assert table.cells(0, placed) == [cell]


def test_what_is_not_known_is_a_question_mark() -> None:
    table = audit_table([PLAIN], parse_audit_filter(""), NOW_MS)
    placed = [Placed(table.columns[0], 19)]
    assert table.cells(0, placed) == [Cell("?", "dim")]


def test_the_newest_lines_come_first_and_the_oldest_are_left_out() -> None:
    lines = [replace(LINE, operation=str(n)) for n in range(LINES_MOST + 1)]
    table = audit_table(lines, parse_audit_filter(""), NOW_MS)
    assert len(table) == LINES_MOST
    assert (table.key_of(0), table.key_of(LINES_MOST - 1)) == (LINES_MOST, 1)
