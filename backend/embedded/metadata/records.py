"""What the controller remembers: one frozen value a change, and its encoding.

A record is written as a compact JSON array `[type, version, field, ...]` with the fields in the
order of the class. Type numbers are stable and never used twice. A later version of a record may
only append fields that have defaults, so that an older log stays readable.
"""

from __future__ import annotations

import enum
import json
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final

from kshunt.backend.errors import KshuntError

NO_LEADER: Final = -1
"""Kafka's id for "this partition has no leader"."""

NO_DIR: Final = ""
"""The log directory of a replica whose broker has not chosen one."""


class RecordError(KshuntError):
    """A record's bytes are of an unknown type or version, or not a record at all."""

    title = "Unreadable record"


class ResourceType(enum.IntEnum):
    """Kafka's `ConfigResource.Type`, as far as this controller keeps configurations."""

    TOPIC = 2
    BROKER = 4


class PartitionModeCode(enum.IntEnum):
    """What clients may do with a partition (KIP-694, Metadata Changes, PartitionRecord).

    The seed's Proposed Changes number them otherwise (online 0, offline 1, readOnly -1); that is
    the struck revision, and the one of Metadata Changes holds here.
    """

    READ_WRITE = 0
    READ_ONLY = 1
    NONE = -1
    """Neither written nor read. One sentence of the seed lets consumers continue; "Client API
    changes" filters them out, and the data is on its way out."""


class DeletionState(enum.IntEnum):
    """How far a partition's deletion is (KIP-694, Proposed Changes; `PartitionStateMachine`)."""

    ONLINE = 0
    OFFLINE = 1
    NON_EXISTENT = 2


class ReplicaState(enum.IntEnum):
    """How far one replica's deletion is (KIP-694; `ReplicaStateMachine`)."""

    OFFLINE = 0
    DELETION_STARTED = 1
    DELETION_SUCCESSFUL = 2
    DELETION_INELIGIBLE = 3
    """Its broker could not delete it; the controller tries again."""


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records."""

    TYPE: ClassVar[int]
    VERSION: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class ControllerElected(Record):
    """A controller took over; each one raises the epoch."""

    TYPE: ClassVar[int] = 1
    controller: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered(Record):
    """A broker announced itself; it is fenced until it says that it is ready."""

    TYPE: ClassVar[int] = 2
    broker: int
    epoch: int
    """Rises with every registration, as Kafka's broker epoch."""
    incarnation: str
    """Differs for every start of the process."""
    host: str
    port: int
    rack: str | None
    log_dirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokerFenced(Record):
    """A broker may not lead nor be in an ISR: it stopped, or went silent."""

    TYPE: ClassVar[int] = 3
    broker: int


@dataclass(frozen=True, slots=True)
class BrokerUnfenced(Record):
    """A broker is ready."""

    TYPE: ClassVar[int] = 4
    broker: int


@dataclass(frozen=True, slots=True)
class BrokerRemoved(Record):
    """A broker was unregistered for good; its configuration is removed too."""

    TYPE: ClassVar[int] = 5
    broker: int


