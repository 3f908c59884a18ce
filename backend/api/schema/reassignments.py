"""Moves and generated plans as the API answers them."""

from __future__ import annotations

from msgspec import Struct

from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.reassignment.answers import GeneratedPlan


class MovingPartition(Struct, frozen=True):
    """A partition that moves."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The target, followed by the replicas that are being removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @classmethod
    def of(cls, move: OngoingReassignment) -> MovingPartition:
        """As the API has it."""
        return cls(
            move.partition.topic,
            move.partition.partition,
            move.replicas,
            move.adding,
            move.removing,
        )

    def move(self) -> OngoingReassignment:
        """The opposite of `of`."""
        name = TopicPartition(self.topic, self.partition)
        return OngoingReassignment(name, self.replicas, self.adding, self.removing)


class MovingPartitions(Struct, frozen=True):
    """Every partition that moves."""

    reassignments: tuple[MovingPartition, ...]


class GeneratedPlans(Struct, frozen=True):
    """Both plans of `--generate`."""

    current: PlanDocument
    """Kafka's JSON of where the partitions are."""
    proposed: PlanDocument
    """Kafka's JSON of where they would be."""
    notes: tuple[str, ...] = ()
    """What was left out of both."""

    @classmethod
    def of(cls, generated: GeneratedPlan) -> GeneratedPlans:
        """As the API has them."""
        current, proposed = map(PlanDocument.of, (generated.current, generated.proposed))
        return cls(current, proposed, generated.notes)

    def plans(self) -> GeneratedPlan:
        """The opposite of `of`."""
        return GeneratedPlan(self.current.plan(), self.proposed.plan(), self.notes)
