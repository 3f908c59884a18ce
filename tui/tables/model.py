"""What a table is to the grid: columns that fit a width, rows with a key, cells with a tone.

Nothing here imports numpy: the grid is drawn once before any data library is loaded.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

RowKey: TypeAlias = Hashable
"""What stays the same about a row through refreshes and re-sorts."""


class Cell(NamedTuple):
    """A text and its tone: `good`, `warn`, `bad`, `dim`, `strong`, or plain."""

    text: str
    tone: str = ""


class Unit(StrEnum):
    """What the numbers of a column count."""

    ID = "id"
    COUNT = "count"
    BYTES = "bytes"
    RATE = "bytes/s"
    MESSAGE_RATE = "messages/s"
    SECONDS = "s"
    SHARE = "1 is all of it"
    TIMES = "times an even share"
    TIME = "ms since the epoch"

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole; the others may be infinite."""
        return self in (Unit.ID, Unit.COUNT, Unit.BYTES, Unit.TIME)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a grid."""

    key: str
    title: str
    width: int
    """Cells it needs at least."""
    wide: int = 0
    """Cells of its long form; for a column that grows, the most it takes."""
    priority: int = 0
    """Columns with the highest number go first when the terminal narrows."""
    widen: int = 0
    """Columns with the lowest number take their long form first. Those of one number do so
    together, so that what is compared looks alike."""
    right: bool = False
    """Numbers stand at the right."""
    grows: bool = False
    """It takes the room that is left."""
    comfort: int = 0
    """Cells that a growing column gets before others take their long form."""
    names: bool = False
    """It holds names, which are cut in the middle: they differ at both ends."""
    extra: bool = False
    """It is shown only where every other column has its long form."""
    sortable: bool = True
    label: str = ""
    """The title in full, where there is room, for details and for the choice of a sort column."""
    unit: Unit | None = None
    """Of the numbers that its cells say in words; None: it holds text."""
    identifies: bool = False
    """It says which row it is: nobody can hide it."""

    @property
    def name(self) -> str:
        """What the column is called where there is room."""
        return self.label or self.title


class Placed(NamedTuple):
    """A column and the width it got."""

    column: Column
    width: int


class Level(NamedTuple):
    """One of the columns that a table is sorted by."""

    key: str
    reverse: bool = False


LEVELS_MOST: Final = 3
"""More columns than that nobody follows."""


@dataclass(frozen=True, slots=True)
class Order:
    """How a table is sorted: by one column, and rows that are alike in it by those behind it."""

    key: str = ""
    """A column's key; empty means the table's natural order."""
    reverse: bool = False
    then: tuple[Level, ...] = ()
    """Columns that decide between rows that are alike so far."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every column, the first one first; none for the natural order."""
        return (Level(self.key, self.reverse), *self.then) if self.key else self.then

    @classmethod
    def of(cls, levels: Sequence[Level]) -> Order:
        """The order by these columns; by none, the natural one."""
        first, *then = levels or (Level(""),)
        return cls(first.key, first.reverse, tuple(then))

    def adding(self, key: str, reverse: bool) -> Order:
        """With one column more, behind the present ones; it takes the last place if all are taken.

        A column that is among them already is turned round where it stands.
        """
        if any(level.key == key for level in self.levels):
            turned = [Level(k, not r if k == key else r) for k, r in self.levels]
            return Order.of(turned)
        return Order.of([*self.levels[: LEVELS_MOST - 1], Level(key, reverse)])

    def without(self, key: str) -> Order:
        """Without this column."""
        return Order.of([level for level in self.levels if level.key != key])


NATURAL = Order()
"""The order in which the rows come."""


class Table(Protocol):
    """The rows of one view, filtered and sorted. Immutable, so that threads can share it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column, in the order of the screen."""
        ...

    @property
    def order(self) -> Order:
        """How the rows are sorted."""
        ...

    @property
    def total(self) -> int:
        """Rows before the filter."""
        ...

    def __len__(self) -> int: ...

    def key_of(self, row: int) -> RowKey:
        """What identifies the row at this place."""
        ...

    def row_of(self, key: RowKey) -> int | None:
        """Where the row with this key is, or None if it is not shown."""
        ...

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The row's texts for these columns."""
        ...

    def number(self, row: int, key: str) -> float | None:
        """The number that the row has in a column with a unit.

        Not known: None or NaN, and where numbers are whole, one below 0.
        """
        ...

    def longest(self, key: str) -> int:
        """Cells of the longest text in this column, where that is known without a look at every
        row; else 0, and the rows in sight are measured."""
        ...

    def first(self, row: int) -> list[tuple[str, str]]:
        """Label and text of what has to be known before the columns, for the details."""
        ...

    def more(self, row: int) -> list[tuple[str, str]]:
        """Label and text of what the columns do not say, for the details."""
        ...


GAP = 1
"""Cells between two columns."""


def fit_columns(
    columns: Sequence[Column], width: int, needs: Mapping[str, int] | None = None
) -> list[Placed]:
    """The columns that fit into `width`, with their widths; the first column always stays.

    Room goes to what is needed, then to the comfort of columns that grow, to long forms, to extra
    columns, and last to columns that grow further. `needs` are cells of the longest text by column:
    none grows beyond it, so that what one does not need is for another.
    """
    needs = needs or {}
    comforts = {one.key: min(one.comfort, needs.get(one.key, one.comfort)) for one in columns}
    limits = {one.key: min(one.wide, needs.get(one.key, one.wide)) for one in columns}
    fitting = [column for column in columns if not column.extra]
    while len(fitting) > 1 and _needed(fitting) > width:
        fitting.remove(max(fitting[1:], key=lambda column: column.priority))
    widths = {column.key: column.width for column in fitting}
    if len(fitting) == 1:
        widths[fitting[0].key] = min(fitting[0].width, max(width, 1))
    room = max(width - _needed(fitting), 0)
    room = _grow(fitting, widths, comforts, room)
    room, long_forms = _widen(fitting, widths, room)
    if long_forms:
        for column in sorted(
            (column for column in columns if column.extra), key=lambda column: column.priority
        ):
            if column.width + GAP <= room:
                widths[column.key] = column.width
                room -= column.width + GAP
    _grow(fitting, widths, limits, room)
    return [Placed(column, widths[column.key]) for column in columns if column.key in widths]


def _grow(
    columns: Sequence[Column], widths: dict[str, int], limits: Mapping[str, int], room: int
) -> int:
    """Share the room among the columns that grow, the narrowest first; what is left over."""
    while room > 0:
        growing = [c for c in columns if c.grows and widths[c.key] < limits[c.key]]
        if not growing:
            break
        widths[min(growing, key=lambda column: widths[column.key]).key] += 1
        room -= 1
    return room


def _widen(columns: Sequence[Column], widths: dict[str, int], room: int) -> tuple[int, bool]:
    """Long forms, most important first; what is left over, and whether all could be had."""
    every = True
    fixed = [column for column in columns if not column.grows]
    for rank in sorted({column.widen for column in fixed}):
        group = [column for column in fixed if column.widen == rank]
        more = {c.key: max(c.wide - c.width, 0) for c in group}
        if sum(more.values()) > room:
            every = False
            continue
        for key, cells in more.items():
            widths[key] += cells
        room -= sum(more.values())
    return room, every


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)
