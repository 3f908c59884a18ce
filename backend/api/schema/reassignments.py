"""Moves and plans as the API answers them: what moves, how far it is, and whether it is done."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.reassignment.answers import GeneratedPlan, ProgressRow
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd


@dataclass(frozen=True, slots=True)
class MovingPartition:
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


@dataclass(frozen=True, slots=True)
class MovingPartitions:
    """Every partition that moves."""

    reassignments: tuple[MovingPartition, ...]


@dataclass(frozen=True, slots=True)
class ProgressRows:
    """The lines of `--progress`."""

    rows: tuple[ProgressRow, ...]
    expected_end: ExpectedEnd | None = None
    """When the plan will be done, with whatever its operation moves; null where nothing of it
    moves, or where nobody has watched it."""
    forecast_record: ForecastRecord | None = None
    """How often forecasts of this cluster were right; null without a backend."""


@dataclass(frozen=True, slots=True)
class GeneratedPlans:
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
