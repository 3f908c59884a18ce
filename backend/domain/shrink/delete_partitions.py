"""A topic loses its last partitions (KIP-694): what is asked, and what comes of it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result

NO_PARTITION: Final = -1
"""Stands for all of a topic, where the topic itself is refused."""
DELAY_MS_MAX: Final = 2**53
"""The longest delay that every JSON reader can hold."""

KEYED: Final = (
    "WARNING: If partitions are decreased for a topic that has a key, the partition logic or "
    "ordering of the messages will be affected"
)
"""The seed has Kafka's own words here, which say `increased`."""
NOT_ENABLED: Final = (
    "WARNING: This feature is only enabled with Metadata version above 10 and "
    "delete.topic.partition.enable turned on"
)
COPIED: Final = (
    "WARNING: This cluster cannot delete partitions. The topic's records are copied, and the "
    "topic is created again"
)
"""In place of `NOT_ENABLED`, where a smaller number of partitions is reached by a copy."""
NO_DELAY: Final = (
    "WARNING: Without a delay, producers may still write to the partitions when they are "
    "deleted. A delay, such as 5 minutes, prevents that."
)
"""Of a topic that shrinks by a copy."""
NOT_COPIED: Final = (
    "WARNING: The cluster deletes partitions itself and copies nothing, so a partitioner has no "
    "effect"
)
UNDER_CHANGES: Final = "WARNING: The topic is currently under changes"


GOES: Final[Mapping[PartitionMode, str]] = {
    PartitionMode.READ_WRITE: "stays",
    PartitionMode.READ_ONLY: "can still be read, and is deleted when its delay is over",
    PartitionMode.NONE: "is deleted immediately, with its records",
}
"""What becomes of a partition that a request to delete some is about, in words."""


class ShrinkSupport(enum.StrEnum):
    """Whether a cluster deletes partitions by itself."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    """It could, and `delete.topic.partition.enable` is false."""
    UNSUPPORTED = "unsupported"
    """It has no DeletePartitions, as no Apache Kafka has."""


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """How far a topic is to shrink, and when."""

    total_count: int
    """How many partitions it keeps, the first ones."""
    delay_ms: int | None = None
    """How long the others can still be read, but not written to, in milliseconds. With 0 the
    cluster deletes them immediately. None: those that are leaving already keep the time that was
    promised. Others go with the last of them, or immediately where none is leaving."""


@dataclass(frozen=True, slots=True)
class DeletedPartition:
    """What became of one partition, or of a topic that is refused (`NO_PARTITION`)."""

    mode: PartitionMode
    """Its mode from here on; ReadWrite where its deletion was cancelled."""
    error_code: int = 0
    """Kafka's protocol error code; 0 is success."""
    error_name: str = "NONE"
    message: str = ""
    """The broker's own words where it sent any, or ours."""

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error_code == 0


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """The result for a partition, as an answer says it."""

    topic: str
    partition: int
    """-1 is a topic that is refused as a whole."""
    mode: PartitionMode
    """Its mode from here on; ReadWrite where its deletion was cancelled."""
    mode_name: str
    error_code: int
    """Kafka's protocol error code; 0 is success."""
    error_name: str
    message: str
    """The broker's own words where it sent any, or ours."""

    @classmethod
    def of(cls, partition: TopicPartition, deleted: DeletedPartition) -> PartitionDeletion:
        """What became of this partition."""
        mode = deleted.mode
        said = deleted.error_code, deleted.error_name, deleted.message
        return cls(partition.topic, partition.partition, mode, str(mode), *said)

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error_code == 0

    @property
    def name(self) -> str:
        """The partition, or the topic that is refused as a whole."""
        whole = self.partition == NO_PARTITION
        return self.topic if whole else str(TopicPartition(self.topic, self.partition))

    def as_result(self) -> Result:
        """As every other change says what became of an item."""
        words = self.message or (GOES[self.mode] if self.ok else "")
        return Result(self.name, self.error_code, self.error_name, words)


@dataclass(frozen=True, slots=True)
class ShrinkAnswer:
    """The result of a request for each partition, and whether it was only checked."""

    validate_only: bool
    operation_id: str | None
    partitions: tuple[PartitionDeletion, ...]
    notes: tuple[str, ...] = ()
    """The seed's warnings, as far as they apply."""

    @property
    def failures(self) -> tuple[PartitionDeletion, ...]:
        """What did not succeed."""
        return tuple(one for one in self.partitions if not one.ok)

    def as_change(self) -> ChangeAnswer:
        """What became of each partition, as every other change says it."""
        results = tuple(one.as_result() for one in self.partitions)
        return ChangeAnswer(self.validate_only, self.operation_id, results, self.notes)


def deletions_of(
    found: Mapping[TopicPartition, DeletedPartition],
) -> tuple[PartitionDeletion, ...]:
    """What became of partitions, as an answer says it."""
    return tuple(PartitionDeletion.of(*one) for one in found.items())


def shrink_warnings(support: ShrinkSupport, *, changing: bool) -> Iterator[str]:
    """The seed's warnings for a topic that is to shrink, as far as they apply, and ours.

    Whether its records have keys cannot be known without reading them, so that warning always
    applies, as it does in Kafka's tool when partitions are added.
    """
    yield KEYED
    if support is ShrinkSupport.DISABLED:
        yield NOT_ENABLED
    if support is ShrinkSupport.UNSUPPORTED:
        yield COPIED
    if changing:
        yield UNDER_CHANGES
