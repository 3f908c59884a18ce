"""What the sampler asks of our operations: which replicas they need listed, which they hold."""

from __future__ import annotations

from collections.abc import Iterable

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.operations.ownership.cells import ListKey
from kshunt.backend.operations.ownership.ownership import Ownership


def needed_lists(ownership: Ownership) -> dict[str, ThrottledReplicas]:
    """By topic, what running operations hold on each side."""
    found = {}
    for topic in ownership.topics:
        leaders, followers = (_held(ownership, topic, key) for key in ListKey)
        if leaders or followers:
            found[topic] = ThrottledReplicas(leaders, followers)
    return found


def paused_partitions(operations: Iterable[Operation]) -> frozenset[TopicPartition]:
    """Partitions of operations that are paused: that their copies stand still is meant."""
    return frozenset(
        partition
        for operation in operations
        if operation.state is OperationState.PAUSED
        for partition in operation.partitions
    )


def _held(ownership: Ownership, topic: str, key: ListKey) -> ReplicaSet:
    cell = ownership.lists.get((topic, key))
    return ReplicaSet() if cell is None else ReplicaSet(frozenset(cell.held_pairs))
