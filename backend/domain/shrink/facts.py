"""What is known of a topic that is to have fewer partitions; read at one moment.

What was not read is None or absent, and said so in `unread`; it is never taken for zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.cluster.config_names import CLEANUP_POLICY, RETENTION_MS
from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    ConsumerGroup,
    PartitionOffsets,
    RecordSample,
)
from kshunt.backend.domain.topics.partitioners import KeysSeen, Partitioner

COPY_RATE_BYTES_PER_S: Final = 20e6
"""What a copy is assumed to do where nobody says better; slow on purpose, because it decides
whether retention overtakes the copy."""
COPY_START_MS: Final = 15_000
"""Before its first record: a Java that starts, and Spark in it."""
WRITTEN_WITHIN_MS: Final = 300_000
"""So recent is a producer that is taken to be writing; KIP-694's own delay."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of the topic."""

    number: int
    leader: int
    """Broker id, or `NO_BROKER`."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    moving: bool = False
    """True while a reassignment moves it."""
    mode: PartitionMode = PartitionMode.READ_WRITE
    size_bytes: int | None = None
    """Of its log on its leader's disk, without what is in a remote tier."""
    offsets: PartitionOffsets | None = None
    later_end: int | None = None
    """Its end once more, `ShrinkFacts.watched_ms` later."""
    producers: tuple[ActiveProducer, ...] | None = None
    """None where its leader does not say."""

    @property
    def records(self) -> int | None:
        """Offsets between start and end: no fewer than its records.

        Compaction and aborted transactions leave gaps, and each transaction ends with a marker.
        """
        return None if self.offsets is None else self.offsets.end - self.offsets.start


@dataclass(frozen=True, slots=True)
class ShrinkFacts:
    """All that a check is made from."""

    topic: str
    wanted: int
    """How many partitions the request keeps: any number."""
    now_ms: int
    partitions: tuple[PartitionFacts, ...]
    """By number; empty where there is no such topic."""
    support: ShrinkSupport = ShrinkSupport.UNSUPPORTED
    configs: Mapping[str, str] = field(default_factory=dict)
    """What is in force for the topic; empty where it could not be read."""
    groups: tuple[ConsumerGroup, ...] = ()
    dirs: tuple[LogDir, ...] = ()
    """Of the brokers that are up and said so."""
    live: frozenset[int] = frozenset()
    """Brokers that are up."""
    sample: RecordSample | None = None
    watched_ms: int = 0
    """How long lay between the two readings of the ends."""
    copy_rate_bytes_per_s: float = COPY_RATE_BYTES_PER_S
    partitioner: Partitioner | None = None
    """The one that an operator chose; None: by what is found."""
    written_within_ms: int = WRITTEN_WITHIN_MS
    unread: Mapping[str, str] = field(default_factory=dict)
    """What could not be read, and why."""

    @property
    def there(self) -> tuple[PartitionFacts, ...]:
        """The partitions without those whose data is being deleted already."""
        return tuple(one for one in self.partitions if one.mode is not PartitionMode.NONE)

    @property
    def doomed(self) -> tuple[PartitionFacts, ...]:
        """The partitions that would go."""
        return tuple(one for one in self.there if one.number >= max(self.wanted, 1))

    @property
    def keys_seen(self) -> KeysSeen:
        """The distinct keys among the last records."""
        return KeysSeen() if self.sample is None else self.sample.seen

    @property
    def places_by(self) -> Partitioner:
        """The partitioner by which a copy places the keys."""
        _, found = self.keys_seen.followed()
        return self.partitioner or (found[0] if found else Partitioner.MURMUR2)

    @property
    def native(self) -> bool:
        """True where the cluster deletes partitions itself, and copies nothing."""
        return self.support is ShrinkSupport.ENABLED

    @property
    def replication_factor(self) -> int:
        """Of its first partition; 0 where it has none."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    @property
    def total_bytes(self) -> int | None:
        """Of all partitions together; None where the size of one is not known."""
        sizes = [one.size_bytes for one in self.there]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def total_records(self) -> int | None:
        """Of all partitions together; None where that of one is not known."""
        counts = [one.records for one in self.there]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def policies(self) -> frozenset[str]:
        """The topic's cleanup.policy; `delete` where it is not known, which is Kafka's own."""
        found = self.configs.get(CLEANUP_POLICY, "delete").split(",")
        return frozenset(one.strip() for one in found if one.strip())

    @property
    def compacted(self) -> bool:
        """True where compaction keeps the newest record of each key."""
        return "compact" in self.policies

    def limit(self, key: str) -> int | None:
        """A configuration that is a number; None where it is unlimited (-1) or not known."""
        value = self.configs.get(key, "")
        try:
            found = int(value)
        except ValueError:
            return None
        return found if found >= 0 else None

    @property
    def retention_ms(self) -> int | None:
        """How old a record gets before it is deleted; None: for ever, or not known."""
        return self.limit(RETENTION_MS) if "delete" in self.policies else None
