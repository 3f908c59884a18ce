"""Throttles by AlterInterbrokerThrottledRates and AlterInterbrokerThrottledReplicas (KIP-179).

Constraints
    The RPCs replace: whatever the cluster will remove and the request does not name loses its
    throttle immediately. The port changes what is named and nothing else.
Algorithm
    An RPC is used only if the request names every rate or list there is. Each broker or topic
    that it names must take part in a reassignment in progress: the cluster removes the throttle
    when that ends. The RPC cannot remove anything, nor write `*` or what it would refuse
    (`checks`). Else, and where the RPC itself is refused, which is logged, there is no answer:
    configurations are to be written. IncrementalAlterConfigs leaves the removal as it is, so the
    cluster still removes the throttle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from kshunt.backend.admin.kips import kip_calls
from kshunt.backend.admin.kips.native_calls import answered_or_none
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.config_propagation import wait_until_in_force
from kshunt.backend.admin.rpc.configs import (
    INTERBROKER_RATE_KEYS,
    REPLICA_KEYS,
    owners,
    rate_changes,
    replica_changes,
)
from kshunt.backend.admin.rpc.connections import lane_of
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import Assignment, part_of, partition_states
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    RATE_MIN_BYTES_PER_S,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.errors import ClusterError
from kshunt.backend.wire import kip_requests


class NativeThrottles:
    """See the module's text."""

    def __init__(
        self,
        calls: BrokerCalls,
        configs: ThrottleConfigs,
        reassignments: ReassignmentAdmin,
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._configs = configs
        self._reassignments = reassignments
        self._clock = clock

    async def rates_altered(
        self, rates: Mapping[int, ThrottledRate], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult] | None:
        """What became of the brokers' rates; None where the RPC is not for them."""
        if not await self._names_every_rate(rates, timeout_s):
            return None
        results = await answered_or_none(
            self._calls,
            lambda: kip_calls.rates_request(
                rates, validate_only=validate_only, timeout_s=timeout_s
            ),
            lambda answer: kip_calls.rates_altered(answer, rates),
            timeout_s=timeout_s,
            lane=lane_of(validate_only=validate_only),
        )
        if results is not None and not validate_only:
            written = {b: rate_changes(rates[b]) for b in rates if results[b].ok}
            read = partial(self._configs.read_brokers, timeout_s=timeout_s)
            await wait_until_in_force(self._clock, written, read)
        return results

    async def _names_every_rate(self, rates: Mapping[int, ThrottledRate], timeout_s: float) -> bool:
        """True if replacing every broker's rates with these changes those of no other broker."""
        given = [
            r for one in rates.values() for r in (one.leader_bytes_per_s, one.follower_bytes_per_s)
        ]
        if not given or any(rate is None or rate < RATE_MIN_BYTES_PER_S for rate in given):
            return False
        key = kip_requests.ALTER_INTERBROKER_THROTTLED_RATES_KEY
        if not await self._calls.has(key, timeout_s=timeout_s):
            return False
        try:
            ongoing = await self._reassignments.ongoing(timeout_s=timeout_s)
            state = await self._calls.describe(NO_TOPICS, timeout_s=timeout_s)
            hosts = {broker for move in ongoing.values() for broker in move.replicas}
            if not rates.keys() <= hosts <= state.brokers.keys():
                return False
            values = await self._configs.read_brokers(sorted(state.brokers), timeout_s=timeout_s)
        except ClusterError:
            return False
        return (
            values.keys() == state.brokers.keys()
            and owners(values, INTERBROKER_RATE_KEYS) <= rates.keys()
        )

    async def replicas_altered(
        self, replicas: Mapping[str, ThrottledReplicas], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult] | None:
        """What became of the topics' throttled replicas; None where the RPC is not for them."""
        if not await self._names_every_list(replicas, timeout_s):
            return None
        results = await answered_or_none(
            self._calls,
            lambda: kip_calls.replicas_request(
                replicas, validate_only=validate_only, timeout_s=timeout_s
            ),
            lambda answer: kip_calls.replicas_altered(answer, replicas),
            timeout_s=timeout_s,
            lane=lane_of(validate_only=validate_only),
        )
        if results is not None and not validate_only:
            written = {t: replica_changes(replicas[t]) for t in replicas if results[t].ok}
            read = partial(self._configs.read_topics, timeout_s=timeout_s)
            await wait_until_in_force(self._clock, written, read)
        return results

    async def _names_every_list(
        self, replicas: Mapping[str, ThrottledReplicas], timeout_s: float
    ) -> bool:
        """True if replacing every topic's lists with these changes those of no other topic."""
        sides = [side for lists in replicas.values() for side in (lists.leaders, lists.followers)]
        if not sides or not all(replicas.values()) or any(side.everything for side in sides):
            return False
        key, version = (
            kip_requests.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY,
            kip_calls.ROLES_VERSION,
        )
        if not await self._calls.has(key, version=version, timeout_s=timeout_s):
            return False
        try:
            ongoing = await self._reassignments.ongoing(timeout_s=timeout_s)
            if not replicas.keys() <= {partition.topic for partition in ongoing}:
                return False
            state = await self._calls.describe(timeout_s=timeout_s)
            if not _all_there(replicas, state.assignment, state.brokers):
                return False
            topics = state.assignment.topics
            values = await self._configs.read_topics(topics, timeout_s=timeout_s)
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
