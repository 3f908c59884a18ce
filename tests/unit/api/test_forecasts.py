"""Whose forecast is answered: an operation's, a plan's, or that of all that moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kshunt.backend.api.core.forecasts import end_of_plan, forecasts_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING, ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import Snapshot
from tests.support.snapshots import replicas_of, snapshot_of

NOON_MS = 1_760_011_200_000
MINE, THEIRS, STILL = (TopicPartition("a", number) for number in range(3))
ALL = ExpectedEnd(NOON_MS, 2, 600.0, 900.0, 1_200.0)
OURS = ExpectedEnd(NOON_MS, 1, 60.0, 120.0, 180.0, unknown=0)


def moving(*partitions: TopicPartition) -> Snapshot:
    rows = replicas_of({(0, number, 1): (0, False, 0.0) for number in range(3)})
    adding = np.isin(rows.partition, [one.partition for one in partitions])
    still = np.zeros(len(rows), np.bool_)
    rows = replace(rows, adding=adding, removing=still)
    return replace(snapshot_of(rows), expected_ends={EVERYTHING: ALL, "op-1": OURS})


def test_each_operation_has_one_and_all_that_moves_has_no_id() -> None:
    found = forecasts_of({"op-1": OURS, EVERYTHING: ALL}, NOON_MS)
    assert [(one.operation, one.text) for one in found] == [
        (None, "12:15 (12:10-12:20)"),
        ("op-1", "12:02 (12:01-12:03)"),
    ]


def operation(*partitions: TopicPartition) -> Operation:
    kind, running = OperationKind.REASSIGN, OperationState.RUNNING
    return Operation("op-1", kind, running, NOON_MS, "moves", partitions)


def plan(*partitions: TopicPartition) -> ReassignmentPlan:
    return ReassignmentPlan(dict.fromkeys(partitions, (1, 2)))


def test_a_plan_ends_with_its_operation_where_that_has_all_of_it() -> None:
    some = moving(MINE)
    assert end_of_plan(plan(MINE), [operation(MINE)], some) == OURS
    assert end_of_plan(plan(MINE, STILL), [operation(MINE)], some) == OURS
    both = moving(MINE, THEIRS)
    assert end_of_plan(plan(MINE, THEIRS), [operation(MINE)], both) == ALL
    assert end_of_plan(plan(THEIRS), [], both) == ALL


def test_a_plan_of_which_nothing_moves_has_no_end() -> None:
    ended = replace(operation(STILL), state=OperationState.DONE)
    assert end_of_plan(plan(STILL), [ended], moving(MINE)) is None
    assert end_of_plan(plan(MINE), [], None) is None
