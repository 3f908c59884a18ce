"""The partitions view from one snapshot to the next: the table itself is kept while it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshunt.tui.facts.replica_groups import group_rows
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.views.partitions.incremental_order import IncrementalOrder
from kshunt.tui.views.partitions.table import PartitionTable, matching_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.tui.facts.view_query import Job


class IncrementalTable:
    """Makes the tables of one row a replica. For one thread."""

    def __init__(self) -> None:
        self._order = IncrementalOrder()
        self._table: PartitionTable | None = None
        self._job: Job | None = None
        self._rows: NDArray[np.intp] | None = None

    def table(self, facts: Facts, job: Job) -> PartitionTable:
        """The table of a job: the one before where it says the same, so that nobody draws it."""
        query, operations = job.query, job.operations
        rows = self._order.sorted(facts, _shown(facts, job), query.order)
        table = self._table
        if table is None or rows is not self._rows or not self._says_the_same(facts, job):
            table = PartitionTable(facts, rows, query.order, operations)
            self._table, self._job, self._rows = table, job, rows
        return table

    def _says_the_same(self, facts: Facts, job: Job) -> bool:
        before, after = self._job, job
        if before is None or (before.query, before.operations) != (after.query, after.operations):
            return False
        same = before.snapshot.replicas is after.snapshot.replicas
        return same and _said(before.snapshot) == _said(after.snapshot)


def _shown(facts: Facts, job: Job) -> NDArray[np.intp] | None:
    """The rows that pass the filter and are inside the group that is opened; None for all."""
    query, operations = job.query, job.operations
    if not query.terms and not query.follow and query.inside is None:
        return None
    rows = matching_rows(facts, query.terms, query.follow, operations)
    if query.inside is not None:
        rows = rows[group_rows(facts, query.inside, operations)[rows]]
    return rows


def _said(snapshot: Snapshot) -> tuple[object, ...]:
    """What a table and its details say of a snapshot in addition to its replicas."""
    brokers = [(one.broker, one.problem) for one in snapshot.brokers.values()]
    # Of a broker that is silent they say how old it is.
    ages = [snapshot.taken_ms for one in snapshot.brokers.values() if one.stale]
    return (
        *(snapshot.topics, brokers, ages),
        *(snapshot.throttles, snapshot.log_dir_paths, snapshot.explained),
    )
