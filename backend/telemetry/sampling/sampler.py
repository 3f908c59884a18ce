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
    (`kshunt.backend.telemetry.stuck.diagnosis`), and says when what moves will be done
    (`kshunt.backend.telemetry.sampling.forecaster`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.columns import (
    LogDirColumns,
    OffsetColumns,
    PartitionColumns,
    partition_keys,
)
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.replicas.history import SeenRates
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import STUCK_CAUSES, Cause
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.errors import KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.settings import SamplerSettings
from kshunt.backend.telemetry.sampling import replica_lags
from kshunt.backend.telemetry.sampling.catch_up_rates import CatchUpRates
from kshunt.backend.telemetry.sampling.forecaster import Forecaster
from kshunt.backend.telemetry.sampling.move_history import extended, waiting_bytes
from kshunt.backend.telemetry.sampling.observed_state import Answer, AskSooner, ObservedState
from kshunt.backend.telemetry.sampling.request_timeouts import Key, RequestTimeouts
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from kshunt.backend.telemetry.stuck.diagnosis import NOTHING_OURS, OwnOperations, diagnose
from kshunt.backend.telemetry.stuck.evidence import explain_stuck
from kshunt.backend.telemetry.stuck.recent_advance import AdvanceWatch

log = logging.getLogger(__name__)

PROMPT_S: Final = 0.5
"""A request that needed longer in its last turn is not waited for in the next one."""

MIN_ISR_SWEEPS: Final = 6
"""The sampler reads min.insync.replicas of all topics once in this many sweeps."""

CLUSTER: Final = -1
REASSIGNMENTS: Final = ("reassignments", CLUSTER)


class Sampler:
    """Owns what is known of one cluster; see the module's text."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        settings: SamplerSettings,
        hub: SnapshotHub,
        ours: Callable[[], OwnOperations] = lambda: NOTHING_OURS,
        quantiles: Callable[[], Floats] = shipped_quantiles,
    ) -> None:
        """`ours` is asked on the event loop, once a snapshot: what operations of ours do.

        `quantiles` is asked in a thread, for each forecast: those of the calibration in use.
        """
        self._admin = admin
        self._ours = ours
        self._clock = clock
        self._settings = settings
        self._hub = hub
        self._known = ObservedState()
        self._seen_rates = SeenRates()
        self._running: dict[Key, asyncio.Task[Answer]] = {}
        self._late: set[Key] = set()
        self._patience = RequestTimeouts(settings.broker_timeout_s)
        self._version = 0
        self._sweep_due_s = 0.0
        self._min_isr_due_s = 0.0
        self._min_isr_asked: frozenset[str] = frozenset()
        self._broker_due_s: dict[int, float] = {}
        self._rates = CatchUpRates()
        self._watch = AdvanceWatch()
        self._forecaster = Forecaster(quantiles)
        self._wake = asyncio.Event()

    def nudge(self) -> None:
        """Look again immediately, at everything: something was changed."""
        self._ask_sooner(AskSooner.EVERYTHING)

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
        if self._known.state is None:
            return None
        if self._known.grew:
            # A move may have begun after the list was answered and before the description was:
            # what it adds would be shown as a replica that has fallen behind.
            self._known.grew = False
            self._ask(REASSIGNMENTS, None, self._admin.reassignments.ongoing)
            await self._gather_prompt()
            self._merge_answers()
        snapshot = await asyncio.to_thread(self._snapshot, self._ours())
        await self._hub.publish(snapshot)
        return snapshot

    # Asking

    def _launch(self) -> None:
        now_s = self._clock.monotonic_s()
        sweeping = now_s >= self._sweep_due_s
        if sweeping:
            self._sweep_due_s = now_s + self._settings.sweep_s
        self._ask(REASSIGNMENTS, None, self._admin.reassignments.ongoing)
        known = self._known
        if sweeping or known.state is None:
            self._ask(("describe", CLUSTER), None, self._describe_all)
        elif known.watched:
            topics = frozenset(partition.topic for partition in known.watched)
            self._ask(("describe", CLUSTER), topics, self._describe_some)
        if known.state is not None:
            self._launch_min_isr(known.state, now_s)
            self._launch_throttles(known.state, sweeping)
            self._launch_brokers(known.state, now_s)

    def _launch_min_isr(self, state: ClusterState, now_s: float) -> None:
        """Seldom for all topics: it changes once in a topic's life. Of a new topic immediately."""
        due, topics = now_s >= self._min_isr_due_s, frozenset(state.assignment.topics)
        wanted = topics if due else topics - self._min_isr_asked
        if wanted and self._ask(("min isr", CLUSTER), tuple(sorted(wanted)), self._ask_min_isr):
            self._min_isr_asked = topics
            if due:
                self._min_isr_due_s = now_s + MIN_ISR_SWEEPS * self._settings.sweep_s

    def _launch_throttles(self, state: ClusterState, sweeping: bool) -> None:
        watched = self._known.watched
        if sweeping or watched:
            moving = sorted({partition.topic for partition in watched})
            topics = state.assignment.topics if sweeping else tuple(moving)
            asked = (tuple(sorted(state.brokers)), topics)
            self._ask(("throttles", CLUSTER), asked, self._ask_throttles)

    def _launch_brokers(self, state: ClusterState, now_s: float) -> None:
        assignment = state.assignment
        watched = _rows_of(assignment, self._known.watched)
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

    async def _answer(self, key: Key, asked: Any, request: Coroutine[Any, Any, Any]) -> Answer:
        started_s = self._clock.monotonic_s()
        try:
            answer = await request
        finally:
            took_s = self._clock.monotonic_s() - started_s
            (self._late.add if took_s > PROMPT_S else self._late.discard)(key)
            self._patience.note(key, took_s)
            if key[0] == "log dirs" and asked[2]:
                self._patience.note(("sweep", key[1]), took_s)
        return Answer(key, asked, answer, self._clock.now_ms())

    async def _describe_all(self, *, timeout_s: float) -> ClusterState:
        return await self._admin.cluster.describe(timeout_s=timeout_s)

    async def _describe_some(self, topics: frozenset[str], timeout_s: float) -> ClusterState:
        return await self._admin.cluster.describe(sorted(topics), timeout_s=timeout_s)

    async def _ask_throttles(
        self, asked: tuple[tuple[int, ...], tuple[str, ...]], timeout_s: float
    ) -> Throttles:
        return await self._admin.throttles.describe(*asked, timeout_s=timeout_s)

    async def _ask_min_isr(self, topics: tuple[str, ...], timeout_s: float) -> Mapping[str, int]:
        return await self._admin.configs.min_isr(topics, timeout_s=timeout_s)

    async def _ask_offsets(
        self, asked: tuple[int, PartitionColumns], timeout_s: float
    ) -> OffsetColumns:
        return await self._admin.logs.end_offsets(asked[0], asked[1], timeout_s=timeout_s)

    async def _ask_dirs(
        self, asked: tuple[int, PartitionColumns, bool], timeout_s: float
    ) -> LogDirColumns:
        broker, partitions, everything = asked
        return await self._admin.logs.dirs(
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
            try:
                answer = self._running.pop(key).result()
            except KshuntError as error:
                self._known.failed(key, error)
            else:
                self._ask_sooner(self._known.merge(answer, self._clock.monotonic_s()))

    def _ask_sooner(self, again: AskSooner) -> None:
        if again is AskSooner.EVERYTHING:
            self._broker_due_s.clear()
        if again >= AskSooner.DESCRIPTION:
            self._sweep_due_s = 0.0
        if again >= AskSooner.WATCHED:
            self._wake.set()

    # Publishing

    def _snapshot(self, ours: OwnOperations) -> Snapshot:
        known = self._known
        state, index, observed = known.state, known.index, known.observed
        if state is None or index is None or observed is None:
            raise AssertionError("nothing to publish")
        rows = replica_lags.replicas(
            *(index, observed, known.ongoing, known.throttles, known.silent()),
            known.failed_dirs(),
        )
        rows = self._rates.update(index, rows)
        self._version += 1
        now_ms = self._clock.now_ms()
        snapshot = Snapshot(
            version=self._version,
            taken_ms=now_ms,
            sweep_ms=known.sweep_ms,
            cluster_id=state.cluster_id,
            controller=state.controller,
            topics=state.assignment.topics,
            replicas=rows,
            brokers=known.broker_statuses(state),
            throttles=known.throttles,
            log_dirs=tuple(d for dirs in known.log_dirs.values() for d in dirs),
            log_dir_paths=tuple(known.paths),
            failed_requests=known.failed_requests(),
            min_isr=known.min_isr_of(state.assignment.topics),
            deletes_ms=replica_lags.deletion_times(state.assignment),
        )
        snapshot = self._diagnosed(snapshot, ours)
        known.history = extended(
            known.history,
            snapshot,
            self._rates.last_lag_bytes,
            waiting_bytes(snapshot, ours.running),
            rates_changed=self._seen_rates.changed(snapshot.throttles),
        )
        return replace(snapshot, history=known.history)

    def _diagnosed(self, snapshot: Snapshot, ours: OwnOperations) -> Snapshot:
        """Fill in the causes and when each arrives, in place; add words, and expected ends."""
        answering = {b for b, status in snapshot.brokers.items() if not status.stale}
        found_moves = self._known.dir_moves.items()
        moves = [one for broker, found in found_moves if broker in answering for one in found]
        waiting = [move.partition for one in ours.running for move in one.waiting]
        rows = concerned_rows(snapshot, moves, waiting)
        part = focused(snapshot, rows)
        watched = self._watch.update(part)
        diagnosis = diagnose(part, watched, moves, ours)
        replicas = snapshot.replicas
        replicas.cause[rows] = part.replicas.cause[:] = diagnosis.causes
        written = watched.written_bytes_per_s
        forecast = self._forecaster.update(part, watched.keys, written, ours.running)
        eta_s = forecast.eta_s(watched.keys, snapshot.taken_ms)
        # A forecast is some seconds old. A replica that is stuck by now does not arrive. One that
        # is held on purpose arrives some time after somebody resumes it. One that is being deleted
        # arrives nowhere.
        eta_s[np.isin(diagnosis.causes, STUCK_CAUSES)] = np.inf
        eta_s[np.isin(diagnosis.causes, (Cause.PAUSED, Cause.DELETION_WAITS))] = np.nan
        in_sync = part.replicas.status == ReplicaStatus.IN_SYNC
        replicas.eta_s[rows] = np.where(in_sync, 0.0, eta_s)
        explained = explain_stuck(diagnosis, LIMITS.replicas_explained)
        return replace(snapshot, explained=explained, expected_ends=forecast.ends)


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
