"""What the tests of `KafkaAdmin` on real brokers share."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from kshunt.backend.admin.connect import Reached, reach
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.kips.reassignment.native import KafkaReassignments
from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import PartitionState, TopicPartition
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.settings import Settings
from kshunt.backend.wire.raw_request import RawRequest
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until_async

NO_RATE = ThrottledRate(None, None)
DEADLINE_S = 30.0
TIMEOUT_S = 30.0
NOWHERE = 99
"""No broker has this id."""

_numbers = itertools.count()


@asynccontextmanager
async def connected(
    bootstrap_servers: str, command_config: Path | None = None
) -> AsyncIterator[Reached]:
    """An admin of the cluster, closed at the end; `bootstrap_servers` as in `Settings`."""
    admin = await reach(Settings(bootstrap_servers, command_config))
    try:
        await admin.connect()
        yield admin
    finally:
        await admin.close()


class Instead:
    """An admin with other objects in some of its places."""

    def __init__(self, admin: ClusterAdmin, places: Mapping[str, object]) -> None:
        self._admin = admin
        self._places = places

    def __getattr__(self, name: str) -> Any:
        return self._places[name] if name in self._places else getattr(self._admin, name)


def instead(admin: ClusterAdmin, **places: object) -> ClusterAdmin:
    """The admin, with these objects in the places of subjects."""
    return cast(ClusterAdmin, Instead(admin, places))


def fresh_name(what: str) -> str:
    """A topic name that no other test has."""
    return f"admin-{what}-{next(_numbers)}"


async def topic_with(
    admin: Reached,
    what: str,
    replicas: Sequence[Sequence[int]],
    *,
    records: int = 0,
    size_bytes: int = 1000,
) -> str:
    """A new topic with these replicas a partition, and records in partition 0."""
    name = fresh_name(what)
    servers = admin.cluster.bootstrap_servers
    await asyncio.to_thread(create_topic, servers, name, replicas)
    if records:
        await asyncio.to_thread(produce, servers, name, records, size_bytes, 0)

    partitions = [TopicPartition(name, number) for number in range(len(replicas))]

    async def known() -> bool:
        return len(await states_of(admin, name)) == len(replicas)

    async def hosted() -> bool:
        status = await admin.replicas.status(partitions, timeout_s=TIMEOUT_S)
        return all(lag.result.ok for lag in status)

    await wait_until_async(known, DEADLINE_S, f"the broker that we ask knows {name}")
    await wait_until_async(hosted, DEADLINE_S, f"each broker has made its replicas of {name}")
    return name


async def states_of(admin: Reached, topic: str) -> Mapping[int, PartitionState]:
    """The topic's partitions by number."""
    state = await admin.cluster.describe([topic], timeout_s=TIMEOUT_S)
    found = partition_states(state.assignment)
    return {partition.partition: found[partition] for partition in found}


async def lags_of(admin: Reached, partition: TopicPartition) -> dict[int, int]:
    """The lag of each replica, by broker."""
    status = await admin.replicas.status([partition], timeout_s=TIMEOUT_S)
    return {lag.broker: lag.lag_messages for lag in status}


async def claimed_lags(admin: Reached, broker: int, partition: TopicPartition) -> list[int]:
    """What a broker's DescribeLogDirs says of the lag of its replica, which kshunt does not use."""
    topics = [(partition.topic, [partition.partition])]
    request = RawRequest.of(DescribeLogDirsRequest(topics=topics), min_version=1)
    answer = await admin.cluster.call(broker, request, timeout_s=TIMEOUT_S)
    dirs = decode_message(DescribeLogDirsResponse, answer).results
    return [p.offset_lag for one in dirs for topic in one.topics for p in topic.partitions]


async def replicas_become(
    admin: Reached, partition: TopicPartition, replicas: tuple[int, ...]
) -> None:
    """Wait until a partition has these replicas, in this order, and others may move."""

    async def now() -> bool:
        states = await states_of(admin, partition.topic)
        there = states[partition.partition].replicas == replicas
        return there and not await admin.reassignments.accepts_moves(timeout_s=TIMEOUT_S)

    await wait_until_async(now, DEADLINE_S, f"{partition} is on {replicas}")


async def nothing_moves(admin: Reached, topic: str) -> None:
    """Wait until nothing of the topic moves."""

    async def still() -> bool:
        ongoing = await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)
        return not any(partition.topic == topic for partition in ongoing)

    await wait_until_async(still, DEADLINE_S, f"no partition of {topic} moves")


async def unthrottle(admin: Reached, brokers: Sequence[int]) -> None:
    """Take every rate off the brokers and every list off the topics, for the tests that follow."""
    topics = (await admin.cluster.describe(timeout_s=TIMEOUT_S)).assignment.topics
    listed = (await admin.throttles.describe([], topics, timeout_s=TIMEOUT_S)).replicas
    await admin.throttles.alter_replicas(
        dict.fromkeys(listed, ThrottledReplicas()), validate_only=False, timeout_s=TIMEOUT_S
    )
    await admin.throttles.alter_rates(
        dict.fromkeys(brokers, NO_RATE),
        log_dir_rates=dict.fromkeys(brokers),
        validate_only=False,
        timeout_s=TIMEOUT_S,
    )


def lists(leaders: str, followers: str) -> ThrottledReplicas:
    """Throttled replicas from Kafka's notation."""
    return ThrottledReplicas(ReplicaSet.parse(leaders), ReplicaSet.parse(followers))


class Misdirected(KafkaReassignments):
    """Sends some partitions to a broker that does not exist, so that the controller refuses."""

    wrong: Sequence[TopicPartition] = ()

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        sent = {p: [NOWHERE] if p in self.wrong else target for p, target in targets.items()}
        return await super().alter(sent, timeout_s=timeout_s)


@asynccontextmanager
async def misdirected(
    bootstrap_servers: str, wrong: Sequence[TopicPartition]
) -> AsyncIterator[Misdirected]:
    """Such reassignments, of an admin that is closed at the end."""
    admin = KafkaAdmin(Settings(bootstrap_servers))
    reassignments = Misdirected(admin.cluster, admin.throttle_configs, admin.logs)
    reassignments.wrong = wrong
    try:
        yield reassignments
    finally:
        await admin.close()
