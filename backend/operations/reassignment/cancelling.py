"""Returning partitions to where they were, because somebody asked for it.

Goals
    A cancellation that is in the journal is carried out, also by another backend. The answer says
    immediately what the cluster refuses, and kshunt does not try that again later. A move whose
    cancellation was refused keeps its throttle.
Constraints
    The intent is in the journal before the first effect. Kafka cancels whatever move a partition
    has at that moment; so a cancellation is repeated only while the partition moves to the target
    that it had when somebody asked. A partition that did not move then, and that somebody else
    moves now, is left alone.
Algorithm
    Write the operation with every partition and its target. Write which partitions of our
    operations are to return, and ask the cluster. Take back the marks of what it refused, and lift
    the share of the rest. Where an answer is missing, the operation stays open: `finish` reads the
    cluster, repeats the request for what still moves to its old target, and tells the results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kshunt.backend.admin.port.capabilities import Verb, require
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.request_fate import Fate, fate_of, item_of
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.error_codes import (
    NETWORK_EXCEPTION,
    NO_REASSIGNMENT_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    error_name,
)
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.results import failures, results
from kshunt.backend.operations.core.throttle_writes import left_on, shares_held
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, still_needed
from kshunt.backend.operations.throttles.changes import recorded
from kshunt.backend.operations.throttles.cleanup import clear_unowned

State = OperationState
Ongoing = Mapping[TopicPartition, OngoingReassignment]
Results = Mapping[TopicPartition, ItemResult]
Works = Sequence[tuple[Operation, ReassignmentWork]]

UNANSWERED: Final = frozenset({REQUEST_TIMED_OUT, NETWORK_EXCEPTION})
"""It may have been done."""
_NOT_MOVING: Final = ItemResult(
    NO_REASSIGNMENT_IN_PROGRESS,
    error_name(NO_REASSIGNMENT_IN_PROGRESS),
    "the partition is not moving",
)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one cancellation is about."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    """Where each partition moved to when somebody asked; None where it did not move."""
    preserve_throttles: bool

    @classmethod
    def to_return(
        cls, wanted: Iterable[TopicPartition], ongoing: Ongoing, *, preserve_throttles: bool
    ) -> _Wish:
        """To return these from where they move now."""
        targets = {p: ongoing[p].target if p in ongoing else None for p in wanted}
        return cls(targets, preserve_throttles)

    def details(self) -> OperationDetails:
        """For the journal."""
        rows = tuple((p.topic, p.partition, target) for p, target in self.targets.items())
        return OperationDetails(returning=rows, preserve_throttles=self.preserve_throttles)

    @classmethod
    def of(cls, operation: Operation) -> _Wish | None:
        """What the journal says of one; None for an older kshunt's, which says nothing."""
        rows, preserve = operation.details.returning, operation.details.preserve_throttles
        if rows is None or preserve is None:
            return None
        targets = {TopicPartition(topic, number): target for topic, number, target in rows}
        return cls(targets, preserve)

    def moving(self, ongoing: Ongoing) -> list[TopicPartition]:
        """Those that still move to where they moved when somebody asked."""
        return [
            partition
            for partition, target in self.targets.items()
            if partition in ongoing and ongoing[partition].target == target
        ]

    def arrived(self, outcomes: Results) -> frozenset[TopicPartition]:
        """Those that moved when somebody asked, and arrived before the cluster was asked.

        What did not move even then may have returned by an earlier cancellation.
        """
        return frozenset(
            partition
            for partition, one in outcomes.items()
            if one.error_code == NO_REASSIGNMENT_IN_PROGRESS and self.targets[partition]
        )


