"""What the dashboard shows: a scene, and what the screens themselves know of it.

Everything here is written on the event loop, by the app's handlers of what a feed tells, and of
what `kshunt.tui.table_thread` has computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from textual.message import Message

from kshunt.tui.actions.view_names import VIEWS
from kshunt.tui.facts.lag_history import LagHistory
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, OWNED
from kshunt.tui.feed.scene import Scene
from kshunt.tui.tables.column_choice import ColumnChoice
from kshunt.tui.tables.model import Order, Table

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.tui.facts.endings import Ending
    from kshunt.tui.facts.overview import Home
    from kshunt.tui.facts.rate_band import RateBand, RateChange
    from kshunt.tui.facts.snapshot_facts import Facts, Summary

WATCHED_GAP_MS: Final = 5_000
"""At most this far apart are two snapshots of something that is watched all the time."""


class TableReady(Message):
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
        return isinstance(message, TableReady) and message.job.view == self.job.view


class TableFailed(Message):
    """A table could not be computed; the last one stays."""

    def __init__(self, view: str, reason: str) -> None:
        super().__init__()
        self.view = view
        self.reason = reason


@dataclass(repr=False)
class Store:
    """The scene that is shown, and what was made of it.

    It has no `repr`: Textual asks for one of each work that it starts, with all its arguments.
    """

    now_s: Callable[[], float]
    """The clock that times of the scene are of; in playback it goes back, too."""
    scene: Scene = field(default_factory=Scene)
    """The live one, or that of the moment in playback; replaced whole, never changed."""
    session: str = ""
    """Which of the sessions at the backend this dashboard is."""
    recording: str = ""
    """Why nothing is recorded any more, or empty."""
    home: Home | None = None
    """What the head and the home screen say of the snapshot; None before the first one."""
    summary: Summary | None = None
    facts: Facts | None = None
    """Of the snapshot that the tables show."""
    foreign: int = 0
    """Partitions that move, throttled, and that no operation here owns."""
    ending: Ending | None = None
    """The last operation that was seen to end; None once something else moves."""
    isr_drops: dict[str, int] = field(default_factory=dict)
    """By the id of an operation that runs: the most partitions that were under-replicated."""
    _watched_ms: int = 0
    """The newest snapshot of which that was noted, by the backend's clock."""
    lags: LagHistory = field(default_factory=LagHistory)
    """How the lags of moving replicas went; written by the thread of `TableThread`."""
    band: RateBand | None = None
    """Within which rates are changed without another question; it may have ended."""
    rate_changes: list[RateChange] = field(default_factory=list)
    """Changes of rates that were sent from here, the last one last."""
    queries: dict[str, Query] = field(default_factory=lambda: dict.fromkeys(VIEWS, Query()))
    columns: dict[str, ColumnChoice] = field(default_factory=dict)
    """By one of `kshunt.tui.actions.view_names.CHOSEN_TABLES`: what an operator chose."""
    tables: dict[str, Table] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    """What each table was computed for."""

    @property
    def age_s(self) -> float:
        """How long ago the newest snapshot came."""
        return max(self.now_s() - self.scene.received_s, 0.0)

    @property
    def data_age_s(self) -> float:
        """How old what is shown is: older than its snapshot where no broker answered for it."""
        snapshot = self.scene.snapshot
        return self.age_s + (0 if snapshot is None else snapshot.unseen_ms) / 1000

    @property
    def now_ms(self) -> int:
        """The backend's clock: what it said last, and the time since."""
        snapshot = self.scene.snapshot
        return (0 if snapshot is None else snapshot.taken_ms) + round(self.age_s * 1000)

    def begin_with(
        self, orders: Mapping[str, Order] | None, columns: Mapping[str, ColumnChoice] | None
    ) -> None:
        """Take the orders and columns that an operator chose before."""
        for view, order in (orders or {}).items():
            self.ask(view, order=order)
        self.columns.update(columns or {})

    def ask(self, view: str, **changes: object) -> Query:
        """Change what a view shows."""
        query = replace(self.queries[view], **changes)  # type: ignore[arg-type]
        self.queries[view] = query
        return query

    def job(self, view: str, *, past: bool) -> Job | None:
        """What has to be computed for a view, or None while there is nothing to show.

        `past` where the scene is one of a recording.
        """
        scene = self.scene
        if scene.snapshot is None:
            return None
        return Job(
            view,
            self.queries[view],
            scene.snapshot,
            scene.operations,
            self.now_ms,
            past,
            scene.answer(DRIFT),
            scene.answer(ORPHANS),
            scene.answer(OWNED),
        )

    def take_table(self, ready: TableReady) -> None:
        """A table is ready."""
        if ready.table is not None:
            self.tables[ready.job.view] = ready.table
        self.hints[ready.job.view] = ready.hint
        # A job holds its snapshot: one of a view that is out of sight would keep an old one.
        self.jobs = {ready.job.view: ready.job}
        self.facts = ready.facts
        self.summary = ready.summary
        self.foreign = ready.foreign
        self.home = ready.home or self.home
        taken_ms = ready.job.snapshot.taken_ms
        ended_ms = 0 if self.ending is None else self.ending.operation.ended_ms or 0
        # A snapshot from before the end may be shown after it.
        if ready.summary.moving_partitions and taken_ms > ended_ms:
            self.ending = None
        if self.home is not None and not ready.job.past:
            self._note_isr_drops(self.home.health.under_replicated, taken_ms)

    def _note_isr_drops(self, under_replicated: int, taken_ms: int) -> None:
        """Of each operation that runs. After a gap in the snapshots, a count of 0 is unknown."""
        from kshunt.backend.domain.replicas.snapshot import UNKNOWN

        unseen = taken_ms - self._watched_ms > WATCHED_GAP_MS
        self._watched_ms = taken_ms
        drops = {}
        for one in self.scene.operations:
            if one.state.ended:
                continue
            from_its_start = taken_ms - one.started_ms <= WATCHED_GAP_MS
            known = self.isr_drops.get(one.id, 0 if from_its_start else UNKNOWN)
            if unseen and known == 0 and not from_its_start:
                known = UNKNOWN
            drops[one.id] = max(known, under_replicated) if under_replicated else known
        self.isr_drops = drops

    def end(self, operation: Operation, before: Operation | None) -> Ending:
        """An operation has ended: what was seen of it.

        `before` is how it was while it ran; None where its end was not watched.
        """
        from kshunt.backend.domain.replicas.snapshot import UNKNOWN
        from kshunt.tui.facts.endings import Ending, copied_bytes

        if before is None or self.facts is None:
            self.ending = Ending(operation)
            return self.ending
        copied, seen_ms = UNKNOWN, self.facts.snapshot.taken_ms
        if (operation.ended_ms or 0) - seen_ms <= WATCHED_GAP_MS:
            copied = copied_bytes(self.facts, operation, before)
        drops = self.isr_drops.get(operation.id, UNKNOWN)
        if copied == UNKNOWN and drops == 0:
            drops = UNKNOWN
        self.ending = Ending(operation, copied, drops)
        return self.ending
