"""What moves that wait will bring to each broker, as the broker view foresees it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.brokers.pending_transfers import pending_transfers_of
from kshunt.tui.facts.snapshot_facts import Facts
from tests.support.tui.cluster import incident
from tests.support.tui.tables import facts_of

FACTS = facts_of(incident())
NEW, OTHER = 98, 99
"""Brokers that hold nothing."""


def held(facts: Facts) -> list[tuple[TopicPartition, list[int], int]]:
    """Partitions with their brokers, and the size of each on its leader."""
    rows, found = facts.rows, []
    for start, end in zip(facts.starts[:3], facts.starts[1:4], strict=True):
        leads = [at for at in range(start, end) if rows.leader[at] == rows.broker[at]]
        size = int(rows.size_bytes[leads[0]])
        found.append(
            (facts.snapshot.partition_of(int(start)), rows.broker[start:end].tolist(), size)
        )
    return found


def waits(*plan: tuple[TopicPartition, list[int]], **changes: object) -> Operation:
    """An operation with these moves waiting."""
    entries = [{"topic": p.topic, "partition": p.partition, "replicas": r} for p, r in plan]
    details = OperationDetails(waiting_plan={"version": 1, "partitions": entries})
    found = Operation("op", OperationKind.REASSIGN, OperationState.RUNNING, 1, "move")
    return replace(found, waiting=len(plan), details=details, **changes)  # type: ignore[arg-type]


def test_what_a_broker_does_not_hold_comes_to_it() -> None:
    (one, at_one, size_one), (two, _, size_two), _ = held(FACTS)
    found = pending_transfers_of(FACTS, [waits((one, [*at_one, NEW]), (two, [NEW, OTHER]))])
    assert found.replicas == {NEW: 2, OTHER: 1}
    assert found.size_bytes == {NEW: size_one + size_two, OTHER: size_two}
    assert found.unknown == {NEW: 0, OTHER: 0}
    assert found.untold == 0


def test_several_operations_add_up() -> None:
    (one, _, size_one), (two, _, size_two), _ = held(FACTS)
    found = pending_transfers_of(FACTS, [waits((one, [NEW])), waits((two, [NEW]))])
    assert (found.replicas, found.size_bytes) == ({NEW: 2}, {NEW: size_one + size_two})


def test_a_size_that_is_not_known_is_counted_and_not_added() -> None:
    (one, _, _), _, _ = held(FACTS)
    gone = TopicPartition("no-such-topic", 0)
    rows = replace(
        FACTS.rows, size_bytes=np.full(len(FACTS.rows), UNKNOWN, FACTS.rows.size_bytes.dtype)
    )
    unread = Facts(replace(FACTS.snapshot, replicas=rows))
    for facts, partition in ((FACTS, gone), (unread, one)):
        found = pending_transfers_of(facts, [waits((partition, [NEW]))])
        assert (found.replicas, found.size_bytes) == ({NEW: 1}, {NEW: 0})
        assert found.unknown == {NEW: 1}


@pytest.mark.parametrize(
    ("changes", "untold"),
    [
        ({"state": OperationState.DONE}, 0),
        ({"waiting": 0}, 0),
        ({"details": OperationDetails()}, 1),
        ({"details": OperationDetails(), "state": OperationState.DONE}, 0),
    ],
)
def test_only_what_waits_and_is_told_is_foreseen(changes: dict[str, object], untold: int) -> None:
    (one, _, _), _, _ = held(FACTS)
    operation = replace(waits((one, [NEW])), **changes)  # type: ignore[arg-type]
    found = pending_transfers_of(FACTS, [operation, operation])
    assert (found.replicas, found.untold) == ({}, 2 * untold)
