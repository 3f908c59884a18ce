"""How far replicas are behind: by ReplicaStatus (KIP-179's early draft), or else measured.

Each leader is asked for its followers, all leaders at the same time. A partition is measured as a
whole (`measured_lags`) if a leader does not report one of its replicas this way. The reasons are:

- The broker of the replica does not run.
- The leader has just changed, or does not have the RPC.
- The partition has no follower.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kshunt.backend.admin.kips import kip_calls
from kshunt.backend.admin.kips.measured_lags import measured_lags
from kshunt.backend.admin.kips.native_calls import REFUSALS, log_fallback
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.replicas import ReplicaLag
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import (
    part_of,
    partition_states,
)
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_PARTITIONS,
    INVALID_TOPIC_EXCEPTION,
)
from kshunt.backend.errors import (
    ClusterError,
    NotSupported,
)
from kshunt.backend.offload import offload
from kshunt.backend.wire import kip_requests


class KafkaReplicas:
    """See `ReplicaAdmin`."""

    def __init__(self, calls: BrokerCalls, logs: LogAdmin, clock: Clock) -> None:
        self._calls = calls
        self._logs = logs
        self._clock = clock

    async def status(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> Sequence[ReplicaLag]:
        """See `ReplicaAdmin.status`, and the module's text."""
        wanted = dict.fromkeys(partitions)
        topics = sorted({partition.topic for partition in wanted})
        state = await self._calls.describe(topics, timeout_s=timeout_s)
        assignment = await offload(len(state.assignment), part_of, state.assignment, wanted)
        states = await offload(len(assignment), partition_states, assignment)
        # A leader that hangs must leave time to ask the others in the other way.
        share_s = timeout_s / 2
        deadline_s = self._clock.monotonic_s() + timeout_s
        statuses = await self._lags_of_leaders(states, state.brokers, share_s)
        rest = part_of(assignment, states.keys() - statuses.keys())
        left_s = max(deadline_s - self._clock.monotonic_s(), share_s)
        lags = {partition: list(of_one) for partition, of_one in statuses.items()}
        for lag in await measured_lags(self._logs, self._clock, rest, left_s):
            lags.setdefault(lag.partition, []).append(lag)
        found = [lag for partition in states for lag in lags[partition]]
        missing = missing_lags(wanted, states.keys(), state.topic_errors)
        return [*found, *missing]

    async def _lags_of_leaders(
        self,
        states: Mapping[TopicPartition, PartitionState],
        live: Collection[int],
        timeout_s: float,
    ) -> Mapping[TopicPartition, Sequence[ReplicaLag]]:
        """The lags of the partitions whose leaders tell all of them."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, state in states.items():
            if len(state.replicas) > 1 and all(b in live for b in (state.leader, *state.replicas)):
                by_leader.setdefault(state.leader, []).append(partition)
        answers = await together(
            self._ask_leader(leader, [states[p] for p in led], timeout_s)
            for leader, led in by_leader.items()
        )
        known = {replica: status for answer in answers for replica, status in answer.items()}
        asked = [partition for led in by_leader.values() for partition in led]

        def whole() -> Mapping[TopicPartition, Sequence[ReplicaLag]]:
            lags = {partition: tuple(_lags(states[partition], known)) for partition in asked}
            return {
                p: found for p, found in lags.items() if all(one.lag_messages >= 0 for one in found)
            }

        return await offload(len(asked), whole)

    async def _ask_leader(
        self, leader: int, led: Iterable[PartitionState], timeout_s: float
    ) -> Mapping[tuple[TopicPartition, int], kip_calls.Status]:
        """What a leader says of the followers of these partitions; nothing if it cannot say."""
        followers = [
            (s.partition, broker) for s in led for broker in s.replicas if broker != leader
        ]
        if not await self._calls.has(
            kip_requests.REPLICA_STATUS_KEY, broker=leader, timeout_s=timeout_s
        ):
            return {}
        request = kip_calls.status_request(followers)
        try:
            answer = await self._calls.call(leader, request, timeout_s=timeout_s)
            # Off the event loop: a plan may have very many replicas.
            found = await asyncio.to_thread(kip_calls.statuses, answer)
        except (ClusterError, NotSupported) as why:
            log_fallback(f"ReplicaStatus of broker {leader}", why)
            return {}
        if any(status.error_code in REFUSALS for status in found.values()):
            log_fallback(f"ReplicaStatus of broker {leader}", "it rejects the call")
        return found


def _lags(
    state: PartitionState, known: Mapping[tuple[TopicPartition, int], kip_calls.Status]
) -> Iterator[ReplicaLag]:
    """The lag of each replica, -1 for one that its leader did not tell about."""
    statuses = [known.get((state.partition, broker)) for broker in state.replicas]
    as_of_ms = max((status.status_ms for status in statuses if status is not None), default=-1)
    for broker, status in zip(state.replicas, statuses, strict=True):
        lag = -1 if status is None or status.error_code else status.lag_messages
        status_ms = as_of_ms if status is None else status.status_ms
        # The leader is level with itself, and is not among its followers.
        lag = 0 if broker == state.leader else lag
        yield ReplicaLag(state.partition, broker, status_ms, lag, broker in state.isr)


def missing_lags(
    partitions: Iterable[TopicPartition],
    found: Collection[TopicPartition],
    errors: Mapping[str, str],
) -> list[ReplicaLag]:
    """What is said of partitions that the cluster does not have, in the codes of KIP-179's draft.

    Args:
        partitions: What was asked for.
        found: Those of them that are described.
        errors: Kafka's error name by topic, of topics that are not described.
    """
    return [
        ReplicaLag(partition, NO_BROKER, -1, -1, in_isr=False, result=_missing(partition, errors))
        for partition in partitions
        if partition not in found
    ]


def _missing(partition: TopicPartition, errors: Mapping[str, str]) -> ItemResult:
    topic = partition.topic
    if topic not in errors:
        return item_result(INVALID_PARTITIONS, f"there is no partition {partition}")
    if errors[topic] == "TOPIC_AUTHORIZATION_FAILED":
        return item_result(
            CLUSTER_AUTHORIZATION_FAILED, f"kshunt is not authorized to see topic {topic}"
        )
    return item_result(INVALID_TOPIC_EXCEPTION, f"there is no topic {topic}")
