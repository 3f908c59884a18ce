"""What the home screen says of a snapshot: health, progress, operations, the worst replicas.

Computed off the event loop; `kshunt.tui.views.overview.layout` writes it for a size of the
terminal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, ReplicaStatus
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.formatting import percent_done_text
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.facts.cockpit.cockpit import Cockpit, cockpit_of
from kshunt.tui.facts.cockpit.events import EventLog
from kshunt.tui.facts.cockpit.traffic import TrafficCourse
from kshunt.tui.facts.health import Health, health_of
from kshunt.tui.facts.moves.bounds import Bound, bound_of
from kshunt.tui.facts.moves.finished_moves import FinishedMoves
from kshunt.tui.facts.moves.reached import Reached
from kshunt.tui.facts.moves.waiting_copies import waiting_copies
from kshunt.tui.facts.progress import (
    Progress,
    all_held,
    copied_rows,
    progress_of,
    throttled,
    unsaid_bytes,
)
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts, Summary, known_sum
from kshunt.tui.facts.transfer_history import SeenTransfer, SeenTransfers, running_s
from kshunt.tui.facts.view_query import PARTS

if TYPE_CHECKING:
    from kshunt.tui.facts.view_query import Job

WORST_MOST: Final = 20
OPERATIONS_MOST: Final = 20
_UNKNOWN_IS: Final = 1e19
"""Of a replica that is being added; worse than any number of bytes."""
_NEVER_IS: Final = 1e21
_STUCK_IS: Final = 1e23


@dataclass(frozen=True, slots=True)
class Total:
    """How far something is as a whole: all that moves, or one operation."""

    done_bytes: int = UNKNOWN
    left_bytes: int = UNKNOWN
    """What is still to be copied, as far as is known; what waits for its turn included."""
    left_unknown: int = 0
    """Replicas that do not say how much they lack."""
    waiting: int = 0
    """Partitions that wait for their turn."""
    more_bytes: int = 0
    """At most so much more is left; UNKNOWN: nobody can tell."""
    reached: float | None = None
    """The highest share so far; None where that was not watched."""

    @property
    def known(self) -> bool:
        """True where the amounts can be told."""
        return self.done_bytes >= 0 and self.left_bytes >= 0 and self.whole_bytes > 0

    @property
    def whole_bytes(self) -> int:
        """What is copied and what is left together; UNKNOWN where either is."""
        if self.done_bytes < 0 or self.left_bytes < 0:
            return UNKNOWN
        return self.done_bytes + self.left_bytes

    @property
    def share(self) -> float:
        """At least so much is done, from 0 to 1; NaN if unknown. 1 only when nothing is left."""
        if self.reached is not None:
            return self.reached
        if not self.known or self.more_bytes < 0:
            return math.nan
        return self.done_bytes / (self.whole_bytes + self.more_bytes)


def share_text(total: Total) -> str:
    """`45%`; `>45%` where replicas do not say how much they lack; 100% only at the end."""
    if math.isnan(total.share):
        return "?%"
    percent = percent_done_text(min(total.share, 0.99) if total.left_bytes else 1.0)
    return f">{percent}" if total.left_unknown else percent


def watched(total: Total, id: str, reached: Reached, at_ms: int) -> Total:
    """The same with the highest share so far; nothing is added where nobody has known any."""
    if total.known and total.more_bytes >= 0:
        whole = total.whole_bytes + total.more_bytes
        return replace(total, reached=reached.take(id, at_ms, total.done_bytes, whole))
    return replace(total, reached=reached.known(id) or None)


@dataclass(frozen=True, slots=True)
class OperationLine:
    """An operation and how far it is."""

    operation: Operation
    progress: Progress | None
    """None where it has ended, or moves nothing."""
    reached: float | None = None
    """The highest share so far; None where that was not watched."""

    @property
    def total(self) -> Total:
        """How far it is as a whole."""
        one = self.progress or Progress()
        return Total(
            one.done_bytes,
            one.left_bytes,
            one.left_unknown,
            one.waiting,
            one.more_bytes,
            self.reached,
        )


@dataclass(frozen=True, slots=True)
class WorstReplica:
    """A replica that needs longest, or never arrives."""

    key: ReplicaKey
    status: str
    """One or two words."""
    tone: str
    lag_bytes: int
    rate_bytes_per_s: float
    """What it fetches; NaN if unknown."""
    eta_s: float
    cause: str
    """Why it does not come nearer, in a few words; empty where it does."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the home screen says about one snapshot."""

    taken_ms: int
    summary: Summary
    health: Health
    total: Total
    running: tuple[OperationLine, ...] = ()
    """Operations that have not ended, the newest first."""
    running_more: int = 0
    """How many more operations run than are listed."""
    ended: tuple[Operation, ...] = ()
    """The newest of those that have ended."""
    worst: tuple[WorstReplica, ...] = ()
    behind: int = 0
    """Replicas from which the worst ones were taken."""
    permitted_bytes_per_s: int | None = None
    """What the follower rates of everything that moves let through; None where they do not bound
    all of it, or are not known."""
    bound: Bound = Bound.ALL
    """Whether throttles bound it at all."""
    throttled: bool = False
    """Whether any throttle is set."""
    now_ms: int = 0
    running_s: float = 0.0
    """For how long the oldest operation runs that moves something."""

    @property
    def idle(self) -> bool:
        """True while nothing moves, and nothing waits for its turn."""
        return not self.summary.moving_partitions and not self.total.waiting


