"""What an operator must know before a topic loses partitions, and what speaks against it."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass

from kshunt.backend.domain.topics.groups import INACTIVE_STATES, ActiveProducer, GroupMember
from kshunt.backend.domain.topics.partitioners import KeyPlacing, Partitioner


class Severity(enum.StrEnum):
    """The severity of a finding."""

    REFUSE = "refuse"
    """It must not be done; some of these an operator may insist on."""
    WARN = "warn"
    """It can be done, and something will be lost, wait or break unless somebody acts."""
    NOTE = "note"
    """Good to know."""


class KeyUse(enum.StrEnum):
    """Whether the newest records have keys."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"
    """No record was seen; it may be keyed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, and what to do about it."""

    code: str
    """A name that stays the same, to insist on it or to look it up: `compacted`."""
    severity: Severity
    words: str
    """The fact."""
    advice: str = ""
    """What to do; empty where there is nothing."""
    insistable: bool = False
    """True for a refusal that an operator may overrule."""


@dataclass(frozen=True, slots=True)
class DoomedPartition:
    """One partition that would go."""

    number: int
    size_bytes: int | None
    records: int | None
    """No fewer than it holds: gaps in its offsets count."""
    log_end_offset: int | None
    """The offset of the next record that a consumer will see."""
    newest_ms: int | None
    """The largest timestamp in it; None where it has none, or it is not known."""
    expires_in_ms: int | None
    """Until retention deletes its last record; 0: it may be gone any moment. None: never, or it
    holds no record, or it is not known."""
    written_meanwhile: int | None
    """Records that came while the check looked; None where it is not known."""
    producers: tuple[ActiveProducer, ...] | None
    """Those that wrote recently or have a transaction open; None where they are not told."""
    open_transaction_at: int | None
    """First offset that waits for the end of a transaction; None where none is open."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The offset from which a group continues to read a partition."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Where one consumer group is."""

    name: str
    state: str
    kind: str
    members: tuple[GroupMember, ...]
    committed: tuple[CommittedOffset, ...]
    """By partition, of the whole topic; a partition without one is absent."""
    unread_doomed: int | None
    """Records behind its committed offsets on doomed partitions; None where it has committed none
    there, or ends are not known."""
    unread_all: int | None
    """The same of the whole topic."""
    no_position: tuple[int, ...]
    """Doomed partitions with records for which it has committed nothing: its
    auto.offset.reset says where it would begin."""

    @property
    def active(self) -> bool:
        """True while it has members, or may have."""
        return bool(self.members) or self.state not in INACTIVE_STATES


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """Something that could not be read."""

    what: str
    """As `groups of broker 3`."""
    why: str


@dataclass(frozen=True, slots=True)
class PartitionerHits:
    """A partitioner, and how many keys are where it puts them."""

    partitioner: Partitioner
    keys: int


@dataclass(frozen=True, slots=True)
class ShrinkCheck:
    """The safety view of a shrink. It changes nothing."""

    topic: str
    current: int
    """Partitions that it has; 0 where there is no such topic."""
    wanted: int
    checked_ms: int
    native: bool
    """True where the cluster deletes partitions itself: what they hold is not copied but lost."""
    allowed: bool
    """Whether no finding refuses it."""
    partitions: tuple[DoomedPartition, ...]
    """Those that would go."""
    groups: tuple[GroupLag, ...]
    total_bytes: int | None
    """Size of one replica of each of its partitions."""
    total_records: int | None
    copy_bytes: int | None
    """What the copy takes on the disks of all brokers; 0 where nothing is copied."""
    copy_ms: int | None
    """How long it is assumed to take, by the assumed rate."""
    retention_ms: int | None
    """None: for ever, or not known."""
    keys: KeyUse
    sampled: int
    """How many records were looked at for it."""
    distinct_keys: int
    """How many of their keys differ; one in two partitions counts twice."""
    placing: KeyPlacing
    """What those keys follow."""
    partitioners: tuple[PartitionerHits, ...]
    """How many of them each partitioner explains."""
    partitioner: Partitioner
    """By which a copy places the keys: the chosen one, else the one that was found."""
    watched_ms: int
    """How long it was watched for writes."""
    findings: tuple[Finding, ...]
    """Refusals first."""
    unread: tuple[UnreadPart, ...] = ()
    """What could not be read."""

    def refusals(self, insisted: Collection[str] = ()) -> tuple[Finding, ...]:
        """What forbids it, without what an operator may insist on and does, by code."""
        return tuple(
            one
            for one in self.findings
            if one.severity is Severity.REFUSE and not (one.insistable and one.code in insisted)
        )

    @property
    def doomed_bytes(self) -> int | None:
        """Of the partitions that go; None where the size of one is not known."""
        sizes = [one.size_bytes for one in self.partitions]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def doomed_records(self) -> int | None:
        """Of the partitions that go; None where that of one is not known."""
        counts = [one.records for one in self.partitions]
        return None if None in counts else sum(count for count in counts if count is not None)
