"""What the controller knows of one thing: a broker, a partition, a topic, a configuration key."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.config_keys import ConfigKey, ConfigSourceNumber
from kshunt.backend.embedded.metadata.records import DeletionState, PartitionModeCode, ReplicaState

PartitionKey = tuple[str, int]
"""A partition by its topic's id and its number."""


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A registered broker."""

    id: int
    epoch: int
    incarnation: str
    host: str
    port: int
    rack: str | None
    log_dirs: tuple[str, ...]
    offline_dirs: tuple[str, ...] = ()
    fenced: bool = True

    @property
    def online_dirs(self) -> tuple[str, ...]:
        """The directories that work."""
        return tuple(path for path in self.log_dirs if path not in self.offline_dirs)


@dataclass(frozen=True, slots=True)
class ReplicaDeletion:
    """One replica of a partition that is being deleted (KIP-694)."""

    broker: int
    state: ReplicaState
    at_ms: int
    """When it came into this state."""


@dataclass(frozen=True, slots=True)
class DeletingPartition:
    """A partition's deletion (KIP-694)."""

    delay_ms: int
    created_ms: int
    state: DeletionState = DeletionState.ONLINE
    replicas: tuple[ReplicaDeletion, ...] = ()

    @property
    def deadline_ms(self) -> int:
        """Not before this time does the partition go."""
        return self.created_ms + self.delay_ms


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition (Kafka's PartitionRegistration)."""

    replicas: tuple[int, ...]
    """During a move the target followed by what is being removed."""
    isr: tuple[int, ...]
    leader: int
    """Broker id, or `NO_LEADER`."""
    log_dirs: tuple[str, ...]
    """The directory of each replica, in the order of `replicas`."""
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    mode: PartitionModeCode = PartitionModeCode.READ_WRITE
    deletion: DeletingPartition | None = None

    @property
    def reassigning(self) -> bool:
        """True while it moves (KIP-455)."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas without those that the move adds: where a cancellation leads."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that remain when the move is over."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def log_dir(self, broker: int) -> str:
        """Where a replica lies, or `NO_DIR`."""
        at = self.replicas.index(broker) if broker in self.replicas else -1
        return self.log_dirs[at] if at >= 0 else r.NO_DIR


@dataclass(slots=True)
class TopicImage:
    """One topic; `partitions` is for reading."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that moves, as ListPartitionReassignments shows it (KIP-455)."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One key of a resource, as DescribeConfigs shows it."""

    key: ConfigKey
    value: str | None
    source: ConfigSourceNumber
    synonyms: tuple[tuple[str, str | None, ConfigSourceNumber], ...]
    """Name, value and source of everything that could give the value, the winner first."""
