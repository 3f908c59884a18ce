"""The topics view: one row a topic, with what its replicas are together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kshunt.tui.facts.filter_terms import Term
from kshunt.tui.facts.replica_groups import TOPIC, groups_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import Cell, Column, Order
from kshunt.tui.views.partitions.filter_masks import mask_of
from kshunt.tui.views.partitions.group_table import GroupTable, sorted_groups
from kshunt.tui.views.topics.columns import CELLS, COLUMNS, NUMBERS, ranks_of
from kshunt.tui.views.topics.topic_sums import TopicSums, topic_sums

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

_KEYS = frozenset(column.key for column in COLUMNS)


@dataclass(frozen=True)
class TopicTable(GroupTable):
    """Topics with what their replicas are together, sorted."""

    sums: TopicSums

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column."""
        return COLUMNS

    @property
    def total(self) -> int:
        """Topics before the filter."""
        return int(np.count_nonzero(self.sums.replicas))

    def longest(self, key: str) -> int:
        """The longest name of a topic, so that the columns stay as rows go by."""
        return self.facts.longest_topic if key == "group" else 0

    def _cell(self, key: str, place: int, width: int) -> Cell:
        if key in CELLS:
            return CELLS[key](self.sums, place, width)
        return super()._cell(key, place, width)

    def _number(self, key: str, place: int) -> float | None:
        if key in NUMBERS:
            return NUMBERS[key](self.sums, place)
        return super()._number(key, place)


def topic_table(
    facts: Facts, terms: tuple[Term, ...], order: Order, operations: Sequence[Operation] = ()
) -> TopicTable:
    """The topics that pass the filter; what is said of one is said of all of its replicas."""
    groups = groups_of(facts, TOPIC)
    sums = topic_sums(facts, groups)
    places = np.flatnonzero((sums.replicas > 0) & _passing(facts, groups.code, terms, operations))
    ranks = {level.key: ranks_of(sums, level.key) for level in order.levels if level.key in _KEYS}
    places = sorted_groups(places, order, ranks)
    return TopicTable(facts, TOPIC, order, groups, sums, places, operations, len(facts.rows))


def _passing(
    facts: Facts, code: NDArray[np.int64], terms: tuple[Term, ...], operations: Sequence[Operation]
) -> NDArray[np.bool_]:
    """Topics with a replica that all terms hold for, and none that a term with `-` is about."""
    passing = np.ones(len(facts.snapshot.topics), np.bool_)
    if positive := tuple(term for term in terms if not term.negated):
        passing &= _with_any(facts, code, positive, operations)
    for term in terms:
        if term.negated:
            passing &= ~_with_any(facts, code, (replace(term, negated=False),), operations)
    return passing


def _with_any(
    facts: Facts, code: NDArray[np.int64], terms: tuple[Term, ...], operations: Sequence[Operation]
) -> NDArray[np.bool_]:
    mask = mask_of(terms, facts, operations)
    found: NDArray[np.bool_] = (
        np.bincount(code if mask is None else code[mask], minlength=len(facts.snapshot.topics)) > 0
    )
    return found
