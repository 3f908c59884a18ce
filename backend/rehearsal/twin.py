"""A cluster in memory in the place of a real one, whose time can be moved.

Goals
    What limits moves there limits them here. That is throttles and their lists, networks and disks
    as far as they are known, brokers that are down, replicas that are behind, what producers write.

Constraints
    - No sockets, no threads, no clock: an hour of the cluster takes as long as it is to compute.
    - What is not known is taken for something, and that is said.

Algorithm
    1. Register the brokers; those that are down are fenced before anything lies on them.
    2. Create every partition with its replicas, ISR, leader and running move as they are.
    3. Let each replica hold its partition's bytes, less what it is known to lack.
    4. Set the throttles as they are set, and write what producers write, evenly.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

import numpy as np

from kshunt.backend.domain.cluster.config_names import MIN_ISR
from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import (
    NO_LEADER,
    ConfigChanged,
    PartitionCreated,
    Record,
    ResourceType,
    TopicCreated,
)
from kshunt.backend.rehearsal.picture import Capacity, Picture

START_MS: Final = 1_700_000_000_000
"""Where its clock begins: the same for every rehearsal."""
RECORD_BYTES: Final = 1_000
"""Replication goes by bytes; a record's size only decides how many offsets those are."""
ONE_DIR: Final = "/twin"
"""Where a broker's replicas lie whose directories are not known."""


def twin_of(picture: Picture, seed: int = 0) -> Core:
    """The twin of a cluster, at `START_MS`; the same picture and seed make the same one."""
    image = ClusterImage()
    machines = {id: _hardware(one) for id, one in picture.capacities.items()}
    plane = DataPlane(image, START_MS, hardware=machines, seed=seed)
    core = Core(image, plane, Random(seed))
    _start(core, picture)
    core.commit(Decision.of([*_topics(picture), *_throttles(picture)]))
    _fill(core, picture)
    _write(core, picture)
    return core


def unknowns(picture: Picture) -> Iterator[str]:
    """What is not known of the cluster, and what a rehearsal takes for it."""
    situation = picture.situation
    sizes = int(np.count_nonzero(situation.size_bytes < 0))
    if sizes:
        yield (
            f"{many(sizes, 'partition')} of unknown size: the rehearsal uses the largest known "
            "size."
        )
    rates = int(np.count_nonzero(np.isnan(situation.in_bytes_per_s)))
    if rates:
        yield f"The writes to {many(rates, 'partition')} are unknown: the rehearsal assumes none."
    if not picture.capacities:
        yield "The capacity of networks and disks is unknown: the rehearsal assumes no limit."
    elif missing := sorted(situation.brokers.keys() - picture.capacities.keys()):
        yield (
            f"The capacity of brokers {listed(missing)} is unknown: the rehearsal assumes no limit."
        )


def topic_id(topic: str) -> str:
    """The id that a topic has in every twin."""
    return hashlib.blake2b(topic.encode(), digest_size=16).hexdigest()


def _hardware(capacity: Capacity) -> Hardware:
    return Hardware(
        _or_unlimited(capacity.network_in_bytes_per_s),
        _or_unlimited(capacity.network_out_bytes_per_s),
        _or_unlimited(capacity.disk_bytes_per_s),
    )


def _or_unlimited(rate: float | None) -> float:
    return math.inf if rate is None else rate


def _start(core: Core, picture: Picture) -> None:
    brokers = picture.situation.brokers.values()
    core.start_all(
        [
            Registration(one.id, f"twin-{one.id}", "", 0, one.rack, _paths(picture, one.id))
            for one in brokers
        ]
    )
    for one in brokers:
        if not one.up:
            core.stop_broker(one.id)


def _paths(picture: Picture, broker: int) -> tuple[str, ...]:
    known = picture.situation.brokers[broker].log_dirs
    return tuple(sorted(one.path for one in known)) or (ONE_DIR,)


