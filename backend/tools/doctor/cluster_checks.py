"""Checks of a cluster: each broker answers, has the calls that kshunt makes, and allows them.

Everything here reads. The journal's transactional id is not checked: Kafka tells its ACLs only to
a writer, and writing would stop the active backend.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from kshunt.backend.admin.kafka.granted_operations import on_cluster, on_topic
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.errors import ClusterError, KshuntError, NotAuthorized
from kshunt.backend.settings import Settings
from kshunt.backend.tools.doctor.findings import Finding
from kshunt.backend.wire import api_keys

TIMEOUT_S: Final = 5.0
NEEDED_CALLS: Final[Mapping[str, tuple[int, str]]] = {
    "ListOffsets": (api_keys.LIST_OFFSETS_KEY, "lag"),
    "DescribeLogDirs": (api_keys.DESCRIBE_LOG_DIRS_KEY, "sizes on disks"),
    "DescribeConfigs": (api_keys.DESCRIBE_CONFIGS_KEY, "throttles"),
    "IncrementalAlterConfigs": (api_keys.INCREMENTAL_ALTER_CONFIGS_KEY, "changes of throttles"),
    "AlterPartitionReassignments": (api_keys.ALTER_PARTITION_REASSIGNMENTS_KEY, "moves"),
    "ListPartitionReassignments": (api_keys.LIST_PARTITION_REASSIGNMENTS_KEY, "moves"),
    "ElectLeaders": (api_keys.ELECT_LEADERS_KEY, "elections"),
}
"""Kafka's name of each call, its number, and what kshunt needs it for; all since Kafka 2.4."""
TO_LOOK: Final = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})
TO_CHANGE: Final = frozenset({"ALTER", "ALTER_CONFIGS"})
JOURNAL: Final = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"})
ACLS: Final = "Add the ACLs of the quick start, step 4 (docs/quick-start.md)."


def check_cluster(settings: Settings) -> list[Finding]:
    """All that can be said of a cluster; the first finding says why if there is no more."""
    return asyncio.run(_checked(settings))


async def _checked(settings: Settings) -> list[Finding]:
    try:
        admin = KafkaAdmin(settings)
    except KshuntError as error:
        return [_failed("cluster", error)]
    try:
        await admin.connect(timeout_s=TIMEOUT_S)
        return [finding async for finding in _findings(admin.cluster)]
    except KshuntError as error:
        return [_failed("cluster", error)]
    finally:
        await admin.close()


def _failed(subject: str, error: KshuntError) -> Finding:
    return Finding(subject, "problem", error.message, error.advice)


async def _findings(calls: BrokerCalls) -> AsyncIterator[Finding]:
    state = await calls.describe((), timeout_s=TIMEOUT_S)
    if state.controller == NO_BROKER:
        yield Finding("controller", "problem", "The cluster has no controller.", "Wait, or see it.")
    brokers = sorted(state.brokers)
    for found in await asyncio.gather(*(check_broker(calls, broker) for broker in brokers)):
        yield found
    for finding in cluster_acls(await on_cluster(calls, timeout_s=TIMEOUT_S)):
        yield finding
    yield await check_journal(calls)


async def check_broker(calls: BrokerCalls, broker: int) -> Finding:
    """Whether it answers, how fast, and which calls it lacks."""
    subject, began_s = f"broker {broker}", time.monotonic()
    metadata = await calls.highest_version(api_keys.METADATA_KEY, broker, timeout_s=TIMEOUT_S)
    if metadata < 0:
        return Finding(
            subject,
            "problem",
            f"It did not answer within {TIMEOUT_S:g} s.",
            "Check that it runs, and that its advertised listener can be reached from here.",
        )
    took_ms = (time.monotonic() - began_s) * 1_000
    lacks = [
        f"{name} ({purpose})"
        for name, (key, purpose) in NEEDED_CALLS.items()
        if await calls.highest_version(key, broker, timeout_s=TIMEOUT_S) < 0
    ]
    if lacks:
        return Finding(
            subject,
            "problem",
            f"It lacks {', '.join(lacks)}.",
            "kshunt needs Apache Kafka 2.4 or later.",
        )
    return Finding(subject, "ok", f"answers in {took_ms:.0f} ms and has every call")


def cluster_acls(granted: frozenset[str] | None) -> Iterator[Finding]:
    """What the principal may do on the cluster."""
    if granted is None:
        yield Finding("ACLs", "unknown", "Kafka before 2.8 does not tell what we may do.")
        return
    for purpose, needed in (("to look", TO_LOOK), ("to change", TO_CHANGE)):
        lacks = sorted(needed - granted)
        if lacks:
            yield Finding(
                f"ACLs {purpose}", "warning", f"{', '.join(lacks)} on the cluster: missing.", ACLS
            )
        else:
            yield Finding(f"ACLs {purpose}", "ok", f"{', '.join(sorted(needed))} on the cluster")


async def check_journal(calls: BrokerCalls) -> Finding:
    """Whether the topic of the journal may be read and written, if it exists."""
    subject = f"journal {JOURNAL_TOPIC}"
    try:
        granted = await on_topic(calls, JOURNAL_TOPIC, timeout_s=TIMEOUT_S)
    except NotAuthorized:
        return Finding(
            subject,
            "warning",
            "This principal is not authorized to describe it, so kshunt cannot change the cluster.",
            ACLS,
        )
    except ClusterError as error:
        return _failed(subject, error)
    if granted is None:
        return Finding(subject, "ok", "does not exist yet; kshunt creates it at the first change")
    if lacks := sorted(JOURNAL - granted):
        return Finding(subject, "warning", f"{', '.join(lacks)} on the topic: missing.", ACLS)
    return Finding(subject, "ok", f"{', '.join(sorted(JOURNAL))} on the topic")
