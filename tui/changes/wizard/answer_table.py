"""What became of a change, item by item: failures first, in Kafka's names and plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.error_codes import ELECTION_NOT_NEEDED, error_name
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, RowKey

NOT_NEEDED: Final = error_name(ELECTION_NOT_NEEDED)
"""Kafka's way to say that the preferred replica leads already: nothing to do, not a failure."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One item of a change."""

    item: str
    change: str
    words: str
    tone: str


def answer_table(
    answer: ChangeAnswer, changes: Mapping[str, str], since: Mapping[str, str] | None = None
) -> ListTable[AnswerRow]:
    """The items, failures first; `since` says how those are by now that were accepted."""
    ordered = sorted(answer.results, key=succeeded)
    rows: dict[RowKey, AnswerRow] = {
        (place, result.item): _row(result, answer.validate_only, changes.get(result.item, ""))
        for place, result in enumerate(ordered)
    }
    for key, row in rows.items():
        if row.tone == "good" and since is not None and row.item in since:
            rows[key] = replace(row, words=since[row.item])
    return ListTable(_fields(list(rows.values())), rows)


def failure_words(answer: ChangeAnswer, most: int = 3) -> list[str]:
    """Each reason once, in full, the most frequent first: a table has no room for it."""
    reasons = Counter(_failure(result) for result in answer.results if not succeeded(result))
    return [f"{words} ({count:,})" for words, count in reasons.most_common(most)]


def _failure(result: Result) -> str:
    return f"{result.error_name}: {result.message}" if result.message else result.error_name


def succeeded(result: Result) -> bool:
    """True where there is nothing to worry about."""
    return result.ok or result.error_name == NOT_NEEDED


def headline(answer: ChangeAnswer) -> tuple[str, str]:
    """One line over the items, and its tone."""
    total = len(answer.results)
    failed = sum(1 for result in answer.results if not succeeded(result))
    if answer.validate_only:
        done, bad = "would succeed", "would fail"
    else:
        done, bad = ("accepted" if answer.waiting else "done"), "failed"
    if total == 0:
        return "there is nothing to do", "warn"
    if failed:
        return f"{total - failed:,} of {total:,} {done}, {failed:,} {bad}", "bad"
    if len(answer.already_moving) == total:
        return "no move starts: an operation has them all already", "good"
    return (done if total == 1 else f"all {total:,} {done}"), "good"


def _row(result: Result, validate_only: bool, change: str) -> AnswerRow:
    item = result.item
    if result.ok:
        words = result.message or ("would succeed" if validate_only else "done")
        return AnswerRow(item, change, words, "good")
    if result.error_name == NOT_NEEDED:
        return AnswerRow(item, change, "already led by its preferred replica", "dim")
    return AnswerRow(item, change, _failure(result), "bad")


def _fields(rows: Sequence[AnswerRow]) -> list[ListColumn[AnswerRow]]:
    """Columns as wide as their longest text, where there is room."""
    fields: list[ListColumn[AnswerRow]] = [
        ListColumn(
            Column("item", "Item", 6, _longest(rows, "item", 60), 0, grows=True, names=True),
            lambda row, width: Cell(row.item),
            lambda row: row.item,
        ),
        ListColumn(
            Column("change", "Change", 10, _longest(rows, "change", 60), 2, grows=True),
            lambda row, width: Cell(row.change),
            lambda row: row.change,
        ),
        ListColumn(
            Column("words", "Result", 14, _longest(rows, "words", 200), 1, grows=True),
            lambda row, width: Cell(row.words, row.tone),
            lambda row: row.words,
        ),
    ]
    return fields if any(row.change for row in rows) else [fields[0], fields[2]]


def _longest(rows: Sequence[AnswerRow], name: str, most: int) -> int:
    return min(max((len(getattr(row, name)) for row in rows), default=0), most)
