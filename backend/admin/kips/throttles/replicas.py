"""Throttled replicas of topics: by AlterInterbrokerThrottledReplicas (KIP-179), or else by configs.

Constraints
    The RPC replaces: whatever the cluster will remove and the request does not name loses its
    throttle at once. The port changes what is named and nothing else.
Algorithm
    The RPC is used only if the request names every list there is, and only topics that take part
    in a reassignment in progress, with which the throttle then goes. It cannot remove lists, nor
    write `*` or what it would refuse (`checks`). IncrementalAlterConfigs leaves the removal as it
    is, so the throttle still goes. A refusal of the RPC itself is logged, and the verb composed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kshunt.backend.admin.kips import seed_requests
from kshunt.backend.admin.port.cluster_admin import (
    ItemResult,
)
from kshunt.backend.admin.rpc.broker_calls import (
    BrokerCalls,
    KafkaCalls,
    answered_or_none,
    has,
)
from kshunt.backend.admin.rpc.configs import (
    REPLICA_KEYS,
    owners,
    replica_changes,
)
from kshunt.backend.domain.cluster.assignment import Assignment, part_of, partition_states
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    ThrottledReplicas,
)
from kshunt.backend.errors import (
    ClusterError,
)
from kshunt.backend.wire import seeds


async def alter_replicas(
    cluster: BrokerCalls,
    replicas: Mapping[str, ThrottledReplicas],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_replicas`, and the module's text."""
    results = None
    if await _names_every_list(cluster, replicas, timeout_s):
        results = await answered_or_none(
            cluster,
            lambda: seed_requests.replicas_request(
                replicas, validate_only=validate_only, timeout_s=timeout_s
            ),
            lambda answer: seed_requests.replicas_altered(answer, replicas),
            timeout_s=timeout_s,
            lane="read" if validate_only else "write",
        )
    if results is None:
        return await alter_replicas_by_configs(
            cluster, replicas, validate_only=validate_only, timeout_s=timeout_s
        )
    if not validate_only:
        written = {t: replica_changes(replicas[t]) for t in replicas if results[t].ok}
        await cluster.topics_show(written, timeout_s=timeout_s)
    return results


async def _names_every_list(
    cluster: BrokerCalls, replicas: Mapping[str, ThrottledReplicas], timeout_s: float
) -> bool:
    """True if replacing every topic's lists with these changes those of no other topic."""
    sides = [side for lists in replicas.values() for side in (lists.leaders, lists.followers)]
    if not sides or not all(replicas.values()) or any(side.everything for side in sides):
        return False
    key = seeds.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY
    if not await has(cluster, key, timeout_s, seed_requests.ROLES_VERSION):
        return False
    try:
        ongoing = await cluster.list_reassignments(timeout_s=timeout_s)
        if not replicas.keys() <= {partition.topic for partition in ongoing}:
            return False
        state = await cluster.describe(timeout_s=timeout_s)
        if not _all_there(replicas, state.assignment, state.brokers):
            return False
        values = await cluster.read_topics(state.assignment.topics, timeout_s=timeout_s)
    except ClusterError:
        return False
    return owners(values, REPLICA_KEYS) <= replicas.keys()


def _all_there(
    replicas: Mapping[str, ThrottledReplicas], assignment: Assignment, live: Collection[int]
) -> bool:
    """True if the cluster has every partition and every broker of these lists."""
    pairs = {
        (topic, pair)
        for topic, lists in replicas.items()
        for pair in lists.leaders.pairs | lists.followers.pairs
    }
    named = {TopicPartition(topic, number) for topic, (number, _) in pairs}
    present = partition_states(part_of(assignment, named))
    return named <= present.keys() and all(broker in live for _, (_, broker) in pairs)


async def alter_replicas_by_configs(
    cluster: KafkaCalls,
    replicas: Mapping[str, ThrottledReplicas],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_replicas`."""
    changes = {topic: replica_changes(lists) for topic, lists in replicas.items()}
    return await cluster.write_topics(changes, validate_only=validate_only, timeout_s=timeout_s)
