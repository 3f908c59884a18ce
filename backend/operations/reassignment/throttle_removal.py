"""Ending a reassignment: kshunt removes its throttle, and reports what it read back.

Goals
    When an operation ends, the audit holds for each setting that it throttled what the cluster
    has there, as read after the last write. A value that somebody else set is named, and is never
    called removed.
Constraints
    Kafka has no compare-and-set for configurations. What comes between the last read and the write
    is written over, and no read can tell it afterwards.
Algorithm
    With the step to LIFTING, the operation's details name each setting and what will be there.
    The writes follow (`ThrottleWriter.carry_out` reads once more right before them). When no share
    is left, the settings are read, and `ending_of` says how the operation ended. An end that a
    broker which is behind could feign must be seen the same for `SEEN_S`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from kshunt.backend.domain.audit.lines import LISTED_MAX
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.error_codes import UNKNOWN_TOPIC_OR_PARTITION, error_name
from kshunt.backend.errors import ClusterError
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.results import failures
from kshunt.backend.operations.ownership.cells import Lift
from kshunt.backend.operations.ownership.setting_words import (
    Restored,
    found_words,
    lifting_words,
    restored_by,
    unlike,
)
from kshunt.backend.operations.reassignment.outcome import Ending, ending_of
from kshunt.backend.operations.reassignment.pausing import Pausing
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

State = OperationState

SEEN_S: Final = 2.0
"""An end that a broker which is behind could feign is seen the same for this long."""
_UNKNOWN_TOPIC: Final = error_name(UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(frozen=True, slots=True)
class _SeenEnd:
    """An end that is not certain, and since when it is seen."""

    ending: Ending
    since_s: float


class ThrottleRemoval:
    """See the module's text."""

    def __init__(self, context: Context, pausing: Pausing) -> None:
        self._context = context
        self._registry = context.registry
        self._admin = context.admin
        self._pausing = pausing
        self._seen: dict[str, _SeenEnd] = {}

    async def lift(self, operation: Operation, work: ReassignmentWork) -> tuple[str, ...]:
        """Remove the operation's share of each throttle, and end it when that holds.

        Returns:
            Why some of it is still there; nothing where all of it is gone.

        Raises:
            KshuntError: it could not be read or written; the next tick tries again.
        """
        if work.pause is not None and not work.auto_remove:
            # A throttle that is to stay must not stay at the floor of a pause.
            given_back = await self._pausing.give_back(operation, work)
            if problems := failures(given_back.topics):
                self._registry.set_outcome(operation.id, f"still paused: {listed(problems, 3)}")
                return problems
            work = replace(work, pause=None)
        operation, problems = await self._take_off(operation, work)
        if problems:
            self._registry.set_outcome(
                operation.id, f"throttle not removed yet: {listed(problems, 3)}"
            )
            return problems
        await self._end(operation, work)
        return ()

    async def _take_off(
        self, operation: Operation, work: ReassignmentWork
    ) -> tuple[Operation, tuple[str, ...]]:
        """Write what was there before; the operation since, and what is still there."""
        throttling, registry = self._context.throttling, self._registry
        present, before = await throttling.present(), registry.ownership
        step = before.lift(operation.id, present, Lift.UNDONE if work.failed else Lift.ENDED)
        if operation.state is not State.LIFTING or step.after != before:
            restored = restored_by(operation.id, before, step, present)
            known = Restored.read(operation.details.put_back)
            operation = self._context.to(operation, State.LIFTING)
            rows = Restored.rows((*known, *restored))
            details = structs.replace(operation.details, put_back=rows or None)
            operation = replace(operation, details=details)
            settings = lifting_words(operation.id, before, step, present)
            await registry.put(operation, work, step.after, throttles=settings)
        written = await throttling.carry_out(step.writes, present)
        left = registry.ownership.unlifted(operation.id)
        if not left:
            return operation, ()
        names = listed((_setting(one) for one in left), 3)
        return operation, written.problems or (f"{names} did not answer",)

    async def _end(self, operation: Operation, work: ReassignmentWork) -> None:
        """Say how it ended, where that is certain; else the next tick looks again."""
        ending = await self._ending(operation, work)
        if ending is None:
            return
        restored = Restored.read(operation.details.put_back)
        brokers = {one.name for one in restored if isinstance(one.name, int)}
        topics = {one.name for one in restored if isinstance(one.name, str)}
        present = await self._context.throttling.present(brokers, topics)
        words = [ending.words]
        if work.throttle_bytes_per_s is not None or work.adopted:
            words.append("throttle removed" if work.auto_remove else "throttle kept, as requested")
        differing = unlike(restored, present, self._registry.ownership)
        if differing:
            words.append(f"but {listed(differing, LISTED_MAX)}")
        after = self._context.to(operation, ending.state, ", ".join(words))
        settings = found_words(restored, present)
        await self._registry.put(after, work, throttles=settings)
        self._seen.pop(operation.id, None)

    async def _ending(self, operation: Operation, work: ReassignmentWork) -> Ending | None:
        """How it ended; None where a broker may be behind.

        Raises:
            KshuntError: its partitions could not be read.
        """
        if work.failed:
            return Ending(State.FAILED, work.failed, True)
        timeout_s = self._context.timeout_s
        cluster = await self._admin.cluster.describe(work.topics, timeout_s=timeout_s)
        for topic, error in cluster.topic_errors.items():
            if error != _UNKNOWN_TOPIC:
                raise ClusterError(f"Topic {topic} could not be described: {error}.")
        states = await offload(len(cluster.assignment), partition_states, cluster.assignment)
        ending = await offload(len(work.moves), ending_of, work, states, ())
        if ending.certain:
            return ending
        ongoing = await self._context.ongoing()
        moving = work.moves.keys() & ongoing.keys()
        ending = await offload(len(work.moves), ending_of, work, states, moving)
        now_s, seen = self._context.clock.monotonic_s(), self._seen.get(operation.id)
        if seen is None or seen.ending != ending:
            self._seen[operation.id] = _SeenEnd(ending, now_s)
            return None
        return ending if now_s - seen.since_s >= SEEN_S else None


def _setting(one: tuple[int | str, object]) -> str:
    return f"broker {one[0]}" if isinstance(one[0], int) else f"topic {one[0]}"
