"""What an operator should know of a journal, in words that no terminal acts upon."""

from __future__ import annotations

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.operations.journal.entries import JournalState, Unreadable


def aside(*keys: str) -> JournalState:
    return JournalState(
        aside={key: Unreadable(key, UnreadableReason.UNSIGNED, "Nobody signed it.") for key in keys}
    )


def test_entries_that_are_not_believed_are_named_without_what_drives_a_terminal() -> None:
    (remark,) = aside("a\x1b[2J", "operation/ü", "x" * 61, "d").remarks
    assert remark.startswith("4 entries of the journal are not from a backend of this cluster")
    assert "a?[2J (" in remark
    assert "operation/ü (" in remark
    assert "x" * 60 in remark
    assert "x" * 61 not in remark
    assert "d (" not in remark, "three are named"


def test_what_there_was_no_room_for_is_counted() -> None:
    assert JournalState(claims_dropped=2).remarks[0].startswith("2 entries of the journal")
    assert JournalState().remarks == ()


def test_what_somebody_removed_is_named() -> None:
    words = "another client removed {} entries from the journal: {}"
    assert JournalState(missing=("a", "b", "c")).remarks == (words.format(3, "a, b, c"),)
    assert JournalState(missing=("a", "b", "c", "d")).remarks == (words.format(4, "a, b, c, ..."),)
