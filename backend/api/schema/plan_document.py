"""Kafka's reassignment JSON, as the API answers it and takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan

ANY: Final = "any"
"""A broker may put a replica into any of its log directories."""


class PlanEntry(Struct, frozen=True, omit_defaults=True):
    """One partition of a plan."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """Brokers by id; the first is the preferred leader."""
    log_dirs: tuple[str, ...] | None = None
    """By replica; absent where any directory will do."""


class PlanDocument(Struct, frozen=True, omit_defaults=True):
    """Kafka's reassignment JSON."""

    version: int
    partitions: tuple[PlanEntry, ...]
    cluster_id: str | None = None
    """Of the cluster that the plan was made for; kshunt rejects it elsewhere."""

    @classmethod
    def of(cls, plan: ReassignmentPlan) -> PlanDocument:
        """A plan, `log_dirs` only where it names one."""
        return cls(1, tuple(_entries(plan)), plan.cluster_id)

    def plan(self) -> ReassignmentPlan:
        """The plan, read without the checks that an operator's file needs."""
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        log_dirs: dict[tuple[TopicPartition, int], str] = {}
        for entry in self.partitions:
            partition = TopicPartition(entry.topic, entry.partition)
            replicas[partition] = entry.replicas
            for broker, path in zip(entry.replicas, entry.log_dirs or (), strict=False):
                if path != ANY:
                    log_dirs[partition, broker] = path
        return ReassignmentPlan(replicas, log_dirs)


def _entries(plan: ReassignmentPlan) -> Iterable[PlanEntry]:
    for partition, target in plan.replicas.items():
        paths = tuple(plan.log_dirs.get((partition, broker), ANY) for broker in target)
        named = paths if any(path != ANY for path in paths) else None
        yield PlanEntry(partition.topic, partition.partition, tuple(target), named)