@dataclass(frozen=True, slots=True)
class Home:
    """What the head and the home screen share."""

    total: Total
    health: Health
    overview: Overview | None = None
    """None where the home screen was not looked at since the newest snapshot."""
    held: bool = False
    """All that moves stands still on purpose."""
    history: tuple[SeenTransfer, ...] = ()
    """Of the time up to the newest snapshot; computed for the views that plot it."""
    cockpit: Cockpit | None = None
    """The newest; None until the home screen had room for its parts, or nothing moved."""


class HomeBuilder:
    """Makes a `Home` of each job, and remembers the course and the batch. For one thread."""

    def __init__(self) -> None:
        self._history = SeenTransfers()
        self._events = EventLog()
        self._traffic = TrafficCourse()
        self._finished = FinishedMoves()
        self._reached = Reached()
        self._home = Home(Total(), Health())
        self._of: object = None
        self._cluster_id = ""

    def home(self, facts: Facts, job: Job, *, plots: bool) -> Home:
        """What there is to say of a job's snapshot; `plots` where its view shows the course."""
        snapshot = facts.snapshot
        history = SeenTransfers() if job.past else self._history
        history.take(facts)
        if not job.past:
            self._events.take(snapshot)
        if self._cluster_id != snapshot.cluster_id:
            self._cluster_id, self._home = snapshot.cluster_id, Home(Total(), Health())
            self._finished, self._reached = FinishedMoves(), Reached()
        of = (snapshot.cluster_id, snapshot.version, snapshot.taken_ms, job.operations)
        if self._of != of:
            self._of = of
            health = health_of(facts)
            total = total_of(facts, job.operations, self._finished)
            self._forget(total, job)
            total = self._watched(total, EVERYTHING, job)
            held = all_held(facts, job.operations)
            # What the home screen said of another snapshot would contradict the head.
            self._home = replace(self._home, total=total, health=health, held=held, overview=None)
        if job.view == OVERVIEW:
            overview = overview_of(facts, job, self._home.health, self._home.total)
            running = tuple(self._line(one, job) for one in overview.running)
            self._home = replace(self._home, overview=replace(overview, running=running))
            # While nothing moves, a small screen tells what is produced, too.
            if job.query.group == PARTS or overview.idle:
                events = self._events.events(job.operations, past=job.past)
                ended = self._finished.partitions
                traffic = self._traffic.take(facts, past=job.past)
                cockpit = cockpit_of(facts, job.operations, ended, traffic, events)
                self._home = replace(self._home, cockpit=cockpit)
        if plots:
            self._home = replace(self._home, history=history.until(snapshot.taken_ms))
        return self._home

    def _line(self, one: OperationLine, job: Job) -> OperationLine:
        if one.progress is None:
            return one
        total = self._watched(one.total, one.operation.id, job)
        return replace(one, reached=total.reached)

    def _watched(self, total: Total, id: str, job: Job) -> Total:
        """With the highest share so far. A moment of the past looks the same by every way."""
        return total if job.past else watched(total, id, self._reached, job.snapshot.taken_ms)

    def _forget(self, total: Total, job: Job) -> None:
        """What has ended starts anew."""
        if not job.past:
            running = {one.id for one in job.operations if not one.state.ended}
            self._reached.keep(running | ({EVERYTHING} if total != Total() else set()))


