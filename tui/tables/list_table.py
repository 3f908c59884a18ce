"""Tables of few rows: brokers, throttles, operations, results. Plain objects, no arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kshunt.tui.tables.model import NATURAL, Cell, Column, Order, Placed, RowKey

R = TypeVar("R")
WIDE: Final = 200
"""Every column in its long form."""


@dataclass(frozen=True, slots=True)
class ListColumn(Generic[R]):
    """A column, how its cells are written for a width, and what it sorts by."""

    column: Column
    cell: Callable[[R, int], Cell]
    value: Callable[[R], Any]
    number: Callable[[R], float | None] | None = None
    """What is known in figures, where the column has a unit; None: what it sorts by."""


class ListTable(Generic[R]):
    """Rows of one view, sorted by its fields."""

    def __init__(
        self,
        fields: Sequence[ListColumn[R]],
        rows: Mapping[Any, R],
        order: Order = NATURAL,
        *,
        more: Callable[[R], list[tuple[str, str]]] | None = None,
    ) -> None:
        self.columns: tuple[Column, ...] = tuple(field.column for field in fields)
        self.order = order
        self.total = len(rows)
        self._more = more
        self._fields = {field.column.key: field for field in fields}
        self._rows = self._sorted(rows)
        self._places = {key: place for place, (key, _) in enumerate(self._rows)}

    def _sorted(self, rows: Mapping[Any, R]) -> list[tuple[RowKey, R]]:
        """Stable, so that ties stay in the order in which the rows came."""
        levels = [level for level in self.order.levels if level.key in self._fields]
        found = list(rows.items())
        if not levels:
            return found[::-1] if self.order.reverse else found
        # The last column first: what comes after it leaves its order where rows are alike.
        for key, reverse in reversed(levels):
            value = self._fields[key].value
            found.sort(key=lambda entry: value(entry[1]), reverse=reverse)
        return found

    def narrow(self, text: str) -> None:
        """Keep the rows whose cells have each of these words; of `-word`, those that lack it."""
        words = text.lower().split()
        if not words:
            return
        placed = [Placed(column, WIDE) for column in self.columns]
        texts = [
            " ".join(cell.text for cell in self.cells(row, placed)).lower()
            for row in range(len(self._rows))
        ]
        self._rows = [
            entry
            for entry, said in zip(self._rows, texts, strict=True)
            if all(_passes(word, said) for word in words)
        ]
        self._places = {key: place for place, (key, _) in enumerate(self._rows)}

    def __len__(self) -> int:
        return len(self._rows)

    def key_of(self, row: int) -> RowKey:
        """The key of the row at this place."""
        return self._rows[row][0]

    def row_of(self, key: RowKey) -> int | None:
        """Where the row with this key is."""
        return self._places.get(key)

    def value_of(self, key: RowKey) -> R | None:
        """The row with this key."""
        place = self._places.get(key)
        return None if place is None else self._rows[place][1]

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The row's texts for these columns."""
        value = self._rows[row][1]
        return [self._fields[column.key].cell(value, width) for column, width in placed]

    def number(self, row: int, key: str) -> float | None:
        """What a column with a unit says in figures."""
        field = self._fields[key]
        found: float | None = (field.number or field.value)(self._rows[row][1])
        return found

    def longest(self, key: str) -> int:
        """Rows are few: those in sight are measured."""
        return 0

    def first(self, row: int) -> list[tuple[str, str]]:
        """Nothing comes before the columns."""
        return []

    def more(self, row: int) -> list[tuple[str, str]]:
        """Label and text of what the columns do not say."""
        return self._more(self._rows[row][1]) if self._more is not None else []


def _passes(word: str, said: str) -> bool:
    if word.startswith("-") and len(word) > 1:
        return word[1:] not in said
    return word in said
