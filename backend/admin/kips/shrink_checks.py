"""What speaks against taking partitions away, before the cluster is asked. No effect, no client.

Kafka has no such request, and its seed (KIP-694) names no errors; the codes are those that Kafka
gives where partitions are added: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS,
REASSIGNMENT_IN_PROGRESS, INVALID_REQUEST for a delay that cannot be meant, and
INVALID_TOPIC_EXCEPTION for an internal topic: Kafka finds a group's coordinator by the number of
partitions, so with fewer of them committed offsets would be looked for where they are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backend.admin.port.cluster_admin import ItemResult
from backend.admin.port.item_result import UNKNOWN_TOPIC_OR_PARTITION
from backend.admin.rpc.error_mapping import item_result
from backend.domain.cluster.metadata import TopicPartition
from backend.domain.cluster.partition_modes import PartitionMode
from backend.domain.shrink.delete_partitions import (
    DELAY_MS_MAX,
    NO_PARTITION,
    DeletedPartition,
    DeletePartitions,
)
from backend.domain.topics.descriptions import INTERNAL_TOPICS

INVALID_TOPIC_EXCEPTION: Final = 17
INVALID_PARTITIONS: Final = 37
INVALID_REQUEST: Final = 42
REASSIGNMENT_IN_PROGRESS: Final = 60


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of one topic, as they are before the request."""

    modes: Mapping[int, PartitionMode]
    """By number; empty for a topic that there is not."""
    moving: Collection[int]
    """Those that a reassignment moves."""

    @property
    def open(self) -> Sequence[int]:
        """Those whose data is not being deleted."""
        return sorted(n for n, mode in self.modes.items() if mode is not PartitionMode.NONE)


@dataclass(frozen=True, slots=True)
class Shrink:
    """What a request comes to for one topic."""

    goes: Sequence[int]
    """The partitions that go, or have their delay set anew."""
    stays: Sequence[int]
    """Partitions that were to go, and do not."""
    mode: PartitionMode
    """What the first ones become."""

    def results(self, topic: str) -> dict[TopicPartition, DeletedPartition]:
        """What is said of each partition if nothing comes in between."""
        found = dict.fromkeys(self.stays, DeletedPartition(PartitionMode.READ_WRITE))
        found |= dict.fromkeys(self.goes, DeletedPartition(self.mode))
        return {TopicPartition(topic, number): one for number, one in sorted(found.items())}


def decided(
    topic: str, wanted: DeletePartitions, present: Partitions
) -> Shrink | tuple[int, DeletedPartition]:
    """What is to be done; or what refuses it, and the partition at fault or `NO_PARTITION`."""
    refusal = _refused(topic, wanted, present)
    if refusal is not None:
        return NO_PARTITION, deleted(refusal)
    count = wanted.total_count
    goes = [number for number in present.open if number >= count]
    for number in goes:
        if number in present.moving:
            why = f"The partition {topic}-{number} is being reassigned."
            mode = present.modes[number]
            return number, deleted(item_result(REASSIGNMENT_IN_PROGRESS, why), mode)
    leaving = PartitionMode.READ_ONLY
    stays = [n for n in present.open if n < count and present.modes[n] is leaving]
    return Shrink(goes, stays, leaving if wanted.delay_ms else PartitionMode.NONE)


def _refused(topic: str, wanted: DeletePartitions, present: Partitions) -> ItemResult | None:
    """What refuses the topic as a whole."""
    count, there = wanted.total_count, len(present.open)
    if not 0 <= wanted.delay_ms <= DELAY_MS_MAX:
        return item_result(INVALID_REQUEST, f"{wanted.delay_ms} ms is no delay.")
    if not present.modes:
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
    if topic in INTERNAL_TOPICS:
        why = f"{topic} is internal: Kafka finds what is in it by the number of its partitions."
        return item_result(INVALID_TOPIC_EXCEPTION, why)
    if count < 1:
        return item_result(INVALID_PARTITIONS, "A topic keeps at least one partition.")
    leaving = PartitionMode.READ_ONLY in present.modes.values()
    if count > there or (count == there and not leaving):
        why = f"The topic {topic} currently has {there} partition(s); {count} would not be fewer."
        return item_result(INVALID_PARTITIONS, why)
    return None


def deleted(result: ItemResult, mode: PartitionMode = PartitionMode.READ_WRITE) -> DeletedPartition:
    """The result of one item as that of a partition."""
    return DeletedPartition(mode, result.error_code, result.error_name, result.message)
