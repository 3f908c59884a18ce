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

from backend.domain.planning import PlanAnswer, PlanRequest, RehearsalAnswer, RehearsalRequest
from backend.domain.wording import duration_text
from backend.errors import BadInput, Conflict, KshuntError
from backend.planning.worker import LENGTH, Answer, Question
from backend.processes import begun, ended
from backend.rehearsal.picture import Picture
from backend.settings import LIMITS

COMMAND: Final = (sys.executable, "-P", "-m", "backend.planning.worker")
UNTOUCHED: Final = "The cluster is untouched."


class Planners:
    """A backend's planners; so many work at once, and others wait."""

    def __init__(
        self, command: Sequence[str] = COMMAND, *, limit_s: float = LIMITS.planning_s
    ) -> None:
        self._command = command
        self._limit_s = limit_s
        self._places = asyncio.Semaphore(LIMITS.planners)
        self._waiting = 0

    @overload
    async def answer(self, picture: Picture, question: PlanRequest) -> PlanAnswer: ...

    @overload
    async def answer(self, picture: Picture, question: RehearsalRequest) -> RehearsalAnswer: ...

    async def answer(self, picture: Picture, question: Question) -> Answer:
        """Plan, or rehearse.

        Raises:
            BadInput: what is asked cannot be planned or rehearsed.
            Conflict: it took too long and was ended, or too many wait already.
            KshuntError: the process failed.
        """
        if self._waiting >= LIMITS.planners_waiting:
            raise Conflict(
                f"{self._waiting} plans and rehearsals wait already.",
                advice=f"{UNTOUCHED} Ask again when they are through.",
            )
        self._waiting += 1
        try:
            async with self._places:
                # A tenth of a second at 200,000 replicas.
                return await self._asked(await asyncio.to_thread(pickle.dumps, (picture, question)))
        finally:
            self._waiting -= 1

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
                f"It took more than {duration_text(self._limit_s)} and was ended.",
                advice=f"{UNTOUCHED} Ask for fewer partitions or fewer throttles, or use "
                "`kshunt plan`, which waits as long as it takes.",
            ) from None
        finally:
            await ended(process, 0.0)
        return _read(said, complaint.decode(errors="replace"))


def _read(said: bytes, complaint: str) -> Answer:
    if not said:
        last = complaint.strip().rpartition("\n")[2] or "it said nothing"
        raise KshuntError(f"The planner's process failed: {last}.", advice=UNTOUCHED)
    answer = pickle.loads(said)
    if isinstance(answer, tuple):
        _, message, advice = answer
        raise BadInput(message, advice=advice)
    found: Answer = answer
    return found