def _topics(picture: Picture) -> Iterator[Record]:
    """Every topic with its partitions, as they are."""
    situation = picture.situation
    dirs = {broker: _paths(picture, broker) for broker in situation.brokers}
    paths, known = situation.log_dir_paths, {b: frozenset(p) for b, p in dirs.items()}
    last = ""
    rows = zip(
        situation.partitions,
        situation.replicas.tolist(),
        situation.leader.tolist(),
        situation.in_sync.tolist(),
        situation.log_dir.tolist(),
        situation.min_isr.tolist(),
        strict=True,
    )
    for name, replicas, leader, in_sync, places, min_isr in rows:
        if name.topic != last:
            last = name.topic
            yield TopicCreated(last, topic_id(last))
            if min_isr >= 0:
                yield ConfigChanged(ResourceType.TOPIC, last, MIN_ISR, str(min_isr))
        present = tuple(broker for broker in replicas if broker != NO_BROKER)
        lying = tuple(
            paths[place] if place >= 0 and paths[place] in known[broker] else dirs[broker][0]
            for broker, place in zip(present, places, strict=False)
        )
        isr = tuple(broker for broker, here in zip(present, in_sync, strict=False) if here)
        move = situation.moving.get(name)
        yield PartitionCreated(
            topic_id(name.topic),
            name.partition,
            present,
            isr,
            leader if leader != NO_BROKER else NO_LEADER,
            lying,
            adding=() if move is None else move.adding,
            removing=() if move is None else move.removing,
        )


def _throttles(picture: Picture) -> Iterator[Record]:
    for broker, throttle in picture.throttles.rates.items():
        rates = {
            LEADER_RATE: throttle.rate.leader_bytes_per_s,
            FOLLOWER_RATE: throttle.rate.follower_bytes_per_s,
            LOG_DIR_RATE: throttle.log_dir_bytes_per_s,
        }
        for key, rate in rates.items():
            if rate is not None and broker in picture.situation.brokers:
                yield ConfigChanged(ResourceType.BROKER, str(broker), key, str(rate))
    topics = {name.topic for name in picture.situation.partitions}
    for topic, lists in picture.throttles.replicas.items():
        for key, side in ((LEADER_REPLICAS, lists.leaders), (FOLLOWER_REPLICAS, lists.followers)):
            if side and topic in topics:
                yield ConfigChanged(ResourceType.TOPIC, topic, key, str(side))


def _fill(core: Core, picture: Picture) -> None:
    """Every replica has its partition's bytes, less what it is known to lack."""
    situation = picture.situation
    keys = [(topic_id(name.topic), name.partition) for name in situation.partitions]
    core.plane.fill(keys, situation.sizes().astype(float).tolist(), RECORD_BYTES)
    for (name, broker), lag_bytes in _lacking(picture):
        held = core.plane.held((topic_id(name.topic), name.partition))
        if held is not None and broker in held.replicas:
            core.plane.fall_behind(held, broker, lag_bytes)


def _lacking(picture: Picture) -> Iterator[tuple[tuple[TopicPartition, int], float]]:
    """What is known to be missing; a replica that is being added, and of which nothing is known,
    has nothing yet."""
    sizes = dict(zip(picture.situation.partitions, picture.situation.sizes(), strict=True))
    lags: Mapping[tuple[TopicPartition, int], int] = picture.lag_bytes
    for name, move in picture.situation.moving.items():
        for broker in move.adding:
            if (name, broker) not in lags:
                yield (name, broker), float(sizes[name])
    for place, lag_bytes in lags.items():
        yield place, float(lag_bytes)


def _write(core: Core, picture: Picture) -> None:
    situation = picture.situation
    rates = situation.in_bytes_per_s
    written = np.flatnonzero(np.nan_to_num(rates) > 0)
    names: Sequence[TopicPartition] = [situation.partitions[row] for row in written]
    keys = [(topic_id(name.topic), name.partition) for name in names]
    core.plane.set_traffic(keys, rates[written].tolist(), RECORD_BYTES)
