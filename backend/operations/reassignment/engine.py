"""The engine: takes every operation that has not ended a step further, tick after tick.

Goals
    Whatever crashed, each operation comes to an end, and its throttle with it. Any backend can
    go on where another stopped.
Constraints
    The cluster is the only source of truth about what moves and what is throttled; the journal is
    the only source of truth about what was meant. Each effect is a wish that may be repeated.
Algorithm
    A tick reads what moves, writes those throttles that were decided and did not take hold, and
    then looks at each operation: which step of `backend.domain.operations.lifecycle.STEPS` is due.
    A step is written to the journal before its effect. A move whose answer is missing is looked for
    before it is submitted again. KIP-179, "On Controller Failover", is the model.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from backend.admin.port.cluster_admin import ReassignOptions, ReassignOutcome
from backend.admin.rpc.request_fate import Fate, fate_of, item_of
from backend.domain.cluster.assignment import partition_states
from backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from backend.domain.operations.operation import Operation, OperationKind, OperationState
from backend.domain.text.formatting import listed
from backend.errors import JournalFenced, JournalUnavailable, KshuntError, NotActing
from backend.offload import offload
from backend.operations.core.context import Context
from backend.operations.core.results import failures
from backend.operations.moves.schedule import next_batch
from backend.operations.ownership.drift import ListDrift, RateDrift, drift
from backend.operations.ownership.ownership import FoundSettings
from backend.operations.reassignment.cancelling import Cancellations, return_again, returning
from backend.operations.reassignment.pausing import Pausing
from backend.operations.reassignment.throttle_removal import ThrottleRemoval
from backend.operations.shrink.runner import ShrinkRunner
from backend.operations.state.reassignment_work import ReassignmentWork
from backend.operations.throttles.drift_audit import DriftAudit

log = logging.getLogger(__name__)

State = OperationState
SCHEDULE_EVERY_S: Final = 1.0
SCHEDULE_SHARE: Final = 5.0
"""A schedule is made no oftener than this many times as long as it takes to read for it."""

ENDS_WITH_ANSWER: Final = frozenset(
    {
        OperationKind.CANCEL,
        OperationKind.THROTTLED_RATES,
        OperationKind.THROTTLED_REPLICAS,
        OperationKind.DRIFT,
        OperationKind.ORPHANS,
        OperationKind.ALTER_TOPICS,
        OperationKind.DELETE_PARTITIONS,
    }
)
"""What begins and ends while its verb holds the lock."""

Ongoing = Mapping[TopicPartition, OngoingReassignment]


class Engine:
    """See the module's text."""

    def __init__(self, context: Context, shrinks: ShrinkRunner | None = None) -> None:
        """`shrinks` takes shrinks further; None: this backend leaves them as they are."""
        self._context = context
        self._shrinks = shrinks
        self._registry = context.registry
        self._admin = context.admin
        self._pausing = Pausing(context)
        self._lifting = ThrottleRemoval(context, self._pausing)
        self._drift_told = DriftAudit(context.registry)
        self.cancellations = Cancellations(context)
        self._schedule_from_s = float("-inf")
        self.drift: tuple[RateDrift | ListDrift, ...] = ()
        """What somebody else did to throttles of running operations, by the last tick."""

    @property
    def busy(self) -> bool:
        """True while an operation has not ended, so that this backend must live on."""
        return bool(self._registry.unfinished)

    async def tick(self) -> None:
        """Take everything a step further; safe to call at any time, and while a verb is at work."""
        if self._context.lock.locked() or not self._pending():
            return
        async with self._context.lock:
            try:
                self._registry.require()
                await self._registry.settle()
                await self._tick()
            except (NotActing, JournalFenced, JournalUnavailable) as stopped:
                log.info("The engine stands still: %s", stopped)
            except KshuntError as error:
                # The sampler shows that the cluster does not answer; the next tick tries again.
                log.info("The engine's tick came to nothing: %s", error)

    def _pending(self) -> bool:
        ownership = self._registry.ownership
        return (
            self._registry.in_doubt
            or bool(self._registry.unfinished)
            or any(cell.live for cell in ownership.rates.values())
            or any(cell.live for cell in ownership.lists.values())
        )

    async def recover(self, inherited: Collection[str]) -> None:
        """Begin to act after another backend: what ended with it, and left nothing, is closed.

        `inherited` are the operations that it left unfinished.

        Raises:
            NotActing, JournalFenced, JournalUnavailable: this backend acts no more.
        """
        if not inherited:
            return
        async with self._context.lock:
            for operation_id in self._registry.unfinished:
                if operation_id in inherited and not self._goes_on(operation_id):
                    await self._registry.move(operation_id, State.FAILED, _LOST)

    async def _tick(self) -> None:
        ongoing = await self._context.ongoing()
        present = await self._context.throttling.present()
        self.drift = await offload(self._moves, drift, self._registry.ownership, present)
        await self._drift_told.tell(self.drift)
        await self._outstanding(present)
        await self._close(ongoing)
        for operation_id in self._registry.unfinished:
            try:
                await self._one(operation_id, ongoing)
            except (NotActing, JournalFenced, JournalUnavailable):
                raise
            except KshuntError as error:
                self._remark(operation_id, f"no step was taken: {error}")
            # The engine's edge: one operation that fails must not stop the others.
            except Exception as error:
                log.exception("Operation %s: a step failed", operation_id)
                self._remark(operation_id, f"no step was taken: {error!r}; see the backend's log")

    async def _one(self, operation_id: str, ongoing: Ongoing) -> None:
        """The step of one operation that is due."""
        operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
        shrink = self._registry.shrink(operation_id)
        if operation is None:
            return
        if work is not None:
            await self.advance(operation, work, ongoing)
        elif shrink is not None and self._shrinks is not None:
            await self._shrinks.advance(operation, shrink)

    def _goes_on(self, operation_id: str) -> bool:
        """Whether the journal says how to go on with an operation."""
        registry = self._registry
        operation = registry.get(operation_id)
        return (
            registry.work(operation_id) is not None
            or registry.shrink(operation_id) is not None
            or (operation is not None and self.cancellations.recorded(operation))
        )

    async def _close(self, ongoing: Ongoing) -> None:
        """End what ends with its answer and failed before it: while a tick holds the lock, no such
        verb is at work. A cancellation is carried out first."""
        for operation_id in self._registry.unfinished:
            operation = self._registry.get(operation_id)
            if operation is None or operation.kind not in ENDS_WITH_ANSWER:
                continue
            if self.cancellations.recorded(operation):
                await self._finish(operation, ongoing)
            elif not self._goes_on(operation_id):
                await self._registry.move(operation_id, State.FAILED, _LOST)

    async def _finish(self, operation: Operation, ongoing: Ongoing) -> None:
        try:
            await self.cancellations.finish(operation, ongoing)
        except (NotActing, JournalFenced, JournalUnavailable):
            raise
        except KshuntError as error:
            self._remark(operation.id, f"not cancelled yet: {error}")

    def _remark(self, operation_id: str, words: str) -> None:
        operation = self._registry.get(operation_id)
        if operation is not None and not operation.state.ended:
            self._registry.remark(replace(operation, outcome=words))

    @property
    def _moves(self) -> int:
        """Partitions that operations have to do with that have not ended."""
        works = (self._registry.work(one) for one in self._registry.unfinished)
        return sum(len(work.moves) for work in works if work is not None)

    async def _outstanding(self, present: FoundSettings) -> None:
        """Write what was decided and did not take hold, as after a crash."""
        ownership = self._registry.ownership
        step = await offload(self._moves, ownership.outstanding, present)
        if self._registry.ownership is not ownership:
            # It changed meanwhile; the next tick looks again.
            return
        await self._registry.keep(step.after)
        if step.writes:
            await self._context.throttling.carry_out(step.writes, present)

    # One operation

    async def advance(self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing) -> None:
        """The step that is due, if one is.

        Raises:
            KshuntError: it could not be taken; the next tick tries again.
        """
        if work.unanswered and operation.state is not State.CANCELLING:
            operation, work = await self._found(operation, work, ongoing)
        if operation.state not in (State.CANCELLING, State.LIFTING) and (
            back := returning(work, ongoing)
        ):
            operation, work = await return_again(self._context, operation, work, back)
        match operation.state:
            case State.STARTING | State.RUNNING:
                await self._run(operation, work, ongoing)
            case State.PAUSING | State.PAUSED | State.RESUMING:
                await self._paused(operation, work, ongoing)
            case State.CANCELLING:
                await self._cancelling(operation, work, ongoing)
            case State.LIFTING:
                await self.lift(operation, work)

    async def _run(self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing) -> None:
        if work.failed:
            await self.lift(operation, work)
        elif work.waiting and not work.adopted:
            await self._start_more(operation, work)
        elif not work.in_flight(ongoing) and not await self._log_dirs_moving(work):
            await self.lift(operation, work)

    async def _paused(self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing) -> None:
        if not work.waiting and not work.in_flight(ongoing):
            await self.lift(operation, work)
        elif operation.state is State.RESUMING:
            await self._pausing.resume(operation, work)
        else:
            await self._pausing.hold(operation, work)

    # Submitting

    async def _start_more(self, operation: Operation, work: ReassignmentWork) -> None:
        """Submit what may start; all of it where there are no caps."""
        if why := await self._admin.accepts_moves(timeout_s=self._context.timeout_s):
            self._remark(operation.id, f"waits: {why}")
            return
        if work.caps is None:
            await self.submit(operation, work, work.waiting)
            return
        began_s = self._context.clock.monotonic_s()
        if began_s < self._schedule_from_s:
            return
        view = await self._context.view(work.topics)
        took_s = self._context.clock.monotonic_s() - began_s
        self._schedule_from_s = began_s + max(SCHEDULE_EVERY_S, took_s * SCHEDULE_SHARE)
        batch = await offload(len(work.moves), next_batch, work.queue, view)
        if batch.arrived:
            work = replace(work, started=work.started | frozenset(batch.arrived))
            await self._registry.put(operation, work)
        if batch.start:
            await self.submit(operation, work, [move.partition for move in batch.start])
        elif batch.held:
            self._remark(operation.id, str(batch))

    async def submit(
        self, operation: Operation, work: ReassignmentWork, batch: Iterable[TopicPartition]
    ) -> ReassignOutcome:
        """Write the intent, submit the moves, and write the answer.

        Raises:
            ClusterUnreachable: it is not known whether they were submitted; a tick finds out.
            NotActing, JournalFenced, JournalUnavailable: the backend that acts finds out.
        """
        wanted = tuple(batch)
        work = work.submitting(wanted)
        await self._registry.put(operation, work)
        self._registry.require()
        outcome = await self._submitted(work, wanted)
        if outcome.unknown:
            await self._registry.move(operation.id, State.UNKNOWN, "it is not known what moves")
            return outcome
        taken = {partition for partition, result in outcome.results.items() if result.ok}
        work = work.answered(taken, outcome.results.keys() - taken)
        refused = failures({p: r for p, r in outcome.results.items() if not r.ok})
        words = f"{len(refused)} refused: {listed(refused, 2)}" if refused else ""
        if not work.live and not work.waiting and not work.cancelled:
            work = replace(work, failed=f"refused: {refused[0] if refused else 'nothing moves'}")
            await self._registry.put(operation, work)
        else:
            await self._registry.put(self._context.to(operation, State.RUNNING, words), work)
        return outcome

    async def _submitted(
        self, work: ReassignmentWork, wanted: Iterable[TopicPartition]
    ) -> ReassignOutcome:
        """What the cluster says; a request that it refuses is refused for each partition.

        Raises:
            KshuntError: it is not known, or it may be taken in a moment.
        """
        targets = {partition: work.moves[partition].target for partition in wanted}
        options = ReassignOptions(
            allow_replication_factor_change=work.factor_may_change, timeout_s=work.timeout_s
        )
        log_dirs = {key: path for key, path in work.log_dirs.items() if key[0] in targets}
        try:
            return await self._admin.reassign_partitions(targets, options, log_dirs)
        except KshuntError as error:
            if fate_of(error) is not Fate.REFUSED:
                raise
            return ReassignOutcome(dict.fromkeys(targets, item_of(error)), {}, {}, {})

    async def _found(
        self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing
    ) -> tuple[Operation, ReassignmentWork]:
        """Whether moves whose answer is missing were submitted, by what the cluster says."""
        topics = sorted({partition.topic for partition in work.unanswered})
        cluster = await self._admin.describe(topics, timeout_s=self._context.timeout_s)
        states = partition_states(cluster.assignment)
        there = set()
        for partition in work.unanswered:
            target, move = work.moves[partition].target, ongoing.get(partition)
            state = states.get(partition)
            if (move is not None and move.target == target) or (
                move is None and state is not None and state.replicas == target
            ):
                there.add(partition)
        known = work.found(there)
        if operation.state in (State.UNKNOWN, State.STARTING):
            begun = bool(known.started)
            operation = self._context.to(operation, State.RUNNING if begun else State.STARTING)
        await self._registry.put(operation, known)
        return operation, known

    # Ending

    async def _cancelling(
        self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing
    ) -> None:
        """Return what was cancelled and still moves to our target; again until it does not."""
        if back := returning(work, ongoing):
            await return_again(self._context, operation, work, back)
        else:
            await self.lift(operation, work)

    async def _log_dirs_moving(self, work: ReassignmentWork) -> bool:
        """True while a copy between directories of one broker is under way, or is not known."""
        for broker in {broker for _, broker in work.log_dirs}:
            wanted = {partition for partition, b in work.log_dirs if b == broker}
            try:
                columns = await self._admin.log_dirs(broker, timeout_s=self._context.timeout_s)
            except KshuntError:
                return True
            for row in columns.is_future.nonzero()[0]:
                topic = columns.topics[int(columns.topic_index[row])]
                if TopicPartition(topic, int(columns.partition[row])) in wanted:
                    return True
        return False

    async def lift(self, operation: Operation, work: ReassignmentWork) -> tuple[str, ...]:
        """Remove the operation's share of each throttle, and end it; see `ThrottleRemoval.lift`."""
        return await self._lifting.lift(operation, work)


_LOST: Final = (
    "it broke off before it said how it went: look at the cluster, and ask for it again if it is "
    "not done"
)
