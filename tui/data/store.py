"""What the dashboard knows, and the messages that bring it tables.

Everything here is written on the event loop, by the app's handlers of what `kshunt.tui.feed.link`
posts, and of what `kshunt.tui.deriver` has computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from textual.message import Message

from kshunt.tui.actions.view_names import VIEWS
from kshunt.tui.facts.lag_history import LagHistory
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.feed.messages import CONNECTING, Connection
from kshunt.tui.tables.model import Table

if TYPE_CHECKING:
    from kshunt.backend.domain.audit.shown_line import AuditLine
    from kshunt.backend.domain.cluster.metadata import ClusterInfo
    from kshunt.backend.domain.operations.approval import ShownProposal
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.operations.team import Presence
    from kshunt.backend.domain.pipeline.delivered import (
        EffectRow,
        EtaRow,
        PipelinePast,
        PipelineStatus,
        Rows,
    )
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.domain.service.backend_status import BackendStatus
    from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
    from kshunt.tui.facts.overview import Home
    from kshunt.tui.facts.snapshot_facts import Facts, Summary


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
    connection: Connection = CONNECTING
    operations: tuple[Operation, ...] = ()
    backend_status: BackendStatus | None = None
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
    """What was answered at least once (`kshunt.tui.data.questions`): before, none is not nought."""
    pipeline: PipelineStatus | None = None
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
