"""The partitions view by groups: one row a topic, a broker or an operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import (
    NOT_AT_THIS_RATE,
    bytes_text,
    count_text,
    duration_text,
    rate_text,
)
from kshunt.tui.facts.filter_terms import Term
from kshunt.tui.facts.replica_groups import (
    AT_REST,
    BROKER,
    OPERATION,
    TOPIC,
    GroupKey,
    ReplicaGroups,
    group_rows,
    groups_of,
)
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import Cell, Column, Order, Placed, RowKey, Unit
from kshunt.tui.views.partitions.group_sums import Sums, sums_of
from kshunt.tui.views.partitions.sorting import Ranks, amount_ranks, float_ranks, sorted_places
from kshunt.tui.views.partitions.table import matching_rows

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

_TITLES: Final = {TOPIC: "Topic", BROKER: "Broker", OPERATION: "Operation"}


@dataclass(frozen=True)
class GroupTable:
    """Groups with what their replicas are together, sorted."""

    facts: Facts
    kind: str
    order: Order
    groups: ReplicaGroups
    sums: Sums
    shown: NDArray[np.intp]
    """Places in `groups.keys`, of groups that have rows, in the order of the screen."""
    operations: Sequence[Operation]
    replicas: int
    """Rows of every group together."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column."""
        return _columns(_TITLES[self.kind])

    @property
    def total(self) -> int:
        """Replicas before the filter."""
        return len(self.facts.rows)

    def __len__(self) -> int:
        return len(self.shown)

    def key_of(self, row: int) -> GroupKey:
        """The group at this place."""
        return self.groups.keys[int(self.shown[row])]

    def row_of(self, key: RowKey) -> int | None:
        """Where a group is, or the group of a replica."""
        place = self._place_of(key)
        found = np.flatnonzero(self.shown == place)
        return int(found[0]) if len(found) else None

    def _place_of(self, key: RowKey) -> int:
        if isinstance(key, GroupKey):
            return self.groups.keys.index(key) if key in self.groups.keys else -1
        assert isinstance(key, ReplicaKey)
        for place in self.facts.rows_of(key.topic, key.partition):
            if self.facts.rows.broker[place] == key.broker:
                return int(self.groups.code[place])
        return -1

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The group's texts for these columns."""
        place = int(self.shown[row])
        return [
            self._name(place, width)
            if column.key == "group"
            else self._cell(column.key, place, width)
            for column, width in placed
        ]

    def _cell(self, key: str, place: int, width: int) -> Cell:
        return _CELLS[key](self.sums, place, width)

    def number(self, row: int, key: str) -> float | None:
        """What a column with a unit says in figures."""
        return self._number(key, int(self.shown[row]))

    def _number(self, key: str, place: int) -> float | None:
        return _NUMBERS[key](self.sums, place)

    def longest(self, key: str) -> int:
        """Groups are few: those in sight are measured."""
        return 0

    def first(self, row: int) -> list[tuple[str, str]]:
        """Nothing comes before the columns."""
        return []

    def more(self, row: int) -> list[tuple[str, str]]:
        """Nothing that the columns do not say."""
        return []

    def _name(self, place: int, width: int) -> Cell:
        key = self.groups.keys[place]
        if self.kind == TOPIC:
            return Cell(key.name)
        if self.kind == BROKER:
            return self._broker_name(int(key.name), width)
        operation = next((one for one in self.operations if one.id == key.name), None)
        if operation is None:
            return Cell(str(key), "dim" if key.name == AT_REST else "warn")
        words = f"{operation.id} {operation.state.words}, {operation.summary}"
        return Cell(words if len(words) <= width else f"{operation.id} {operation.state.words}")

    def _broker_name(self, broker: int, width: int) -> Cell:
        status = self.facts.snapshot.brokers.get(broker)
        if status is not None and status.stale:
            return Cell(f"{broker} does not answer", "bad")
        rack = status.broker.rack if status is not None else None
        words = f"{broker} {rack or ''}".rstrip()
        return Cell(words if len(words) <= width else str(broker))


def group_table(
    facts: Facts,
    terms: tuple[Term, ...],
    order: Order,
    follow: bool,
    kind: str,
    operations: Sequence[Operation] = (),
) -> GroupTable:
    """The groups of the replicas that pass the filter."""
    rows = matching_rows(facts, terms, follow, operations)
    groups = groups_of(facts, kind, operations)
    sums = sums_of(facts, groups, rows)
    places = np.flatnonzero(sums.replicas)
    ranks = {
        level.key: GROUP_RANKS[level.key](sums)
        for level in order.levels
        if level.key in GROUP_RANKS
    }
    places = sorted_groups(places, order, ranks)
    return GroupTable(facts, kind, order, groups, sums, places, operations, len(rows))


def sorted_groups(
    places: NDArray[np.intp], order: Order, ranks: Mapping[str, Ranks]
) -> NDArray[np.intp]:
    """The places of groups in an order; `ranks` has those of every group, by column."""
    levels = [(ranks[key][places], reverse) for key, reverse in order.levels if key in ranks]
    if levels:
        return places[sorted_places(levels, len(places))]
    return places[::-1] if order.reverse else places


def partitions_of(
    facts: Facts,
    terms: tuple[Term, ...],
    follow: bool,
    keys: Sequence[GroupKey],
    operations: Sequence[Operation],
) -> set[TopicPartition]:
    """The partitions of some groups, as far as they pass the filter."""
    mask = np.zeros(len(facts.rows), np.bool_)
    mask[matching_rows(facts, terms, follow, operations)] = True
    inside = np.zeros(len(facts.rows), np.bool_)
    for key in keys:
        inside |= group_rows(facts, key, operations)
    found = np.flatnonzero(mask & inside)
    return {facts.snapshot.partition_of(int(row)) for row in found}


