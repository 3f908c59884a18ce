"""What the dashboard knows, and the thread that turns it into tables.

Everything here is written on the event loop, by the app's handlers of what `tui.link` posts. The
`Deriver` filters, sorts and sums up in a thread of its own, so that a key never waits for 200,000
rows; it answers with a message, and the newest wish of a view replaces an older one.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from textual.message import Message

from tui import footprint
from tui.jobs import Job, Query
from tui.tables.base import Table
from tui.tables.lag_history import LagHistory
from tui.views import (
    BROKERS,
    HISTORY,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    THROTTLES,
    VIEWS,
)

if TYPE_CHECKING:
    from backend.domain.approval import ShownProposal
    from backend.domain.cluster import ClusterInfo
    from backend.domain.operation import Operation
    from backend.domain.owned import OwnedThrottle
    from backend.domain.pipeline import EffectRow, EtaRow, PipelinePast, PipelineStanding, Rows
    from backend.domain.snapshot import Snapshot
    from backend.domain.steering import AuditLine, ShownDrift, ShownOrphan, Standing
    from backend.domain.team import Presence
    from tui.tables.facts import Facts, Summary
    from tui.tables.kept_table import KeptTable
    from tui.tables.overview import Home, HomeKeeper


REFRESH_S: Final = 0.25
"""Snapshots are shown at most this often."""


class ConnectionState(enum.Enum):
    """How the dashboard stands with its backend."""

    CONNECTING = "connecting"
    LIVE = "live"
    LOST = "lost"
    """What is shown is frozen until the backend answers again."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The state of the connection, and why."""

    state: ConnectionState = ConnectionState.CONNECTING
    reason: str = ""


class Derived(Message):
    """A table is ready."""

    def __init__(
        self,
        job: Job,
        table: Table | None,
        facts: Facts,
        summary: Summary,
        hint: str,
        foreign: int = 0,
        home: Home | None = None,
    ) -> None:
        super().__init__()
        self.job = job
        self.table = table
        self.facts = facts
        self.summary = summary
        self.hint = hint
        """What the view says above its rows, or empty."""
        self.foreign = foreign
        """Partitions that move, throttled, and that no operation here owns."""
        self.home = home

    def can_replace(self, message: Message) -> bool:
        """A newer table of the same view makes this one needless."""
        return isinstance(message, Derived) and message.job.view == self.job.view


class DeriveFailed(Message):
    """A table could not be computed; the last one stays."""

    def __init__(self, view: str, reason: str) -> None:
        super().__init__()
        self.view = view
        self.reason = reason


@dataclass
class Store:
    """The newest of everything."""

    now_s: Callable[[], float]
    """A clock that never goes back."""
    snapshot: Snapshot | None = None
    received_s: float = 0.0
    """When the snapshot came, by `now_s`."""
    info: ClusterInfo | None = None
    connection: Connection = Connection()
    operations: tuple[Operation, ...] = ()
    standing: Standing | None = None
    """Which backend acts; None until it is known."""
    drift: tuple[ShownDrift, ...] = ()
    """Throttles of ours that somebody else changed."""
    orphans: tuple[ShownOrphan, ...] = ()
    """Throttles that no move justifies, as far as somebody has asked."""
    owned: tuple[OwnedThrottle, ...] | None = None
    """Whose the throttles are; None while nobody has said."""
    presence: Presence | None = None
    """Who is connected to the backend; None while nobody has said."""
    session: str = ""
    """Which of them this dashboard is."""
    proposals: tuple[ShownProposal, ...] = ()
    """Changes that take two people, newest first."""
    home: Home | None = None
    """What the head and the home screen say of the snapshot; None before the first one."""
    answered: set[str] = field(default_factory=set)
    """What was answered at least once (`tui.questions`): before, none is not nought."""
    pipeline: PipelineStanding | None = None
    """How the data pipeline stands; None while nobody has said."""
    forecasts: Rows[EtaRow] | None = None
    """When operations will be done, as the pipeline says; None where nobody has asked."""
    effects: Rows[EffectRow] | None = None
    """What throttles did, likewise."""
    delivered: PipelinePast | None = None
    """What the pipeline delivered of the past, likewise."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """Why a question could not be answered, by what it is about."""
    audits: dict[str, tuple[AuditLine, ...]] = field(default_factory=dict)
    """The audit of an operation, by its id."""
    recording: str = ""
    """Why nothing is recorded any more, or empty."""
    summary: Summary | None = None
    facts: Facts | None = None
    """Of the snapshot that the tables show."""
    foreign: int = 0
    """Partitions that move, throttled, and that no operation here owns."""
    lags: LagHistory = field(default_factory=LagHistory)
    """How the lags of moving replicas went; written by the deriver's thread."""
    queries: dict[str, Query] = field(default_factory=lambda: dict.fromkeys(VIEWS, Query()))
    tables: dict[str, Table] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    """What each table was computed for."""

    @property
    def age_s(self) -> float:
        """How long ago the newest snapshot came."""
        return max(self.now_s() - self.received_s, 0.0)

    @property
    def data_age_s(self) -> float:
        """How old what is shown is: older than its snapshot where no broker answered for it."""
        unseen_ms = 0 if self.snapshot is None else self.snapshot.unseen_ms
        return self.age_s + unseen_ms / 1000

    @property
    def now_ms(self) -> int:
        """The backend's clock: what it said last, and the time since."""
        taken = self.snapshot.taken_ms if self.snapshot is not None else 0
        return taken + round(self.age_s * 1000)

    @property
    def cluster_id(self) -> str:
        """The cluster on the screen, or empty while there is none."""
        return self.snapshot.cluster_id if self.snapshot is not None else ""

    @property
    def bootstrap_servers(self) -> str:
        """Where the backend reaches the cluster."""
        return self.info.bootstrap_servers if self.info is not None else ""

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """A newer snapshot came."""
        self.snapshot = snapshot
        self.received_s = self.now_s()

    def ask(self, view: str, **changes: object) -> Query:
        """Change what a view shows."""
        query = replace(self.queries[view], **changes)  # type: ignore[arg-type]
        self.queries[view] = query
        return query

    def job(self, view: str) -> Job | None:
        """What has to be computed for a view, or None while there is nothing to show."""
        if self.snapshot is None:
            return None
        return Job(
            view,
            self.queries[view],
            self.snapshot,
            self.operations,
            self.now_ms,
            self.drift,
            self.orphans,
            self.owned,
            self.forecasts.rows if self.forecasts else (),
            self.has_pipeline,
        )

    def operation(self, key: object) -> Operation | None:
        """The operation with this id."""
        return next((one for one in self.operations if one.id == key), None)

    @property
    def has_pipeline(self) -> bool:
        """True where a data pipeline has delivered anything."""
        return self.pipeline is not None and self.pipeline.newest_ms is not None

    @property
    def running(self) -> bool:
        """True while an operation has not ended."""
        return any(not operation.state.ended for operation in self.operations)

    def take_derived(self, derived: Derived) -> None:
        """A table is ready."""
        if derived.table is not None:
            self.tables[derived.job.view] = derived.table
        self.hints[derived.job.view] = derived.hint
        # A job holds its snapshot: one of a view that is out of sight would keep an old one.
        self.jobs = {derived.job.view: derived.job}
        self.facts = derived.facts
        self.summary = derived.summary
        self.foreign = derived.foreign
        self.home = derived.home or self.home


