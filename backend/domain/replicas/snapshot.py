"""A snapshot: every replica of a cluster at one moment, in columns, one row a replica.

Unknown is a value of its own everywhere: -1 in the integer columns, NaN in the rates. It is
never 0. `math.inf` in an ETA means "never, before something changes".
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.stuck_causes import STUCK_CAUSES, Cause, Replica, Stuck
from kshunt.backend.domain.throttles.configs import Throttles

UNKNOWN: Final = -1
"""An integer that is not known; never shown as 0."""

PARTITION_MAX: Final = 2**24 - 1
"""The highest partition that `pack_keys` has room for."""


class ReplicaStatus(enum.IntEnum):
    """What a replica's row says; the wording is KIP-179's where the KIP has it."""

    IN_SYNC = 0
    BEHIND = 1
    """Out of the ISR, with a known lag."""
    LAG_UNKNOWN = 2
    """Out of the ISR, and its broker or its leader has not said how far."""
    OFFLINE = 3
    """Its broker or its log directory is down."""


@dataclass(frozen=True, eq=False)
class Replicas:
    """The columns. Every array has shape (replicas,)."""

    topic_index: NDArray[np.int32]
    """Index into `Snapshot.topics`."""
    partition: NDArray[np.int32]
    broker: NDArray[np.int32]
    position: NDArray[np.int16]
    """Place in the replica list; 0 is the preferred leader."""
    leader: NDArray[np.int32]
    """The partition's leader; -1 if it has none."""
    in_isr: NDArray[np.bool_]
    adding: NDArray[np.bool_]
    removing: NDArray[np.bool_]
    leader_throttled: NDArray[np.bool_]
    """Listed in the topic's leader.replication.throttled.replicas."""
    follower_throttled: NDArray[np.bool_]
    """Listed in the topic's follower.replication.throttled.replicas."""
    status: NDArray[np.uint8]
    """A `ReplicaStatus`."""
    cause: NDArray[np.uint8]
    """A `kshunt.backend.domain.replicas.stuck_causes.Cause`: why it does not advance, 0 where it
    does."""
    log_end_offset: NDArray[np.int64]
    lag_messages: NDArray[np.int64]
    """Leader's log end offset less this replica's, both as their own brokers report them."""
    size_bytes: NDArray[np.int64]
    lag_bytes: NDArray[np.int64]
    """Leader's size less this replica's, floored at 0; approximate while retention deletes."""
    log_dir: NDArray[np.int16]
    """Index into `Snapshot.log_dir_paths`, or -1."""
    catch_up_messages_per_s: NDArray[np.float32]
    """How fast the lag shrinks; negative where it grows."""
    catch_up_bytes_per_s: NDArray[np.float32]
    fetched_bytes_per_s: NDArray[np.float32]
    """How fast the replica's log grows: what it fetches as a follower."""
    eta_s: NDArray[np.float32]
    """Seconds until it will have arrived; inf where it never does, NaN if unknown."""
    sampled_ms: NDArray[np.int64]
    """When its broker last reported it, milliseconds since the epoch; -1 if never."""
    mode: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    """The partition's `PartitionMode`; not given, every partition is ReadWrite."""

    def __post_init__(self) -> None:
        if not len(self.mode):
            object.__setattr__(self, "mode", np.zeros(len(self), np.int8))

    def __len__(self) -> int:
        return len(self.broker)


