"""One partition as the data plane has it, and what the store of batches learns about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kshunt.backend.embedded.logs.partition_log import PartitionLog
from kshunt.backend.embedded.metadata.image_values import PartitionKey
from kshunt.backend.embedded.metadata.records import NO_LEADER


@dataclass(slots=True)
class HostedPartition:
    """One partition, as replication has it."""

    topic: str
    topic_id: str
    number: int
    row: int
    """Of `Replication.partitions`."""
    replicas: dict[int, int] = field(default_factory=dict)
    """Row of `Replication.replicas` by broker."""
    leader: int = NO_LEADER
    leader_epoch: int = -1
    log: PartitionLog | None = None
    """None until a client comes."""
    record_bytes: int = 1_000
    """Size of the records that a scenario writes."""
    synced_ms: int = 0
    """Up to when the scenario's records are in the log."""

    @property
    def key(self) -> PartitionKey:
        """The partition by its topic's id and its number."""
        return self.topic_id, self.number


class BatchSink(Protocol):
    """Where real batches go to survive the process."""

    def appended(self, held: HostedPartition, batch: bytes) -> None:
        """A batch is at its place in the log."""
        ...

    def shortened(self, held: HostedPartition) -> None:
        """A log was cut back, or lost its front."""
        ...

    def dropped(self, held: HostedPartition) -> None:
        """A partition is gone."""
        ...


class ThrottledList:
    """A topic's throttled replica list: `partition:broker` pairs, or `*` for all (KIP-73)."""

    def __init__(self, value: str) -> None:
        text = value.replace(" ", "")
        self._all = text == "*"
        self._pairs = frozenset(text.split(",")) if text not in ("", "*", "none") else frozenset()

    def has(self, number: int, broker: int) -> bool:
        """Whether a replica is listed."""
        return self._all or (bool(self._pairs) and f"{number}:{broker}" in self._pairs)