@dataclass(frozen=True, slots=True)
class LogDirsFailed(Record):
    """These directories of a broker are offline until it registers again."""

    TYPE: ClassVar[int] = 6
    broker: int
    log_dirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicCreated(Record):
    """A topic exists; its partitions follow."""

    TYPE: ClassVar[int] = 7
    topic: str
    topic_id: str
    """A UUID as 32 lower-case hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class TopicDeleted(Record):
    """A topic is gone with its partitions and its configuration."""

    TYPE: ClassVar[int] = 8
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionCreated(Record):
    """A partition exists; a new one with both of its epochs 0 and without a move."""

    TYPE: ClassVar[int] = 9
    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    log_dirs: tuple[str, ...]
    """One directory for each replica, in the same order."""
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    mode: int = 0
    """A `PartitionModeCode`. This and what stands above it are for snapshots."""


@dataclass(frozen=True, slots=True)
class PartitionChanged(Record):
    """What changed of a partition; None is "as it was" (Kafka's PartitionChangeRecord).

    Each one raises the partition epoch; one that names a leader, even the same, raises the
    leader epoch too.
    """

    TYPE: ClassVar[int] = 10
    topic_id: str
    partition: int
    replicas: tuple[int, ...] | None = None
    """During a move the target followed by what is being removed (KIP-455)."""
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    log_dirs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionsDeletionScheduled(Record):
    """Partitions are to go after a delay (KIP-694's DeleteTopicPartitionsRecord)."""

    TYPE: ClassVar[int] = 11
    topic_id: str
    partitions: tuple[int, ...]
    delay_ms: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class PartitionsDeletionCancelled(Record):
    """Partitions stay after all; clients can write to them again."""

    TYPE: ClassVar[int] = 12
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionModeChanged(Record):
    """What clients may do with a partition (KIP-694, PartitionRecord)."""

    TYPE: ClassVar[int] = 13
    topic_id: str
    partition: int
    mode: int


@dataclass(frozen=True, slots=True)
class PartitionStateChanged(Record):
    """A partition's deletion went a step further."""

    TYPE: ClassVar[int] = 14
    topic_id: str
    partition: int
    state: int


@dataclass(frozen=True, slots=True)
class ReplicaStateChanged(Record):
    """A replica's deletion went a step further, or back to be tried again."""

    TYPE: ClassVar[int] = 15
    topic_id: str
    partition: int
    broker: int
    state: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PartitionRemoved(Record):
    """All replicas of a partition are deleted, and the partition with them."""

    TYPE: ClassVar[int] = 16
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class ConfigChanged(Record):
    """One key of one resource was set, or with None removed."""

    TYPE: ClassVar[int] = 17
    resource_type: int
    resource: str
    """A topic, a broker id, or empty for the default of all brokers."""
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ThrottledReplicasRemoval(Record):
    """KIP-179's /admin/throttled_replicas_removal: whose lists go when the move is over.

    The record replaces the one before; an empty one stands for the removed znode.
    """

    TYPE: ClassVar[int] = 18
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThrottledRatesRemoval(Record):
    """KIP-179's /admin/throttled_rates_removal: whose rates go when the move is over.

    The record replaces the one before; an empty one stands for the removed znode.
    """

    TYPE: ClassVar[int] = 19
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated(Record):
    """A broker owns the producer ids up to, and without, `next_producer_id`."""

    TYPE: ClassVar[int] = 20
    broker: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken(Record):
    """The records before this one stand for all of those that it replaced (Kafka's KIP-630)."""

    TYPE: ClassVar[int] = 21
    offset: int
    """How many records there had been."""


@dataclass(frozen=True, slots=True)
class AclCreated(Record):
    """An ACL holds (Kafka's AccessControlEntryRecord). The codes are those of the wire."""

    TYPE: ClassVar[int] = 22
    resource_type: int
    resource: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclRemoved(Record):
    """An ACL holds no longer; its fields say which one."""

    TYPE: ClassVar[int] = 23
    resource_type: int
    resource: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


_KINDS: Final[tuple[type[Record], ...]] = (
    ControllerElected,
    BrokerRegistered,
    BrokerFenced,
    BrokerUnfenced,
    BrokerRemoved,
    LogDirsFailed,
    TopicCreated,
    TopicDeleted,
    PartitionCreated,
    PartitionChanged,
    PartitionsDeletionScheduled,
    PartitionsDeletionCancelled,
    PartitionModeChanged,
    PartitionStateChanged,
    ReplicaStateChanged,
    PartitionRemoved,
    ConfigChanged,
    ThrottledReplicasRemoval,
    ThrottledRatesRemoval,
    ProducerIdsAllocated,
    SnapshotTaken,
    AclCreated,
    AclRemoved,
)
RECORD_TYPES: Final[dict[int, type[Record]]] = {}
"""Every record by its type number."""

_NAMES: Final[dict[type[Record], tuple[str, ...]]] = {}
_REQUIRED: Final[dict[type[Record], int]] = {}


def register(*kinds: type[Record]) -> None:
    """Let records of these kinds be encoded and decoded.

    Raises:
        ValueError: a type number is taken.
    """
    for kind in kinds:
        if RECORD_TYPES.setdefault(kind.TYPE, kind) is not kind:
            raise ValueError(f"{kind.__name__} has the type number of another record")
        _NAMES[kind] = tuple(field.name for field in fields(kind))
        _REQUIRED[kind] = sum(field.default is MISSING for field in fields(kind))


register(*_KINDS)


def encode(record: Record) -> bytes:
    """A record as bytes, without any newline."""
    kind = type(record)
    values = [getattr(record, name) for name in _NAMES[kind]]
    text = json.dumps([kind.TYPE, kind.VERSION, *values], separators=(",", ":"))
    return text.encode("ascii")


def decode(data: bytes) -> Record:
    """The record that `encode` wrote.

    Raises:
        RecordError: these are not the bytes of a record, or of one this version does not know.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise RecordError(f"A record of {len(data)} bytes is not JSON: {error}.") from error
    if not isinstance(document, list) or len(document) < 2 or not _is_int(document[0], document[1]):
        raise RecordError("A record does not begin with its type and version.")
    number, version, *values = document
    kind = RECORD_TYPES.get(number)
    if kind is None or version > kind.VERSION:
        raise RecordError(
            f"A record has type {number} and version {version}, which is not known here.",
            advice="Open this data directory with the kshunt that wrote it.",
        )
    if not _REQUIRED[kind] <= len(values) <= len(_NAMES[kind]):
        raise RecordError(f"A {kind.__name__} has {len(values)} fields.")
    return kind(*[tuple(value) if type(value) is list else value for value in values])


def _is_int(*values: Any) -> bool:
    return all(type(value) is int for value in values)
