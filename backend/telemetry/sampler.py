"""The sampler: asks every broker at its own pace and publishes snapshots.

Goals
    Moving partitions every tick, everything else every sweep. A dead or slow broker delays
    nothing but its own rows, which keep what it said last and are marked with their age.
Constraints
    At most one request of a kind is under way to a broker. Nothing here changes the cluster.
    Large clusters are not asked for everything at one time, nor for whole topics every second.
Algorithm
    Every broker has its own time for a sweep, spread over the interval; at other ticks it is asked
    for moving partitions only. A tick starts the requests that are due and not under way, waits
    for those whose last turn was prompt, merges whatever has arrived, and publishes. A request
    that was not prompt is not waited for; its answer is merged by a later tick, or its time-out
    marks the broker silent. Each snapshot is diagnosed before it is published
    (`backend.telemetry.stuck`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backend.admin.port import ClusterAdmin
from backend.clock import Clock
from backend.domain.assignment import Assignment, ClusterState, merge, with_returned
from backend.domain.cluster import Broker, LogDir, OngoingReassignment, TopicPartition
from backend.domain.columns import (
    LogDirColumns,
    OffsetColumns,
    PartitionColumns,
    partition_keys,
)
from backend.domain.snapshot import (
    UNKNOWN,
    BrokerStatus,
    HistoryPoint,
    Snapshot,
)
from backend.domain.stuck import STUCK_CAUSES, Cause, Replica
from backend.domain.throttle import Throttles
from backend.errors import KshuntError
from backend.settings import LIMITS, SamplerSettings
from backend.telemetry import assemble
from backend.telemetry.course import extended
from backend.telemetry.focus import concerned_rows, focused
from backend.telemetry.hub import SnapshotHub
from backend.telemetry.patience import Key, Patience
from backend.telemetry.rates import Rates
from backend.telemetry.stuck import NOTHING_OWNED, Owned, diagnose, dir_moves_of
from backend.telemetry.stuck_words import explain_stuck
from backend.telemetry.watch import Watch

log = logging.getLogger(__name__)

PROMPT_S: Final = 0.5
"""A request that needed longer in its last turn is not waited for in the next one."""

MIN_ISR_SWEEPS: Final = 6
"""Every so many sweeps min.insync.replicas is read."""

SETTLE_S: Final = 5.0
"""So long a partition is watched after its move: a description that was under way when the move
ended is of before, and brokers hear of the end one after the other."""

CLUSTER: Final = -1
REASSIGNMENTS: Final = ("reassignments", CLUSTER)


@dataclass(frozen=True, eq=False)
class _Answer:
    """An answer, and what was asked."""

    key: Key
    asked: Any
    answer: Any
    at_ms: int


@dataclass(eq=False)
class _Picture:
    """What is known so far; owned by the sampler's task."""

    state: ClusterState | None = None
    index: assemble.RowIndex | None = None
    observed: assemble.Observed | None = None
    ongoing: dict[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    watched: frozenset[TopicPartition] = frozenset()
    """Partitions that move, or moved a moment ago."""
    settling: dict[TopicPartition, float] = field(default_factory=dict)
    """Until when a partition whose move has ended is still watched, by the monotonic clock."""
    throttles: Throttles = field(default_factory=lambda: Throttles({}, {}))
    log_dirs: dict[int, tuple[LogDir, ...]] = field(default_factory=dict)
    dir_moves: dict[int, frozenset[Replica]] = field(default_factory=dict)
    """By broker: replicas that it copies to another of its directories."""
    paths: dict[str, int] = field(default_factory=dict)
    answered_ms: dict[int, int] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)
    sweep_ms: int = UNKNOWN
    history: tuple[HistoryPoint, ...] = ()
    min_isr: dict[str, int] = field(default_factory=dict)
    grew: bool = False
    """Whether a description has brought replicas that no list of moves has been asked for since."""


