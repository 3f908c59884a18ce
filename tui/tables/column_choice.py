"""Which columns of a table an operator wants: some are hidden, some get their room first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kshunt.tui.tables.model import Column

HIDES: Final = "-"
"""Before the key of a column that is hidden, in the settings file."""
_AHEAD: Final = 100
"""By so much a column that comes first is before those that nobody asked for."""


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What differs from the table's own columns; a column that is not named is as ever.

    Columns that a table has only at times, or in another version, keep what was chosen for them.
    """

    first: tuple[str, ...] = ()
    """Keys of columns that get their room before the others."""
    hidden: tuple[str, ...] = ()
    """Keys of columns that are not shown."""

    @classmethod
    def of_words(cls, words: Sequence[str]) -> ColumnChoice:
        """From what the settings file has: keys, `-` before one that is hidden."""
        return cls(
            tuple(one for one in words if not one.startswith(HIDES)),
            tuple(one.removeprefix(HIDES) for one in words if one.startswith(HIDES)),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """As the settings file has it."""
        return (*self.first, *(f"{HIDES}{key}" for key in self.hidden))

    @property
    def keys(self) -> tuple[str, ...]:
        """Every column that it names."""
        return self.first + self.hidden

    def hides(self, column: Column) -> bool:
        """Whether this column is hidden; one that says which row it is never is."""
        return column.key in self.hidden and not column.identifies

    def of(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The columns that may be shown, as they are to be fitted into a width."""
        if not self.keys:
            return tuple(columns)
        return tuple(self._asked_for(one) for one in columns if not self.hides(one))

    def _asked_for(self, column: Column) -> Column:
        if self.first and column.identifies:
            return replace(column, priority=column.priority - 2 * _AHEAD)
        if column.key in self.first:
            return replace(column, priority=column.priority - _AHEAD, extra=False)
        return column

    def hiding(self, key: str) -> ColumnChoice:
        """With this column hidden."""
        return ColumnChoice(_without(self.first, key), (*_without(self.hidden, key), key))

    def showing(self, key: str) -> ColumnChoice:
        """With this column as ever: it is shown where there is room."""
        return ColumnChoice(_without(self.first, key), _without(self.hidden, key))

    def putting_first(self, key: str) -> ColumnChoice:
        """With this column before the others."""
        return ColumnChoice((*_without(self.first, key), key), _without(self.hidden, key))


OWN_COLUMNS: Final = ColumnChoice()
"""The columns that the table itself shows."""


def _without(keys: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(one for one in keys if one != key)
