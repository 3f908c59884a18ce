"""A situation from a snapshot of the cluster, without a Python object for each replica."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import NO_BROKER, OngoingReassignment, TopicPartition
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas, Snapshot, partition_starts
from kshunt.backend.placement.plans.situation import BrokerFacts, Situation, with_strangers

NO_RATES: Mapping[TopicPartition, tuple[float, float]] = {}


def situation_of(
    snapshot: Snapshot, rates: Mapping[TopicPartition, tuple[float, float]] = NO_RATES
) -> Situation:
    """What the snapshot says, for a planner.

    A broker is up if the cluster lists it as such and it answers; on one that does not, nothing is
    placed. A partition's size is its leader's, or the largest that a replica reports where the
    leader's is not known.

    Args:
        snapshot: the cluster at one moment.
        rates: bytes a second written and read, by partition, where they are known; a snapshot
            has none.
    """
    rows = snapshot.replicas
    starts = partition_starts(rows)
    counts = np.diff(np.append(starts, len(rows)))
    index = np.repeat(np.arange(len(starts)), counts)
    place = np.arange(len(rows)) - np.repeat(starts, counts)
    shape = (len(starts), int(counts.max(initial=1)))
    replicas = np.full(shape, NO_BROKER, np.int32)
    replicas[index, place] = rows.broker
    in_sync, log_dir = np.zeros(shape, np.bool_), np.full(shape, UNKNOWN, np.int16)
    in_sync[index, place] = rows.in_isr
    log_dir[index, place] = rows.log_dir
    partitions = _names(snapshot, starts)
    into, out = _rates(partitions, rates)
    return Situation(
        partitions=partitions,
        replicas=replicas,
        leader=rows.leader[starts],
        in_sync=in_sync,
        size_bytes=_sizes(rows, starts),
        in_bytes_per_s=into,
        out_bytes_per_s=out,
        min_isr=_min_isr(snapshot)[rows.topic_index[starts]],
        log_dir=log_dir,
        log_dir_paths=snapshot.log_dir_paths,
        brokers=with_strangers(_brokers(snapshot), replicas),
        moving=_moving(snapshot, starts, counts),
        leaving=snapshot.leaving(),
    )


def _names(snapshot: Snapshot, starts: NDArray[np.intp]) -> tuple[TopicPartition, ...]:
    topics = snapshot.replicas.topic_index[starts].tolist()
    numbers = snapshot.replicas.partition[starts].tolist()
    return tuple(
        TopicPartition(snapshot.topics[topic], number)
        for topic, number in zip(topics, numbers, strict=True)
    )


def _sizes(rows: Replicas, starts: NDArray[np.intp]) -> NDArray[np.int64]:
    if not len(starts):
        return np.zeros(0, np.int64)
    led = np.where(rows.broker == rows.leader, rows.size_bytes, UNKNOWN)
    leaders, largest = (np.maximum.reduceat(each, starts) for each in (led, rows.size_bytes))
    return np.where(leaders >= 0, leaders, largest)


def _rates(
    partitions: tuple[TopicPartition, ...], rates: Mapping[TopicPartition, tuple[float, float]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    unknown = (np.nan, np.nan)
    found = np.array([rates.get(each, unknown) for each in partitions], np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _min_isr(snapshot: Snapshot) -> NDArray[np.int32]:
    known = snapshot.min_isr or (UNKNOWN,) * len(snapshot.topics)
    return np.array(known, np.int32)


def _brokers(snapshot: Snapshot) -> dict[int, BrokerFacts]:
    return {
        broker: BrokerFacts(
            broker,
            status.broker.rack,
            status.registered and not status.stale,
            tuple(each for each in snapshot.log_dirs if each.broker == broker),
        )
        for broker, status in snapshot.brokers.items()
    }


def _moving(
    snapshot: Snapshot, starts: NDArray[np.intp], counts: NDArray[np.intp]
) -> dict[TopicPartition, OngoingReassignment]:
    rows = snapshot.replicas
    if not len(starts):
        return {}
    changing = np.logical_or.reduceat(rows.adding | rows.removing, starts)
    found = {}
    for first, count in zip(starts[changing].tolist(), counts[changing].tolist(), strict=True):
        part = slice(first, first + count)
        brokers = rows.broker[part]
        name = snapshot.partition_of(first)
        found[name] = OngoingReassignment(
            name,
            tuple(brokers.tolist()),
            tuple(brokers[rows.adding[part]].tolist()),
            tuple(brokers[rows.removing[part]].tolist()),
        )
    return found