class Sampler:
    """Owns the picture of one cluster; see the module's text."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        settings: SamplerSettings,
        hub: SnapshotHub,
        owned: Callable[[], Owned] = lambda: NOTHING_OWNED,
    ) -> None:
        """`owned` is asked on the event loop, once a snapshot: what our operations need listed."""
        self._admin = admin
        self._owned = owned
        self._clock = clock
        self._settings = settings
        self._hub = hub
        self._picture = _Picture()
        self._running: dict[Key, asyncio.Task[_Answer]] = {}
        self._late: set[Key] = set()
        self._patience = Patience(settings.broker_timeout_s)
        self._version = 0
        self._sweep_due_s = 0.0
        self._min_isr_due_s = 0.0
        self._broker_due_s: dict[int, float] = {}
        self._rates = Rates()
        self._watch = Watch()
        self._wake = asyncio.Event()

    def nudge(self) -> None:
        """Look again at once, at everything: something was changed."""
        self._sweep_due_s = 0.0
        self._broker_due_s.clear()
        self._wake.set()

    async def run(self) -> None:
        """Tick until cancelled."""
        try:
            while True:
                started_s = self._clock.monotonic_s()
                await self.tick()
                rest_s = self._settings.tick_s - (self._clock.monotonic_s() - started_s)
                await self._rest(max(rest_s, 0.05))
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, or for a nudge."""
        waiting = asyncio.ensure_future(self._clock.wait_s(seconds))
        woken = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait({waiting, woken}, return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, woken):
            task.cancel()
        await asyncio.gather(waiting, woken, return_exceptions=True)
        self._wake.clear()

    async def tick(self) -> Snapshot | None:
        """Ask, merge, publish; None while the cluster has not been described yet."""
        self._launch()
        await self._gather_prompt()
        self._merge_answers()
        if self._picture.state is None:
            return None
        if self._picture.grew:
            # A move may have begun after the list was answered and before the description was:
            # what it adds would be shown as a replica that has fallen behind.
            self._picture.grew = False
            self._ask(REASSIGNMENTS, None, self._admin.list_reassignments)
            await self._gather_prompt()
            self._merge_answers()
        snapshot = await asyncio.to_thread(self._snapshot, self._owned())
        await self._hub.publish(snapshot)
        return snapshot

    # Asking

    def _launch(self) -> None:
        now_s = self._clock.monotonic_s()
        sweeping = now_s >= self._sweep_due_s
        if sweeping:
            self._sweep_due_s = now_s + self._settings.sweep_s
        self._ask(REASSIGNMENTS, None, self._admin.list_reassignments)
        picture = self._picture
        if sweeping or picture.state is None:
            self._ask(("describe", CLUSTER), None, self._describe_all)
        elif picture.watched:
            topics = frozenset(partition.topic for partition in picture.watched)
            self._ask(("describe", CLUSTER), topics, self._describe_some)
        if picture.state is not None:
            self._launch_min_isr(picture.state, now_s)
            self._launch_throttles(picture.state, sweeping)
            self._launch_brokers(picture.state, now_s)

    def _launch_min_isr(self, state: ClusterState, now_s: float) -> None:
        """Seldom: it is read of every topic, and is changed once in its life."""
        if now_s >= self._min_isr_due_s:
            topics = state.assignment.topics
            if self._ask(("min isr", CLUSTER), topics, self._ask_min_isr):
                self._min_isr_due_s = now_s + MIN_ISR_SWEEPS * self._settings.sweep_s

    def _launch_throttles(self, state: ClusterState, sweeping: bool) -> None:
        watched = self._picture.watched
        if sweeping or watched:
            moving = sorted({partition.topic for partition in watched})
            topics = state.assignment.topics if sweeping else tuple(moving)
            asked = (tuple(sorted(state.brokers)), topics)
            self._ask(("throttles", CLUSTER), asked, self._ask_throttles)

    def _launch_brokers(self, state: ClusterState, now_s: float) -> None:
        assignment = state.assignment
        watched = _rows_of(assignment, self._picture.watched)
        for place, broker in enumerate(sorted(state.brokers)):
            due_s = self._broker_due_s.get(broker, 0.0)
            sweeping = now_s >= due_s
            if sweeping:
                mine = np.flatnonzero(assignment.broker == broker)
            else:
                mine = watched[assignment.broker[watched] == broker]
            if not len(mine):
                continue
            asked = (broker, _partition_columns(assignment, mine))
            began = self._ask(("offsets", broker), asked, self._ask_offsets)
            self._ask(("log dirs", broker), (*asked, sweeping), self._ask_dirs)
            if sweeping and began:
                share = (place + 1) / len(state.brokers) if not due_s else 1.0
                rest_s = self._patience.rest_s(("sweep", broker), self._settings.sweep_s)
                self._broker_due_s[broker] = now_s + share * rest_s

    def _ask(self, key: Key, asked: Any, call: Any) -> bool:
        """Start a request unless one of this kind is under way to that broker; whether it did."""
        if key in self._running:
            return False
        # Moves are few, and asked of the controller, which may be another by the next turn.
        patient = key != REASSIGNMENTS
        timeout_s = self._patience.timeout_s(key) if patient else self._settings.broker_timeout_s
        request = call(timeout_s=timeout_s) if asked is None else call(asked, timeout_s)
        self._running[key] = asyncio.ensure_future(self._answer(key, asked, request))
        return True

    async def _answer(self, key: Key, asked: Any, request: Coroutine[Any, Any, Any]) -> _Answer:
        started_s = self._clock.monotonic_s()
        try:
            answer = await request
        finally:
            took_s = self._clock.monotonic_s() - started_s
            (self._late.add if took_s > PROMPT_S else self._late.discard)(key)
            self._patience.note(key, took_s)
            if key[0] == "log dirs" and asked[2]:
                self._patience.note(("sweep", key[1]), took_s)
        return _Answer(key, asked, answer, self._clock.now_ms())

    async def _describe_all(self, *, timeout_s: float) -> ClusterState:
        return await self._admin.describe(timeout_s=timeout_s)

    async def _describe_some(self, topics: frozenset[str], timeout_s: float) -> ClusterState:
        return await self._admin.describe(sorted(topics), timeout_s=timeout_s)

    async def _ask_throttles(
        self, asked: tuple[tuple[int, ...], tuple[str, ...]], timeout_s: float
    ) -> Throttles:
        return await self._admin.throttles(*asked, timeout_s=timeout_s)

    async def _ask_min_isr(self, topics: tuple[str, ...], timeout_s: float) -> Mapping[str, int]:
        return await self._admin.min_isr(topics, timeout_s=timeout_s)

    async def _ask_offsets(
        self, asked: tuple[int, PartitionColumns], timeout_s: float
    ) -> OffsetColumns:
        return await self._admin.log_end_offsets(asked[0], asked[1], timeout_s=timeout_s)

    async def _ask_dirs(
        self, asked: tuple[int, PartitionColumns, bool], timeout_s: float
    ) -> LogDirColumns:
        broker, partitions, everything = asked
        return await self._admin.log_dirs(
            broker, None if everything else partitions, timeout_s=timeout_s
        )

    async def _gather_prompt(self) -> None:
        """Wait for requests whose last turn was prompt, at most for one tick."""
        prompt = [task for key, task in self._running.items() if key not in self._late]
        if prompt:
            await asyncio.wait(prompt, timeout=max(self._settings.tick_s, PROMPT_S))
        for key, task in self._running.items():
            if not task.done():
                self._late.add(key)

    # Merging

    def _merge_answers(self) -> None:
        for key in [key for key, task in self._running.items() if task.done()]:
            self._merge(key, self._running.pop(key))

    def _merge(self, key: Key, task: asyncio.Task[_Answer]) -> None:
        picture = self._picture
        try:
            answer = task.result()
        except KshuntError as error:
            picture.problems[key] = str(error)
            return
        picture.problems.pop(key, None)
        match key[0]:
            case "reassignments":
                self._merge_reassignments(answer.answer)
            case "describe":
                self._merge_description(answer)
            case "throttles":
                self._merge_throttles(answer)
            case "min isr":
                self._picture.min_isr = dict(answer.answer)
            case "offsets":
                self._merge_offsets(answer)
            case "log dirs":
                self._merge_log_dirs(answer)

    def _merge_reassignments(self, ongoing: dict[TopicPartition, OngoingReassignment]) -> None:
        picture = self._picture
        before = picture.ongoing.keys()
        if ongoing.keys() != before:
            # What has just begun or ended must be described anew before it is believed: the next
            # tick describes what is watched.
            self._wake.set()
        now_s = self._clock.monotonic_s()
        settling = picture.settling | dict.fromkeys(before - ongoing.keys(), now_s + SETTLE_S)
        picture.settling = {p: s for p, s in settling.items() if s > now_s and p not in ongoing}
        picture.watched = frozenset(ongoing.keys() | picture.settling.keys())
        picture.ongoing = dict(ongoing)

    def _merge_description(self, answer: _Answer) -> None:
        picture, state = self._picture, answer.answer
        if answer.asked is None:
            picture.sweep_ms = answer.at_ms
        elif picture.state is not None:
            known, whole = picture.state.brokers, picture.state.assignment
            if state.brokers.keys() != known.keys():
                # What is not watched was described before a broker came or went.
                whole = with_returned(whole, state.brokers.keys() - known.keys())
                self._sweep_due_s = 0.0
                self._wake.set()
            state = replace(
                state,
                cluster_id=state.cluster_id or picture.state.cluster_id,
                assignment=merge(whole, state.assignment, answer.asked),
            )
        index = assemble.RowIndex(state.assignment)
        if picture.index is None or picture.observed is None:
            picture.observed = assemble.nothing_observed(len(state.assignment))
            self.nudge()
        else:
            picture.grew |= len(state.assignment) > len(picture.index.assignment)
            picture.observed = assemble.carry(picture.index, picture.observed, index)
        picture.state, picture.index = state, index
        # A broker that left cannot be asked, so its last failure would never be cleared.
        for key in [k for k in picture.problems if k[1] >= 0 and k[1] not in state.brokers]:
            del picture.problems[key]

    def _merge_throttles(self, answer: _Answer) -> None:
        _, topics = answer.asked
        fresh: Throttles = answer.answer
        kept = {t: r for t, r in self._picture.throttles.replicas.items() if t not in topics}
        self._picture.throttles = Throttles(
            fresh.rates, {**kept, **fresh.replicas}, fresh.unknown_brokers
        )

    def _merge_offsets(self, answer: _Answer) -> None:
        picture = self._picture
        broker, partitions = answer.asked
        if picture.index is not None and picture.observed is not None:
            assemble.observe_offsets(
                picture.index, picture.observed, broker, partitions, answer.answer, answer.at_ms
            )
            picture.answered_ms[broker] = answer.at_ms

    def _merge_log_dirs(self, answer: _Answer) -> None:
        picture = self._picture
        broker, columns = answer.key[1], answer.answer
        picture.log_dirs[broker] = columns.dirs
        self._renumber_paths()
        _, partitions, everything = answer.asked
        moves = frozenset(dir_moves_of(broker, columns))
        if not everything:
            moves |= not_asked(picture.dir_moves.get(broker, frozenset()), partitions)
        picture.dir_moves[broker] = moves
        if picture.index is not None and picture.observed is not None:
            assemble.observe_log_dirs(
                picture.index, picture.observed, broker, columns, picture.paths, answer.at_ms
            )
            picture.answered_ms[broker] = answer.at_ms

    def _renumber_paths(self) -> None:
        """Keep the numbers of known paths, so that old rows stay right; append new ones."""
        paths = self._picture.paths
        for directories in self._picture.log_dirs.values():
            for directory in directories:
                paths.setdefault(directory.path, len(paths))

    # Publishing

    def _snapshot(self, ours: Owned) -> Snapshot:
        picture = self._picture
        state, index, observed = picture.state, picture.index, picture.observed
        if state is None or index is None or observed is None:
            raise AssertionError("no picture to publish")
        silent = frozenset(
            broker for kind, broker in picture.problems if kind == "offsets" and broker >= 0
        )
        rows = assemble.replicas(index, observed, picture.ongoing, picture.throttles, silent)
        rows = self._rates.update(index, rows)
        self._version += 1
        now_ms = self._clock.now_ms()
        snapshot = Snapshot(
            version=self._version,
            taken_ms=now_ms,
            sweep_ms=picture.sweep_ms,
            cluster_id=state.cluster_id,
            controller=state.controller,
            topics=state.assignment.topics,
            replicas=rows,
            brokers=self._broker_statuses(state, silent),
            throttles=picture.throttles,
            log_dirs=tuple(d for dirs in picture.log_dirs.values() for d in dirs),
            log_dir_paths=tuple(picture.paths),
            problems=tuple(sorted(set(picture.problems.values()))),
            min_isr=self._min_isr(state.assignment.topics),
        )
        snapshot = self._diagnosed(snapshot, ours)
        picture.history = extended(picture.history, snapshot, self._rates.last_lag_bytes)
        return replace(snapshot, history=picture.history)

    def _min_isr(self, topics: tuple[str, ...]) -> tuple[int, ...]:
        """In the order of the topics; the same value again where it is the same."""
        known = self._picture.min_isr
        return tuple(known.get(topic, UNKNOWN) for topic in topics) if known else ()

    def _diagnosed(self, snapshot: Snapshot, ours: Owned) -> Snapshot:
        """Fill in the causes, in place, and add words; who is stuck has no ETA but never."""
        answering = {b for b, status in snapshot.brokers.items() if not status.stale}
        kept = self._picture.dir_moves.items()
        moves = [one for broker, found in kept if broker in answering for one in found]
        rows = concerned_rows(snapshot, moves)
        part = focused(snapshot, rows)
        diagnosis = diagnose(part, self._watch.update(part), moves, ours)
        replicas = snapshot.replicas
        replicas.cause[rows] = diagnosis.causes
        # The average rate of one that has just stopped still promises an end.
        stuck = rows[np.isin(diagnosis.causes, STUCK_CAUSES)]
        replicas.eta_s[stuck] = np.where(replicas.eta_s[stuck] != 0, np.inf, 0.0)
        # One that gets nothing while others have their turn arrives when the queue is through.
        waits = np.flatnonzero(diagnosis.causes == Cause.WAITING_TURN)
        waits = waits[np.isinf(replicas.eta_s[rows[waits]])]
        replicas.eta_s[rows[waits]] = diagnosis.turn_eta_s(waits)
        return replace(snapshot, explained=explain_stuck(diagnosis, LIMITS.replicas_explained))

    def _broker_statuses(
        self, state: ClusterState, silent: frozenset[int]
    ) -> dict[int, BrokerStatus]:
        picture = self._picture
        hosting = {int(broker) for broker in np.unique(state.assignment.broker)}
        statuses = {}
        for broker in sorted(hosting | set(state.brokers)):
            problem = "not registered: it is down or fenced" if broker not in state.brokers else ""
            for kind in ("offsets", "log dirs"):
                problem = problem or picture.problems.get((kind, broker), "")
            statuses[broker] = BrokerStatus(
                broker=state.brokers.get(broker, Broker(broker, "", 0)),
                answered_ms=picture.answered_ms.get(broker),
                stale=broker in silent or broker not in state.brokers,
                problem=problem,
            )
        return statuses


