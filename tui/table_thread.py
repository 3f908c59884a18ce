"""The thread that turns what is known into tables.

It filters, sorts and sums up, so that a key never waits for 200,000 rows. It answers with a
message. The newest wish of a view replaces an older one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from textual.message import Message

from kshunt.tui import memory
from kshunt.tui.actions.view_names import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    THROTTLES,
    TOPICS,
)
from kshunt.tui.data.store import TableFailed, TableReady
from kshunt.tui.facts.lag_history import LagHistory
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.tables.model import Table

if TYPE_CHECKING:
    from kshunt.tui.facts.overview import Home, HomeBuilder
    from kshunt.tui.facts.snapshot_facts import Facts
    from kshunt.tui.tables.list_table import ListTable
    from kshunt.tui.views.partitions.incremental_table import IncrementalTable

REFRESH_S: Final = 0.25
"""Snapshots are shown at most this often."""
PLOTTED: Final = (OVERVIEW, HISTORY, BROKERS)
"""Views that may plot the course of what was copied."""


class TableThread:
    """Computes tables in a thread. `post` is called from that thread."""

    def __init__(
        self,
        post: Callable[[Message], object],
        lags: LagHistory | None = None,
        freeze: Callable[[], object] | None = None,
    ) -> None:
        """`freeze` is called once a view has been computed: what it needs has been loaded."""
        self._post = post
        self._freeze = freeze
        self._lags = lags or LagHistory()
        self._pending: dict[str, Job] = {}
        self._wake = threading.Condition()
        self._stopped = False
        self._facts: Facts | None = None
        self._frozen: set[str] = set()
        self._home_builder: HomeBuilder | None = None
        self._replicas: IncrementalTable | None = None
        """Only while the partitions view shows one row a replica."""
        self._thread = threading.Thread(target=self._run, name="kshunt-tables", daemon=True)

    def start(self) -> None:
        """Start the thread; data libraries are loaded in it."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it a little."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def submit(self, job: Job) -> None:
        """Compute this as soon as may be; an older wish for the same view is dropped."""
        with self._wake:
            self._pending[job.view] = job
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopped or self._pending)
                if self._stopped:
                    return
                job = self._pending.pop(next(iter(self._pending)))
            self._post(self._outcome(job))
            self._freeze_once(job.view)
            # A snapshot has gone with the last table.
            memory.give_back()

    def _freeze_once(self, view: str) -> None:
        if self._freeze is not None and view not in self._frozen:
            self._frozen.add(view)
            self._freeze()

    def _outcome(self, job: Job) -> Message:
        """The table, or why there is none: without this thread the screen would stand still."""
        try:
            return self._compute(job)
        # The edge of the thread: an error in one table is shown in its place.
        except Exception as error:  # noqa: BLE001
            return TableFailed(job.view, repr(error))

    def _table(self, facts: Facts, job: Job) -> Table | None:
        build = _BUILDERS.get(job.view)
        if job.view in _FEW_ROWS:
            self._replicas = None
            table = _FEW_ROWS[job.view](facts, job)
            table.narrow(job.query.filter_text)
            return table
        if job.view != PARTITIONS or not _by_replica(job.query):
            # An order that is kept holds on to columns.
            self._replicas = None
            return build(facts, job) if build is not None else None
        if self._replicas is None:
            from kshunt.tui.views.partitions.incremental_table import IncrementalTable

            self._replicas = IncrementalTable()
        return self._replicas.table(facts, job)

    def _compute(self, job: Job) -> TableReady:
        from kshunt.tui.facts.progress import foreign_moves
        from kshunt.tui.facts.snapshot_facts import Facts
        from kshunt.tui.views.throttles.table import throttle_hint

        if self._facts is None or self._facts.snapshot is not job.snapshot:
            self._facts = Facts(job.snapshot, self._facts)
            self._lags.take(self._facts, alone=job.past)
        facts = self._facts
        foreign = foreign_moves(facts, job.operations)
        hint = throttle_hint(facts, job, foreign) if job.view == THROTTLES else ""
        table = self._table(facts, job)
        home = self._home(facts, job)
        return TableReady(job, table, facts, facts.summary, hint, foreign, home)

    def _home(self, facts: Facts, job: Job) -> Home:
        """What the head says in every view, and the home screen in its own."""
        if self._home_builder is None:
            from kshunt.tui.facts.overview import HomeBuilder

            self._home_builder = HomeBuilder()
        return self._home_builder.home(facts, job, plots=job.view in PLOTTED)


def _by_replica(query: Query) -> bool:
    """Whether the partitions view shows one row a replica."""
    return not query.group or query.inside is not None


def _groups(facts: Facts, job: Job) -> Table:
    from kshunt.tui.views.partitions.group_table import group_table

    query = job.query
    return group_table(facts, query.terms, query.order, query.follow, query.group, job.operations)


def _brokers(facts: Facts, job: Job) -> ListTable[Any]:
    from kshunt.tui.views.brokers.matrix import FLOWS, PLACES, flow_table, place_table
    from kshunt.tui.views.brokers.table import broker_table

    query = job.query
    if query.group == FLOWS:
        return flow_table(facts, query.order, query.shift)
    if query.group == PLACES:
        return place_table(facts, query.order, query.shift)
    return broker_table(facts, query.order, job.operations)


def _throttles(facts: Facts, job: Job) -> ListTable[Any]:
    from kshunt.tui.views.throttles.table import throttle_table

    query = job.query
    return throttle_table(facts, query.order, job.drift, job.orphans, job.owned, query.pending)


def _operations(facts: Facts, job: Job) -> ListTable[Any]:
    from kshunt.tui.views.operations.table import operation_table

    return operation_table(
        facts,
        job.operations,
        job.now_ms,
        job.query.order,
        job.drift,
    )


def _topics(facts: Facts, job: Job) -> Table:
    from kshunt.tui.views.topics.table import topic_table

    return topic_table(facts, job.query.terms, job.query.order, job.operations)


_FEW_ROWS: Final[Mapping[str, Callable[[Facts, Job], ListTable[Any]]]] = {
    BROKERS: _brokers,
    THROTTLES: _throttles,
    OPERATIONS: _operations,
}
"""Tables that words narrow, whatever their rows are about."""
_BUILDERS: Final[Mapping[str, Callable[[Facts, Job], Table]]] = {
    PARTITIONS: _groups,
    TOPICS: _topics,
    **_FEW_ROWS,
}