COLUMNS: Final = tuple(column.name for column in fields(Replicas))
DTYPES: Final[Mapping[str, Any]] = {
    name: np.dtype(get_args(get_args(array)[1])[0])
    for name, array in get_type_hints(Replicas).items()
}
"""dtype of each column: that of its annotation, `NDArray[np.int32]`."""
KEY_COLUMNS: Final = ("topic_index", "partition", "broker")


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What the backend knows of one broker."""

    broker: Broker
    answered_ms: int | None
    """When it last answered, or None if it has not yet."""
    stale: bool
    """True while its newest rows are older than they should be."""
    failed: FailedRequest | None = None
    """What it was asked last and did not answer; None where it answers."""

    @property
    def registered(self) -> bool:
        """False where the cluster does not list it: it is down or fenced."""
        return bool(self.broker.host)

    @property
    def problem(self) -> str:
        """Why it does not answer, in words; empty where it does, or nobody knows."""
        if not self.registered:
            return "not registered: it is down or fenced"
        return "" if self.failed is None else self.failed.message


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One point of the history of moves."""

    at_ms: int
    remaining_bytes: int
    """Bytes that moving replicas still lack, and those of moves that wait for their turn; UNKNOWN
    if no lag is known."""
    moving_replicas: int
    rate_bytes_per_s: float = math.nan
    """What the moving replicas fetched together; NaN if unknown."""
    permitted_bytes_per_s: int | None = None
    """What their throttles let through together; None where something is not held by one."""
    stuck_replicas: int = UNKNOWN
    rates_changed: bool = False
    """Whether a throttle of a broker was set to another rate since the point before."""

    @property
    def is_last(self) -> bool:
        """True where nothing moves or waits any more."""
        return self.moving_replicas == 0 and self.remaining_bytes == 0


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A cluster at one moment."""

    version: int
    """Grows by one with each snapshot of a backend."""
    taken_ms: int
    cluster_id: str
    controller: int
    topics: tuple[str, ...]
    replicas: Replicas
    """Sorted by (topic, partition, position); a row's key is (topic, partition, broker)."""
    brokers: Mapping[int, BrokerStatus]
    """By id: every broker that is up, or that hosts a replica."""
    throttles: Throttles
    log_dirs: tuple[LogDir, ...] = ()
    log_dir_paths: tuple[str, ...] = ()
    history: tuple[HistoryPoint, ...] = ()
    sweep_ms: int = UNKNOWN
    """When the whole cluster was last swept."""
    failed_requests: tuple[FailedRequest, ...] = ()
    """What could not be read."""
    explained: Mapping[Replica, Stuck] = field(default_factory=dict)
    """What is known of stuck replicas, up to `Limits.replicas_explained`."""
    min_isr: tuple[int, ...] = ()
    """The min.insync.replicas in force, in the order of `topics`; UNKNOWN for a topic of which it
    is not known, and empty where it is known of none."""
    deletes_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    """When the data of a read-only partition goes, in milliseconds since the epoch, where the
    cluster tells it."""
    expected_ends: Mapping[str, ExpectedEnd] = field(default_factory=dict)
    """When operations will be done, by id, and all that moves, under `EVERYTHING`."""

    @property
    def unseen_ms(self) -> int:
        """For how long no broker had answered when this was taken; 0 where one does."""
        statuses = self.brokers.values()
        if not statuses or not all(status.stale for status in statuses):
            return 0
        answered = [s.answered_ms for s in statuses if s.answered_ms is not None]
        return max(self.taken_ms - max(answered), 0) if answered else 0

    def topic_of(self, row: int) -> str:
        """The topic's name of a row."""
        return self.topics[int(self.replicas.topic_index[row])]

    def partition_of(self, row: int) -> TopicPartition:
        """The partition of a row."""
        return TopicPartition(self.topic_of(row), int(self.replicas.partition[row]))

    def mode_of(self, row: int) -> PartitionMode:
        """The mode of a row's partition."""
        return PartitionMode.of(int(self.replicas.mode[row]))

    def leaving(self) -> dict[TopicPartition, PartitionMode]:
        """The partitions that are not ReadWrite, by name."""
        rows = np.flatnonzero((self.replicas.mode != 0) & (self.replicas.position == 0))
        return {self.partition_of(row): self.mode_of(row) for row in rows.tolist()}

    def why(self, row: int) -> Stuck | None:
        """Why a row does not advance; None where it does.

        With what is known of it where it is one of `explained`, else the cause alone.
        """
        cause = Cause(int(self.replicas.cause[row]))
        if cause is Cause.NONE:
            return None
        partition, broker = self.partition_of(row), int(self.replicas.broker[row])
        found = self.explained.get((partition, broker))
        return Stuck(partition, broker, cause) if found is None else found


def partition_starts(replicas: Replicas) -> NDArray[np.intp]:
    """The first row of each partition. Rows must be sorted, as a snapshot's are."""
    if not len(replicas):
        return np.empty(0, np.intp)
    first = np.ones(len(replicas), np.bool_)
    first[1:] = (np.diff(replicas.topic_index) != 0) | (np.diff(replicas.partition) != 0)
    return np.flatnonzero(first)


