"""The chain of the audit's lines: a reader finds out when somebody has rewritten the past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kshunt.backend.domain.audit.lines import audit_key
from kshunt.backend.operations.journal.audit_chain import verified
from kshunt.backend.operations.journal.entries import (
    MANIFEST_KEY,
    Body,
    EntryHeader,
    JournalState,
    Record,
)
from kshunt.backend.operations.journal.replay import JournalReplay, Unproven
from tests.support.access.keys import KEYS
from tests.support.faults.hostile_journal import CLUSTER, HEADER, unsigned

Lines = Mapping[str, Body | None]


def key(number: int) -> str:
    return audit_key(10**12, number)


def fold_of(records: list[Record], unproven: Unproven = Unproven.REFUSE) -> JournalReplay:
    fold = JournalReplay(CLUSTER, KEYS, unproven)
    for record in records:
        fold.take(*record)
    return fold


def written(fold: JournalReplay, *appends: Lines) -> list[Record]:
    found: list[Record] = []
    for entries in appends:
        records = fold.records(entries, HEADER)
        found += records
        for record in records:
            fold.take(*record)
    return found


def log_of(count: int) -> list[Record]:
    return written(
        JournalReplay(CLUSTER, KEYS),
        *({key(n): {"n": n}, "operation/a": {"n": n}} for n in range(count)),
    )


def without(records: list[Record], name: str) -> list[Record]:
    return [record for record in records if record[0] != name.encode()]


def compacted(records: list[Record]) -> list[Record]:
    """As Kafka leaves them in the end."""
    last = {name: at for at, (name, _) in enumerate(records)}
    return [r for at, r in enumerate(records) if last[r[0]] == at and r[1] is not None]


def test_a_chain_holds_as_it_was_written_and_compacted() -> None:
    for log in (log_of(9), compacted(log_of(9))):
        found = verified(fold_of(log).state(), key(8))
        assert (found.lines, found.problems, found.newest) == (9, (), key(8))
    assert verified(JournalState()).problems == ()


def test_old_lines_can_go_and_the_rest_is_still_proven() -> None:
    fold = fold_of(log_of(6))
    more = written(fold, {key(0): None, key(1): None}, {key(6): {"n": 6}, key(2): None})
    state = fold_of(compacted([*log_of(6), *more])).state()
    assert (verified(state).lines, verified(state).problems) == (4, ())


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (key(0), f"before {key(1)}"),
        (key(3), f"before {key(4)}"),
        (key(5), "before the manifest"),
    ],
)
def test_a_line_that_somebody_removed_is_missed(gone: str, words: str) -> None:
    [*problems] = verified(fold_of(without(compacted(log_of(6)), gone)).state()).problems
    assert words in problems[0]
    assert "changed or removed" in problems[0]


def test_a_line_that_was_rewritten_with_a_key_of_ours_is_found() -> None:
    log = compacted(log_of(6))
    place = next(at for at, record in enumerate(log) if record[0] == key(3).encode())
    forged = JournalReplay(CLUSTER, KEYS)
    log[place] = forged.records({key(3): {"n": "another"}}, HEADER)[0]
    problems = verified(fold_of(log).state()).problems
    assert f"The line before {key(4)} was changed or removed." in problems
    assert f"The line {key(3)} does not belong to the chain." in problems


def test_a_line_that_was_added_with_a_key_of_ours_is_found() -> None:
    added = JournalReplay(CLUSTER, KEYS).records({audit_key(10**12, 77): {"n": "more"}}, HEADER)[0]
    problems = verified(fold_of([*compacted(log_of(6)), added]).state()).problems
    assert problems == (f"The line {audit_key(10**12, 77)} does not belong to the chain.",)


def test_an_older_journal_that_was_brought_back_is_found_by_who_remembers() -> None:
    state = fold_of(log_of(4)).state()
    assert verified(state, key(3)).problems == ()
    [problem] = verified(state, key(5)).problems
    assert "the end of the journal was cut off" in problem


def test_lines_that_are_written_again_keep_their_places() -> None:
    fold = fold_of(log_of(6))
    state = fold.state()
    again: dict[str, Any] = {name: entry.body for name, entry in state.entries.items()}
    more = fold.records(again, EntryHeader(CLUSTER, "two", HEADER.time_ms + 9), again=True)
    assert verified(fold_of(compacted([*log_of(6), *more])).state()).problems == ()


def test_unsigned_lines_are_chained_when_they_are_adopted() -> None:
    log = [unsigned(key(n), {"n": n}) for n in range(5)]
    fold = fold_of(log, Unproven.ADOPT)
    waiting = {name: fold.state().entries[name].body for name in sorted(fold.unsigned())}
    more = fold.records(waiting, HEADER)
    found = verified(fold_of([*log, *more]).state())
    assert (found.lines, found.problems) == (5, ())


def test_a_journal_without_its_manifest_proves_nothing() -> None:
    problems = verified(fold_of(without(log_of(3), MANIFEST_KEY)).state()).problems
    assert len(problems) == 3
