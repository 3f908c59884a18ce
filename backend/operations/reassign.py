"""Reassignments that this backend starts, watches to their end, and cleans up after.

Goals
    A throttle that a reassignment brought comes off when it ends (KIP-179, "On reassignment
    completion"), also when it was cancelled, and whatever was there before is back.
Constraints
    The cluster is the only source of truth about what moves; an operation has ended when none of
    its partitions is listed any more. Lifting is safe to repeat and is read back.
Algorithm
    start: note the share in the ledger, then topics, rates, move (`ClusterAdmin`).
    tick: an operation whose partitions have all left the cluster's list goes to LIFTING; there
    its share is removed and read back, again and again until it holds; then it is DONE.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backend.admin.port import (
    ClusterAdmin,
    ItemResult,
    ReassignOptions,
    ReassignOutcome,
)
from backend.domain.answers import ChangeAnswer, Result
from backend.domain.assignment import partition_states
from backend.domain.cluster import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
    original_replicas,
)
from backend.domain.operation import Operation, OperationKind, OperationState
from backend.domain.plan import ReassignmentPlan, format_plan
from backend.domain.throttle import (
    Move,
    ThrottledReplicas,
    brokers_of,
    check_rate,
    throttled_replicas_of,
)
from backend.errors import BadInput, Conflict, KshuntError
from backend.operations.ledger import Ledger
from backend.operations.registry import Registry
from backend.operations.results import counted, failures, listed, result, results
from backend.operations.throttle import clear_unowned, recorded, restore
from backend.settings import LIMITS


@dataclass(slots=True)
class _Running:
    """What the ticks need to know of an operation that has not ended."""

    target: Mapping[TopicPartition, tuple[int, ...]]
    log_dirs: Mapping[tuple[TopicPartition, int], str]
    cancelled: set[TopicPartition] = field(default_factory=set)


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


class Reassignments:
    """See the module's text."""

    def __init__(
        self, admin: ClusterAdmin, registry: Registry, ledger: Ledger, timeout_s: float
    ) -> None:
        self._admin = admin
        self._registry = registry
        self._ledger = ledger
        self._timeout_s = timeout_s
        self._running: dict[str, _Running] = {}

    @property
    def busy(self) -> bool:
        """True while an operation has not ended, so that this backend must live on."""
        return bool(self._running)

    async def start(self, request: ReassignRequest) -> ChangeAnswer:
        """Start a plan, with its throttle.

        Raises:
            Conflict: partitions move already and `additional` is not set.
            BadInput: a throttle is under 1 KB/s, or the plan is over Kafka's limit.
        """
        plan = request.plan
        _check(request)
        ongoing = await self._admin.list_reassignments(timeout_s=self._timeout_s)
        if ongoing and not request.additional:
            raise Conflict(
                f"{counted(len(ongoing), 'partition')} already being reassigned "
                f"({listed(ongoing, 3)}); nothing was changed.",
                advice="Wait, cancel them, or ask for this plan in addition to them.",
            )
        states = await self._states(plan)
        moves = [
            Move(partition, original_replicas(states[partition], ongoing.get(partition)), target)
            for partition, target in plan.replicas.items()
            if partition in states
        ]
        operation = None if request.validate_only else self._begin(request, moves)
        try:
            if operation is not None and _throttled(request):
                await self._note_shares(operation, request, moves)
            outcome = await self._admin.reassign_partitions(
                plan.replicas, _options(request), plan.log_dirs
            )
        except KshuntError as error:
            if operation is not None:
                await self._fail(operation, str(error))
            raise
        answer = _answer(request, outcome, moves, operation)
        if operation is not None:
            await self._started(operation, request, outcome)
        return answer

    async def cancel(
        self,
        partitions: Sequence[TopicPartition],
        *,
        preserve_throttles: bool,
        validate_only: bool,
        timeout_s: float,
    ) -> ChangeAnswer:
        """Return partitions to their original replicas.

        Only the throttle share of what was cancelled goes; that of moves that go on stays.

        Raises:
            BadInput: no partition is named.
        """
        if not partitions:
            raise BadInput("No partition is named; nothing was changed.")
        wanted = tuple(dict.fromkeys(partitions))
        if validate_only:
            ongoing = await self._admin.list_reassignments(timeout_s=timeout_s)
            foreseen = {p: _cancellable(ongoing.get(p)) for p in wanted}
            return ChangeAnswer(True, None, results(foreseen))
        outcomes = await self._admin.cancel_reassignments(wanted, timeout_s=timeout_s)
        stopped = {partition for partition, outcome in outcomes.items() if outcome.ok}
        ours: set[TopicPartition] = set()
        for running in self._running.values():
            ours |= running.target.keys() & stopped
            running.cancelled |= running.target.keys() & stopped
        notes: tuple[str, ...] = ()
        if not preserve_throttles and stopped - ours:
            notes = await self._clear(stopped - ours, timeout_s)
        summary = f"cancel {counted(len(wanted), 'partition')}: {listed(wanted, 3)}"
        answer = ChangeAnswer(False, None, results(outcomes), notes)
        return recorded(self._registry, OperationKind.CANCEL, summary, answer, {})

    async def tick(self) -> None:
        """See what has ended, and take its throttle off; safe to call at any time."""
        if not self._running:
            return
        try:
            ongoing = await self._admin.list_reassignments(timeout_s=self._timeout_s)
        except KshuntError:
            # The sampler shows that the cluster does not answer; the next tick tries again.
            return
        for operation_id in list(self._running):
            operation = self._registry.get(operation_id)
            if operation is not None and operation.state in (
                OperationState.RUNNING,
                OperationState.LIFTING,
            ):
                await self._advance(operation, ongoing)

    # Starting

    async def _states(self, plan: ReassignmentPlan) -> dict[TopicPartition, PartitionState]:
        cluster = await self._admin.describe(plan.topics, timeout_s=self._timeout_s)
        states = partition_states(cluster.assignment)
        return {partition: states[partition] for partition in plan.replicas if partition in states}

    def _begin(self, request: ReassignRequest, moves: Sequence[Move]) -> Operation:
        plan = request.plan
        return self._registry.begin(
            OperationKind.REASSIGN,
            f"move {counted(len(plan), 'partition')} of {listed(plan.topics, 3)}",
            partitions=tuple(plan.replicas),
            throttle_bytes_per_s=request.throttle_bytes_per_s,
            auto_remove_throttle=request.auto_remove_throttle,
            details={"rollback_plan": rollback_plan(moves)},
        )

    async def _note_shares(
        self, operation: Operation, request: ReassignRequest, moves: Sequence[Move]
    ) -> None:
        """Read what is there and note our share of it, before anything is written."""
        brokers = brokers_of(moves)
        prior = await self._admin.throttles(brokers, request.plan.topics, timeout_s=self._timeout_s)
        shares: Mapping[str, ThrottledReplicas] = {}
        if request.throttle_bytes_per_s is not None:
            shares = throttled_replicas_of(moves)
        if request.auto_remove_throttle:
            self._ledger.record(operation.id, shares, brokers, prior)

    async def _started(
        self, operation: Operation, request: ReassignRequest, outcome: ReassignOutcome
    ) -> None:
        accepted = {
            partition for partition, item in outcome.results.items() if item.ok or outcome.unknown
        }
        refused = len(outcome.results) - len(accepted)
        if not accepted:
            first = next(iter(failures(outcome.results)), "the cluster took no partition")
            await self._fail(operation, f"refused: {first}")
            return
        plan = request.plan
        self._running[operation.id] = _Running(
            {p: target for p, target in plan.replicas.items() if p in accepted},
            {key: path for key, path in plan.log_dirs.items() if key[0] in accepted},
        )
        self._registry.move(
            operation.id,
            OperationState.RUNNING,
            _remark(refused, outcome),
        )

    async def _fail(self, operation: Operation, why: str) -> None:
        """End an operation that moved nothing, and take back what it may have written."""
        problems = await self._lift(operation)
        self._ledger.forget_topics(operation.id, self._ledger.topics_of(operation.id))
        self._ledger.forget_brokers(operation.id, self._ledger.brokers_of(operation.id))
        left = f" Its throttle may still be on: {'; '.join(problems[:3])}." if problems else ""
        self._registry.move(operation.id, OperationState.FAILED, why + left)

    # Ending

    async def _advance(
        self, operation: Operation, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> None:
        running = self._running[operation.id]
        if operation.state is OperationState.RUNNING:
            if any(partition in ongoing for partition in running.target):
                return
            if await self._log_dirs_moving(running):
                return
            operation = self._registry.move(operation.id, OperationState.LIFTING)
        problems = await self._lift(operation)
        if problems:
            waiting = f"throttle not off yet: {'; '.join(problems[:3])}"
            self._registry.remark(replace(operation, outcome=waiting))
            return
        await self._finish(operation, running)

    async def _log_dirs_moving(self, running: _Running) -> bool:
        """True while a copy between directories of one broker is under way."""
        for broker in {broker for _, broker in running.log_dirs}:
            wanted = {p for p, b in running.log_dirs if b == broker}
            try:
                columns = await self._admin.log_dirs(broker, timeout_s=self._timeout_s)
            except KshuntError:
                return True
            for row in columns.is_future.nonzero()[0]:
                topic = columns.topics[int(columns.topic_index[row])]
                if TopicPartition(topic, int(columns.partition[row])) in wanted:
                    return True
        return False

    async def _lift(self, operation: Operation) -> tuple[str, ...]:
        """Remove the operation's share; why some of it is still there, or nothing."""
        topics = self._ledger.topics_of(operation.id)
        brokers = self._ledger.brokers_of(operation.id)
        if not topics and not brokers:
            return ()
        try:
            present = await self._admin.throttles(brokers, topics, timeout_s=self._timeout_s)
            lift = self._ledger.lift(operation.id, present)
            held_topics, held_brokers, problems = await restore(
                self._admin, lift.topics, lift.rates, lift.log_dir_rates, timeout_s=self._timeout_s
            )
        except KshuntError as error:
            return (str(error),)
        # What needs no write is gone already, by the cluster's doing, or shared with others.
        self._ledger.forget_topics(operation.id, held_topics | (set(topics) - lift.topics.keys()))
        self._ledger.forget_brokers(operation.id, held_brokers | (set(brokers) - lift.rates.keys()))
        left = [
            *self._ledger.topics_of(operation.id),
            *(f"broker {broker}" for broker in self._ledger.brokers_of(operation.id)),
        ]
        return (*problems, f"still set on {listed(left)}") if left else ()

    async def _finish(self, operation: Operation, running: _Running) -> None:
        outcome = await self._outcome(operation, running)
        all_cancelled = running.cancelled >= running.target.keys()
        state = OperationState.CANCELLED if all_cancelled else OperationState.DONE
        self._registry.move(operation.id, state, outcome)
        del self._running[operation.id]

    async def _outcome(self, operation: Operation, running: _Running) -> str:
        topics = sorted({partition.topic for partition in running.target})
        try:
            cluster = await self._admin.describe(topics, timeout_s=self._timeout_s)
        except KshuntError as error:
            return f"ended; where its partitions are could not be read: {error}"
        states = partition_states(cluster.assignment)
        arrived = [
            partition
            for partition, target in running.target.items()
            if partition in states and states[partition].replicas == target
        ]
        words = [f"{len(arrived)} of {len(running.target)} where the plan wants them"]
        if running.cancelled:
            words.append(f"{len(running.cancelled)} cancelled")
        if operation.throttle_bytes_per_s is not None:
            words.append(
                "throttle removed"
                if operation.auto_remove_throttle
                else "throttle left on, as asked"
            )
        return ", ".join(words)

    async def _clear(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> tuple[str, ...]:
        clearing, problems = await clear_unowned(
            self._admin, self._ledger, partitions, timeout_s=timeout_s
        )
        notes = list(problems)
        if clearing.brokers:
            notes.append(f"Removed the throttle of {listed(clearing.brokers, 20)}.")
        if clearing.topics:
            notes.append(f"Removed throttled replicas of {listed(clearing.topics, 20)}.")
        return tuple(notes)


def _remark(refused: int, outcome: ReassignOutcome) -> str:
    if outcome.unknown:
        return "the cluster's answer was lost; it is watched as if it had started"
    return f"{counted(refused, 'partition')} refused" if refused else ""


def rollback_plan(moves: Iterable[Move]) -> object:
    """Kafka's JSON of where the partitions are now."""
    return json.loads(format_plan({move.partition: move.current for move in moves}))


def _check(request: ReassignRequest) -> None:
    for rate in (request.throttle_bytes_per_s, request.log_dirs_throttle_bytes_per_s):
        if rate is not None:
            check_rate(rate)
    if len(request.plan) > LIMITS.partitions_per_reassignment:
        raise BadInput(
            f"The plan moves {len(request.plan)} partitions; Kafka takes "
            f"{LIMITS.partitions_per_reassignment} in one request. Nothing was changed.",
            advice="Split the plan.",
        )


def _throttled(request: ReassignRequest) -> bool:
    return (
        request.throttle_bytes_per_s is not None
        or request.log_dirs_throttle_bytes_per_s is not None
    )


def _options(request: ReassignRequest) -> ReassignOptions:
    return ReassignOptions(
        throttle_bytes_per_s=request.throttle_bytes_per_s,
        log_dirs_throttle_bytes_per_s=request.log_dirs_throttle_bytes_per_s,
        validate_only=request.validate_only,
        allow_replication_factor_change=request.allow_replication_factor_change,
        auto_remove_throttle=request.auto_remove_throttle,
        timeout_s=request.timeout_s,
    )


def _cancellable(move: OngoingReassignment | None) -> ItemResult:
    if move is None:
        return ItemResult(85, "NO_REASSIGNMENT_IN_PROGRESS", "the partition is not moving")
    return ItemResult(message=f"would return to {listed(move.original, 20)}")


def _answer(
    request: ReassignRequest,
    outcome: ReassignOutcome,
    moves: Sequence[Move],
    operation: Operation | None,
) -> ChangeAnswer:
    log_dirs: tuple[Result, ...] = tuple(
        result(f"{partition} on broker {broker}", item)
        for (partition, broker), item in sorted(outcome.log_dir_results.items())
    )
    notes = [f"Throttle of topic {failure}" for failure in failures(outcome.throttled_topics)] + [
        f"Throttle of broker {failure}" for failure in failures(outcome.throttled_brokers)
    ]
    if outcome.undone:
        notes.append("The cluster took no partition; the throttles were put back as they were.")
    if request.throttle_bytes_per_s is not None and not request.auto_remove_throttle:
        notes.append("The throttle stays on after the move, as asked.")
    return ChangeAnswer(
        validate_only=request.validate_only,
        operation_id=None if operation is None else operation.id,
        results=(*results(outcome.results), *log_dirs),
        notes=tuple(notes),
        rollback_plan=rollback_plan(moves),  # type: ignore[arg-type]
    )
