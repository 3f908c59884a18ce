"""What the dashboard's tables and boards show: their rows, keys, words and cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.filter_terms import Term, parse_filter
from kshunt.tui.facts.replica_groups import GroupKey, group_rows
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.tables.model import (
    NATURAL,
    Order,
    Placed,
    Table,
)
from kshunt.tui.views.partitions.table import PartitionTable, matching_rows, sorted_rows
from tests.support.tui.app import Shown
from tests.support.tui.cluster import ScriptedCluster, incident

SEEDS = st.integers(0, 2**32 - 1)


def board(shown: Shown) -> SelectableLines:
    """The lines in sight."""
    return shown.view.query_one(SelectableLines)


async def choose(shown: Shown, wanted: object) -> None:
    """Go down to the line with this key."""
    for _ in range(40):
        if board(shown).cursor_key == wanted:
            return
        before = board(shown).cursor_key
        await shown.press("j")
        assert board(shown).cursor_key != before, f"{wanted} is not among the lines"


def facts_of(cluster: ScriptedCluster, seconds: float = 3.0) -> Facts:
    """What a cluster looks like after some seconds."""
    return Facts(cluster.step(seconds))


def partitions(
    facts: Facts, text: str = "", order: Order = NATURAL, *, follow: bool = False
) -> PartitionTable:
    """The partitions view."""
    return partition_table(facts, parse_filter(text), order, follow)


def row_words(table: Table, row: int, width: int = 200) -> dict[str, str]:
    """A row's texts by column, each in a column that wide."""
    placed = [Placed(column, width) for column in table.columns]
    cells = table.cells(row, placed)
    return {c.key: cell.text.strip() for c, cell in zip(table.columns, cells, strict=True)}


def keys(table: Table) -> list[object]:
    """Every row's key, in order."""
    return [table.key_of(row) for row in range(len(table))]


def scrambled(seed: int) -> Facts:
    """The incident's replicas with lags, rates and states at random, many of them alike."""
    random = np.random.default_rng(seed)
    snapshot = incident().snapshot()
    rows, count = snapshot.replicas, len(snapshot.replicas)
    rates = random.choice([math.nan, -1e6, 0.0, 1e6, 25e6], count).astype(np.float32)
    changed = replace(
        rows,
        lag_bytes=random.choice([UNKNOWN, 0, 5, 10**9, 2**40], count),
        lag_messages=random.integers(UNKNOWN, 4, count),
        size_bytes=random.choice([UNKNOWN, 0, 7 * 10**9, 2**50 + 1], count),
        status=random.integers(0, 4, count).astype(np.uint8),
        in_isr=random.random(count) < 0.5,
        adding=random.random(count) < 0.3,
        cause=random.choice([0, 1, 2], count).astype(np.uint8),
        eta_s=random.choice([math.nan, math.inf, 0.0, 60.0, 6e5], count).astype(np.float32),
        catch_up_bytes_per_s=rates,
        catch_up_messages_per_s=(rates / 1000).astype(np.float32),
        fetched_bytes_per_s=np.abs(rates),
    )
    return Facts(replace(snapshot, replicas=changed))


def partition_table(
    facts: Facts,
    terms: tuple[Term, ...],
    order: Order,
    follow: bool,
    operations: Sequence[Operation] = (),
    inside: GroupKey | None = None,
) -> PartitionTable:
    """The replicas that pass the filter, sorted; only those `inside` a group if one is given."""
    rows = matching_rows(facts, terms, follow, operations)
    if inside is not None:
        rows = rows[group_rows(facts, inside, operations)[rows]]
    return PartitionTable(facts, sorted_rows(facts, rows, order), order, operations)
