"""Which replicas our operations need listed, as the sampler asks: those are no orphans."""

from __future__ import annotations

from backend.domain.throttle import ReplicaSet, ThrottledReplicas
from backend.operations.ownership import Ownership
from backend.operations.ownership_cells import ListKey


def needed_lists(ownership: Ownership) -> dict[str, ThrottledReplicas]:
    """By topic, what running operations hold on each side."""
    found = {}
    for topic in ownership.topics:
        leaders, followers = (_held(ownership, topic, key) for key in ListKey)
        if leaders or followers:
            found[topic] = ThrottledReplicas(leaders, followers)
    return found


def _held(ownership: Ownership, topic: str, key: ListKey) -> ReplicaSet:
    cell = ownership.lists.get((topic, key))
    return ReplicaSet() if cell is None else ReplicaSet(frozenset(cell.held_pairs))
