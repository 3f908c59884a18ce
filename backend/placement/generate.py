"""The assignment that `--generate` proposes: round robin with a growing shift, racks alternating.

Goals
    1. Spread the replicas evenly: in each place of the replica lists a broker occurs as often as
       any other, or once more. With racks this holds where they are of one size.
    2. Where a broker leads several partitions, let their followers lie on different brokers, so
       that its failure spreads its work.
    3. With racks, spread a partition's replicas over all racks, as far as there are replicas.

Constraints
    - The replication factor and the number of partitions stay; only the given brokers are used.
    - No broker holds two replicas of a partition.
    - Either every broker has a rack or none counts: with only some, refuse (Kafka's words) rather
      than guess where the others stand.

Algorithm (KIP-36; Kafka's tool up to 3.9 places so)
    1. Order the brokers: by id, or, with racks, one of each rack in turn.
    2. The leader of partition p is broker `start + p` in that order.
    3. Followers follow the leader by `1 + (shift + k) mod (n - 1)`, k = 0, 1, 2 …. With racks
       the shift counts whole rounds over the racks. A k is skipped while its rack has a replica
       and another rack has none. It is also skipped while its broker has a replica.
    4. `shift` grows by one each time the leaders have gone once round the brokers.
    `start` and the first shift are drawn at random for each topic, so that many topics of few
    partitions do not all begin at the same broker.

Kafka 4 calls its controller's striped placer here, which goes round racks and brokers likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from random import Random

from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.errors import BadInput

UNCHANGED = "Nothing was changed."


def usable_brokers(
    live: Mapping[int, Broker], wanted: Sequence[int], *, rack_aware: bool
) -> tuple[Broker, ...]:
    """The brokers of `--broker-list`, without their racks if those are not to count.

    Raises:
        BadInput: the list is empty, names one twice, names one that the cluster does not list as
            up, or only some of them have a rack.
    """
    if not wanted:
        raise BadInput("The broker list is empty.", advice=UNCHANGED)
    duplicates = sorted({broker for broker in wanted if wanted.count(broker) > 1})
    if duplicates:
        raise BadInput(f"Broker list contains duplicate entries: {duplicates}", advice=UNCHANGED)
    unknown = [str(broker) for broker in wanted if broker not in live]
    if unknown:
        raise BadInput(
            f"Unknown broker id {', '.join(unknown)}.",
            advice=f"Brokers that are up: {', '.join(map(str, sorted(live)))}.",
        )
    brokers = [live[broker] for broker in wanted]
    if not rack_aware:
        return tuple(Broker(broker.id, broker.host, broker.port) for broker in brokers)
    if len({broker.rack is None for broker in brokers}) > 1:
        raise BadInput(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    return tuple(brokers)


def generate_assignment(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[Broker], random: Random
) -> dict[TopicPartition, tuple[int, ...]]:
    """A new home for every partition of `current`, topic by topic.

    `brokers` are those of `usable_brokers`. A topic keeps the replication factor of its lowest
    partition, as in Kafka's tool.

    Raises:
        BadInput: a topic has more replicas than there are brokers.
    """
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, partitions in _by_topic(current).items():
        replication_factor = len(current[partitions[0]])
        if replication_factor > len(brokers):
            raise BadInput(
                f"Topic {topic}: The target replication factor of {replication_factor} cannot be "
                f"reached because only {len(brokers)} broker(s) are registered.",
                advice="Name more brokers in --broker-list.",
            )
        placed = _place(len(partitions), replication_factor, brokers, random)
        proposed.update(zip(partitions, placed, strict=True))
    return proposed


def _by_topic(
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def _place(
    partitions: int, replication_factor: int, brokers: Sequence[Broker], random: Random
) -> Iterator[tuple[int, ...]]:
    order = alternate_racks(brokers)
    racks = {broker.rack for broker in order}
    step = 1 if racks == {None} else len(racks)
    start, shift = random.randrange(len(order)), random.randrange(len(order))
    for partition in range(partitions):
        leader = (start + partition) % len(order)
        rounds = shift + partition // len(order)
        candidates = _candidates(order, leader, rounds * step)
        chosen = _spread(candidates, replication_factor, len(racks))
        yield tuple(broker.id for broker in chosen)


def alternate_racks(brokers: Sequence[Broker]) -> list[Broker]:
    """One broker of each rack in turn, racks by name and brokers by id; by id if without racks."""
    racks: dict[str, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    turns = zip_longest(*(racks[name] for name in sorted(racks)))
    return [broker for broker in chain.from_iterable(turns) if broker is not None]


def _candidates(order: Sequence[Broker], leader: int, shift: int) -> Iterator[Broker]:
    """The leader, and then every other broker once, beginning `shift` after the leader."""
    yield order[leader]
    others = len(order) - 1
    for k in range(others):
        yield order[(leader + 1 + (shift + k) % others) % len(order)]


def _spread(candidates: Iterator[Broker], replication_factor: int, racks: int) -> list[Broker]:
    """The first candidates that bring a new rack while there is one, in the order found.

    The walk may have to go round again: a broker that was skipped for its rack is free once
    every rack has a replica.
    """
    waiting = list(candidates)
    chosen = [waiting.pop(0)]
    covered = {chosen[0].rack}
    place = 0
    while len(chosen) < replication_factor:
        place %= len(waiting)
        if waiting[place].rack not in covered or len(covered) == racks:
            chosen.append(waiting.pop(place))
            covered.add(chosen[-1].rack)
        else:
            place += 1
    return chosen