class Cancellations:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._admin = context.admin
        self._registry = context.registry

    async def cancel(
        self,
        partitions: Sequence[TopicPartition],
        change: Change,
        *,
        preserve_throttles: bool,
        timeout_s: float,
    ) -> ChangeAnswer:
        """Return partitions to their original replicas.

        It removes only the throttle share of what was cancelled; that of moves that continue stays.

        Raises:
            BadInput: no partition is named.
            NotActive: another backend acts for this cluster.
            NotSupported: this way to the cluster cannot cancel what moves.
        """
        if not partitions:
            raise BadInput("No partition is named; nothing was changed.")
        wanted = tuple(dict.fromkeys(partitions))
        size = len(wanted)
        async with self._context.lock:
            ongoing = await self._context.ongoing()
            if any(partition in ongoing for partition in wanted):
                require(Verb.CANCEL, self._admin)
            if change.validate_only:
                return await offload(size, _foreseen, wanted, ongoing, self._unfinished())
            self._registry.require()
            wish = _Wish.to_return(wanted, ongoing, preserve_throttles=preserve_throttles)
            operation = await self._registry.begin(
                OperationKind.CANCEL,
                f"cancel {many(len(wanted), 'partition')}: {listed(wanted, 3)}",
                requester=change.requester,
                details=await offload(size, wish.details),
            )
            return await self._carry_out(operation, wish, wanted, {}, ongoing, timeout_s)

    def recorded(self, operation: Operation) -> bool:
        """Whether the journal says enough of a cancellation to finish it."""
        return operation.kind is OperationKind.CANCEL and _Wish.of(operation) is not None

    async def finish(self, operation: Operation, ongoing: Ongoing) -> None:
        """Carry out what another backend, or a lost answer, left open; the lock is held.

        Raises:
            KshuntError: the cluster did not answer; the next tick tries again.
        """
        wish = _Wish.of(operation)
        if wish is None:
            return
        moving = set(wish.moving(ongoing))
        known = await self._became({p for p in wish.targets if p not in moving}, wish, ongoing)
        asked = [p for p in wish.targets if p not in known]
        timeout_s = self._context.timeout_s
        await self._carry_out(operation, wish, asked, known, ongoing, timeout_s)

    async def _became(
        self, partitions: set[TopicPartition], wish: _Wish, ongoing: Ongoing
    ) -> dict[TopicPartition, ItemResult]:
        """What became of partitions that do not move to their old target any more."""
        topics = sorted({partition.topic for partition in partitions})
        state = await self._admin.cluster.describe(topics, timeout_s=self._context.timeout_s)
        states = await offload(len(state.assignment), partition_states, state.assignment)
        mine = await offload(len(ongoing), _moved_by, self._unfinished(), ongoing)
        found: dict[TopicPartition, ItemResult] = {}
        for partition in partitions:
            target = wish.targets[partition]
            if target is None:
                # Where it waits, `_carry_out` takes it out of its queue.
                if partition in ongoing and partition not in mine:
                    found[partition] = _NOT_MOVING
                continue
            there = partition in states and states[partition].replicas == target
            arrived = there and partition not in ongoing
            found[partition] = _NOT_MOVING if arrived else ItemResult(message="it has returned")
        return found

    async def _carry_out(
        self,
        operation: Operation,
        wish: _Wish,
        wanted: Sequence[TopicPartition],
        known: Results,
        ongoing: Ongoing,
        timeout_s: float,
    ) -> ChangeAnswer:
        """Mark, ask, take back what was refused, and tell; `known` was found out already."""
        every = {*wanted, *known}
        size, works = len(every), self._unfinished()
        notes = await offload(size, _orders, wanted, ongoing, works)
        waiting = await offload(size, _not_started, wanted, ongoing, works)
        ours = await self._mark(every, ongoing)
        outcomes = {**known, **dict.fromkeys(waiting, ItemResult(message="it had not started"))}
        if asked := [p for p in wanted if p not in waiting]:
            outcomes |= await self._ask(asked, timeout_s)
        stopped = {partition for partition, outcome in outcomes.items() if outcome.ok}
        notes += await self._unmark(outcomes, wish)
        throttles: tuple[str, ...] = ()
        foreign = stopped - ours
        if known:
            foreign -= await offload(size, _moved_then, known, wish, self._works_until(operation))
        if not wish.preserve_throttles and foreign:
            said, throttles = await self._clear(foreign, timeout_s)
            notes += said
        answer = ChangeAnswer(False, operation.id, await offload(size, results, outcomes), notes)
        if any(outcome.error_code in UNANSWERED for outcome in outcomes.values()):
            # `finish` tells what became of it.
            return answer
        return await recorded(self._registry, operation, answer, throttles)

    def _works_until(self, operation: Operation) -> list[ReassignmentWork]:
        """Of the reassignments that had begun by then, also those that have ended since."""
        registry = self._registry
        return [
            work
            for one in registry
            if one.started_ms <= operation.started_ms and (work := registry.work(one.id))
        ]

    async def _ask(self, asked: Sequence[TopicPartition], timeout_s: float) -> Results:
        """What the cluster says; a request that it refuses is refused for each partition."""
        self._registry.require()
        try:
            return await self._admin.reassignments.alter(dict.fromkeys(asked), timeout_s=timeout_s)
        except KshuntError as error:
            if fate_of(error) is Fate.REFUSED:
                return dict.fromkeys(asked, item_of(error))
            words = f"whether it was cancelled is being found out: {error}"
            return dict.fromkeys(
                asked, ItemResult(REQUEST_TIMED_OUT, error_name(REQUEST_TIMED_OUT), words, True)
            )

    def _unfinished(self) -> Works:
        return tuple(unfinished_works(self._context))

    async def _mark(
        self, wanted: Iterable[TopicPartition], ongoing: Ongoing
    ) -> set[TopicPartition]:
        """Write down which partitions of ours are to return; the result is these partitions."""
        ours: set[TopicPartition] = set()
        asked = set(wanted)
        for operation, work in self._unfinished():
            mine = await offload(len(work.moves), _returnable, work, asked, ongoing)
            ours |= mine
            if mine and not mine <= work.cancelled:
                marked = replace(work, cancelled=work.cancelled | mine)
                after = self._after_marking(operation, marked)
                await self._registry.put(after, marked)
        return ours

    def _after_marking(self, operation: Operation, work: ReassignmentWork) -> Operation:
        if not work.all_cancelled or operation.state is State.CANCELLING:
            return operation
        words = "its partitions return to where they were"
        now_ms = self._context.clock.now_ms()
        return operation.to(State.CANCELLING, at_ms=now_ms, outcome=words, is_progress=True)

    async def _unmark(self, outcomes: Results, wish: _Wish) -> tuple[str, ...]:
        """Let continue what the cluster did not return, and lift the share of the rest."""
        problems: tuple[str, ...] = ()
        in_doubt = {p for p, one in outcomes.items() if one.error_code in UNANSWERED}
        arrived = wish.arrived(outcomes)
        for operation, work in self._unfinished():
            if work.cancelled.isdisjoint(outcomes):
                continue
            operation, work = await self._unmarked(operation, work, outcomes, arrived)
            if work.cancelled and not wish.preserve_throttles:
                problems += await self._reduce(operation, work, in_doubt)
            elif work.all_cancelled:
                stays_on = left_on(self._registry.ownership, operation.id)
                await self._registry.put(operation, replace(work, auto_remove=False), stays_on)
        return problems

    async def _unmarked(
        self,
        operation: Operation,
        work: ReassignmentWork,
        outcomes: Results,
        arrived: frozenset[TopicPartition],
    ) -> tuple[Operation, ReassignmentWork]:
        """Without the marks of what did not return and will not."""
        refused = refused_of({p: outcomes[p] for p in work.cancelled & outcomes.keys()})
        if operation.state is not State.CANCELLING:
            stays = refused.keys() | arrived
            if stays & work.cancelled:
                work = replace(work, cancelled=work.cancelled - stays)
                await self._registry.put(operation, work)
            return operation, work
        return await give_back_marks(self._context, operation, work, refused)

    async def _reduce(
        self, operation: Operation, work: ReassignmentWork, in_doubt: set[TopicPartition]
    ) -> tuple[str, ...]:
        """Lift the share of the partitions that are given up; other shares stay as they are.

        What may still move keeps its share.
        """
        throttling = self._context.throttling
        present = await throttling.present()
        stopped = replace(work, cancelled=work.cancelled - in_doubt)
        held = shares_held(self._registry.ownership, operation.id)
        needed = await offload(len(work.moves), still_needed, stopped, held)
        step = self._registry.ownership.reduce(operation.id, needed, present)
        await self._registry.put(operation, work, step.after)
        return (await throttling.carry_out(step.writes, present)).problems

    async def _clear(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take off the throttles of moves that this backend did not start.

        Returns:
            Notes for the answer, and what was read back of the settings.
        """
        try:
            clearing, notes = await clear_unowned(
                self._admin, self._registry.ownership, partitions, timeout_s=timeout_s
            )
        except KshuntError as error:
            return (f"Their throttles may still be on: {error}",), ()
        throttles = await self._context.throttling.read_back(
            [(broker, key) for broker in clearing.brokers for key in RateKey],
            [(topic, key) for topic in clearing.topics for key in ListKey],
        )
        return notes, throttles


def unfinished_works(context: Context) -> Iterable[tuple[Operation, ReassignmentWork]]:
    """The reassignments that have not ended, but for those whose throttle is being removed."""
    registry = context.registry
    for operation_id in registry.unfinished:
        operation, work = registry.get(operation_id), registry.work(operation_id)
        if operation is not None and work is not None and operation.state is not State.LIFTING:
            yield operation, work


def _orders(wanted: Iterable[TopicPartition], ongoing: Ongoing, works: Works) -> tuple[str, ...]:
    """What is said where a partition comes back in another order than it had.

    Kafka takes the new replicas out of the list that the move has made, in which replicas that
    were to stay come first.
    """
    changed, by = [], set()
    for operation, work in works:
        for partition in wanted:
            if partition in work.moves and partition in ongoing and not work.adopted:
                before, after = work.moves[partition].current, ongoing[partition].original
                if before != after and sorted(before) == sorted(after):
                    words = f"{partition} returns as {list(after)}, was {list(before)}"
                    changed.append(words)
                    by.add(operation.id)
    if not changed:
        return ()
    return (
        f"Kafka returns replicas in another order, so the preferred leader can differ: "
        f"{listed(changed, 3)}. Undo operation {listed(sorted(by))} to restore the order.",
    )


def _not_started(
    wanted: Iterable[TopicPartition], ongoing: Ongoing, works: Works
) -> set[TopicPartition]:
    """What operations of ours want to move, and the cluster did not take yet."""
    left = {
        partition
        for _, work in works
        for partition in work.moves.keys() - (work.started - work.unanswered) - work.refused
    }
    return {partition for partition in wanted if partition not in ongoing and partition in left}


def _returnable(
    work: ReassignmentWork, asked: Collection[TopicPartition], ongoing: Ongoing
) -> set[TopicPartition]:
    """Of the partitions that were asked for, those that the operation still moves or would."""
    waiting = set(work.waiting)
    return {
        partition
        for partition in work.moves.keys() & asked
        if partition in waiting
        or partition in work.unanswered
        or partition in work.cancelled
        or (partition in ongoing and is_ours(ongoing[partition], work))
    }


def _moved_by(works: Works, ongoing: Ongoing) -> set[TopicPartition]:
    """What moves to where one of these operations wants it."""
    return {
        partition
        for _, work in works
        for partition in work.moves.keys() & ongoing.keys()
        if is_ours(ongoing[partition], work)
    }


def _moved_then(
    returned: Iterable[TopicPartition], wish: _Wish, works: Sequence[ReassignmentWork]
) -> set[TopicPartition]:
    """What these operations moved when somebody asked to return it.

    Such an operation puts its own throttles back, and leaves what was there before.
    """
    return {
        partition
        for partition in returned
        for work in works
        if partition in work.moves and work.moves[partition].target == wish.targets[partition]
    }


def _foreseen(wanted: Sequence[TopicPartition], ongoing: Ongoing, works: Works) -> ChangeAnswer:
    """What a cancellation would do."""
    waits = {partition for _, work in works for partition in work.waiting}
    found = {p: _cancellable(ongoing.get(p), waits=p in waits) for p in wanted}
    return ChangeAnswer(True, None, results(found), _orders(wanted, ongoing, works))


def is_ours(move: OngoingReassignment, work: ReassignmentWork) -> bool:
    """Whether a partition moves to where the operation wants it."""
    return move.target == work.moves[move.partition].target


def returning(work: ReassignmentWork, ongoing: Ongoing) -> list[TopicPartition]:
    """What an operator cancelled and still moves to our target."""
    return [p for p in work.cancelled if p in ongoing and is_ours(ongoing[p], work)]


def refused_of(outcomes: Results) -> Results:
    """Of the results of a cancellation, those that say that it will not be done."""
    lost = (NO_REASSIGNMENT_IN_PROGRESS, *UNANSWERED)
    return {p: one for p, one in outcomes.items() if not one.ok and one.error_code not in lost}


async def give_back_marks(
    context: Context, operation: Operation, work: ReassignmentWork, refused: Results
) -> tuple[Operation, ReassignmentWork]:
    """Let the moves that the cluster does not return continue; written where there are any."""
    if not refused:
        return operation, work
    work = replace(work, cancelled=work.cancelled - refused.keys())
    words = f"cannot be cancelled: {listed(failures(refused), 2)}"
    state = State.RESUMING if operation.state is State.CANCELLING else operation.state
    operation = context.to(operation, state, words)
    await context.registry.put(operation, work)
    return operation, work


async def return_again(
    context: Context, operation: Operation, work: ReassignmentWork, back: Sequence[TopicPartition]
) -> tuple[Operation, ReassignmentWork]:
    """Ask the cluster once more for what was cancelled and still moves.

    Raises:
        KshuntError: it did not answer; the next tick tries again.
    """
    context.registry.require()
    try:
        found = await context.admin.reassignments.alter(
            dict.fromkeys(back), timeout_s=work.timeout_s
        )
    except KshuntError as error:
        if fate_of(error) is not Fate.REFUSED:
            raise
        found = dict.fromkeys(back, item_of(error))
    return await give_back_marks(context, operation, work, refused_of(found))


def _cancellable(move: OngoingReassignment | None, *, waits: bool) -> ItemResult:
    """What cancelling a partition would do; `waits` where an operation of ours has it waiting."""
    if move is not None:
        return ItemResult(message=f"would return to {listed(move.original, 20)}")
    if waits:
        return ItemResult(message="has not started, and would not")
    return _NOT_MOVING