def _rows_of(assignment: Assignment, partitions: frozenset[TopicPartition]) -> NDArray[np.int64]:
    """Indexes of the rows of some partitions."""
    if not partitions:
        return np.zeros(0, np.int64)
    numbers = {topic: number for number, topic in enumerate(assignment.topics)}
    pairs = [(numbers[topic], number) for topic, number in partitions if topic in numbers]
    wanted = np.array(pairs, np.int64).reshape(-1, 2)
    keys = partition_keys(assignment.topic_index, assignment.partition)
    return np.flatnonzero(np.isin(keys, partition_keys(wanted[:, 0], wanted[:, 1])))


def _partition_columns(assignment: Assignment, rows: NDArray[np.int64]) -> PartitionColumns:
    """The partitions of some rows, with a topic list of their own."""
    used, topic_index = np.unique(assignment.topic_index[rows], return_inverse=True)
    return PartitionColumns(
        topics=tuple(assignment.topics[index] for index in used),
        topic_index=topic_index.astype(np.int32),
        partition=assignment.partition[rows],
    )


def not_asked(moves: frozenset[Replica], asked: PartitionColumns) -> frozenset[Replica]:
    """Those of some replicas that a broker was not asked for."""
    if not moves:
        return moves
    numbers = zip(asked.topic_index.tolist(), asked.partition.tolist(), strict=True)
    known = {(asked.topics[topic], partition) for topic, partition in numbers}
    return frozenset(one for one in moves if tuple(one[0]) not in known)
