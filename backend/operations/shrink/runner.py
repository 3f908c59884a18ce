"""Takes shrinks a step further, tick after tick; see `kshunt.backend.domain.shrink.phases`.

Goals
    A shrink comes to an end, or waits for somebody and says for whom. Whatever crashes, another
    backend continues with what the journal says.
Constraints
    A tick never waits long: a job is a process, and what takes long is a task; both are looked at.
    What is known here and not in the journal may be lost at any moment.
Algorithm
    The operation's state says whether it continues, halts or is taken back; its phase says what is
    due. A phase that is refused ends the shrink before the point of no return, and is tried again
    after it; what may succeed if it is repeated is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkProgress
from kshunt.backend.errors import JournalFenced, JournalUnavailable, KshuntError, NotActive
from kshunt.backend.operations.shrink import cut_over, preparation
from kshunt.backend.operations.shrink.cleanup import clean_up
from kshunt.backend.operations.shrink.progress import shrink_progress
from kshunt.backend.operations.shrink.step import ShrinkMemory, ShrinkStep, ShrinkTools
from kshunt.backend.operations.state.shrink_work import ShrinkWork

log = logging.getLogger(__name__)

State = OperationState
_PHASES: Final[Mapping[ShrinkPhase, Callable[[ShrinkStep], Awaitable[None]]]] = {
    ShrinkPhase.CHECK: preparation.check,
    ShrinkPhase.QUIESCE: preparation.quiesce,
    ShrinkPhase.COPY: preparation.copy,
    ShrinkPhase.VERIFY: preparation.verify,
    ShrinkPhase.CONFIRM: preparation.confirm,
    ShrinkPhase.SEAL: cut_over.seal,
    ShrinkPhase.COPY_REST: cut_over.copy_rest,
    ShrinkPhase.VERIFY_REST: cut_over.verify_rest,
    ShrinkPhase.DELETE: cut_over.delete,
    ShrinkPhase.CREATE: cut_over.create_anew,
    ShrinkPhase.COPY_BACK: cut_over.copy_back,
    ShrinkPhase.VERIFY_BACK: cut_over.verify_back,
    ShrinkPhase.TRANSLATE: cut_over.translate,
    ShrinkPhase.CLEAN_UP: clean_up,
}


class ShrinkRunner:
    """See the module's text."""

    def __init__(
        self, tools: ShrinkTools, changed: Callable[[Operation], None] = lambda operation: None
    ) -> None:
        """The runner calls `changed` with an operation whose progress says something new."""
        self._tools = tools
        self._changed = changed
        self._live: dict[str, ShrinkMemory] = {}
        self._said: dict[str, ShrinkProgress] = {}

    def progress(self, operation: Operation, work: ShrinkWork) -> ShrinkProgress:
        """How a shrink stands."""
        return shrink_progress(operation, work, self._live.get(operation.id))

    async def let_go(self) -> None:
        """End what runs here: this backend acts no more, or ends."""
        lives, self._live = self._live, {}
        for live in lives.values():
            await live.let_go()

    async def advance(self, operation: Operation, work: ShrinkWork) -> None:
        """The step that is due.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: this backend acts no more.
        """
        live = self._of(operation.id, work)
        step = ShrinkStep(self._tools, operation, work, live)
        try:
            await self._take_step(step)
        except (NotActive, JournalFenced, JournalUnavailable):
            raise
        except KshuntError as error:
            await self._failed(step, error)
        self._tell(operation.id)

    def _of(self, operation_id: str, work: ShrinkWork) -> ShrinkMemory:
        """What is known of it here; anew for a phase that was not seen here yet."""
        live = self._live.setdefault(operation_id, ShrinkMemory())
        if live.phase is not work.phase:
            fresh = ShrinkMemory(
                phase=work.phase,
                job=live.job,
                command=live.command,
                task=live.task,
                sent=live.sent,
                members=live.members,
                read_twice=live.read_twice,
            )
            self._live[operation_id] = live = fresh
        return live

    async def _take_step(self, step: ShrinkStep) -> None:
        match step.operation.state:
            case State.STARTING | State.RUNNING:
                await _PHASES[step.work.phase](step)
            case State.PAUSING:
                if await step.behind("end", step.live.end_job) is not None:
                    await step.move(State.PAUSED)
            case State.RESUMING:
                differs = "" if not step.work.accepted else step.work.differs
                back = None if step.work.differs and not differs else step.work.verified_back
                await step.move(State.RUNNING, differs=differs, verified_back=back)
            case State.CANCELLING:
                await step.move(State.LIFTING, cancelled=True)
            case State.LIFTING:
                await clean_up(step)

    async def _failed(self, step: ShrinkStep, error: KshuntError) -> None:
        """Try again, or let it come to nothing."""
        words, state = str(error), step.operation.state
        ready = state in (State.STARTING, State.RUNNING)
        if error.retriable:
            step.wait(f"no step was taken: {words}")
        elif not ready or step.work.past_no_return or step.work.phase is ShrinkPhase.TRANSLATE:
            step.wait(f"no step was taken: {words}", "operator")
        elif state is State.STARTING:
            await step.move(State.FAILED, f"{words} Nothing was changed.", failed=words)
        else:
            await step.fail(words)

    def _tell(self, operation_id: str) -> None:
        """Tell of an operation whose progress is another; forget one that has ended."""
        registry = self._tools.context.registry
        operation, work = registry.get(operation_id), registry.shrink(operation_id)
        if operation is None or work is None:
            return
        progress = self.progress(operation, work)
        if self._said.get(operation_id) != progress:
            self._said[operation_id] = progress
            self._changed(operation)
        if operation.state.ended:
            self._said.pop(operation_id, None)
            self._live.pop(operation_id, None)
