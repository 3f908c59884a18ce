"""What altering a topic comes to, and what speaks against it. No effect, no clock, no client.

The codes are those of KIP-179's early draft. Where it leaves something open:

- An assignment names all the partitions that are added, and with another replication factor
  every partition of the topic; otherwise it may leave out partitions that are there.
- "No change" of the replication factor holds for an assignment too. Each list is as long as the
  partition's present one. The list of a new partition is as long as that of the first partition.
- Fewer partitions are INVALID_PARTITIONS: taking partitions away is KIP-694's.
- A broker that is not up is known by the replicas of this topic that it hosts; any other is
  UNKNOWN_MEMBER_ID.
- The draft announces an error for what moves already and gives it no number; it is
  REASSIGNMENT_IN_PROGRESS here. This code refuses another move of the partition. It also refuses
  to add partitions to a topic of which any moves. Brokers count the replicas of a partition that
  moves twice, and would give new partitions too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.domain.cluster.assignment import ClusterState, partition_states
from kshunt.backend.domain.cluster.metadata import (
    Broker,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.topics.alteration import UNCHANGED, AlteredTopic
from kshunt.backend.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from kshunt.backend.placement.generate import generate_assignment, usable_brokers

ADDED_MAX: Final = 10_000
"""Most partitions that one request may add (Kafka's MAX_PARTITIONS_PER_BATCH)."""

Replicas: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicToAlter:
    """One topic and its cluster, before the alteration."""

    name: str
    states: Mapping[int, PartitionState]
    ongoing: Mapping[int, OngoingReassignment]
    """The partitions that move."""
    live: Mapping[int, Broker]
    """Brokers that are registered and not fenced."""
    error: str = ""
    """Kafka's error name, for a topic that is not described."""

    @property
    def known(self) -> frozenset[int]:
        """The brokers that there are, as far as one can see from here."""
        hosts = {broker for state in self.states.values() for broker in state.replicas}
        return frozenset(hosts | self.live.keys())

    @property
    def factor(self) -> int:
        """The replication factor of the first partition, which is the topic's."""
        return len(self.present(min(self.states)))

    def present(self, number: int) -> Replicas:
        """Where a partition is, or is on its way to."""
        move = self.ongoing.get(number)
        return self.states[number].replicas if move is None else move.target


@dataclass(frozen=True, slots=True)
class ReplicaChooser:
    """A placer (KIP-660) that names brokers in place of the cluster and of the round robin here."""

    lists: Callable[[TopicToAlter, Sequence[int], int], Mapping[int, Replicas]]
    """From a topic, the numbers of some of its partitions, and how many replicas, to a list for
    each. Raises an error of `kshunt.backend.placement.placer` where it cannot."""
    ignores_racks: bool = False


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to be done to one topic."""

    count: int
    """Partitions that it is to have."""
    added: int
    created: Sequence[Replicas] | None
    """What the added partitions are created with: the same number of replicas as the others have,
    for a broker takes no other number. None: the cluster places them."""
    targets: Mapping[int, Replicas]
    """What is to be reassigned, and to where; among them added partitions that are to have
    more or fewer replicas than they were created with."""
    original: Mapping[int, Replicas]
    """Where the partitions that are reassigned are, or are created."""
    named: bool = True
    """False where a cluster with AlterTopics chooses brokers itself."""

    @property
    def changes(self) -> bool:
        """False if the topic is already as the request asks."""
        return self.added > 0 or bool(self.targets)


def scenes_of(
    topics: Sequence[str],
    state: ClusterState,
    ongoing: Mapping[TopicPartition, OngoingReassignment],
) -> dict[str, TopicToAlter]:
    """What the cluster says, by topic."""
    states: dict[str, dict[int, PartitionState]] = {topic: {} for topic in topics}
    for (topic, number), found in partition_states(state.assignment).items():
        states[topic][number] = found
    moves: dict[str, dict[int, OngoingReassignment]] = {topic: {} for topic in topics}
    for (topic, number), move in ongoing.items():
        if number in states.get(topic, {}):
            moves[topic][number] = move
    return {
        topic: TopicToAlter(
            topic, states[topic], moves[topic], state.brokers, state.topic_errors.get(topic, "")
        )
        for topic in topics
    }


def to_place(wanted: AlteredTopic, scene: TopicToAlter) -> bool:
    """Whether the request leaves it open where some replicas go."""
    if wanted.assignments or not scene.states:
        return False
    factor = wanted.replication_factor
    return wanted.partitions > len(scene.states) or any(
        len(scene.present(number)) < factor for number in scene.states
    )


def decided(
    wanted: AlteredTopic, scene: TopicToAlter, random: Random, chooser: ReplicaChooser | None = None
) -> Alteration | ItemResult:
    """What is to be done to a topic, or why it cannot be.

    Raises:
        InvalidReplicationFactor, ReplicaPlacementFailed: the `chooser` cannot place replicas.
    """
    refused = next((found for found in _refusals(wanted, scene) if not found.ok), None)
    if refused is not None:
        return refused
    alteration = _planned(wanted, scene, random, chooser)
    if alteration is None:
        return item_result(
            INVALID_REPLICATION_FACTOR,
            f"{len(scene.live)} brokers are up, which is too few for {wanted.replication_factor} "
            "replicas",
        )
    moving = scene.ongoing.keys() if alteration.added else scene.ongoing.keys() & alteration.targets
    if moving:
        partition = TopicPartition(scene.name, min(moving))
        return item_result(REASSIGNMENT_IN_PROGRESS, f"{partition} is already being reassigned")
    return alteration


def _refusals(wanted: AlteredTopic, scene: TopicToAlter) -> Iterator[ItemResult]:
    """Each check in turn; a later one may rely on those before it."""
    yield _check_topic(scene)
    yield _check_leaving(scene)
    yield _check_partitions(wanted, scene)
    yield _check_factor(wanted, scene)
    if wanted.assignments:
        yield _check_brokers(wanted, scene)
        yield _check_numbers(wanted, scene)
        for number, replicas in wanted.assignments.items():
            yield _check_list(wanted, scene, number, tuple(replicas))


def _check_topic(scene: TopicToAlter) -> ItemResult:
    if scene.states:
        return OK
    if scene.error == "TOPIC_AUTHORIZATION_FAILED":
        return item_result(
            CLUSTER_AUTHORIZATION_FAILED, f"kshunt is not authorized to see topic {scene.name}"
        )
    return item_result(INVALID_TOPIC_EXCEPTION, f"there is no topic {scene.name}")


def _check_leaving(scene: TopicToAlter) -> ItemResult:
    leaving = [number for number, state in sorted(scene.states.items()) if not state.stays]
    if not leaving:
        return OK
    why = f"partition {TopicPartition(scene.name, leaving[0])} is about to be deleted"
    return item_result(
        INVALID_PARTITIONS, f"{why}; wait until it is deleted, or cancel its deletion"
    )


def _check_partitions(wanted: AlteredTopic, scene: TopicToAlter) -> ItemResult:
    present, count = len(scene.states), _count(wanted, scene)
    if count < present:
        why = (
            f"topic {scene.name} has {present} partitions, and an alteration cannot change that "
            f"to {count}"
        )
        return item_result(INVALID_PARTITIONS, why)
    if count - present > ADDED_MAX:
        why = f"{count - present} partitions are more than the {ADDED_MAX} that one request can add"
        return item_result(INVALID_PARTITIONS, why)
    return OK


def _check_factor(wanted: AlteredTopic, scene: TopicToAlter) -> ItemResult:
    factor, brokers = wanted.replication_factor, len(scene.known)
    if factor == UNCHANGED or 1 <= factor <= brokers:
        return OK
    return item_result(
        INVALID_REPLICATION_FACTOR, f"{brokers} brokers cannot hold {factor} replicas"
    )


def _check_brokers(wanted: AlteredTopic, scene: TopicToAlter) -> ItemResult:
    named = {broker for replicas in wanted.assignments.values() for broker in replicas}
    if strangers := sorted(named - scene.known):
        names = ", ".join(map(str, strangers))
        return item_result(UNKNOWN_MEMBER_ID, f"no live broker has the id {names}")
    return OK


def _check_numbers(wanted: AlteredTopic, scene: TopicToAlter) -> ItemResult:
    count, factor = _count(wanted, scene), wanted.replication_factor
    needed = set(range(count))
    if factor == UNCHANGED or all(len(scene.present(n)) == factor for n in scene.states):
        needed -= scene.states.keys()
    given = wanted.assignments.keys()
    if missing := sorted(needed - given):
        why = f"partition {missing[0]} is not in the assignment"
    elif beyond := sorted(given - set(range(count))):
        why = f"partition {beyond[0]} is in the assignment, but the topic is to have {count}"
    else:
        return OK
    return item_result(INVALID_REPLICA_ASSIGNMENT, why)


def _check_list(
    wanted: AlteredTopic, scene: TopicToAlter, number: int, replicas: Replicas
) -> ItemResult:
    length = wanted.replication_factor
    if length == UNCHANGED:
        length = len(scene.present(number)) if number in scene.states else scene.factor
    if not replicas or len(set(replicas)) < len(replicas):
        why = f"{list(replicas)} is not a valid replica list"
    elif len(replicas) != length:
        why = f"partition {number} is given {list(replicas)}, but must have {length} replicas"
    elif number not in scene.states and scene.live.keys().isdisjoint(replicas):
        why = f"no broker of {list(replicas)} is up, for the new partition {number}"
    else:
        return OK
    return item_result(INVALID_REPLICA_ASSIGNMENT, why)


def _count(wanted: AlteredTopic, scene: TopicToAlter) -> int:
    return len(scene.states) if wanted.partitions == UNCHANGED else wanted.partitions


def _planned(
    wanted: AlteredTopic, scene: TopicToAlter, random: Random, chooser: ReplicaChooser | None
) -> Alteration | None:
    """What is to be done, or None if there are not brokers enough."""
    count, present = _count(wanted, scene), len(scene.states)
    factor = scene.factor if wanted.replication_factor == UNCHANGED else wanted.replication_factor
    numbers = range(present, count)
    if wanted.assignments:
        lists = {number: tuple(replicas) for number, replicas in wanted.assignments.items()}
    elif chooser is not None:
        lists = _chosen(wanted, scene, numbers, chooser)
    elif wanted.replication_factor == UNCHANGED:
        lists = {}
    else:
        lists = _placed(scene, numbers if factor != scene.factor else (), factor, random)
    if any(len(lists[n]) < factor for n in lists if not wanted.assignments):
        return None
    placed = all(number in lists for number in numbers)
    spare = [*sorted(scene.live), *sorted(scene.known - scene.live.keys())]
    created = [_fitted(lists[n], scene.factor, spare) for n in numbers] if placed else None
    original = {number: scene.present(number) for number in scene.states}
    original |= dict(zip(numbers, created or (), strict=False))
    targets = {n: lists[n] for n in sorted(lists) if lists[n] != original[n]}
    return Alteration(
        count,
        len(numbers),
        created,
        targets,
        {number: original[number] for number in targets},
        named=bool(wanted.assignments),
    )


def _placed(
    scene: TopicToAlter, numbers: Sequence[int], factor: int, random: Random
) -> dict[int, Replicas]:
    """Lists of `factor` replicas, as far as there are brokers, for the partitions that need one.

    What is there stays there: a partition loses its last replicas, or gains some.
    """
    wrong = [n for n in scene.states if len(scene.present(n)) != factor]
    fresh = _striped(scene, [*wrong, *numbers], factor, random)
    racks = {broker.id: broker.rack for broker in scene.live.values()}
    resized = {n: _resized(scene.present(n), fresh[n], factor, racks) for n in wrong}
    return resized | {number: fresh[number] for number in numbers}


def _chosen(
    wanted: AlteredTopic, scene: TopicToAlter, numbers: Sequence[int], chooser: ReplicaChooser
) -> dict[int, Replicas]:
    """As `_placed`, by a placer, and for added partitions whatever the factor."""
    factor = wanted.replication_factor
    if factor == UNCHANGED:
        return dict(chooser.lists(scene, numbers, scene.factor))
    wrong = [n for n in sorted(scene.states) if len(scene.present(n)) != factor]
    growing = [n for n in wrong if len(scene.present(n)) < factor]
    # A list of full length has enough new brokers, whichever of them a partition has already.
    fresh = chooser.lists(scene, growing, min(factor, len(scene.live)))
    racks = {broker.id: broker.rack for broker in scene.live.values()}
    racks = {} if chooser.ignores_racks else racks
    resized = {n: _resized(scene.present(n), fresh.get(n, ()), factor, racks) for n in wrong}
    return resized | dict(chooser.lists(scene, numbers, factor))


def _striped(
    scene: TopicToAlter, numbers: Sequence[int], factor: int, random: Random
) -> dict[int, Replicas]:
    """Round robin over the brokers that are up; racks alternate if every broker has one."""
    if not scene.live or not numbers:
        return dict.fromkeys(numbers, ())
    rack_aware = all(broker.rack is not None for broker in scene.live.values())
    brokers = usable_brokers(scene.live, sorted(scene.live), rack_aware=rack_aware)
    size = range(min(factor, len(brokers)))
    wanted = {TopicPartition(scene.name, number): size for number in numbers}
    placed = generate_assignment(wanted, brokers, random)
    return {partition.partition: replicas for partition, replicas in placed.items()}


def _resized(
    present: Replicas, fresh: Replicas, factor: int, racks: Mapping[int, str | None]
) -> Replicas:
    """The first of the present replicas; or all of them and some fresh ones, new racks first."""
    covered = {racks.get(broker) for broker in present}
    more = [broker for broker in fresh if broker not in present]
    more.sort(key=lambda broker: racks.get(broker) in covered)
    return (*present, *more)[:factor]


def _fitted(replicas: Replicas, length: int, spare: Sequence[int]) -> Replicas:
    """The list cut, or filled up with any brokers, to another length."""
    more = [broker for broker in spare if broker not in replicas]
    return (*replicas, *more)[:length]
