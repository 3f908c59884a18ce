"""JSON of what `operations` knows: previews, drift, orphans, and who is active."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.cluster_admin import ReplicaLag
from kshunt.backend.api.schema.base import Json, partition_json, plan_json
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.service.journal import JOURNAL_TOPIC, JOURNAL_ZNODE
from kshunt.backend.operations.journal.entries import Heartbeat, Unreadable
from kshunt.backend.operations.lease.membership import Membership
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift, rate_words
from kshunt.backend.operations.review.blast_radius import BlastRadius
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.throttles.orphans import Orphan, OrphanRate
from kshunt.backend.operations.throttles.repair import change_id

LISTED_MAX = 500
"""Entries of the journal that cannot be read; remarks have the number of all."""
KEY_SHOWN = 300
"""Characters of a key that anybody may have written."""


def backend_json(
    membership: Membership,
    unreadable: Mapping[str, Unreadable],
    not_offered: NotOffered,
    *,
    in_zookeeper: bool = False,
    remarks: tuple[str, ...] = (),
) -> Json:
    """This backend's part among those of its cluster, and what its way to it does not offer."""
    active = membership.active
    return {
        "backend": membership.me.backend,
        "duty": membership.duty.value,
        "acting": _actor(active) if isinstance(active, Heartbeat) else None,
        "journal_topic": JOURNAL_ZNODE if in_zookeeper else JOURNAL_TOPIC,
        "remarks": [*membership.remarks, *remarks],
        "unreadable": [
            {"key": one.key[:KEY_SHOWN], "why": one.why.value, "detail": one.detail}
            for one in islice(unreadable.values(), LISTED_MAX)
        ],
        "not_offered": [{"what": what.value, "why": why} for what, why in not_offered.items()],
    }


def _actor(heartbeat: Heartbeat) -> Json:
    return {
        "backend": heartbeat.backend,
        "host": heartbeat.host,
        "address": heartbeat.address,
        "started_ms": heartbeat.started_ms,
    }


def drift_json(drift: RateDrift | ListDrift) -> Json:
    """A drift with both values."""
    common = {
        "id": change_id(drift),
        "setting": drift.key.value,
        "kind": drift.kind.value,
        "operations": list(drift.operations),
        "text": str(drift),
    }
    if isinstance(drift, RateDrift):
        return {
            **common,
            "broker": drift.broker,
            "topic": None,
            "wanted": rate_words(drift.wanted_bytes_per_s),
            "found": rate_words(drift.found.value_bytes_per_s),
        }
    return {
        **common,
        "broker": None,
        "topic": drift.topic,
        "wanted": str(drift.wanted),
        "found": str(drift.found),
    }


def orphan_json(orphan: Orphan) -> Json:
    """An orphan with its value and likely origin."""
    return {
        "id": change_id(orphan),
        "setting": orphan.key.value,
        "broker": orphan.broker if isinstance(orphan, OrphanRate) else None,
        "topic": None if isinstance(orphan, OrphanRate) else orphan.topic,
        "value": rate_words(orphan.rate_bytes_per_s)
        if isinstance(orphan, OrphanRate)
        else str(orphan.replicas),
        "origin": orphan.origin.value,
        "operations": list(orphan.operations),
    }


def radius_json(radius: BlastRadius) -> Json:
    """A blast radius; partitions are counted."""
    return {
        "action": radius.action,
        "sentence": radius.sentence,
        "brokers": list(radius.brokers),
        "topics": list(radius.topics),
        "partitions": len(radius.partitions),
        "copy_bytes": radius.copy_bytes,
        "unknown_sizes": radius.unknown_sizes,
        "throttles_set": list(radius.throttles_set),
        "throttles_lifted": list(radius.throttles_lifted),
        "leaders_moving": len(radius.leaders_moving),
        "at_min_isr": len(radius.at_min_isr),
        "under_min_isr": len(radius.under_min_isr),
        "warnings": list(radius.warnings),
        "fingerprint": radius.fingerprint,
    }


def with_waiting_plan(operation: Operation, work: ReassignmentWork | None) -> Operation:
    """The operation; where partitions wait, with Kafka's JSON of where they shall be."""
    if work is None or not operation.waiting:
        return operation
    waiting = {partition: work.moves[partition].target for partition in work.waiting}
    plan = plan_json(ReassignmentPlan(waiting))
    return replace(operation, details={**operation.details, "waiting_plan": plan})


def status_json(lag: ReplicaLag) -> Json:
    """KIP-179's draft, ReplicaStatus; null where it is not known."""
    return {
        **partition_json(lag.partition),
        "broker": lag.broker,
        "in_isr": lag.in_isr,
        "lag_messages": None if lag.lag_messages < 0 else lag.lag_messages,
        "status_time_ms": None if lag.status_ms < 0 else lag.status_ms,
        "error_code": lag.result.error_code,
        "error_name": lag.result.error_name,
        "message": lag.result.message,
    }
