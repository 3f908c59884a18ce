"""AlterTopics, the verb of KIP-179's early draft: partitions, replication factor, assignment.

The newest KIP-179 dropped it (its Rejected Alternatives say so); the early draft is all there is.
CLUSTER_AUTHORIZATION_FAILED, the sixth of its errors, is left to `handlers.security`, which knows
the principal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    DirChooser,
    PartitionChangeBuilder,
)
from kshunt.backend.embedded.controller.replica_placement import (
    Placement,
    check_replicas,
    place,
    striped_placement,
)
from kshunt.backend.embedded.controller.throttled_reassign import move_draft, move_records
from kshunt.backend.embedded.controller.topics import NewPartitions, added_partitions, check_batch
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import Record

UNCHANGED = -1
"""A count that does not change."""


@dataclass(frozen=True, slots=True)
class AlterTopicsEntry:
    """One topic of an AlterTopics request."""

    topic: str
    partitions: int = UNCHANGED
    replicas: int = UNCHANGED
    """The replication factor."""
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Replica lists by partition; empty to have the controller place what must be placed."""


def alter_topics(
    image: ClusterImage,
    topics: Sequence[AlterTopicsEntry],
    random: Random,
    *,
    placement: Placement = striped_placement,
    validate_only: bool = False,
) -> Decision[str]:
    """Alter topics, each wholly or not at all; a success says that the alteration has begun.

    An assignment may leave out partitions that exist, if their replication factor stays; one for
    new partitions must name all of them. Fewer partitions are INVALID_PARTITIONS here:
    `delete_partitions` shrinks a topic.

    INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, UNKNOWN_MEMBER_ID
    for a broker that is not registered, INVALID_REPLICA_ASSIGNMENT; and
    REASSIGNMENT_IN_PROGRESS, which the draft announces without listing it.
    """
    added: list[Record] = []
    drafts: list[PartitionChangeBuilder] = []
    results: list[DecidedItem[str]] = []
    dirs = DirChooser(image)
    times = Counter(request.topic for request in topics)
    for request in topics:
        try:
            if times[request.topic] > 1:
                raise ItemRefused(KafkaError.INVALID_REQUEST, "Duplicate topic name.")
            change = _CheckedTopic(image, request, random, placement, dirs)
            new, moves = change.partitions(), change.moves()
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(request.topic, refusal))
            continue
        added += new
        drafts += moves
        results.append(DecidedItem(request.topic))
    moved = move_records(image, drafts, {}, None, remove_throttle=True)
    return Decision.of([*added, *moved], results, validate_only=validate_only)


class _CheckedTopic:
    """One topic's alteration, checked when it is made."""

    def __init__(
        self,
        image: ClusterImage,
        request: AlterTopicsEntry,
        random: Random,
        placement: Placement,
        dirs: DirChooser,
    ) -> None:
        topic = image.topic(request.topic)
        if topic is None:
            message = f"There is no topic {request.topic}."
            raise ItemRefused(KafkaError.INVALID_TOPIC_EXCEPTION, message)
        self._image, self._request, self._topic = image, request, topic
        self._random, self._placement, self._dirs = random, placement, dirs
        present = len(topic.partitions)
        self._factor = len(topic.partitions[min(topic.partitions)].target)
        self._count = present if request.partitions == UNCHANGED else request.partitions
        self._check_counts(present)
        self._check_assignment()

    def partitions(self) -> list[Record]:
        """The records of the partitions that are added, with the factor that is wanted."""
        present, name = len(self._topic.partitions), self._topic.name
        new = self._count - present
        if not new:
            return []
        given = self._request.assignment
        wanted = self._wanted_factor()
        lists = (
            [given[number] for number in range(present, self._count)]
            if given
            else place(self._image, new, wanted, self._placement, self._random, present, topic=name)
        )
        request = NewPartitions(self._count, lists)
        return list(
            added_partitions(
                self._image,
                name,
                request,
                self._random,
                self._placement,
                self._dirs,
                replication_factor=wanted,
            )
        )

    def moves(self) -> list[PartitionChangeBuilder]:
        """The partitions that exist, on their way to what is wanted of them."""
        return [
            move_draft(self._image, TopicPartition(self._topic.name, number), target, self._dirs)
            for number, target in sorted(self._targets().items())
        ]

    def _targets(self) -> dict[int, Sequence[int]]:
        present = self._topic.partitions
        if self._request.assignment:
            return {n: b for n, b in self._request.assignment.items() if n in present}
        wanted = self._wanted_factor()
        wrong = {n: p.target for n, p in sorted(present.items()) if len(p.target) != wanted}
        growing = [number for number, replicas in wrong.items() if len(replicas) < wanted]
        fresh = dict(zip(growing, self._fresh(len(growing), wanted), strict=True))
        return {
            number: self._resized(replicas, fresh.get(number, ()), wanted)
            for number, replicas in wrong.items()
        }

    def _fresh(self, partitions: int, wanted: int) -> Sequence[Sequence[int]]:
        """Lists of brokers for partitions that are to have more replicas.

        In one question: the default begins each of them after the topic's last partition, and
        would name the same brokers for all.
        """
        if not partitions:
            return ()
        running = sum(not broker.fenced for broker in self._image.brokers.values())
        # The number that is wanted is enough new ones, whichever of them are there already.
        return place(
            self._image,
            partitions,
            min(wanted, running),
            self._placement,
            self._random,
            topic=self._topic.name,
            running_only=True,
        )

    def _resized(
        self, replicas: tuple[int, ...], fresh: Sequence[int], wanted: int
    ) -> tuple[int, ...]:
        """The first replicas, or all and then some of a fresh placement."""
        more = [broker for broker in fresh if broker not in replicas]
        resized = (*replicas, *more)[:wanted]
        if len(resized) < wanted:
            message = f"Only {len(resized)} brokers are there for {wanted} replicas."
            raise ItemRefused(KafkaError.INVALID_REPLICATION_FACTOR, message)
        return resized

    def _wanted_factor(self) -> int:
        return self._factor if self._request.replicas == UNCHANGED else self._request.replicas

    def _check_counts(self, present: int) -> None:
        if self._count < present or self._count < 1:
            message = f"Topic {self._topic.name} has {present} partitions; they cannot become "
            raise ItemRefused(KafkaError.INVALID_PARTITIONS, f"{message}{self._count} here.")
        check_batch(self._count - present)
        factor = self._request.replicas
        if factor != UNCHANGED and not 1 <= factor <= len(self._image.brokers):
            raise ItemRefused(
                KafkaError.INVALID_REPLICATION_FACTOR,
                f"{len(self._image.brokers)} brokers cannot hold {factor} replicas.",
            )

    def _check_assignment(self) -> None:
        given, present = self._request.assignment, self._topic.partitions
        if not given:
            return
        unknown = sorted(
            {b for replicas in given.values() for b in replicas} - set(self._image.brokers)
        )
        if unknown:
            message = f"Broker {unknown[0]} is not known."
            raise ItemRefused(KafkaError.UNKNOWN_MEMBER_ID, message)
        resizes = self._wanted_factor() != self._factor
        needed = set(range(self._count)) - (set() if resizes else set(present))
        if not needed <= set(given) <= set(range(self._count)):
            raise ItemRefused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"The assignment must name the partitions {sorted(needed)}, and none beyond "
                f"{self._count - 1}.",
            )
        factor = None if self._request.replicas == UNCHANGED else self._request.replicas
        for replicas in given.values():
            check_replicas(self._image, replicas, factor)
