"""Starting and cancelling reassignments, because somebody asked for it.

Goals
    A throttle that a reassignment brings is there before the move, and comes off when it ends
    (KIP-179, "On reassignment completion"), also when it was cancelled. A plan that the cluster
    refuses leaves nothing behind.
Constraints
    The intent is in the journal before the first effect. What was asked is answered partition by
    partition.
Algorithm
    start (KIP-179, "Algorithm"): check everything; write the intent with our share of each
    throttle and what was there before; the topics' throttled replicas; the brokers' rates; the
    move. The engine does the rest.
    cancel: write which partitions shall return; ask the cluster; lift their share of the throttle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from backend.admin.offered import Verb, require
from backend.admin.port import ItemResult, ReassignOptions, ReassignOutcome
from backend.domain.answers import WAITS_FOR_TURN, ChangeAnswer, Result
from backend.domain.assignment import partition_states
from backend.domain.cluster import OngoingReassignment, TopicPartition, original_replicas
from backend.domain.operation import NOBODY, Asker, Operation, OperationKind, OperationState
from backend.domain.plan import ReassignmentPlan, format_plan
from backend.domain.throttle import Move, check_rate
from backend.domain.wording import listed, many
from backend.errors import BadInput, Conflict, KshuntError
from backend.operations.clearing import clear_unowned
from backend.operations.context import Context
from backend.operations.engine import NO_REASSIGNMENT_IN_PROGRESS, Engine
from backend.operations.ownership import Present, RateCellId
from backend.operations.results import failures, result, results
from backend.operations.schedule import Caps, Order
from backend.operations.throttle import recorded
from backend.operations.throttling import Written, left_on, shares_held
from backend.operations.work import Work, shares_of, still_needed
from backend.settings import LIMITS

NOT_ATTEMPTED: Final = 55

State = OperationState


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    """What an operator asks of `Reassignments.start`."""

    plan: ReassignmentPlan
    throttle_bytes_per_s: int | None = None
    log_dirs_throttle_bytes_per_s: int | None = None
    auto_remove_throttle: bool = True
    additional: bool = False
    allow_replication_factor_change: bool = True
    validate_only: bool = False
    timeout_s: float = 10.0
    caps: Caps | None = None
    """Moves in flight; None: everything at once, as KIP-179 and Kafka's own tool have it."""
    order: Order = Order.LARGEST_FIRST
    asker: Asker = NOBODY