def moving_rows(replicas: Replicas, starts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Rows of partitions that gain or lose a replica; `starts` from `partition_starts`."""
    changing: NDArray[np.bool_] = replicas.adding | replicas.removing
    if not changing.any():
        return changing
    by_partition = np.logical_or.reduceat(changing, starts)
    counts = np.diff(np.append(starts, len(replicas)))
    by_row: NDArray[np.bool_] = np.repeat(by_partition, counts)
    return by_row


def stuck_rows(replicas: Replicas) -> NDArray[np.bool_]:
    """Rows that cannot arrive before somebody does something."""
    stuck: NDArray[np.bool_] = np.isin(replicas.cause, np.array(STUCK_CAUSES, np.uint8))
    return stuck


def known_brokers(*tables: Replicas) -> NDArray[np.int32]:
    """Every broker id that occurs in the tables, sorted, each once."""
    return np.unique(np.concatenate([table.broker for table in tables]))


def replica_keys(replicas: Replicas, brokers: NDArray[np.int32]) -> NDArray[np.int64]:
    """One sortable int64 a row. See `pack_keys`."""
    return pack_keys(replicas.topic_index, replicas.partition, replicas.broker, brokers)


def pack_keys(
    topic_index: NDArray[Any],
    partition: NDArray[Any],
    broker: NDArray[Any],
    brokers: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Pack topic (20 bits), partition (24 bits) and the broker's place in `brokers` (20 bits).

    Broker ids take 31 bits, so their place in the sorted array `brokers` stands for them; keys
    are comparable only between calls with the same `brokers`. Kafka's own bounds keep the rest
    within its bits.
    """
    packed: NDArray[np.int64] = (
        (topic_index.astype(np.int64) << 44)
        | (partition.astype(np.int64) << 20)
        | np.searchsorted(brokers, broker)
    )
    return packed


def changed_rows(old: Replicas, new: Replicas) -> NDArray[np.bool_]:
    """Which rows of `new` differ from `old`, or are not in it. Shape (len(new),).

    Both must use one topic index. `sampled_ms` alone is no change: a row that was read again and
    said the same is not sent again.
    """
    brokers = known_brokers(old, new)
    old_keys, new_keys = replica_keys(old, brokers), replica_keys(new, brokers)
    order = np.argsort(old_keys)
    if len(old_keys) == 0:
        return np.ones(len(new_keys), np.bool_)
    place = np.minimum(np.searchsorted(old_keys, new_keys, sorter=order), len(old_keys) - 1)
    match = order[place]
    changed: NDArray[np.bool_] = old_keys[match] != new_keys
    for name in COLUMNS:
        if name in KEY_COLUMNS or name == "sampled_ms":
            continue
        before, after = getattr(old, name)[match], getattr(new, name)
        differs = before != after
        if before.dtype.kind == "f":
            differs &= ~(np.isnan(before) & np.isnan(after))
        changed |= differs
    return changed


def gone_rows(old: Replicas, new: Replicas) -> NDArray[np.bool_]:
    """Which rows of `old` are not in `new`. Shape (len(old),)."""
    brokers = known_brokers(old, new)
    gone: NDArray[np.bool_] = ~np.isin(replica_keys(old, brokers), replica_keys(new, brokers))
    return gone


def take(replicas: Replicas, rows: NDArray[Any]) -> Replicas:
    """The rows of a boolean mask or of indexes, in their order."""
    return Replicas(**{name: getattr(replicas, name)[rows] for name in COLUMNS})


def apply_rows(old: Replicas, gone: Replicas, changed: Replicas) -> Replicas:
    """`old` without the `gone` rows and with the `changed` ones put in or in their place.

    The result is sorted by (topic, partition, position). For any two snapshots on one topic index
    `apply_rows(old, take(old, gone_rows), take(new, changed_rows))` equals `new`, but for
    `sampled_ms` of rows that did not change.
    """
    brokers = known_brokers(old, gone, changed)
    leaving = [replica_keys(table, brokers) for table in (gone, changed)]
    stays = ~np.isin(replica_keys(old, brokers), np.concatenate(leaving))
    merged = {
        name: np.concatenate([getattr(old, name)[stays], getattr(changed, name)])
        for name in COLUMNS
    }
    order = np.lexsort((merged["position"], merged["partition"], merged["topic_index"]))
    return Replicas(**{name: column[order] for name, column in merged.items()})
