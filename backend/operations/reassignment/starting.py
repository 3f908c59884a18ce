"""Starting reassignments, because somebody asked for it; `cancelling` returns them.

Goals
    A throttle that a reassignment brings is there before the move. The engine removes it when the
    reassignment ends (KIP-179, "On reassignment completion"), also when it was cancelled. A plan
    that the cluster refuses leaves nothing behind.
Constraints
    The intent is in the journal before the first effect. What was asked is answered partition by
    partition.
Algorithm
    start (KIP-179, "Algorithm"): check everything; write the intent with our share of each
    throttle and what was there before; the topics' throttled replicas; the brokers' rates; the
    move. The engine does the rest.
    A request that the cluster refuses as a whole is a refusal of each partition. The throttle is
    put back immediately, and nothing is submitted again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kshunt.backend.admin.port.item_result import ItemResult, not_attempted
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc.request_fate import Fate, fate_of
from kshunt.backend.domain.cluster.assignment import Assignment, partition_states
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    TopicPartition,
    original_replicas,
)
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import Move, check_rate
from kshunt.backend.errors import BadInput, Conflict, KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.results import failures, result, results
from kshunt.backend.operations.core.throttle_writes import ThrottleWrites
from kshunt.backend.operations.moves.cluster_view import leader_sizes
from kshunt.backend.operations.moves.disk_space import ChosenDirs, room_warnings
from kshunt.backend.operations.moves.schedule import Caps, MoveOrder
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.resubmitting import (
    Carried,
    NewTerms,
    Resubmissions,
    items_of,
    kept_notes,
    results_of,
)
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, shares_of

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
    all_or_nothing: bool = False
    """True: one partition that cannot be moved holds up the others."""
    timeout_s: float = 10.0
    caps: Caps | None = None
    """Moves in flight; None: all at the same time, as KIP-179 and Kafka's own tool have it."""
    order: MoveOrder = MoveOrder.LARGEST_FIRST
    change: Change = ANONYMOUS_CHANGE
    deadline_ms: int | None = None
    """The deadline, in milliseconds since the epoch; None: no deadline."""


