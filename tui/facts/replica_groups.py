"""Replicas grouped by topic, by broker or by operation: which row belongs where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import known_brokers
from kshunt.tui.facts.progress import operation_rows
from kshunt.tui.facts.snapshot_facts import Facts

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

TOPIC: Final = "topic"
BROKER: Final = "broker"
OPERATION: Final = "operation"
GROUPINGS: Final = (TOPIC, BROKER, OPERATION)
"""What rows can be grouped by, in the order in which a key goes through them."""
OTHERS: Final = "others"
"""The group of moves that no operation here owns."""
AT_REST: Final = ""
"""The group of partitions that no operation here owns and that do not move."""
OF_GROUPS: Final = frozenset({"group", "partitions", "replicas", "moving", "behind", "stuck"})
"""Columns to sort by that groups have and replicas do not."""


class GroupKey(NamedTuple):
    """What identifies a group."""

    kind: str
    """One of `GROUPINGS`."""
    name: str
    """A topic, a broker's id, an operation's id, `OTHERS` or `AT_REST`."""

    def __str__(self) -> str:
        if self.kind == OPERATION and self.name in (OTHERS, AT_REST):
            return "not ours" if self.name == OTHERS else "no operation"
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class ReplicaGroups:
    """Every row's group."""

    keys: tuple[GroupKey, ...]
    code: NDArray[np.int64]
    """Of each row the place of its group in `keys`."""


def groups_of(facts: Facts, kind: str, operations: Sequence[Operation] = ()) -> ReplicaGroups:
    """Every group there can be, also those without rows."""
    rows = facts.rows
    if kind == TOPIC:
        keys = [GroupKey(TOPIC, name) for name in facts.snapshot.topics]
        return ReplicaGroups(tuple(keys), rows.topic_index.astype(np.int64))
    if kind == BROKER:
        brokers = known_brokers(rows)
        keys = [GroupKey(BROKER, str(id)) for id in brokers.tolist()]
        return ReplicaGroups(tuple(keys), np.searchsorted(brokers, rows.broker))
    return _by_operation(facts, operations)


def _by_operation(facts: Facts, operations: Sequence[Operation]) -> ReplicaGroups:
    """A partition belongs to the newest operation that has not ended and that names it."""
    running = [operation for operation in operations if not operation.state.ended]
    names = [operation.id for operation in running]
    keys = [GroupKey(OPERATION, name) for name in (*names, OTHERS, AT_REST)]
    code = np.where(facts.moving, len(running), len(running) + 1).astype(np.int64)
    for place in range(len(running) - 1, -1, -1):
        code[operation_rows(facts, running[place])] = place
    return ReplicaGroups(tuple(keys), code)


def group_rows(
    facts: Facts, key: GroupKey, operations: Sequence[Operation] = ()
) -> NDArray[np.bool_]:
    """The rows of one group; none where there is no such group any more."""
    rows = facts.rows
    if key.kind == TOPIC:
        found: NDArray[np.bool_] = rows.topic_index == facts.topic_places.get(key.name, -1)
        return found
    if key.kind == BROKER:
        found = rows.broker == int(key.name)
        return found
    groups = groups_of(facts, OPERATION, operations)
    place = groups.keys.index(key) if key in groups.keys else -1
    found = groups.code == place
    return found


def partition_ids(facts: Facts) -> NDArray[np.int64]:
    """Of each row the number of its partition."""
    return np.repeat(np.arange(len(facts.starts), dtype=np.int64), facts.row_counts)
