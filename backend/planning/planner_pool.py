"""Questions to planners, each answered by a process of its own.

Planning and rehearsing take seconds of a processor: in the backend's own process they would hold
up its sampler and its operations. A process can be ended as well when nobody waits any longer.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Sequence
from typing import Final, overload

from kshunt.backend.child_processes import begun, ended
from kshunt.backend.domain.planning.requests import (
    PlanAnswer,
    PlanRequest,
    RehearsalAnswer,
    RehearsalRequest,
)
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.errors import BadInput, Conflict, KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.placement.impact import refuse_unknown
from kshunt.backend.planning.planner_queue import ANYBODY, UNTOUCHED, PlannerQueue
from kshunt.backend.planning.question import LENGTH, Answer, Question
from kshunt.backend.rehearsal.picture import Picture

COMMAND: Final = (sys.executable, "-P", "-m", "kshunt.backend.planning.worker")


class Planners:
    """A backend's planners; `LIMITS.planners` work at the same time, and other questions wait."""

    def __init__(
        self, command: Sequence[str] = COMMAND, *, limit_s: float = LIMITS.planning_s
    ) -> None:
        self._command = command
        self._limit_s = limit_s
        self._turns = PlannerQueue(
            LIMITS.planners, LIMITS.planners_per_caller, LIMITS.planners_waiting
        )

    @overload
    async def answer(
        self, picture: Picture, question: PlanRequest, caller: str = ANYBODY
    ) -> PlanAnswer: ...

    @overload
    async def answer(
        self, picture: Picture, question: RehearsalRequest, caller: str = ANYBODY
    ) -> RehearsalAnswer: ...

    async def answer(self, picture: Picture, question: Question, caller: str = ANYBODY) -> Answer:
        """Plan, or rehearse.

        Args:
            picture: Of the cluster.
            question: What is asked.
            caller: Whose question it is; callers take turns.

        Raises:
            BadInput: what is asked cannot be planned or rehearsed.
            Conflict: it took too long and was ended, or too many wait already.
            KshuntError: the process failed.
        """
        if isinstance(question, RehearsalRequest):
            # A plan that names what is not there needs no turn and no process.
            await asyncio.to_thread(refuse_unknown, picture.situation, question.targets)
        async with self._turns.turn(caller):
            # A tenth of a second at 200,000 replicas.
            return await self._asked(await asyncio.to_thread(pickle.dumps, (picture, question)))

    async def _asked(self, question: bytes) -> Answer:
        process = await begun(self._command, together=False)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(self._limit_s):
                process.stdin.write(LENGTH.pack(len(question)) + question)
                said, complaint = await asyncio.gather(process.stdout.read(), process.stderr.read())
        except TimeoutError:
            raise Conflict(
                f"It took more than {duration_text(self._limit_s)} and was stopped.",
                advice=f"{UNTOUCHED} Ask for fewer partitions or fewer throttles, or use `kshunt "
                "plan`, which has no time limit.",
            ) from None
        finally:
            await ended(process, 0.0)
        return await asyncio.to_thread(_read, said, complaint.decode(errors="replace"))


def _read(said: bytes, complaint: str) -> Answer:
    if not said:
        last = complaint.strip().rpartition("\n")[2] or "it gave no message"
        raise KshuntError(f"The planner's process failed: {last}.", advice=UNTOUCHED)
    answer = pickle.loads(said)
    if isinstance(answer, tuple):
        _, message, advice = answer
        raise BadInput(message, advice=advice)
    found: Answer = answer
    return found
