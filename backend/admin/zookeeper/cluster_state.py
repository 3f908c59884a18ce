"""Who hosts what and what moves, read from Kafka's znodes.

A znode's children come without what they hold, so a look at everything costs one read a partition:
some five thousand a second. What is asked for by name costs that much less; what moves, one read a
topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from kshunt.backend.admin.zookeeper import znode_layout
from kshunt.backend.admin.zookeeper.session import Session, Znode
from kshunt.backend.admin.zookeeper.znode_layout import TopicZnode
from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    Broker,
    OngoingReassignment,
    TopicPartition,
)
from kshunt.backend.errors import ClusterUnreachable

UNKNOWN_TOPIC: str = "UNKNOWN_TOPIC_OR_PARTITION"
FoundState = tuple[tuple[str, int], str, Znode | None]
"""A partition, where its state is, and what was found there."""


async def brokers(session: Session, protocol: str, *, timeout_s: float) -> dict[int, Broker]:
    """The brokers that are up, at their listeners of that security protocol."""
    names = await session.children(znode_layout.BROKERS, timeout_s=timeout_s) or ()
    ids = sorted(int(name) for name in names if name.isdigit())
    paths = [f"{znode_layout.BROKERS}/{broker}" for broker in ids]
    found = await session.read_many(paths, timeout_s=timeout_s)
    return {
        broker: znode_layout.read_broker(path, znode.data, broker, protocol)
        for broker, path, znode in zip(ids, paths, found, strict=True)
        if znode is not None
    }


async def cluster_id(session: Session, *, timeout_s: float) -> str:
    """The cluster's id.

    Raises:
        ClusterUnreachable: no broker has ever started there.
    """
    znode = await session.read(znode_layout.CLUSTER_ID, timeout_s=timeout_s)
    if znode is None:
        raise ClusterUnreachable(
            f"ZooKeeper at {session.connect} does not hold a Kafka cluster.",
            advice="Give the value of the brokers' zookeeper.connect, with its chroot.",
        )
    return znode_layout.read_cluster_id(znode.data)


async def topic_znodes(
    session: Session, topics: Sequence[str] | None, *, timeout_s: float
) -> dict[str, TopicZnode]:
    """The assignments of all topics, or of those named; a topic that there is not is absent."""
    if topics is None:
        topics = await session.children(znode_layout.TOPICS, timeout_s=timeout_s) or ()
    topics = list(filter(znode_layout.may_be_topic, topics))
    paths = [znode_layout.topic_path(topic) for topic in topics]
    found = await session.read_many(paths, timeout_s=timeout_s)

    def read() -> dict[str, TopicZnode]:
        return {
            topic: znode_layout.read_topic(path, znode.data)
            for topic, path, znode in zip(topics, paths, found, strict=True)
            if znode is not None
        }

    return await asyncio.to_thread(read)


async def describe(
    session: Session, protocol: str, topics: Sequence[str] | None, *, timeout_s: float
) -> ClusterState:
    """Brokers, and who hosts what: of all topics, or of those named.

    A topic whose deletion is under way is left out, as brokers do; it may wait there for long, for
    a broker that is down.
    """
    controller = await session.read(znode_layout.CONTROLLER, timeout_s=timeout_s)
    live = await brokers(session, protocol, timeout_s=timeout_s)
    identity = await cluster_id(session, timeout_s=timeout_s)
    znodes = await topic_znodes(session, topics, timeout_s=timeout_s)
    partitions = [(t, p) for t in sorted(znodes) for p in sorted(znodes[t].replicas)]
    paths = [znode_layout.state_path(topic, partition) for topic, partition in partitions]
    states = await session.read_many(paths, timeout_s=timeout_s)
    found = list(zip(partitions, paths, states, strict=True))
    gone = _gone(await session.children(znode_layout.DELETING, timeout_s=timeout_s) or (), found)
    if gone:
        znodes = {topic: znode for topic, znode in znodes.items() if topic not in gone}
        found = [one for one in found if one[0][0] not in gone]
    assignment = await asyncio.to_thread(_assignment, znodes, found, live)
    return ClusterState(
        identity,
        NO_BROKER if controller is None else znode_layout.read_controller(controller.data),
        live,
        assignment,
        {topic: UNKNOWN_TOPIC for topic in topics or () if topic not in znodes},
    )


def _gone(deleting: Collection[str], found: Iterable[FoundState]) -> set[str]:
    """The topics that are as good as deleted; one that still moves has its leaders meanwhile."""
    led = {
        topic
        for (topic, _), path, state in found
        if topic in deleting
        and state is not None
        and znode_layout.read_state(path, state.data)[0] >= 0
    }
    return set(deleting) - led


def _assignment(
    znodes: Mapping[str, TopicZnode], found: Iterable[FoundState], live: Mapping[int, Broker]
) -> Assignment:
    topics = tuple(sorted(znodes))
    index = {topic: place for place, topic in enumerate(topics)}
    rows: list[tuple[int, int, int, int, int, bool, bool]] = []
    for (topic, number), path, znode in found:
        # A partition that was just made has no state yet.
        leader, isr = (
            (NO_BROKER, ()) if znode is None else znode_layout.read_state(path, znode.data)
        )
        for place, broker in enumerate(znodes[topic].replicas[number]):
            up = broker in live
            rows.append((index[topic], number, broker, place, leader, broker in isr, not up))
    table = np.array(rows, np.int64).reshape(-1, 7)
    return Assignment(
        topics,
        topic_index=table[:, 0].astype(np.int32),
        partition=table[:, 1].astype(np.int32),
        broker=table[:, 2].astype(np.int32),
        position=table[:, 3].astype(np.int16),
        leader=table[:, 4].astype(np.int32),
        in_isr=table[:, 5].astype(np.bool_),
        offline=table[:, 6].astype(np.bool_),
    )


async def reassignment(
    session: Session, *, timeout_s: float
) -> dict[TopicPartition, tuple[int, ...]] | None:
    """The targets of the reassignment that was asked for through ZooKeeper; None: there is none."""
    znode = await session.read(znode_layout.REASSIGN, timeout_s=timeout_s)
    return None if znode is None else znode_layout.read_reassignment(znode.data)


async def ongoing(
    session: Session, *, timeout_s: float
) -> dict[TopicPartition, OngoingReassignment]:
    """Every partition that moves, whichever client asked for it."""
    asked = await reassignment(session, timeout_s=timeout_s) or {}
    znodes = await topic_znodes(session, None, timeout_s=timeout_s)
    untold = znode_layout.untold(znodes, asked)
    paths = [znode_layout.state_path(topic, partition) for topic, partition in untold]
    states = await session.read_many(paths, timeout_s=timeout_s)
    in_sync = {
        partition: znode_layout.read_state(path, znode.data)[1]
        for partition, path, znode in zip(untold, paths, states, strict=True)
        if znode is not None
    }
    return znode_layout.ongoing_of(znodes, asked, in_sync)
