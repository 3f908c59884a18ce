"""What the sampler asks of our operations: which replicas they need listed, which they hold, and
what they will still move."""

from __future__ import annotations

from collections.abc import Iterable

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.moves.schedule import MoveOrder
from kshunt.backend.operations.ownership.cells import ListKey
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork


def needed_lists(ownership: Ownership) -> dict[str, ThrottledReplicas]:
    """By topic, what running operations hold on each side."""
    found = {}
    for topic in ownership.topics:
        leaders, followers = (ReplicaSet(ownership.held_pairs((topic, key))) for key in ListKey)
        if leaders or followers:
            found[topic] = ThrottledReplicas(leaders, followers)
    return found


def paused_partitions(operations: Iterable[Operation]) -> frozenset[TopicPartition]:
    """Partitions of operations that are paused: their copies stand still on purpose."""
    return frozenset(
        partition
        for operation in operations
        if operation.state is OperationState.PAUSED
        for partition in operation.partitions
    )


class RunningOperations:
    """Those that move partitions, oldest first; each is made once, until its work changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, tuple[ReassignmentWork, RunningOperation]] = {}

    def __call__(self) -> tuple[RunningOperation, ...]:
        """As they are now."""
        made = {}
        for id in self._registry.unfinished:
            operation, work = self._registry.get(id), self._registry.work(id)
            if operation is None or work is None or not work.moves:
                continue
            held = operation.state in (OperationState.PAUSED, OperationState.PAUSING)
            known = self._made.get(id)
            if known is not None and known[0] is work and known[1].held == held:
                made[id] = known
            else:
                made[id] = work, _running(operation, work, held=held)
        self._made = made
        return tuple(one for _, one in made.values())


def _running(operation: Operation, work: ReassignmentWork, *, held: bool) -> RunningOperation:
    caps = work.caps
    return RunningOperation(
        operation.id,
        work.moves.keys(),
        () if work.adopted else tuple(work.moves[partition] for partition in work.waiting),
        None
        if caps is None
        else MoveCaps(caps.per_broker, caps.in_cluster, work.order is MoveOrder.SMALLEST_FIRST),
        held,
        operation.details.deadline_ms,
    )
