"""Answers made of what the service knows: who acts, what waits, and how far replicas are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from msgspec import structs

from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.replicas import ReplicaLag
from kshunt.backend.api.schema.cluster import (
    ActingBackend,
    BackendPart,
    NotOfferedAction,
    UnreadableEntry,
)
from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.replicas import MeasuredReplica
from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC, JOURNAL_ZNODE
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.operations.journal.entries import Heartbeat, Unreadable
from kshunt.backend.operations.lease.membership import Membership
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

LISTED_MAX = 500
"""Entries of the journal that cannot be read; remarks have the number of all."""
KEY_SHOWN = 300
"""Characters of a key that anybody may have written."""


def backend_part(
    membership: Membership,
    unreadable: Mapping[str, Unreadable],
    not_offered: NotOffered,
    *,
    in_zookeeper: bool = False,
    remarks: tuple[str, ...] = (),
    forecast_record: ForecastRecord | None = None,
) -> BackendPart:
    """This backend's part among those of its cluster, and what its way to it does not offer."""
    active = membership.active
    return BackendPart(
        backend=membership.me.backend,
        duty=membership.duty.value,
        acting=_acting(active) if isinstance(active, Heartbeat) else None,
        journal_topic=JOURNAL_ZNODE if in_zookeeper else JOURNAL_TOPIC,
        remarks=(*membership.remarks, *remarks),
        unreadable=tuple(
            UnreadableEntry(one.key[:KEY_SHOWN], one.why.value, one.detail)
            for one in islice(unreadable.values(), LISTED_MAX)
        ),
        not_offered=tuple(NotOfferedAction(what.value, why) for what, why in not_offered.items()),
        forecast_record=forecast_record,
    )


def _acting(heartbeat: Heartbeat) -> ActingBackend:
    return ActingBackend(heartbeat.backend, heartbeat.host, heartbeat.address, heartbeat.started_ms)


def with_waiting_plan(operation: Operation, work: ReassignmentWork | None) -> Operation:
    """The operation; where partitions wait, with Kafka's JSON of their target replicas."""
    if work is None or not operation.waiting:
        return operation
    waiting = {partition: work.moves[partition].target for partition in work.waiting}
    plan = to_document(PlanDocument.of(ReassignmentPlan(waiting)))
    return replace(operation, details=structs.replace(operation.details, waiting_plan=plan))


def measured_replica(lag: ReplicaLag) -> MeasuredReplica:
    """KIP-179's draft, ReplicaStatus; None where it is not known."""
    return MeasuredReplica(
        topic=lag.partition.topic,
        partition=lag.partition.partition,
        broker=lag.broker,
        in_isr=lag.in_isr,
        lag_messages=None if lag.lag_messages < 0 else lag.lag_messages,
        status_time_ms=None if lag.status_ms < 0 else lag.status_ms,
        error_code=lag.result.error_code,
        error_name=lag.result.error_name,
        message=lag.result.message,
    )
