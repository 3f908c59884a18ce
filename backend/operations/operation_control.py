"""Controls an operation: pause, resume, cancel, undo, abandon; and taking over a throttle.

Each verb names what would come of it (`validate_only`), writes the intent, and leaves to the
engine what takes longer than an answer may.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.lifecycle import step_between
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.text.formatting import exact_rate_text, listed, many
from kshunt.backend.domain.throttles.configs import Move, brokers_of, throttled_replicas_of
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.audit.operation_steps import throttles_changed
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.throttle_writes import shares_held
from kshunt.backend.operations.moves.pause_throttles import pause_writes
from kshunt.backend.operations.moves.undo_plans import undo_plan
from kshunt.backend.operations.ownership.setting_words import setting_name
from kshunt.backend.operations.reassignment.pausing import Pausing, follower_share, moving
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.reassignment.starting import (
    Reassignments,
    ReassignRequest,
    rollback_plan,
)
from kshunt.backend.operations.shrink.requests import Shrinks, shrink_actions
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork

State = OperationState

PAUSABLE: Final = frozenset({State.RUNNING, State.RESUMING})
RESUMABLE: Final = frozenset({State.PAUSING, State.PAUSED})
CANCELLABLE: Final = frozenset(
    state for state in State if step_between(state, State.CANCELLING) is not None
)
_MOVES: Final = frozenset({OperationKind.REASSIGN, OperationKind.ADOPT})
"""Kinds that a cancellation returns; a throttle on moves of others only ends with them."""
UNDOABLE: Final = frozenset(state for state in State if state.ended)


def actions_of(
    operation: Operation, work: ReassignmentWork | None, shrink: ShrinkWork | None = None
) -> tuple[str, ...]:
    """What can be done with an operation now, in the order in which it is offered."""
    if shrink is not None:
        return shrink_actions(operation, shrink)
    if work is None:
        return ()
    allowed = (
        ("pause", operation.state in PAUSABLE and not work.adopted),
        ("resume", operation.state in RESUMABLE),
        ("cancel", operation.state in CANCELLABLE and operation.kind in _MOVES),
        ("undo", operation.state in UNDOABLE and not work.adopted and bool(work.started)),
        ("abandon", operation.state is State.LIFTING),
    )
    return tuple(name for name, offered in allowed if offered)


class OperationControl:
    """See the module's text."""

    def __init__(
        self,
        context: Context,
        reassignments: Reassignments,
        runner: ReassignmentRunner,
        shrinks: Shrinks | None = None,
    ) -> None:
        """`shrinks` steers shrinks; None where none is begun."""
        self._context = context
        self._shrinks = shrinks
        self._registry = context.registry
        self._runner = runner
        self._reassignments = reassignments
        self._pausing = Pausing(context)

    async def pause(self, operation_id: str, change: Change) -> ChangeAnswer:
        """Hold the operation's copies, and start no more of its moves; nothing is cancelled.

        Raises:
            BadInput: there is no such operation, or it moves nothing.
            Conflict: it is not in a state that can be paused.
            NotActive: another backend acts for this cluster.
        """
        if (shrinks := self._of_shrink(operation_id)) is not None:
            return await shrinks.pause(operation_id, change)
        async with self._context.lock:
            operation, work = self._found(operation_id, "pause")
            view = await self._context.view(work.topics, throttles=True)
            held = shares_held(self._registry.ownership, operation_id)
            foreseen = pause_writes(moving(work, view), view, follower_share(held))
            if not change.validate_only:
                asked = await self._asked(operation, State.PAUSING, change)
                await self._pausing.hold(asked, work)
        answers = [
            Result(f"{partition} on broker {broker}", 0, "NONE", "held at the floor")
            for partition, broker in sorted(foreseen.held)
        ]
        answers += [
            Result(f"{partition} on broker {broker}", 0, "NONE", f"continues: {why}")
            for (partition, broker), why in sorted(foreseen.not_held.items())
        ]
        notes: tuple[str, ...] = ()
        if foreseen.not_held:
            every = len(foreseen.held) + len(foreseen.not_held)
            of = f"{len(foreseen.held)} of {many(every, 'copy', 'copies')}"
            notes = (f"{of} can be held, the others continue.",)
        return ChangeAnswer(
            change.validate_only, operation_id, tuple(answers), notes, warnings=foreseen.notes
        )

    async def resume(self, operation_id: str, change: Change) -> ChangeAnswer:
        """Let the operation's copies continue at the rates from before the pause.

        Raises:
            BadInput: there is no such operation, or it moves nothing.
            Conflict: it is not paused.
            NotActive: another backend acts for this cluster.
        """
        if (shrinks := self._of_shrink(operation_id)) is not None:
            return await shrinks.resume(operation_id, change)
        async with self._context.lock:
            operation, work = self._found(operation_id, "resume")
            if not change.validate_only:
                await self._pausing.resume(
                    await self._asked(operation, State.RESUMING, change), work
                )
        return ChangeAnswer(change.validate_only, operation_id, (_done(operation, "resumed"),))

    async def cancel(
        self,
        operation_id: str,
        change: Change,
        *,
        preserve_throttles: bool = False,
        timeout_s: float,
    ) -> ChangeAnswer:
        """Return every partition of the operation that still moves.

        Raises:
            BadInput: there is no such operation, or it moves nothing.
            Conflict: it cannot be cancelled any more.
            NotActive: another backend acts for this cluster.
        """
        if (shrinks := self._of_shrink(operation_id)) is not None:
            return await shrinks.cancel(operation_id, change)
        _, work = self._found(operation_id, "cancel")
        ongoing = await self._context.ongoing()
        wanted = {*ongoing, *work.waiting, *work.unanswered}
        left = [partition for partition in work.moves if partition in wanted]
        if not left:
            raise Conflict(
                f"Operation {operation_id} does not move anything any more. Nothing was changed.",
                advice="To bring its partitions back, undo it.",
            )
        return await self._reassignments.cancel(
            left, change, preserve_throttles=preserve_throttles, timeout_s=timeout_s
        )

    async def undo(self, operation_id: str, change: Change, *, timeout_s: float) -> ChangeAnswer:
        """Move back what an operation that has ended moved, with its throttle.

        Raises:
            BadInput: there is no such operation, or it moved nothing.
            Conflict: it has not ended, or nothing can go back.
            NotActive: another backend acts for this cluster.
        """
        _, work = self._found(operation_id, "undo")
        view = await self._context.view(work.topics)
        plan = undo_plan((work.moves[partition] for partition in work.started), view)
        notes = (
            *plan.warnings,
            *(f"{partition} stays: {why}." for partition, why in plan.left_out.items()),
        )
        if not plan.plan.replicas:
            why = f"No partition of operation {operation_id} can be moved back: {plan}."
            if not plan.left_out:
                why = f"Every partition of operation {operation_id} is where it was before."
            raise Conflict(" ".join((why, *notes[:3], "Nothing was changed.")))
        answer = await self._reassignments.start(
            ReassignRequest(
                plan.plan,
                throttle_bytes_per_s=work.throttle_bytes_per_s,
                auto_remove_throttle=work.auto_remove,
                additional=True,
                timeout_s=timeout_s,
                caps=work.caps,
                order=work.order,
                change=replace(change, reason=change.reason or f"undo of operation {operation_id}"),
            )
        )
        return replace(answer, notes=(*answer.notes, *notes))

    async def abandon(
        self, operation_id: str, brokers: Collection[int], change: Change
    ) -> ChangeAnswer:
        """End an operation although brokers that are gone for good still have its throttle.

        Raises:
            BadInput: there is no such operation, or no broker is named.
            Conflict: it is not waiting for the removal of its throttle, or a broker answers.
            NotActive: another backend acts for this cluster.
        """
        if not brokers:
            raise BadInput("No broker is named; nothing was changed.")
        async with self._context.lock:
            operation, work = self._found(operation_id, "abandon")
            state = await self._context.admin.cluster.describe(
                (), timeout_s=self._context.timeout_s
            )
            if alive := sorted(set(brokers) & state.brokers.keys()):
                raise Conflict(
                    f"Broker {listed(alive)} is up, so kshunt removes its throttle when the "
                    "operation ends. Nothing was changed."
                )
            if not change.validate_only:
                self._registry.require()
                words = (
                    f"broker {listed(sorted(brokers))} given up by {change.who or 'an operator'}"
                )
                after = operation.with_outcome(words)
                ownership = self._registry.ownership.abandoned(operation_id, brokers)
                await self._registry.put(after, work, ownership)
                await self._runner.lift(after, work)
        outcome = tuple(Result(str(b), 0, "NONE", "its throttle stays there") for b in brokers)
        return ChangeAnswer(change.validate_only, operation_id, outcome)

    async def adopt(
        self, partitions: Collection[TopicPartition] | None, change: Change
    ) -> ChangeAnswer:
        """Take over the throttle of moves that somebody else started, so that kshunt removes it.

        None for every partition that moves and is of no operation of ours.

        Raises:
            Conflict: nothing of it moves, or it is ours already.
            NotActive: another backend acts for this cluster.
        """
        async with self._context.lock:
            ongoing = await self._context.ongoing()
            moves = self._adoptable(partitions, ongoing)
            topics = {partition.topic for partition in moves}
            brokers = brokers_of(moves.values())
            throttling = self._context.throttling
            throttling.check_readable(brokers, topics)
            present = await throttling.present(brokers, topics)
            work = ReassignmentWork(moves, started=frozenset(moves), adopted=True)
            operation = self._registry.draft(
                OperationKind.ADOPT,
                f"adopt the throttle of {many(len(moves), 'partition')} of {listed(topics, 3)}",
                requester=change.requester,
                partitions=tuple(moves),
                details=OperationDetails(rollback_plan=rollback_plan(moves.values())),
            )
            before = self._registry.ownership
            step = before.adopt(
                operation.id, brokers, throttled_replicas_of(moves.values()), present
            )
            difference = throttles_changed(before, step.after)
            adopted = shares_held(step.after, operation.id)
            answers = tuple(
                [
                    Result(
                        setting_name(*i),
                        0,
                        "NONE",
                        f"kshunt removes {exact_rate_text(rate)} at the end",
                    )
                    for i, rate in sorted(adopted.rates.items())
                ]
                + [
                    Result(setting_name(*j), 0, "NONE", f"{len(pairs)} replicas are removed")
                    for j, pairs in sorted(adopted.lists.items())
                ]
            )
            if not change.validate_only:
                await self._registry.put(operation, work, step.after)
                await throttling.carry_out(step.writes, present)
                await self._registry.move(operation.id, State.RUNNING, "adopted")
        notes = difference or (
            "The moves have no throttle of their own; there is nothing to remove.",
        )
        return ChangeAnswer(
            change.validate_only, None if change.validate_only else operation.id, answers, notes
        )

    def _adoptable(
        self,
        partitions: Collection[TopicPartition] | None,
        ongoing: Mapping[TopicPartition, OngoingReassignment],
    ) -> dict[TopicPartition, Move]:
        foreign = self._context.foreign(ongoing)
        wanted = foreign.keys() if partitions is None else foreign.keys() & set(partitions)
        moves = {partition: foreign[partition] for partition in sorted(wanted)}
        if not moves:
            raise Conflict("Nobody else is moving its partitions now. Nothing was changed.")
        return moves

    def _of_shrink(self, operation_id: str) -> Shrinks | None:
        """What steers the operation, if it is a shrink."""
        return None if self._registry.shrink(operation_id) is None else self._shrinks

    def _found(self, operation_id: str, action: str) -> tuple[Operation, ReassignmentWork]:
        operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
        if operation is None:
            raise BadInput(f"There is no operation {operation_id}; nothing was changed.")
        if work is None:
            raise BadInput(f"Operation {operation_id} moves no partition; nothing was changed.")
        if action not in (offered := actions_of(operation, work)):
            others = (
                f"Possible actions: {listed(offered)}."
                if offered
                else "No action on it is possible."
            )
            raise Conflict(
                f"Operation {operation_id} is {operation.state}: {action} is not possible. "
                f"Nothing was changed. {others}"
            )
        return operation, work

    async def _asked(self, operation: Operation, state: State, change: Change) -> Operation:
        """Write the operation in a new state, with the words of the person who wants it."""
        self._registry.require()
        words = f"{state.value} for {change.who or 'an operator'}"
        words += f": {change.reason}" if change.reason else ""
        return await self._registry.move(operation.id, state, words)


def _done(operation: Operation, what: str) -> Result:
    return Result(operation.id, 0, "NONE", what)
