"""Takes a reassignment a step further, tick after tick; `engine` says when.

Goals
    Every move that was asked for is submitted, and comes to an end with its throttle.
Constraints
    The cluster is the only source of truth about what moves. A step is written to the journal
    before its effect, and each effect may be repeated.
Algorithm
    The operation's state says what is due: submit what may start, hold or release it, return what
    was cancelled, or take the throttle off. A move whose answer is missing is looked for before it
    is submitted again. KIP-179, "On Controller Failover", is the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc.request_fate import Fate, fate_of, item_of
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.errors import KshuntError
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.results import failures
from kshunt.backend.operations.moves.schedule import next_moves
from kshunt.backend.operations.reassignment.cancelling import return_again, returning
from kshunt.backend.operations.reassignment.pausing import Pausing
from kshunt.backend.operations.reassignment.throttle_removal import ThrottleRemoval
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

State = OperationState
SCHEDULE_EVERY_S: Final = 1.0
SCHEDULE_SHARE: Final = 5.0
"""A schedule is made no oftener than this many times as long as it takes to read for it."""

Ongoing = Mapping[TopicPartition, OngoingReassignment]


class ReassignmentRunner:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._registry = context.registry
        self._admin = context.admin
        self._pausing = Pausing(context)
        self._throttle_removal = ThrottleRemoval(context, self._pausing)
        self._schedule_from_s = float("-inf")

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
        if why := await self._admin.reassignments.accepts_moves(timeout_s=self._context.timeout_s):
            self._registry.set_outcome(operation.id, f"waits: {why}")
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
        following = await offload(len(work.moves), next_moves, work.queue, view)
        if following.arrived:
            work = replace(work, started=work.started | frozenset(following.arrived))
            await self._registry.put(operation, work)
        if following.start:
            await self.submit(operation, work, [move.partition for move in following.start])
        elif following.held:
            self._registry.set_outcome(operation.id, str(following), is_progress=True)

    async def submit(
        self, operation: Operation, work: ReassignmentWork, following: Iterable[TopicPartition]
    ) -> ReassignOutcome:
        """Write the intent, submit the moves, and write the answer.

        Raises:
            ClusterUnreachable: it is not known whether they were submitted; a tick finds out.
            NotActive, JournalFenced, JournalUnavailable: the backend that acts finds out.
        """
        wanted = tuple(following)
        work = work.submitting(wanted)
        await self._registry.put(operation, work)
        self._registry.require()
        outcome = await self._submitted(work, wanted)
        if outcome.unknown:
            await self._registry.move(
                operation.id, State.UNKNOWN, "the moving partitions are unknown"
            )
            return outcome
        accepted = {partition for partition, result in outcome.results.items() if result.ok}
        work = work.answered(accepted, outcome.results.keys() - accepted)
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
            return await self._admin.reassignments.reassign(targets, options, log_dirs)
        except KshuntError as error:
            if fate_of(error) is not Fate.REFUSED:
                raise
            return ReassignOutcome(dict.fromkeys(targets, item_of(error)), {}, {}, {})

    async def _found(
        self, operation: Operation, work: ReassignmentWork, ongoing: Ongoing
    ) -> tuple[Operation, ReassignmentWork]:
        """Whether moves whose answer is missing were submitted, by what the cluster says."""
        topics = sorted({partition.topic for partition in work.unanswered})
        cluster = await self._admin.cluster.describe(topics, timeout_s=self._context.timeout_s)
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
                columns = await self._admin.logs.dirs(broker, timeout_s=self._context.timeout_s)
            except KshuntError:
                return True
            for row in columns.is_future.nonzero()[0]:
                topic = columns.topics[int(columns.topic_index[row])]
                if TopicPartition(topic, int(columns.partition[row])) in wanted:
                    return True
        return False

    async def lift(self, operation: Operation, work: ReassignmentWork) -> tuple[str, ...]:
        """Remove the operation's share of each throttle, and end it; see `ThrottleRemoval.lift`."""
        return await self._throttle_removal.lift(operation, work)
