"""Drift in the audit: a line for each operation whose throttle somebody changed, and no second."""

from __future__ import annotations

from dataclasses import replace

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched, selected
from kshunt.backend.domain.audit.past_drift import PastDrift, past_drift
from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import DriftKind
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift
from kshunt.backend.operations.throttles.drift_audit import DriftAudit
from tests.support.operations.approvals import Side, side

FOUND = FoundRate(None, ConfigSource.DEFAULT)


def rate(*operations: str, broker: int = 3) -> RateDrift:
    return RateDrift(broker, RateKey.LEADER, DriftKind.DELETED, 10_000, FOUND, operations)


def replicas(*operations: str) -> ListDrift:
    lacks = ReplicaSet.parse("0:2")
    return ListDrift(
        "orders", ListKey.LEADERS, DriftKind.NARROWED, lacks, ReplicaSet(), lacks, operations
    )


async def begun(here: Side) -> str:
    operation = await here.registry.begin(OperationKind.REASSIGN, "move orders")
    await here.registry.move(operation.id, OperationState.RUNNING)
    return operation.id


def told(here: Side) -> list[AuditEntry]:
    return [line for line in here.audit() if line.event is AuditEvent.DRIFT_FOUND]


async def test_a_line_says_what_was_changed_and_whose_it_is() -> None:
    here = side()
    one = await begun(here)
    await DriftAudit(here.registry).tell([rate(one, "b", "c", "d", "e"), replicas(one)])
    first, second = told(here)
    assert (first.operation_id, first.kind, second.operation_id) == (one, "reassign", one)
    assert first.outcome == (
        "somebody else changed 1 throttle; operation b, c, d and 1 more also has a share"
    )
    assert second.outcome == "somebody else changed 1 throttle"
    assert (first.touched.brokers, first.touched.topics) == ((3,), ())
    assert (second.touched.brokers, second.touched.topics) == ((), ("orders",))
    assert first.touched.throttles == (str(rate()),)


async def test_drift_of_one_operation_is_told_in_one_line_and_that_of_nobody_too() -> None:
    here = side()
    one = await begun(here)
    await DriftAudit(here.registry).tell([rate(one), rate(one, broker=4), replicas()])
    first, second = told(here)
    assert first.outcome == "somebody else changed 2 throttles"
    assert first.touched.brokers == (3, 4)
    assert (second.operation_id, second.kind) == ("", "")


async def test_what_stands_is_told_once_and_again_once_it_has_been_mended() -> None:
    here = side()
    one = await begun(here)
    audit = DriftAudit(here.registry)
    looks: list[list[RateDrift | ListDrift]] = [
        [rate(one)],
        [rate(one)],
        [rate(one), replicas(one)],
        [],
        [rate(one)],
    ]
    for found in looks:
        await audit.tell(found)
    assert [line.touched.throttle_count for line in told(here)] == [1, 1, 1]
    assert [line.touched.topics for line in told(here)] == [(), ("orders",), ()]


async def test_a_successor_knows_what_was_told_of_operations_that_run() -> None:
    here = side()
    one = await begun(here)
    await DriftAudit(here.registry).tell([rate(one)])
    await DriftAudit(here.registry).tell([rate(one)])
    assert len(told(here)) == 1
    # What another event, or an operation that has ended, says of the same throttle is no drift.
    words = Touched.of(throttles=[str(rate(broker=9)), str(rate(broker=8))])
    line = AuditEntry(0, 0, AuditEvent.CHANGED, one, touched=words)
    await here.registry.tell(line)
    await here.registry.tell(replace(line, event=AuditEvent.DRIFT_FOUND, operation_id="over"))
    await DriftAudit(here.registry).tell([rate(one), rate(one, broker=9), rate(one, broker=8)])
    assert told(here)[-1].touched.brokers == (8, 9)


async def test_a_backend_that_begins_without_drift_has_nothing_to_look_up() -> None:
    here = side()
    one = await begun(here)
    first = DriftAudit(here.registry)
    await first.tell([rate(one)])
    second = DriftAudit(here.registry)
    await second.tell([])
    await second.tell([rate(one)])
    assert len(told(here)) == 2


async def test_what_the_audit_says_of_drift_is_counted_newest_first() -> None:
    here = side()
    assert past_drift(here.audit()) == PastDrift()
    one, two = await begun(here), await begun(here)
    audit = DriftAudit(here.registry)
    await audit.tell([rate(one), rate(one, broker=4)])
    await audit.tell([replicas(two)])
    newest = told(here)[-1]
    assert past_drift(here.audit()) == PastDrift(3, newest.time_ms, (two, one))
    assert past_drift(selected(here.audit(), since_ms=newest.time_ms + 1)) == PastDrift()
