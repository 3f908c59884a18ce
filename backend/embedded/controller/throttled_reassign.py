"""KIP-179's ReassignPartitions: a move whose throttle is set before it and removed after it.

Goals
    The throttle is there before the first byte is copied, and no crash leaves it behind.

Constraints
    - The records are committed in order, and any number of the last may be lost.
    - A throttle that nobody will remove must never be there, so what is to be removed is
      written down before it exists.

Algorithm (the seed's)
    1. Check each partition.
    2. Write the topics of the request to the set whose throttled replicas are to be removed.
    3. Write the throttled replicas of each topic: as leaders the present replicas of the
       partitions that gain one, as followers the replicas gained (`ReassignPartitionsCommand`).
    4. Write the brokers that host, or will host, a partition of the request to the set whose
       throttled rates are to be removed.
    5. Write the rates of each of these brokers.
    6. Start the moves.

Where this differs: the seed's step 2 and 4 write the request's topics and brokers, as there was
one reassignment at a time (only the early draft says so). Moves of different partitions may run
together here. So both sets, and the replica lists, become the union with what they hold. The
controller removes the throttles when the last move is over. A list of `*` stays. A partition that
moves already is refused with REASSIGNMENT_IN_PROGRESS. A request that has nothing to wait for ends
immediately, and writes no throttle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    DirChooser,
    PartitionChangeBuilder,
    records_of,
)
from kshunt.backend.embedded.controller.reassign import check_target, partition_draft, retarget
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.controller.throttles import Pairs, check_rate, listed, set_keys
from kshunt.backend.embedded.metadata.config_keys import LONG_MAX
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import (
    Record,
    ResourceType,
    ThrottledRatesRemoval,
    ThrottledReplicasRemoval,
)

UNTHROTTLED = LONG_MAX
"""The seed's value for "should not be throttled"; -1, as in Kafka's tool, means it too."""


def reassign_partitions(
    image: ClusterImage,
    targets: Mapping[TopicPartition, Sequence[int]],
    *,
    throttle_bytes_per_s: int = UNTHROTTLED,
    remove_throttle: bool = True,
    validate_only: bool = False,
) -> Decision[TopicPartition]:
    """Start moves, with a throttle if one is given; each partition for itself.

    INVALID_REQUEST for the whole request if the throttle is under 1 KB/s;
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS.
    """
    throttled = throttle_bytes_per_s not in (UNTHROTTLED, -1)
    try:
        if throttled:
            check_rate(throttle_bytes_per_s)
    except ItemRefused as refusal:
        return Decision.refused(refusal)
    drafts: list[PartitionChangeBuilder] = []
    results: list[DecidedItem[TopicPartition]] = []
    dirs = DirChooser(image)
    for item, target in targets.items():
        try:
            drafts.append(move_draft(image, item, target, dirs))
            results.append(DecidedItem(item))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(item, refusal))
    rate = throttle_bytes_per_s if throttled else None
    asked = {item: tuple(targets[item]) for item in (r.item for r in results if r.ok)}
    records = move_records(image, drafts, asked, rate, remove_throttle=remove_throttle)
    return Decision.of(records, results, validate_only=validate_only)


def move_draft(
    image: ClusterImage, item: TopicPartition, target: Sequence[int], dirs: DirChooser
) -> PartitionChangeBuilder:
    """A partition on its way to `target`.

    Raises:
        ItemRefused: as `reassign_partitions` answers.
    """
    change = partition_draft(image, item)
    if change.old.reassigning:
        message = f"The partition {item} is being reassigned already."
        raise ItemRefused(KafkaError.REASSIGNMENT_IN_PROGRESS, message)
    retarget(change, check_target(image, change, target), dirs)
    return change


def move_records(
    image: ClusterImage,
    drafts: Sequence[PartitionChangeBuilder],
    targets: Mapping[TopicPartition, tuple[int, ...]],
    rate_bytes_per_s: int | None,
    *,
    remove_throttle: bool,
) -> list[Record]:
    """Steps 2 to 6; without a throttle, or with nothing to copy, the moves alone."""
    moves: list[Record] = list(records_of(drafts))
    is_moving = any(change.adding or change.removing for change in drafts)
    if rate_bytes_per_s is None or not is_moving:
        return with_removal(image, moves)
    topics = tuple(sorted({item.topic for item in targets}))
    brokers = tuple(sorted(_taking_part(drafts, targets)))
    lists = _replica_lists(drafts)
    throttle = _throttle(image, topics, brokers, lists, rate_bytes_per_s, remove_throttle)
    return [*throttle, *moves]


def _throttle(
    image: ClusterImage,
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    lists: Mapping[str, tuple[Pairs, Pairs]],
    rate_bytes_per_s: int,
    remove_throttle: bool,
) -> Iterator[Record]:
    if remove_throttle:
        yield ThrottledReplicasRemoval(tuple(sorted({*image.replicas_removal, *topics})))
    for topic in topics:
        leaders, followers = lists.get(topic, (set(), set()))
        values = {
            LEADER_REPLICAS: _joined(image, topic, LEADER_REPLICAS, leaders),
            FOLLOWER_REPLICAS: _joined(image, topic, FOLLOWER_REPLICAS, followers),
        }
        yield from set_keys(image, ResourceType.TOPIC, topic, values)
    if remove_throttle:
        yield ThrottledRatesRemoval(tuple(sorted({*image.rates_removal, *brokers})))
    rate = str(rate_bytes_per_s)
    for broker in brokers:
        if broker in image.brokers:
            values = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
            yield from set_keys(image, ResourceType.BROKER, str(broker), values)


def _taking_part(
    drafts: Sequence[PartitionChangeBuilder], targets: Mapping[TopicPartition, tuple[int, ...]]
) -> set[int]:
    """The seed's step 4: the brokers that host a partition of the request, or will host one."""
    hosts = {broker for change in drafts for broker in change.old.replicas}
    return hosts.union(*targets.values())


def _replica_lists(drafts: Sequence[PartitionChangeBuilder]) -> dict[str, tuple[Pairs, Pairs]]:
    lists: dict[str, tuple[Pairs, Pairs]] = {}
    for change in drafts:
        present, number = change.old.replicas, change.number
        gained = [broker for broker in change.replicas if broker not in present]
        if gained:
            leaders, followers = lists.setdefault(change.topic.name, (set(), set()))
            leaders |= {(number, broker) for broker in present}
            followers |= {(number, broker) for broker in gained}
    return lists


def _joined(image: ClusterImage, topic: str, key: str, pairs: Pairs) -> str:
    """A list's present value and these pairs."""
    value = image.dynamic_configs(ResourceType.TOPIC, topic).get(key, "").replace(" ", "")
    if value == "*":
        return value
    entries = [] if value in ("", "none") else [entry.split(":") for entry in value.split(",")]
    return listed({(int(partition), int(broker)) for partition, broker in entries} | pairs)
