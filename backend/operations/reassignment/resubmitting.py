"""A plan that is asked for while an operation of ours moves its partitions to the same replicas.

Goals
    A plan that is started once more, with another rate, changes the rate of what runs (KIP-179 and
    Kafka's own tool). No second operation counts the same moves.
Constraints
    A move is never submitted a second time. Kafka would take it as a move from where the replicas
    are by then, and its cancellation would keep the new replicas. What an operation holds at the
    floor of a pause stays there.
Algorithm
    A partition is carried where an operation that has not ended moves it to just these replicas,
    will move it, or has moved it. Where all of the plan is carried, each of these operations gets
    the new rate: its shares and its work are written, and then the brokers. Where a part is, the
    others become a new operation, and what is carried keeps its operation and its rate.
    What an operation still returns is refused: the engine would cancel the new move too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.text.formatting import exact_rate_text, listed, many
from kshunt.backend.domain.throttles.configs import Move, ReplicaSet
from kshunt.backend.errors import Conflict
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.throttle_writes import left_on, shares_held
from kshunt.backend.operations.moves.pause_throttles import PauseRecord
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import (
    REPLICATION_RATES,
    Ownership,
    RateCellId,
    Shares,
)
from kshunt.backend.operations.reassignment.cancelling import is_ours, unfinished_works
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, shares_of

Moves = Mapping[TopicPartition, Move]
Ongoing = Mapping[TopicPartition, OngoingReassignment]

_MOVING: Final = frozenset({OperationKind.REASSIGN, OperationKind.ADOPT})


@dataclass(frozen=True, slots=True)
class Carried:
    """What one operation moves already of a plan that is asked for."""

    operation: Operation
    work: ReassignmentWork
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class NewTerms:
    """What a running operation is to go by from here on; None leaves what it has."""

    throttle_bytes_per_s: int | None = None
    log_dirs_throttle_bytes_per_s: int | None = None
    deadline_ms: int | None = None
    keeps_throttle: bool = False
    """Whether the throttle stays set when the operation ends."""


class Resubmissions:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._registry = context.registry

    async def carried(
        self, plan: ReassignmentPlan, moves: Moves, ongoing: Ongoing
    ) -> tuple[Carried, ...]:
        """The operations that carry partitions of the plan, oldest first.

        `moves` are the plan's partitions that exist, from where they are now.
        """
        works = [
            (operation, work)
            for operation, work in unfinished_works(self._context)
            if operation.kind in _MOVING
            and operation.state is not OperationState.CANCELLING
            and not work.failed
        ]
        size = sum(len(work.moves) for _, work in works)
        return await offload(size, _carried, works, plan, moves, ongoing)

    async def check_none_returns(self, plan: ReassignmentPlan) -> None:
        """Refuse a plan of which the engine would cancel a part, because an operation returns it.

        Raises:
            Conflict: a cancellation of its partitions has not ended.
        """
        works = tuple(unfinished_works(self._context))
        size = len(plan) + sum(len(work.cancelled) for _, work in works)
        returned = await offload(size, _returned, works, plan)
        for operation_id in self._registry.unfinished:
            operation = self._registry.get(operation_id)
            if operation is not None and operation.kind is OperationKind.CANCEL:
                rows = operation.details.returning or ()
                mine = plan.replicas.keys() & {TopicPartition(t, p) for t, p, _ in rows}
                returned.append((operation, sorted(mine)))
        for operation, partitions in returned:
            if partitions:
                raise Conflict(
                    f"Operation {operation.id} {_returns(operation)} "
                    f"{many(len(partitions), 'partition')} of this plan ({listed(partitions, 3)}). "
                    "Nothing was changed.",
                    advice=f"Start the plan again when operation {operation.id} has ended.",
                )

    async def change(
        self, carried: Sequence[Carried], terms: NewTerms, moves: Moves, change: Change
    ) -> ChangeAnswer:
        """Give the operations their new terms; `moves` are all of the plan.

        Raises:
            Conflict: the journal's record of a throttle cannot be read.
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        notes: list[str] = []
        for one in carried:
            words = _differences(one, terms)
            notes.append(_said(one, words, validate_only=change.validate_only))
            if words and not change.validate_only:
                notes += await self._change(one, terms, change)
        partitions = frozenset[TopicPartition]().union(*(one.partitions for one in carried))
        there = tuple(
            Result(str(partition), 0, "NONE", "it is there already")
            for partition in sorted(moves.keys() - partitions)
        )
        return ChangeAnswer(
            change.validate_only,
            carried[0].operation.id,
            (*results_of(carried), *there),
            tuple(notes),
            already_moving=items_of(carried),
        )

    async def _change(self, one: Carried, terms: NewTerms, change: Change) -> list[str]:
        """Write the intent and then the throttles; what an operator should also know."""
        self._registry.require()
        operation, work = _under(one, terms)
        wanted = await offload(len(work.moves), shares_of, work)
        throttling, before = self._context.throttling, self._registry.ownership
        shares, pause = _new_shares(operation.id, work, wanted, before)
        brokers = {broker for broker, _ in shares.rates}
        topics = {topic for topic, _ in shares.lists}
        throttling.check_readable(brokers, topics)
        present = await throttling.present(brokers, topics)
        step = before.record(operation.id, shares, present, auto_remove=work.auto_remove)
        after = left_on(step.after, operation.id) if terms.keeps_throttle else step.after
        await self._registry.put(
            operation, replace(work, pause=pause), after, asked=change.requester
        )
        written = await throttling.carry_out(step.writes, present)
        notes = [f"Throttle of {problem}" for problem in written.problems]
        if pause is not None:
            paused = f"Operation {operation.id} is paused"
            notes.append(f"{paused}: the new throttle holds once you resume it.")
        return [*notes, *_lower_rates(operation.id, shares.rates, self._registry.ownership)]


