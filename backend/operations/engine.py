"""The engine: takes every operation that has not ended a step further, tick after tick.

Goals
    Whatever crashed, each operation comes to an end, and its throttle with it. Any backend can
    continue where another stopped.
Constraints
    The cluster is the only source of truth about what moves and what is throttled; the journal is
    the only source of truth about what was meant. Each effect is a wish that may be repeated.
Algorithm
    A tick reads what moves, and writes those throttles that were decided and did not take hold.
    Then it gives each operation its turn: `ReassignmentRunner` and `ShrinkRunner` take the step
    that is due by `kshunt.backend.domain.operations.lifecycle.STEPS`. An operation that begins and
    ends with its verb ends here if it was interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.errors import JournalFenced, JournalUnavailable, KshuntError, NotActive
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift, drift
from kshunt.backend.operations.ownership.ownership import FoundSettings
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.shrink.runner import ShrinkRunner
from kshunt.backend.operations.throttles.drift_audit import DriftAudit

log = logging.getLogger(__name__)

State = OperationState
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

    def __init__(
        self,
        context: Context,
        reassignments: ReassignmentRunner,
        cancellations: Cancellations,
        shrinks: ShrinkRunner | None = None,
    ) -> None:
        """`shrinks` takes shrinks further; None: this backend leaves them as they are."""
        self._context = context
        self._registry = context.registry
        self._reassignments = reassignments
        self._cancellations = cancellations
        self._shrinks = shrinks
        self._drift_audit = DriftAudit(context.registry)
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
                await self._registry.resolve()
                await self._tick()
            except (NotActive, JournalFenced, JournalUnavailable) as stopped:
                log.info("The engine is blocked: %s", stopped)
            except KshuntError as error:
                # The sampler shows that the cluster does not answer; the next tick tries again.
                log.info("The engine's tick changed nothing: %s", error)

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
            NotActive, JournalFenced, JournalUnavailable: this backend acts no more.
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
        await self._drift_audit.tell(self.drift)
        await self._outstanding(present)
        await self._close(ongoing)
        for operation_id in self._registry.unfinished:
            try:
                await self._one(operation_id, ongoing)
            except (NotActive, JournalFenced, JournalUnavailable):
                raise
            except KshuntError as error:
                self._registry.set_outcome(operation_id, f"no step was taken: {error}")
            # The engine's edge: one operation that fails must not stop the others.
            except Exception as error:
                log.exception("Operation %s: a step failed", operation_id)
                self._registry.set_outcome(
                    operation_id, f"no step was taken: {error!r}; see the backend's log"
                )

    async def _one(self, operation_id: str, ongoing: Ongoing) -> None:
        """The step of one operation that is due."""
        operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
        shrink = self._registry.shrink(operation_id)
        if operation is None:
            return
        if work is not None:
            await self._reassignments.advance(operation, work, ongoing)
        elif shrink is not None and self._shrinks is not None:
            await self._shrinks.advance(operation, shrink)

    def _goes_on(self, operation_id: str) -> bool:
        """Whether the journal says how to continue an operation."""
        registry = self._registry
        operation = registry.get(operation_id)
        return (
            registry.work(operation_id) is not None
            or registry.shrink(operation_id) is not None
            or (operation is not None and self._cancellations.recorded(operation))
        )

    async def _close(self, ongoing: Ongoing) -> None:
        """End what ends with its answer and failed before it: while a tick holds the lock, no such
        verb is at work. A cancellation is carried out first."""
        for operation_id in self._registry.unfinished:
            operation = self._registry.get(operation_id)
            if operation is None or operation.kind not in ENDS_WITH_ANSWER:
                continue
            if self._cancellations.recorded(operation):
                await self._finish(operation, ongoing)
            elif not self._goes_on(operation_id):
                await self._registry.move(operation_id, State.FAILED, _LOST)

    async def _finish(self, operation: Operation, ongoing: Ongoing) -> None:
        try:
            await self._cancellations.finish(operation, ongoing)
        except (NotActive, JournalFenced, JournalUnavailable):
            raise
        except KshuntError as error:
            self._registry.set_outcome(operation.id, f"not cancelled yet: {error}")

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
        await self._registry.save_ownership(step.after)
        if step.writes:
            await self._context.throttling.carry_out(step.writes, present)


_LOST: Final = (
    "it was interrupted before a result was recorded: check the cluster, and repeat the request "
    "if it was not done"
)