def overview_of(facts: Facts, job: Job, health: Health, total: Total) -> Overview:
    """The home screen's facts."""
    newest = sorted(job.operations, key=lambda one: (one.started_ms, one.id), reverse=True)
    running = [one for one in newest if not one.state.ended]
    history = facts.snapshot.history
    bound = history[-1].permitted_bytes_per_s if history and facts.arriving.any() else None
    worst, behind = worst_replicas(facts)
    return Overview(
        taken_ms=facts.snapshot.taken_ms,
        summary=facts.summary,
        health=health,
        total=total,
        running=tuple(
            OperationLine(one, progress_of(facts, one)) for one in running[:OPERATIONS_MOST]
        ),
        running_more=max(len(running) - OPERATIONS_MOST, 0),
        ended=tuple([one for one in newest if one.state.ended][:OPERATIONS_MOST]),
        worst=worst,
        behind=behind,
        permitted_bytes_per_s=bound,
        bound=bound_of(facts),
        throttled=throttled(facts),
        now_ms=job.now_ms,
        running_s=running_s(running, facts.snapshot.taken_ms),
    )


def total_of(
    facts: Facts, operations: Sequence[Operation], finished: FinishedMoves | None = None
) -> Total:
    """What was copied by the moves that run and what is left, waiting ones included.

    An operation's replicas that have arrived count as copied. Of moves that have ended, or that no
    operation here owns, `finished` remembers what it has seen of them while others continue.
    """
    running = [one for one in operations if not one.state.ended and one.partitions]
    counted = facts.arriving.copy()
    for one in running:
        counted |= copied_rows(facts, one)
    waits = [waiting_copies(facts, one) for one in running]
    waiting = sum(one.waiting for one in running)
    moves = bool(facts.arriving.any()) or waiting > 0
    done = (finished or FinishedMoves()).take(facts, counted, lives=moves or bool(running))
    if not moves:
        return Total()
    left, left_unknown = known_sum(facts.rows.lag_bytes[facts.arriving])
    if any(len(one.broker) for one in waits):
        left = max(left, 0) + sum(one.left_bytes for one in waits)
    untold = sum(one.unknown for one in waits)
    more = UNKNOWN if untold else unsaid_bytes(facts, facts.arriving)
    return Total(done, left, left_unknown + untold, waiting, more)


def worst_replicas(facts: Facts, most: int = WORST_MOST) -> tuple[tuple[WorstReplica, ...], int]:
    """Stuck replicas, then those that never arrive at their rate, then the furthest from done.

    And how many replicas have not arrived at all.
    """
    rows = facts.rows
    places = np.flatnonzero((facts.behind & ~rows.in_isr) | facts.stuck)
    if not len(places):
        return (), 0
    lag = rows.lag_bytes[places].astype(np.float64)
    never = rows.adding[places] & np.isinf(rows.eta_s[places])
    unknown = np.where(rows.adding[places], _UNKNOWN_IS, 0.0)
    badness = np.where(lag < 0, unknown, lag) + never * _NEVER_IS
    badness += facts.stuck[places] * _STUCK_IS
    few = np.argpartition(-badness, min(most, len(places)) - 1)[:most]
    chosen = places[few[np.lexsort((places[few], -badness[few]))]]
    return tuple(_worst(facts, int(place)) for place in chosen), len(places)


_STATUS: Final = {
    ReplicaStatus.IN_SYNC: ("in sync", ""),
    ReplicaStatus.BEHIND: ("behind", ""),
    ReplicaStatus.LAG_UNKNOWN: ("unknown", "warn"),
    ReplicaStatus.OFFLINE: ("offline", "bad"),
}


def _state_word(cause: Cause, status: str) -> str:
    """How a replica stands, in one word."""
    if cause is Cause.PAUSED:
        return "paused"
    return "stuck" if cause.is_stuck else status


def _worst(facts: Facts, place: int) -> WorstReplica:
    rows = facts.rows
    cause = Cause(int(rows.cause[place]))
    status, tone = _STATUS[ReplicaStatus(int(rows.status[place]))]
    stuck = bool(facts.stuck[place])
    eta_s = float(rows.eta_s[place])
    never = math.isinf(eta_s) and not stuck
    return WorstReplica(
        key=ReplicaKey(
            facts.snapshot.topic_of(place), int(rows.partition[place]), int(rows.broker[place])
        ),
        status=_state_word(cause, status),
        tone="bad" if stuck or never else tone,
        lag_bytes=int(rows.lag_bytes[place]),
        rate_bytes_per_s=float(rows.fetched_bytes_per_s[place]),
        eta_s=eta_s,
        cause="" if cause is Cause.NONE else CAUSE_TEXTS[cause].short,
    )