def _carried(
    works: Iterable[tuple[Operation, ReassignmentWork]],
    plan: ReassignmentPlan,
    moves: Moves,
    ongoing: Ongoing,
) -> tuple[Carried, ...]:
    found = []
    for operation, work in works:
        elsewhere = {
            p for (p, b), path in plan.log_dirs.items() if work.log_dirs.get((p, b)) != path
        }
        mine = frozenset(
            partition
            for partition in work.moves.keys() & moves.keys()
            if work.moves[partition].target == moves[partition].target
            and partition not in elsewhere
            and _is_carried(work, moves[partition], ongoing.get(partition))
        )
        if mine:
            found.append(Carried(operation, work, mine))
    return tuple(found)


def _is_carried(work: ReassignmentWork, move: Move, now: OngoingReassignment | None) -> bool:
    """Whether an operation moves a partition to its target, will move it, or has moved it."""
    partition = move.partition
    if partition in work.cancelled or partition in work.refused:
        return False
    if now is not None:
        return is_ours(now, work)
    began = partition in work.started - work.unanswered
    return not began or move.current == move.target


def _returned(
    works: Iterable[tuple[Operation, ReassignmentWork]], plan: ReassignmentPlan
) -> list[tuple[Operation, list[TopicPartition]]]:
    """What operations return of the partitions that a plan moves to the very same replicas."""
    return [
        (
            operation,
            sorted(
                partition
                for partition in work.cancelled & plan.replicas.keys()
                if work.moves[partition].target == tuple(plan.replicas[partition])
            ),
        )
        for operation, work in works
    ]


def _under(one: Carried, terms: NewTerms) -> tuple[Operation, ReassignmentWork]:
    """An operation and its work under the new terms."""
    operation, work = one.operation, one.work
    if terms.throttle_bytes_per_s is not None:
        operation = replace(operation, throttle_bytes_per_s=terms.throttle_bytes_per_s)
        work = replace(work, throttle_bytes_per_s=terms.throttle_bytes_per_s)
    if terms.log_dirs_throttle_bytes_per_s is not None:
        rate = terms.log_dirs_throttle_bytes_per_s
        work = replace(work, log_dirs_throttle_bytes_per_s=rate)
    if terms.deadline_ms is not None:
        details = structs.replace(operation.details, deadline_ms=terms.deadline_ms)
        operation = replace(operation, details=details)
    if terms.keeps_throttle:
        operation = replace(operation, auto_remove_throttle=False)
        work = replace(work, auto_remove=False)
    return operation, work


