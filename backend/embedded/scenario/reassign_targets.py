"""What a scenario's reassignment moves where.

Goals: a drain empties brokers, and an expansion fills empty ones, with as few moves as that needs.

Constraints: replication factors stay, no broker gets two replicas of a partition, and no
partition's replicas lie in fewer racks than before.

Algorithm: replicas are replaced one by one, each in its place of the replica list. A drain gives
each replica to the broker that holds the least bytes. An expansion takes from the broker that has
the most replicas until each new one has its share. It takes from a partition that moves already
only if no other fits. Partitions come in an order drawn from the seed, so that a move mixes topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.scenario.model import Reassign

Replicas = dict[TopicPartition, tuple[int, ...]]
Sizes = Mapping[TopicPartition, float]


def targets(image: ClusterImage, event: Reassign, sizes: Sizes, random: Random) -> Replicas:
    """The partitions that move, with their new replicas; sizes in bytes."""
    if event.moves:
        return {TopicPartition(*item): replicas for item, replicas in event.moves.items()}
    current = _current(image, event.topics)
    order = sorted(current)
    random.shuffle(order)
    racks = {state.id: state.rack for state in image.brokers.values()}
    live = sorted(state.id for state in image.brokers.values() if not state.fenced)
    if event.drain:
        return _drain(current, order, event, live, racks, sizes)
    return _expand(current, order, event, live, racks)


def _current(image: ClusterImage, topics: Iterable[str]) -> Replicas:
    """The partitions of these topics, or of all, that do not move."""
    wanted = set(topics)
    return {
        TopicPartition(name, number): partition.replicas
        for name, topic in image.topics.items()
        if not wanted or name in wanted
        for number, partition in topic.partitions.items()
        if not partition.reassigning and partition.deletion is None
    }


def _drain(
    current: Replicas,
    order: Sequence[TopicPartition],
    event: Reassign,
    live: Sequence[int],
    racks: Mapping[int, str | None],
    sizes: Sizes,
) -> Replicas:
    held = dict.fromkeys(live, 0.0)
    for item, replicas in current.items():
        for broker in replicas:
            held[broker] = held.get(broker, 0.0) + sizes[item]
    left = [broker for broker in live if broker not in event.drain]
    moved: Replicas = {}
    for item in order:
        if len(moved) >= event.partitions_max:
            break
        replicas = current[item]
        for gone in [broker for broker in replicas if broker in event.drain]:
            fits = [broker for broker in left if _fits(replicas, gone, broker, racks)]
            if not fits:
                continue
            taker = min(fits, key=lambda broker: (held[broker], broker))
            held[taker] += sizes[item]
            replicas = _replaced(replicas, gone, taker)
            moved[item] = replicas
    return moved


def _expand(
    current: Replicas,
    order: Sequence[TopicPartition],
    event: Reassign,
    live: Sequence[int],
    racks: Mapping[int, str | None],
) -> Replicas:
    hosted: dict[int, list[TopicPartition]] = {broker: [] for broker in live}
    for item in order:
        for broker in current[item]:
            hosted.setdefault(broker, []).append(item)
    counts = Counter({broker: len(items) for broker, items in hosted.items()})
    share = counts.total() // max(len(live), 1)
    present = dict(current)
    moved: Replicas = {}
    takers = list(event.expand)
    while takers and len(moved) < event.partitions_max:
        taker = min(takers, key=lambda broker: (counts[broker], broker))
        givers = [b for b in live if b not in event.expand and counts[b] > share]
        givers.sort(key=lambda broker: (-counts[broker], broker))
        fits = (
            (giver, item)
            for again in (False, True)
            for giver in givers
            for item in hosted[giver]
            if (item in moved) == again
            and giver in present[item]
            and _fits(present[item], giver, taker, racks)
        )
        found = next(fits, None) if counts[taker] < share else None
        if found is None:
            takers.remove(taker)
            continue
        giver, item = found
        moved[item] = present[item] = _replaced(present[item], giver, taker)
        counts[giver] -= 1
        counts[taker] += 1
    return moved


def _fits(replicas: Sequence[int], gone: int, taker: int, racks: Mapping[int, str | None]) -> bool:
    if taker in replicas:
        return False
    after = {racks.get(broker) for broker in _replaced(replicas, gone, taker)}
    return len(after) >= len({racks.get(broker) for broker in replicas})


def _replaced(replicas: Sequence[int], gone: int, taker: int) -> tuple[int, ...]:
    return tuple(taker if broker == gone else broker for broker in replicas)
