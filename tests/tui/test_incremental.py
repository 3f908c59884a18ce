"""An order and a table that are kept from one snapshot to the next are what sorting anew gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import DTYPES, Replicas, Snapshot
from kshunt.tui.facts.filter_terms import parse_filter
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.tables.model import NATURAL, Level, Order
from kshunt.tui.views.partitions.incremental_order import IncrementalOrder
from kshunt.tui.views.partitions.incremental_table import IncrementalTable
from kshunt.tui.views.partitions.table import matching_rows, sorted_rows
from tests.support.bench.tui_load import LoadCluster
from tests.support.runs.examples import many
from tests.support.tui.cluster import incident
from tests.support.tui.tables import partition_table

ROWS = 30_000
LARGE = LoadCluster(ROWS).step()
SORTABLE = [
    column.key
    for column in partition_table(Facts(LARGE), (), NATURAL, False).columns
    if column.sortable
]
FIXED = ("topic_index", "partition", "position", "broker")
"""What makes a row the replica that it is."""
CHANGING = tuple(name for name in DTYPES if name not in FIXED)
CHANGES = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.0005, 0.01, 0.5]))
"""A seed, and a share of the rows."""
ORDERS = st.builds(
    Order,
    st.sampled_from(["", *SORTABLE]),
    st.booleans(),
    st.lists(st.builds(Level, st.sampled_from(SORTABLE), st.booleans()), max_size=2).map(tuple),
)


def changed(snapshot: Snapshot, seed: int, share: float) -> Snapshot:
    """Other values in a share of the rows of some columns; the rest is shared."""
    random = np.random.default_rng(seed)
    columns: dict[str, NDArray[Any]] = {}
    for name in random.choice(CHANGING, random.integers(0, 4), replace=False).tolist():
        column = getattr(snapshot.replicas, name).copy()
        rows = np.flatnonzero(random.random(len(column)) < share)
        # Values that stand in the column already: ties, unknown ones, NaN.
        column[rows] = random.permutation(column)[rows]
        columns[name] = column
    replicas = replace(snapshot.replicas, **columns) if columns else snapshot.replicas
    return replace(snapshot, version=snapshot.version + 1, replicas=replicas)


@settings(max_examples=many(100), deadline=None)
@given(
    ORDERS,
    st.lists(CHANGES, max_size=5),
    st.sampled_from(["", "behind:>1", "-moving", "broker:7"]),
)
def test_a_kept_order_is_the_order_of_all_rows(
    order: Order, changes: list[tuple[int, float]], text: str
) -> None:
    incremental, snapshot, terms = IncrementalOrder(), LARGE, parse_filter(text)
    for seed, share in [(0, 0.0), *changes]:
        snapshot = changed(snapshot, seed, share)
        facts = Facts(snapshot)
        rows = matching_rows(facts, terms, False)
        shown = rows if terms else None
        assert np.array_equal(
            incremental.sorted(facts, shown, order), sorted_rows(facts, rows, order)
        )


@pytest.mark.parametrize("key", SORTABLE)
@pytest.mark.parametrize("column", CHANGING)
def test_an_order_follows_every_column_that_decides_it(key: str, column: str) -> None:
    incremental, order = IncrementalOrder(), Order(key, True)
    incremental.sorted(Facts(LARGE), None, order)
    values = getattr(LARGE.replicas, column).copy()
    values[::97] = np.array(1).astype(values.dtype)
    facts = Facts(replace(LARGE, replicas=replace(LARGE.replicas, **{column: values})))
    everything = np.arange(ROWS)
    assert np.array_equal(
        incremental.sorted(facts, None, order), sorted_rows(facts, everything, order)
    )


def test_an_order_in_which_nothing_moved_is_the_same_object() -> None:
    incremental, order = IncrementalOrder(), Order("lag_bytes", True)
    before = incremental.sorted(Facts(LARGE), None, order)
    sizes = LARGE.replicas.size_bytes + 1
    grown = replace(LARGE, replicas=replace(LARGE.replicas, size_bytes=sizes))
    assert incremental.sorted(Facts(grown), None, order) is before


def test_other_replicas_are_sorted_anew() -> None:
    incremental, order = IncrementalOrder(), Order("lag_bytes", True)
    incremental.sorted(Facts(LARGE), None, order)
    fewer = Replicas(**{name: getattr(LARGE.replicas, name)[:-7] for name in DTYPES})
    facts = Facts(replace(LARGE, replicas=fewer))
    rows = np.arange(len(fewer))
    assert np.array_equal(incremental.sorted(facts, None, order), sorted_rows(facts, rows, order))


def job(snapshot: Snapshot, text: str = "") -> Job:
    """The partitions view of a snapshot."""
    query = Query(Order("lag_bytes", True), terms=parse_filter(text), filter_text=text)
    return Job("partitions", query, snapshot, (), snapshot.taken_ms)


def test_a_table_is_kept_while_it_says_the_same() -> None:
    incremental, later = (
        IncrementalTable(),
        replace(LARGE, version=LARGE.version + 1, taken_ms=LARGE.taken_ms + 9),
    )
    table = incremental.table(Facts(LARGE), job(LARGE))
    assert incremental.table(Facts(later), job(later)) is table
    assert incremental.table(Facts(later), job(later, "broker:7")) is not table


def test_a_table_is_made_anew_where_its_details_say_something_else() -> None:
    cluster = incident()
    incremental, snapshot = IncrementalTable(), cluster.step()
    table = incremental.table(Facts(snapshot), job(snapshot))
    silent = dict(snapshot.brokers)
    silent[5] = replace(silent[5], stale=True)
    for other in (
        replace(snapshot, brokers=silent),
        replace(snapshot, log_dir_paths=("/elsewhere",)),
        replace(snapshot, replicas=replace(snapshot.replicas)),
    ):
        again = incremental.table(Facts(other), job(other))
        assert again is not table
        assert again.facts.snapshot is other
        table = again


def test_the_age_of_a_silent_broker_goes_on() -> None:
    snapshot = incident().step()
    silent = {id: replace(one, stale=id == 5) for id, one in snapshot.brokers.items()}
    incremental, before = IncrementalTable(), replace(snapshot, brokers=silent)
    later = replace(before, taken_ms=before.taken_ms + 1_000)
    table = incremental.table(Facts(before), job(before))
    assert incremental.table(Facts(later), job(later)) is not table