def _columns(title: str) -> tuple[Column, ...]:
    return (
        Column("group", title, 12, 80, 0, grows=True, comfort=34, names=True, identifies=True),
        Column("partitions", "Parts", 5, 10, 6, 3, right=True, label="Partitions", unit=Unit.COUNT),
        Column("replicas", "Repl", 6, 8, 5, 3, right=True, label="Replicas", unit=Unit.COUNT),
        Column("moving", "Mov", 5, 6, 4, 3, right=True, label="Moving", unit=Unit.COUNT),
        Column("behind", "Behind", 6, 0, 3, right=True, unit=Unit.COUNT),
        Column("lag_bytes", "Lag", 7, 10, 1, 1, right=True, label="Lag bytes", unit=Unit.BYTES),
        Column("rate", "Rate", 6, 10, 4, 1, right=True, label="Catch-up", unit=Unit.RATE),
        Column("eta", "ETA", 13, 26, 2, 2, right=True, unit=Unit.SECONDS),
        Column("stuck", "Stuck", 5, 0, 2, right=True, unit=Unit.COUNT),
        Column("size", "Size", 8, 0, 8, right=True, extra=True, unit=Unit.BYTES),
    )


def _count(values: NDArray[np.int64], place: int, width: int, tone: str = "") -> Cell:
    value = int(values[place])
    return Cell(count_text(value, tight=width < 8), tone if value else "dim")


def _lag(sums: Sums, place: int, width: int) -> Cell:
    """At least, where some replicas do not say."""
    lag, unknown = int(sums.lag_bytes[place]), int(sums.lag_unknown[place])
    if not sums.behind[place]:
        return Cell("-", "dim")
    more = ">" if unknown and lag >= 0 else ""
    return Cell(more + bytes_text(lag, tight=width < 10))


def _rate(sums: Sums, place: int, width: int) -> Cell:
    if not sums.behind[place]:
        return Cell("-", "dim")
    rate = float(sums.rate_bytes_per_s[place])
    return Cell(rate_text(rate, tight=width < 10), "bad" if rate < 0 else "")


def _eta(sums: Sums, place: int, width: int) -> Cell:
    """When the last of those that arrive does, and how many never will."""
    if not sums.behind[place]:
        return Cell("-", "dim")
    never, last = int(sums.eta_never[place]), float(sums.eta_s[place])
    if math.isnan(last):
        words = NOT_AT_THIS_RATE if width >= len(NOT_AT_THIS_RATE) else "never"
        return Cell(words, "bad") if never else Cell("?")
    text = duration_text(last)
    if not never:
        return Cell(f">{text}" if sums.eta_unknown[place] and len(text) < width else text)
    full, short = f"{text}, {never:,} never", f"{text}+{never}never"
    return Cell(next((t for t in (full, short) if len(t) <= width), "never"), "bad")


_CELLS: Final[dict[str, Callable[[Sums, int, int], Cell]]] = {
    "partitions": lambda sums, place, width: _count(sums.partitions, place, width),
    "replicas": lambda sums, place, width: _count(sums.replicas, place, width),
    "moving": lambda sums, place, width: _count(sums.moving, place, width, "strong"),
    "behind": lambda sums, place, width: _count(sums.behind, place, width, "warn"),
    "stuck": lambda sums, place, width: _count(sums.stuck, place, width, "bad"),
    "lag_bytes": _lag,
    "rate": _rate,
    "eta": _eta,
    "size": lambda sums, place, width: Cell(bytes_text(int(sums.size_bytes[place])), "dim"),
}


def _eta_s(sums: Sums, place: int) -> float:
    """Infinite where one of its replicas never arrives."""
    if not sums.behind[place]:
        return math.nan
    return math.inf if sums.eta_never[place] else float(sums.eta_s[place])


def _rate_value(sums: Sums, place: int) -> float:
    return float(sums.rate_bytes_per_s[place]) if sums.behind[place] else math.nan


_NUMBERS: Final[dict[str, Callable[[Sums, int], float]]] = {
    "partitions": lambda sums, place: int(sums.partitions[place]),
    "replicas": lambda sums, place: int(sums.replicas[place]),
    "moving": lambda sums, place: int(sums.moving[place]),
    "behind": lambda sums, place: int(sums.behind[place]),
    "stuck": lambda sums, place: int(sums.stuck[place]),
    "lag_bytes": lambda sums, place: int(sums.lag_bytes[place]),
    "rate": _rate_value,
    "eta": _eta_s,
    "size": lambda sums, place: int(sums.size_bytes[place]),
}


def _eta_ranks(sums: Sums) -> Ranks:
    """As in the table of replicas: unknown first, "not at this rate" last."""
    eta = np.where(sums.eta_never > 0, np.inf, sums.eta_s)
    return float_ranks(eta.astype(np.float32), unknown=-1.0)


GROUP_RANKS: Final[dict[str, Callable[[Sums], Ranks]]] = {
    "group": lambda sums: np.arange(len(sums.replicas)),
    "partitions": lambda sums: sums.partitions,
    "replicas": lambda sums: sums.replicas,
    "moving": lambda sums: sums.moving,
    "behind": lambda sums: sums.behind,
    "stuck": lambda sums: sums.stuck,
    "lag_bytes": lambda sums: amount_ranks(sums.lag_bytes),
    "rate": lambda sums: float_ranks(sums.rate_bytes_per_s.astype(np.float32), unknown=-math.inf),
    "eta": _eta_ranks,
    "size": lambda sums: amount_ranks(sums.size_bytes),
}