def _new_shares(
    operation_id: str, work: ReassignmentWork, wanted: Shares, before: Ownership
) -> tuple[Shares, PauseRecord | None]:
    """What of the operation's shares is new, and what its pause gives back in the end.

    Rates of brokers that it needs no more, and that are not off yet, change with the others.
    """
    held = shares_held(before, operation_id)
    rates = dict(wanted.rates)
    if (rate := work.throttle_bytes_per_s) is not None:
        rates |= {cell: rate for cell in held.rates if cell[1] in REPLICATION_RATES}
    lists = dict(wanted.lists)
    pause = work.pause
    if pause is not None:
        floored = {(broker, RateKey.FOLLOWER) for broker in pause.rates}
        later = {b: rates[b, key] for b, key in floored if (b, key) in rates}
        rates = {cell: rate for cell, rate in rates.items() if cell not in floored}
        added = {
            topic: ReplicaSet(pairs.pairs - lists.get((topic, ListKey.FOLLOWERS), frozenset()))
            for topic, pairs in pause.added.items()
        }
        pause = PauseRecord({**pause.rates, **later}, {t: one for t, one in added.items() if one})
    fresh = {cell: pairs - held.lists.get(cell, frozenset()) for cell, pairs in lists.items()}
    return Shares(rates, {cell: pairs for cell, pairs in fresh.items() if pairs}), pause


def _lower_rates(
    operation_id: str, rates: Mapping[RateCellId, int], ownership: Ownership
) -> list[str]:
    """Which brokers keep a lower rate, because another operation wants it."""
    lower: dict[tuple[int, tuple[str, ...]], set[int]] = {}
    for (broker, key), rate in rates.items():
        cell = ownership.rates.get((broker, key))
        if cell is None or not cell.rates_bytes_per_s:
            continue
        if (least := min(cell.rates_bytes_per_s.values())) < rate:
            others = tuple(o for o in ownership.holders(broker, key) if o != operation_id)
            lower.setdefault((least, others), set()).add(broker)
    return [
        f"Broker {listed(sorted(brokers))} stays at {exact_rate_text(rate)}, the lower rate of "
        f"operation {listed(others)}."
        for (rate, others), brokers in sorted(lower.items())
    ]


# --- in words


def _returns(operation: Operation) -> str:
    """What an operation does that returns partitions."""
    if operation.state is OperationState.CANCELLING:
        return "is being cancelled and returns"
    return "returns" if operation.kind is OperationKind.CANCEL else "still runs and returns"


def _differences(one: Carried, terms: NewTerms) -> list[str]:
    """What changes for an operation, in words; nothing where it has these terms already."""
    work, words = one.work, []
    rates = (
        ("its throttle", work.throttle_bytes_per_s, terms.throttle_bytes_per_s),
        (
            "its throttle between log directories",
            work.log_dirs_throttle_bytes_per_s,
            terms.log_dirs_throttle_bytes_per_s,
        ),
    )
    for name, old, new in rates:
        if new is not None and new != old:
            words.append(f"{name} from {exact_rate_text(old)} to {exact_rate_text(new)}")
    if terms.deadline_ms not in (None, one.operation.details.deadline_ms):
        words.append("its deadline")
    if terms.keeps_throttle and work.auto_remove:
        words.append("its end: the throttle stays set")
    return words


def _said(one: Carried, words: Sequence[str], *, validate_only: bool) -> str:
    begins = f"Operation {one.operation.id} already moves {many(len(one.partitions), 'partition')}"
    begins += " of this plan"
    if not words:
        rate = exact_rate_text(one.work.throttle_bytes_per_s)
        return f"{begins}, with throttle {rate}. kshunt changes nothing."
    does = "would change" if validate_only else "changed"
    return f"{begins}. kshunt {does} {' and '.join(words)}. No new operation starts."


def kept_notes(carried: Iterable[Carried]) -> tuple[str, ...]:
    """What is said of the partitions that stay with their operations, where others start."""
    return tuple(
        f"Operation {one.operation.id} already moves {many(len(one.partitions), 'partition')} of "
        "this plan, and keeps them with throttle "
        f"{exact_rate_text(one.work.throttle_bytes_per_s)}. Only the others start."
        for one in carried
    )


def results_of(carried: Sequence[Carried]) -> tuple[Result, ...]:
    """A result for each partition that an operation moves already."""
    # Where two operations carry it, it is of the older one, which knows where it came from.
    owners = {p: one.operation.id for one in reversed(carried) for p in one.partitions}
    return tuple(
        Result(str(partition), 0, "NONE", f"operation {owner} already moves it")
        for partition, owner in sorted(owners.items())
    )


def items_of(carried: Iterable[Carried]) -> tuple[str, ...]:
    """The partitions that operations move already, as `ChangeAnswer.already_moving` has them."""
    return tuple(str(p) for p in sorted({p for one in carried for p in one.partitions}))