class Deriver:
    """Computes tables in a thread. `post` is called from that thread."""

    def __init__(
        self,
        post: Callable[[Message], object],
        lags: LagHistory | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        """`settle` is called once a view has been computed: what it needs has been loaded."""
        self._post = post
        self._settle_process = settle
        self._lags = lags or LagHistory()
        self._pending: dict[str, Job] = {}
        self._wake = threading.Condition()
        self._stopped = False
        self._facts: Facts | None = None
        self._settled: set[str] = set()
        self._keeper: HomeKeeper | None = None
        self._replicas: KeptTable | None = None
        """Only while the partitions view shows one row a replica."""
        self._thread = threading.Thread(target=self._run, name="kshunt-derive", daemon=True)

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
            self._settle(job.view)
            # A snapshot has gone with the last table.
            footprint.give_back()

    def _settle(self, view: str) -> None:
        if self._settle_process is not None and view not in self._settled:
            self._settled.add(view)
            self._settle_process()

    def _outcome(self, job: Job) -> Message:
        """The table, or why there is none: without this thread the screen would stand still."""
        try:
            return self._derive(job)
        except Exception as error:  # noqa: BLE001
            return DeriveFailed(job.view, repr(error))

    def _table(self, facts: Facts, job: Job) -> Table | None:
        build = _BUILDERS.get(job.view)
        if job.view != PARTITIONS or not _by_replica(job.query):
            # An order that is kept holds on to columns.
            self._replicas = None
            return build(facts, job) if build is not None else None
        if self._replicas is None:
            from tui.tables.kept_table import KeptTable

            self._replicas = KeptTable()
        return self._replicas.table(facts, job)

    def _derive(self, job: Job) -> Derived:
        from tui.tables.facts import Facts
        from tui.tables.progress import foreign_moves
        from tui.tables.throttles import throttle_hint

        if self._facts is None or self._facts.snapshot is not job.snapshot:
            self._facts = Facts(job.snapshot, self._facts)
            self._lags.take(self._facts)
        facts = self._facts
        foreign = foreign_moves(facts, job.operations)
        hint = throttle_hint(facts, job, foreign) if job.view == THROTTLES else ""
        table = self._table(facts, job)
        home = self._home(facts, job)
        return Derived(job, table, facts, facts.summary, hint, foreign, home)

    def _home(self, facts: Facts, job: Job) -> Home:
        """What the head says in every view, and the home screen in its own."""
        if self._keeper is None:
            from tui.tables.overview import HomeKeeper

            self._keeper = HomeKeeper()
        return self._keeper.home(facts, job, plots=job.view in (OVERVIEW, HISTORY))


def _by_replica(query: Query) -> bool:
    """Whether the partitions view shows one row a replica."""
    return not query.group or query.inside is not None


def _groups(facts: Facts, job: Job) -> Table:
    from tui.tables.group_table import group_table

    query = job.query
    return group_table(facts, query.terms, query.order, query.follow, query.group, job.operations)


def _brokers(facts: Facts, job: Job) -> Table:
    from tui.tables.brokers import broker_table
    from tui.tables.matrix import FLOWS, PLACES, flow_table, place_table

    query = job.query
    if query.group == FLOWS:
        return flow_table(facts, query.order, query.shift)
    if query.group == PLACES:
        return place_table(facts, query.order, query.shift)
    return broker_table(facts, query.order, job.operations)


def _throttles(facts: Facts, job: Job) -> Table:
    from tui.tables.throttles import throttle_table

    query = job.query
    return throttle_table(facts, query.order, job.drift, job.orphans, job.owned, query.pending)


def _operations(facts: Facts, job: Job) -> Table:
    from tui.tables.operations import operation_table

    return operation_table(
        facts,
        job.operations,
        job.now_ms,
        job.query.order,
        job.drift,
        job.forecasts,
        has_pipeline=job.has_pipeline,
    )


_BUILDERS: Final[Mapping[str, Callable[[Facts, Job], Table]]] = {
    PARTITIONS: _groups,
    BROKERS: _brokers,
    THROTTLES: _throttles,
    OPERATIONS: _operations,
}