class Reassignments:
    """See the module's text."""

    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._admin = context.admin
        self._registry = context.registry

    async def start(self, request: ReassignRequest) -> ChangeAnswer:
        """Start a plan, with its throttle.

        Raises:
            Conflict: partitions move already and `additional` is not set, or the journal's record
                of a throttle cannot be read.
            BadInput: a throttle is under 1 KB/s, or the plan is over Kafka's limit.
            NotActing: another backend acts for this cluster.
        """
        _check(request)
        async with self._context.lock:
            ongoing = await self._context.ongoing()
            if ongoing and not request.additional:
                raise Conflict(
                    f"{many(len(ongoing), 'partition')} already being reassigned "
                    f"({listed(ongoing, 3)}); nothing was changed.",
                    advice="Wait, cancel them, or ask for this plan in addition to them.",
                )
            moves = await self._moves(request.plan, ongoing)
            checked = await self._admin.reassign_partitions(
                request.plan.replicas, _options(request, validate_only=True), request.plan.log_dirs
            )
            if request.validate_only:
                return _answer(request, checked, moves.values(), None, ())
            return await self._start(request, moves, checked.results, ongoing)

    async def _start(
        self,
        request: ReassignRequest,
        moves: Mapping[TopicPartition, Move],
        checked: Mapping[TopicPartition, ItemResult],
        ongoing: Mapping[TopicPartition, OngoingReassignment],
    ) -> ChangeAnswer:
        self._registry.require()
        fit = {p: m for p, m in moves.items() if p in checked and checked[p].ok}
        work = _work(request, moves, fit)
        operation = self._draft(request, work)
        if not fit:
            words = f"refused: {next(iter(failures(checked)), 'no partition can be moved')}"
            await self._registry.put(operation, work)
            await self._registry.move(operation.id, State.FAILED, words)
            return _answer(request, _nothing_done(checked), moves.values(), operation, ())
        present, written = await self._throttle(operation, work, ongoing)
        notes = [
            f"Broker {broker} does not answer; its throttle is written when it does."
            for broker in _silent(work, present)
        ]
        if written.holding_up:
            why = f"the throttle of {listed(written.holding_up)} could not be written"
            await self._give_up(operation, replace(work, failed=why))
            refused = ItemResult(NOT_ATTEMPTED, "OPERATION_NOT_ATTEMPTED", why)
            outcome = _nothing_done(dict(checked) | dict.fromkeys(fit, refused))
            return _answer(request, outcome, moves.values(), operation, (_UNDONE,))
        notes += [f"Throttle of {problem}" for problem in written.problems]
        outcome = await self._first_moves(operation, work)
        unfit = {p: r for p, r in checked.items() if p not in fit}
        outcome = replace(outcome, results={**unfit, **outcome.results})
        if self._is_refused(operation):
            notes.append(_UNDONE)
        return _answer(request, outcome, moves.values(), operation, notes)

    async def _moves(
        self, plan: ReassignmentPlan, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> dict[TopicPartition, Move]:
        cluster = await self._admin.describe(plan.topics, timeout_s=self._context.timeout_s)
        states = partition_states(cluster.assignment)
        return {
            partition: Move(
                partition, original_replicas(states[partition], ongoing.get(partition)), target
            )
            for partition, target in plan.replicas.items()
            if partition in states
        }

    def _draft(self, request: ReassignRequest, work: Work) -> Operation:
        plan = request.plan
        return self._registry.draft(
            OperationKind.REASSIGN,
            f"move {many(len(plan), 'partition')} of {listed(plan.topics, 3)}",
            asker=request.asker,
            partitions=tuple(plan.replicas),
            throttle_bytes_per_s=request.throttle_bytes_per_s,
            auto_remove_throttle=request.auto_remove_throttle,
            details={"rollback_plan": rollback_plan(work.moves.values())},
        )

    async def _throttle(
        self,
        operation: Operation,
        work: Work,
        ongoing: Mapping[TopicPartition, OngoingReassignment],
    ) -> tuple[Present, Written]:
        """Write the intent, and the throttle of it."""
        shares, throttling = shares_of(work), self._context.throttling
        brokers = sorted({broker for broker, _ in shares.rates})
        topics = sorted({topic for topic, _ in shares.lists})
        throttling.check_readable(brokers, topics)
        present = await throttling.present(brokers, topics)
        ownership = self._registry.ownership
        if (rate := work.throttle_bytes_per_s) is not None:
            # The lowest rate is in force: theirs would be, where it is raised.
            for former in self._asked_again(work, ongoing):
                ownership = ownership.change_all(former, rate, present).after
        step = ownership.record(operation.id, shares, present, auto_remove=work.auto_remove)
        await self._registry.put(operation, work, step.after)
        return present, await throttling.carry_out(step.writes, present)

    def _asked_again(
        self, work: Work, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> list[str]:
        """Running operations all of whose moves are asked for again, in just the same way.

        So Kafka's tool changes a throttle: by the current reassignment, submitted once more.
        """
        return [
            operation.id
            for operation, former in self._unfinished()
            if operation.state is State.RUNNING
            and not former.waiting
            and (moving := former.in_flight(ongoing))
            and all(p in work.moves and _is_ours(ongoing[p], work) for p in moving)
        ]

    async def _first_moves(self, operation: Operation, work: Work) -> ReassignOutcome:
        """Submit what may start at once; the others wait."""
        waits = ItemResult(message=WAITS_FOR_TURN)
        if work.caps is not None:
            await self._engine.advance(operation, work, await self._context.ongoing())
            return _nothing_done(dict.fromkeys(work.waiting, waits))
        try:
            outcome = await self._engine.submit(operation, work, work.waiting)
        except KshuntError as error:
            return _nothing_done(dict.fromkeys(work.waiting, _in_doubt(error)))
        left = self._registry.work(operation.id)
        if left is not None and left.failed:
            await self._engine.lift(self._registry.known.operations[operation.id], left)
        return outcome

    def _is_refused(self, operation: Operation) -> bool:
        work = self._registry.work(operation.id)
        return work is not None and bool(work.failed)

    async def _give_up(self, operation: Operation, work: Work) -> None:
        """End an operation that moved nothing; what is not off yet, the engine takes off."""
        await self._registry.put(operation, work)
        await self._engine.lift(operation, work)

    # Cancelling

    async def cancel(
        self,
        partitions: Sequence[TopicPartition],
        *,
        preserve_throttles: bool,
        validate_only: bool,
        timeout_s: float,
        asker: Asker = NOBODY,
    ) -> ChangeAnswer:
        """Return partitions to their original replicas.

        Only the throttle share of what was cancelled goes; that of moves that go on stays.

        Raises:
            BadInput: no partition is named.
            NotActing: another backend acts for this cluster.
            NotSupported: this way to the cluster cannot cancel what moves.
        """
        if not partitions:
            raise BadInput("No partition is named; nothing was changed.")
        wanted = tuple(dict.fromkeys(partitions))
        async with self._context.lock:
            ongoing = await self._context.ongoing()
            if any(partition in ongoing for partition in wanted):
                require(Verb.CANCEL, self._admin)
            if validate_only:
                foreseen = {p: self._cancellable(p, ongoing.get(p)) for p in wanted}
                return ChangeAnswer(True, None, results(foreseen))
            self._registry.require()
            summary = f"cancel {many(len(wanted), 'partition')}: {listed(wanted, 3)}"
            operation = await self._registry.begin(OperationKind.CANCEL, summary, asker=asker)
            ours = await self._mark(wanted, ongoing)
            waiting = {p for p in wanted if p not in ongoing and p in ours}
            outcomes = dict.fromkeys(waiting, ItemResult(message="it had not started"))
            if asked := [p for p in wanted if p not in waiting]:
                self._registry.require()
                outcomes |= await self._admin.cancel_reassignments(asked, timeout_s=timeout_s)
            stopped = {partition for partition, outcome in outcomes.items() if outcome.ok}
            notes = await self._unmark(set(wanted), stopped, preserve_throttles)
            if not preserve_throttles and stopped - ours:
                notes = (*notes, *await self._clear(stopped - ours, timeout_s))
            answer = ChangeAnswer(False, operation.id, results(outcomes), notes)
            return await recorded(self._registry, operation, answer)

    def _cancellable(
        self, partition: TopicPartition, move: OngoingReassignment | None
    ) -> ItemResult:
        if move is not None:
            return ItemResult(message=f"would return to {listed(move.original, 20)}")
        if any(partition in work.waiting for _, work in self._unfinished()):
            return ItemResult(message="has not started, and would not")
        return ItemResult(
            NO_REASSIGNMENT_IN_PROGRESS,
            "NO_REASSIGNMENT_IN_PROGRESS",
            "the partition is not moving",
        )

    def _unfinished(self) -> Iterable[tuple[Operation, Work]]:
        for operation_id in self._registry.unfinished:
            operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
            if operation is not None and work is not None and operation.state is not State.LIFTING:
                yield operation, work

    async def _mark(
        self,
        wanted: Iterable[TopicPartition],
        ongoing: Mapping[TopicPartition, OngoingReassignment],
    ) -> set[TopicPartition]:
        """Write down which partitions of ours shall return; those of our operations."""
        ours: set[TopicPartition] = set()
        for operation, work in list(self._unfinished()):
            mine = {
                partition
                for partition in work.moves.keys() & set(wanted)
                if partition in work.waiting
                or partition in work.unanswered
                or (partition in ongoing and _is_ours(ongoing[partition], work))
            }
            if mine and not mine <= work.cancelled:
                ours |= mine
                marked = replace(work, cancelled=work.cancelled | mine)
                after = self._after_marking(operation, marked)
                await self._registry.put(after, marked)
        return ours

    def _after_marking(self, operation: Operation, work: Work) -> Operation:
        if not work.all_cancelled or operation.state is State.CANCELLING:
            return operation
        return operation.to(State.CANCELLING, at_ms=self._context.clock.now_ms())

    async def _unmark(
        self, wanted: set[TopicPartition], stopped: set[TopicPartition], preserve_throttles: bool
    ) -> tuple[str, ...]:
        """What the cluster did not return goes on; the share of the rest is lifted."""
        problems: tuple[str, ...] = ()
        stays = wanted - stopped
        for operation, work in list(self._unfinished()):
            if not work.cancelled & wanted:
                continue
            if stays & work.cancelled and operation.state is not State.CANCELLING:
                work = replace(work, cancelled=work.cancelled - stays)
                await self._registry.put(operation, work)
            if work.cancelled and not preserve_throttles:
                problems += await self._reduce(operation, work)
            elif work.all_cancelled:
                stays_on = left_on(self._registry.ownership, operation.id)
                await self._registry.put(operation, replace(work, auto_remove=False), stays_on)
        return problems

    async def _reduce(self, operation: Operation, work: Work) -> tuple[str, ...]:
        """Lift the share of the partitions that are given up; other shares stay as they are."""
        throttling = self._context.throttling
        present = await throttling.present()
        ownership = self._registry.ownership
        needed = still_needed(work, shares_held(ownership, operation.id))
        step = ownership.reduce(operation.id, needed, present)
        await self._registry.put(operation, work, step.after)
        return (await throttling.carry_out(step.writes, present)).problems

    async def _clear(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> tuple[str, ...]:
        """Take off the throttles of moves that this backend did not start."""
        try:
            _, notes = await clear_unowned(
                self._admin, self._registry.ownership, partitions, timeout_s=timeout_s
            )
            return notes
        except KshuntError as error:
            return (f"Their throttles may still be on: {error}",)


_UNDONE: Final = "The cluster took no partition; the throttles were put back as they were."


def _nothing_done(outcomes: Mapping[TopicPartition, ItemResult]) -> ReassignOutcome:
    return ReassignOutcome(outcomes, {}, {}, {})


def _is_ours(move: OngoingReassignment, work: Work) -> bool:
    return move.target == work.moves[move.partition].target


def _in_doubt(error: KshuntError) -> ItemResult:
    return ItemResult(
        error.kafka_code, "UNKNOWN", f"whether it moves is being found out: {error}", True
    )


def _silent(work: Work, present: Present) -> list[int]:
    """Brokers whose rates we shall write and could not read."""
    cells: set[RateCellId] = set(shares_of(work).rates)
    return sorted({cell[0] for cell in cells if cell not in present.rates})


def _work(
    request: ReassignRequest,
    moves: Mapping[TopicPartition, Move],
    fit: Mapping[TopicPartition, Move],
) -> Work:
    return Work(
        moves=moves,
        log_dirs={key: path for key, path in request.plan.log_dirs.items() if key[0] in moves},
        throttle_bytes_per_s=request.throttle_bytes_per_s,
        log_dirs_throttle_bytes_per_s=request.log_dirs_throttle_bytes_per_s,
        auto_remove=request.auto_remove_throttle,
        factor_may_change=request.allow_replication_factor_change,
        timeout_s=request.timeout_s,
        order=request.order,
        caps=request.caps,
        refused=frozenset(moves.keys() - fit.keys()),
    )


def rollback_plan(moves: Iterable[Move]) -> object:
    """Kafka's JSON of where the partitions are now."""
    return json.loads(format_plan({move.partition: move.current for move in moves}))


def _check(request: ReassignRequest) -> None:
    for rate in (request.throttle_bytes_per_s, request.log_dirs_throttle_bytes_per_s):
        if rate is not None:
            check_rate(rate)
    if request.caps is None and len(request.plan) > LIMITS.partitions_per_reassignment:
        raise BadInput(
            f"The plan moves {len(request.plan)} partitions; Kafka takes "
            f"{LIMITS.partitions_per_reassignment} in one request. Nothing was changed.",
            advice="Split the plan, or give a cap of moves in flight.",
        )


def _options(request: ReassignRequest, *, validate_only: bool) -> ReassignOptions:
    return ReassignOptions(
        throttle_bytes_per_s=request.throttle_bytes_per_s,
        log_dirs_throttle_bytes_per_s=request.log_dirs_throttle_bytes_per_s,
        validate_only=validate_only,
        allow_replication_factor_change=request.allow_replication_factor_change,
        auto_remove_throttle=request.auto_remove_throttle,
        timeout_s=request.timeout_s,
    )


def _answer(
    request: ReassignRequest,
    outcome: ReassignOutcome,
    moves: Iterable[Move],
    operation: Operation | None,
    notes: Iterable[str],
) -> ChangeAnswer:
    log_dirs: tuple[Result, ...] = tuple(
        result(f"{partition} on broker {broker}", item)
        for (partition, broker), item in sorted(outcome.log_dir_results.items())
    )
    said = list(notes)
    if request.throttle_bytes_per_s is not None and not request.auto_remove_throttle:
        said.append("The throttle stays on after the move, as asked.")
    return ChangeAnswer(
        validate_only=request.validate_only,
        operation_id=None if operation is None else operation.id,
        results=(*results(outcome.results), *log_dirs),
        notes=tuple(said),
        rollback_plan=rollback_plan(moves),  # type: ignore[arg-type]
    )