class Reassignments:
    """See the module's text."""

    def __init__(
        self, context: Context, runner: ReassignmentRunner, cancellations: Cancellations
    ) -> None:
        self._context = context
        self._runner = runner
        self._cancellations = cancellations
        self._resubmissions = Resubmissions(context)
        self._admin = context.admin
        self._registry = context.registry

    async def start(self, request: ReassignRequest) -> ChangeAnswer:
        """Start a plan, with its throttle.

        Raises:
            Conflict: partitions move already and `additional` is not set, but for the very plan
                that runs, with another throttle: see `resubmitting`. Or a cancellation of them
                has not ended, or the journal's record of a throttle cannot be read.
            BadInput: a throttle is under 1 KB/s, the plan is over Kafka's limit, or the deadline
                is over.
            NotActive: another backend acts for this cluster.
        """
        _check(request, self._context.clock.now_ms())
        async with self._context.lock:
            ongoing = await self._context.ongoing()
            await self._resubmissions.check_none_returns(request.plan)
            moves = await self._moves(request.plan, ongoing)
            carried = await self._resubmissions.carried(request.plan, moves, ongoing)
            kept = frozenset[TopicPartition]().union(*(one.partitions for one in carried))
            again = _asks_again(request, moves, ongoing, kept)
            if ongoing and not request.additional and not again:
                raise Conflict(
                    f"{many(len(ongoing), 'partition')} already being reassigned "
                    f"({listed(ongoing, 3)}); nothing was changed.",
                    advice="Wait, cancel them, or ask to run this plan in addition to them.",
                )
            if carried and _all_carried(request.plan, moves, ongoing, kept):
                answer = await self._resubmissions.change(
                    carried, _terms(request), moves, request.change
                )
                return replace(answer, rollback_plan=_whole_rollback(moves, carried))
            answer = await self._start_others(_without(request, kept), moves)
            return _with_carried(answer, moves, carried) if carried else answer

    async def _start_others(
        self,
        request: ReassignRequest,
        every: Mapping[TopicPartition, Move],
    ) -> ChangeAnswer:
        """Check and start what no operation carries; `every` move is of what was asked first."""
        moves = {p: move for p, move in every.items() if p in request.plan.replicas}
        size = len(moves)
        checked = await self._admin.reassignments.reassign(
            request.plan.replicas, _options(request, validate_only=True), request.plan.log_dirs
        )
        if request.change.validate_only:
            room = await self._room(request, moves)
            return await offload(size, _answer, request, checked, moves.values(), None, (), room)
        return await self._start(request, moves, checked.results)

    async def _start(
        self,
        request: ReassignRequest,
        moves: Mapping[TopicPartition, Move],
        checked: Mapping[TopicPartition, ItemResult],
    ) -> ChangeAnswer:
        self._registry.require()
        fit = {p for p in moves if p in checked and checked[p].ok}
        work = _work(request, moves, fit)
        operation = await offload(len(moves), self._draft, request, work)
        if not fit:
            words = f"refused: {next(iter(failures(checked)), 'no partition can be moved')}"
            await self._registry.put(operation, work)
            await self._registry.move(operation.id, State.FAILED, words)
            nothing = _nothing_done(checked)
            return await offload(
                len(moves), _answer, request, nothing, moves.values(), operation, ()
            )
        silent, written = await self._throttle(operation, work)
        room = await self._room(request, moves)
        notes = [
            f"Broker {broker} does not answer; kshunt writes its throttle when it does."
            for broker in silent
        ]
        if written.holding_up:
            why = f"the throttle of {listed(written.holding_up)} could not be written"
            await self._give_up(operation, replace(work, failed=why))
            refused = not_attempted(why)
            outcome = _nothing_done(dict(checked) | dict.fromkeys(fit, refused))
            said = (_UNDONE,)
            return await offload(
                len(moves), _answer, request, outcome, moves.values(), operation, said
            )
        notes += [f"Throttle of {problem}" for problem in written.problems]
        outcome = await self._first_moves(operation, work)
        unfit = {p: r for p, r in checked.items() if p not in fit}
        outcome = replace(outcome, results={**unfit, **outcome.results})
        if self._is_refused(operation):
            notes.append(_UNDONE)
        return await offload(
            len(moves), _answer, request, outcome, moves.values(), operation, notes, room
        )

    async def _room(
        self, request: ReassignRequest, moves: Mapping[TopicPartition, Move]
    ) -> list[str]:
        """What would not fit where it goes, by the newest sample."""
        snapshot = self._context.latest()
        if snapshot is None:
            return []
        return await offload(len(moves), _room_by, snapshot, moves, request.plan.log_dirs)

    async def _moves(
        self, plan: ReassignmentPlan, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> dict[TopicPartition, Move]:
        cluster = await self._admin.cluster.describe(plan.topics, timeout_s=self._context.timeout_s)
        return await offload(len(cluster.assignment), _moves_of, plan, ongoing, cluster.assignment)

    def _draft(self, request: ReassignRequest, work: ReassignmentWork) -> Operation:
        plan = request.plan
        return self._registry.draft(
            OperationKind.REASSIGN,
            f"move {many(len(plan), 'partition')} of {listed(plan.topics, 3)}",
            requester=request.change.requester,
            partitions=tuple(plan.replicas),
            throttle_bytes_per_s=request.throttle_bytes_per_s,
            auto_remove_throttle=request.auto_remove_throttle,
            details=OperationDetails(
                rollback_plan=rollback_plan(work.moves.values()), deadline_ms=request.deadline_ms
            ),
        )

    async def _throttle(
        self, operation: Operation, work: ReassignmentWork
    ) -> tuple[list[int], ThrottleWrites]:
        """Write the intent, and the throttle of it.

        Returns:
            Brokers whose rates were to be written and could not be read, and what was written.
        """
        shares = await offload(len(work.moves), shares_of, work)
        throttling = self._context.throttling
        brokers = sorted({broker for broker, _ in shares.rates})
        topics = sorted({topic for topic, _ in shares.lists})
        throttling.check_readable(brokers, topics)
        present = await throttling.present(brokers, topics)
        step = await offload(
            len(work.moves),
            partial(self._registry.ownership.record, auto_remove=work.auto_remove),
            operation.id,
            shares,
            present,
        )
        await self._registry.put(operation, work, step.after)
        silent = sorted({cell[0] for cell in shares.rates if cell not in present.rates})
        return silent, await throttling.carry_out(step.writes, present)

    async def _first_moves(self, operation: Operation, work: ReassignmentWork) -> ReassignOutcome:
        """Submit what may start immediately; the others wait."""
        if work.caps is not None:
            await self._runner.advance(operation, work, await self._context.ongoing())
            return _nothing_done(dict.fromkeys(work.waiting, _WAITS))
        try:
            outcome = await self._runner.submit(operation, work, work.waiting)
        except KshuntError as error:
            return _nothing_done(dict.fromkeys(work.waiting, _in_doubt(error)))
        left = self._registry.work(operation.id)
        if left is not None and left.failed:
            await self._runner.lift(self._registry.known.operations[operation.id], left)
        return outcome

    def _is_refused(self, operation: Operation) -> bool:
        work = self._registry.work(operation.id)
        return work is not None and bool(work.failed)

    async def _give_up(self, operation: Operation, work: ReassignmentWork) -> None:
        """End an operation that moved nothing; what is not off yet, the engine takes off."""
        await self._registry.put(operation, work)
        await self._runner.lift(operation, work)

    async def cancel(
        self,
        partitions: Sequence[TopicPartition],
        change: Change,
        *,
        preserve_throttles: bool,
        timeout_s: float,
    ) -> ChangeAnswer:
        """Return partitions to their original replicas; see `Cancellations.cancel`."""
        return await self._cancellations.cancel(
            partitions, change, preserve_throttles=preserve_throttles, timeout_s=timeout_s
        )


def _asks_again(
    request: ReassignRequest,
    moves: Mapping[TopicPartition, Move],
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    kept: Collection[TopicPartition],
) -> bool:
    """Whether a request is the plan that runs, once more, with a throttle.

    KIP-179 names it as the way to change the rate. Each move is one of the plan's, and each
    partition of the plan is on its way, or waits for its turn (`kept`), or is there.
    """
    wanted = request.plan.replicas
    return (
        request.throttle_bytes_per_s is not None
        and all(p in wanted and move.target == tuple(wanted[p]) for p, move in ongoing.items())
        and all(
            p in ongoing or p in kept or _is_there(moves.get(p), ongoing)
            for p in request.plan.replicas
        )
    )


def _is_there(move: Move | None, ongoing: Mapping[TopicPartition, OngoingReassignment]) -> bool:
    """Whether a partition is where the plan wants it, and stays there."""
    return move is not None and move.partition not in ongoing and move.current == move.target


def _all_carried(
    plan: ReassignmentPlan,
    moves: Mapping[TopicPartition, Move],
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    kept: Collection[TopicPartition],
) -> bool:
    """Whether nothing of a plan is left to start: operations carry it, or it is there."""
    rest = {partition for partition in plan.replicas if partition not in kept}
    placed = any(partition in rest for partition, _ in plan.log_dirs)
    return not placed and all(_is_there(moves.get(partition), ongoing) for partition in rest)


def _terms(request: ReassignRequest) -> NewTerms:
    return NewTerms(
        request.throttle_bytes_per_s,
        request.log_dirs_throttle_bytes_per_s,
        request.deadline_ms,
        keeps_throttle=not request.auto_remove_throttle,
    )


def _without(request: ReassignRequest, kept: Collection[TopicPartition]) -> ReassignRequest:
    """The request for the partitions that no operation carries."""
    if not kept:
        return request
    plan = request.plan
    others = {p: target for p, target in plan.replicas.items() if p not in kept}
    log_dirs = {key: path for key, path in plan.log_dirs.items() if key[0] not in kept}
    return replace(request, plan=replace(plan, replicas=others, log_dirs=log_dirs))


def _with_carried(
    answer: ChangeAnswer, moves: Mapping[TopicPartition, Move], carried: Sequence[Carried]
) -> ChangeAnswer:
    """The answer for the others, with the results of the partitions that operations carry."""
    return replace(
        answer,
        results=(*answer.results, *results_of(carried)),
        notes=(*answer.notes, *kept_notes(carried)),
        rollback_plan=_whole_rollback(moves, carried),
        already_moving=items_of(carried),
    )


def _whole_rollback(
    moves: Mapping[TopicPartition, Move], carried: Sequence[Carried]
) -> dict[str, Any]:
    """Where all of a plan was; what is carried, before the operation that carries it."""
    before = {p: one.work.moves[p] for one in reversed(carried) for p in one.partitions}
    return rollback_plan({**moves, **before}.values())


_WAITS: Final = ItemResult(message="waits for its turn")
"""Of what was taken on and has not begun."""
_UNDONE: Final = "The cluster accepted no partition; the throttles have their former values again."


def _nothing_done(outcomes: Mapping[TopicPartition, ItemResult]) -> ReassignOutcome:
    return ReassignOutcome(outcomes, {}, {}, {})


def _in_doubt(error: KshuntError) -> ItemResult:
    if fate_of(error) is Fate.RETRY:
        words = f"not submitted yet, and kshunt submits it again: {error}"
    else:
        words = f"kshunt is checking whether it moves: {error}"
    return ItemResult(error.kafka_code, "UNKNOWN", words, True)


def _moves_of(
    plan: ReassignmentPlan,
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    assignment: Assignment,
) -> dict[TopicPartition, Move]:
    states = partition_states(assignment)
    return {
        partition: Move(
            partition, original_replicas(states[partition], ongoing.get(partition)), target
        )
        for partition, target in plan.replicas.items()
        if partition in states
    }


def _room_by(
    snapshot: Snapshot, moves: Mapping[TopicPartition, Move], log_dirs: ChosenDirs
) -> list[str]:
    sizes = leader_sizes(snapshot, {partition.topic for partition in moves})
    return room_warnings(moves.values(), sizes, snapshot.log_dirs, log_dirs)


def _work(
    request: ReassignRequest,
    moves: Mapping[TopicPartition, Move],
    fit: Collection[TopicPartition],
) -> ReassignmentWork:
    return ReassignmentWork(
        moves=moves,
        log_dirs={key: path for key, path in request.plan.log_dirs.items() if key[0] in moves},
        throttle_bytes_per_s=request.throttle_bytes_per_s,
        log_dirs_throttle_bytes_per_s=request.log_dirs_throttle_bytes_per_s,
        auto_remove=request.auto_remove_throttle,
        factor_may_change=request.allow_replication_factor_change,
        timeout_s=request.timeout_s,
        order=request.order,
        caps=request.caps,
        refused=frozenset(moves.keys() - fit),
    )


def rollback_plan(moves: Iterable[Move]) -> dict[str, Any]:
    """Kafka's JSON of where the partitions are now."""
    plan: dict[str, Any] = json.loads(format_plan({m.partition: m.current for m in moves}))
    return plan


def _check(request: ReassignRequest, now_ms: int) -> None:
    if request.deadline_ms is not None and request.deadline_ms <= now_ms:
        raise BadInput(
            "The deadline is already over. Nothing was changed.",
            advice="Name a later one, or none.",
        )
    for rate in (request.throttle_bytes_per_s, request.log_dirs_throttle_bytes_per_s):
        if rate is not None:
            check_rate(rate)
    if request.caps is None and len(request.plan) > LIMITS.partitions_per_reassignment:
        raise BadInput(
            f"The plan moves {len(request.plan)} partitions; Kafka accepts "
            f"{LIMITS.partitions_per_reassignment} in one request. Nothing was changed.",
            advice="Split the plan, or limit the number of moves in flight.",
        )


def _options(request: ReassignRequest, *, validate_only: bool) -> ReassignOptions:
    return ReassignOptions(
        throttle_bytes_per_s=request.throttle_bytes_per_s,
        log_dirs_throttle_bytes_per_s=request.log_dirs_throttle_bytes_per_s,
        validate_only=validate_only,
        allow_replication_factor_change=request.allow_replication_factor_change,
        all_or_nothing=request.all_or_nothing,
        auto_remove_throttle=request.auto_remove_throttle,
        timeout_s=request.timeout_s,
    )


def _answer(
    request: ReassignRequest,
    outcome: ReassignOutcome,
    moves: Iterable[Move],
    operation: Operation | None,
    notes: Iterable[str],
    room: Iterable[str] = (),
) -> ChangeAnswer:
    """`room` is what would not fit where it goes."""
    log_dirs: tuple[Result, ...] = tuple(
        result(f"{partition} on broker {broker}", item)
        for (partition, broker), item in sorted(outcome.log_dir_results.items())
    )
    said = list(notes)
    if request.throttle_bytes_per_s is not None and not request.auto_remove_throttle:
        said.append("The throttle stays set after the move, as requested.")
    return ChangeAnswer(
        validate_only=request.change.validate_only,
        operation_id=None if operation is None else operation.id,
        results=(*results(outcome.results), *log_dirs),
        notes=tuple(said),
        warnings=tuple(room),
        waiting=sum(item is _WAITS for item in outcome.results.values()),
        rollback_plan=rollback_plan(moves),
    )
