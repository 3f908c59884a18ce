"""Why is it stuck: one cause for each replica that does not advance, from a snapshot.

Goals
    A replica that is being added, or that is behind and out of the ISR, has exactly one cause if it
    does not come nearer to its leader. The cause is known within 35 s of its beginning. Where a
    throttle is too low, the rate that would be enough is known too. A replica that advances has no
    cause.
Constraints
    Pure but for `AdvanceWatch`, which remembers the samples that snapshots brought. Nothing is
    asked of the cluster. What is not known is no cause; it is only said that it was watched too
    short. Linear in the replicas, without a Python loop over them; words are made row by row on
    request.
Algorithm
    `AdvanceWatch` says which rows came nearer and what is written to their partitions, `share_of`
    what each throttle is used for. A list of conditions in the order of `Cause` decides; the
    reasons for that order are there. What stops a replica by itself (its broker, its directory, its
    leader, a throttle at the floor) is named immediately. For everything else the replica must have
    been watched for `ENOUGH_S` without coming nearer. Where its part of a throttle has just grown,
    because the rate was raised or others arrived, it is too early to blame the way. At last,
    replicas that are in sync are given the blame of the ones that their move waits for. A replica
    of a partition that is being deleted has nothing to fetch. It only waits where its broker or its
    directory is not there to delete it.

    A throttle belongs to a move if the replica's partition moves, or if the list is `*` and some
    partition of the topic moves. It also does if an operation of ours needs the replica listed,
    whether its move is still to begin or just over. Else it is an orphan. In turns: a follower gets
    up to a megabyte in one piece and then waits until the quota has paid for it. So a replica is
    not stuck if its part of the throttle is a few such turns in the time watched. Nor is it stuck
    if it does get its part.
    Sources: KIP-73; KIP-455; KAFKA-19975 (a move waits for replicas that stay).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import LogDirColumns
from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.replicas.snapshot import (
    UNKNOWN,
    Replicas,
    ReplicaStatus,
    Snapshot,
    known_brokers,
    pack_keys,
    replica_keys,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, Replica
from kshunt.backend.domain.throttles.configs import (
    LEADER_RATE,
    RATE_MIN_BYTES_PER_S,
    ThrottledReplicas,
)
from kshunt.backend.telemetry.stuck.recent_advance import ENOUGH_S, AdvanceWatch, WatchedRows
from kshunt.backend.telemetry.stuck.throttle_shares import (
    Shape,
    ThrottleShare,
    copies_of,
    down_rows,
    numbered,
)

__all__ = [
    "ENOUGH_S",
    "AdvanceWatch",
    "Diagnosis",
    "OwnOperations",
    "Owned",
    "Replica",
    "diagnose",
    "dir_moves_of",
]

Owned: TypeAlias = Mapping[str, ThrottledReplicas]
"""By topic: the replicas that running operations of ours need listed."""


@dataclass(frozen=True, eq=False)
class OwnOperations:
    """What operations of ours have to do with what stands still."""

    needed: Owned = field(default_factory=dict)
    paused: frozenset[TopicPartition] = frozenset()
    """Partitions whose copies a paused operation holds."""
    running: tuple[RunningOperation, ...] = ()
    """Those that move partitions, and what they have not begun."""


NOTHING_OURS: Final = OwnOperations()

FLOOR_BYTES_PER_S: Final = RATE_MIN_BYTES_PER_S
"""A rate up to this only holds: no move is started with less."""
FLOOR_ARRIVES_S: Final = 60.0
"""Who arrives within this time is not held, not even by a floor."""
EQUAL: Final = 1.05
"""What is written is measured; a throttle within this of it counts as at it."""
TURN_BYTES: Final = 1_000_000.0
"""What a follower gets in one piece (replica.fetch.max.bytes), before it waits for the quota."""
TURNS: Final = 10
"""A replica that was due this many turns and got none of them is stuck, and not in a queue."""
USED: Final = 0.3
"""A throttle used up to this part serves somebody, in turns that are long."""
SERVED: Final = 0.3
"""Who gets this part of an equal share is served."""
BUSY: Final = 0.8
"""A throttle used up to this part is what limits those that it holds."""
FULL_BYTES: Final = 1 << 30
"""A directory with more than a segment left is not full, whatever is still to come."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The causes of one snapshot's rows, and what they were found from."""

    snapshot: Snapshot
    watched: WatchedRows
    shares: tuple[ThrottleShare, ...]
    """The leader's side, the follower's, and that of moves between directories; empty if no row
    lacks anything."""
    causes: NDArray[np.uint8]
    """A `Cause` each. Shape (replicas,)."""

    def rows(self) -> NDArray[np.intp]:
        """The rows that have a cause, stuck or not."""
        return np.flatnonzero(self.causes != Cause.NONE)


def diagnose(
    snapshot: Snapshot,
    watched: WatchedRows,
    dir_moves: Collection[Replica] = (),
    ours: OwnOperations = NOTHING_OURS,
) -> Diagnosis:
    """The cause of each row. `watched` is what `AdvanceWatch.update` said of this snapshot.

    `dir_moves` are replicas that are being copied to another directory of their broker
    (`dir_moves_of`); a snapshot does not tell of them. The throttles that `ours` need are no
    orphans. None has one while no broker at all answers.
    """
    replicas, shape = snapshot.replicas, watched.shape
    being_deleted = replicas.mode == PartitionMode.NONE
    wants = ~replicas.in_isr & ~replicas.removing & ~shape.leads & ~being_deleted
    if not len(dir_moves) and not (wants | replicas.adding | being_deleted).any():
        return Diagnosis(snapshot, watched, (), np.zeros(len(replicas), np.uint8))
    if snapshot.unseen_ms:
        # Nobody answers: it is from here that nothing can be seen, and no broker's fault.
        return Diagnosis(snapshot, watched, (), np.zeros(len(replicas), np.uint8))
    down = down_rows(snapshot, replicas.broker, watched.began_ms)
    source_down = down_rows(snapshot, replicas.leader, watched.began_ms)
    stopped = wants & ~watched.nearer & watched.enough
    copying = _rows_of(snapshot, dir_moves)
    sides, written = watched.sides, watched.written_bytes_per_s
    copies = copies_of(snapshot.throttles, replicas, written, copying)
    floor, low, orphan, queued = _throttled(snapshot, watched, wants, stopped, ours.needed)
    too_slow_copy = copies.held & (copies.rate_bytes_per_s <= lowest_rate(copies))
    offline, full = replicas.status == ReplicaStatus.OFFLINE, _disk_full(snapshot)
    found = [
        (Cause.DELETION_WAITS, being_deleted & (down | offline)),
        (Cause.BROKER_DOWN, wants & down),
        # A broker takes a directory offline when it is full, too.
        (Cause.DISK_FULL, wants & offline & full),
        (Cause.LOG_DIR_OFFLINE, wants & offline),
        (Cause.NO_LEADER, wants & (replicas.leader == NO_BROKER)),
        (Cause.CONTROLLER, (wants & watched.caught_up) | (replicas.adding & watched.whole)),
        (Cause.SOURCE_UNREACHABLE, wants & source_down),
        (Cause.THROTTLE_FLOOR, floor),
        (Cause.THROTTLE_TOO_LOW, low),
        (Cause.THROTTLE_ORPHAN, orphan),
        (Cause.DISK_FULL, stopped & full),
        (Cause.LOG_DIR_MOVE, too_slow_copy),
        (Cause.WAITING_TURN, queued),
        (Cause.COPY_TOO_SLOW, stopped & watched.steady),
        (Cause.TOO_SHORT, wants & ~watched.nearer),
    ]
    causes = np.select(
        [rows for _, rows in found], [np.uint8(cause) for cause, _ in found], np.uint8(0)
    )
    causes[_held_on_purpose(snapshot, causes, ours.paused)] = Cause.PAUSED
    causes[_waiting_for_others(replicas, shape, causes)] = Cause.REMAINING_OUT_OF_ISR
    return Diagnosis(snapshot, watched, (*sides, copies), causes.astype(np.uint8))


def dir_moves_of(broker: int, answer: LogDirColumns) -> tuple[Replica, ...]:
    """The replicas of which a broker is making a copy in another of its directories."""
    return tuple(
        (
            TopicPartition(answer.topics[answer.topic_index[row]], int(answer.partition[row])),
            broker,
        )
        for row in np.flatnonzero(answer.is_future)
    )


def _rows_of(snapshot: Snapshot, dir_moves: Collection[Replica]) -> Mask:
    replicas = snapshot.replicas
    mask = np.zeros(len(replicas), np.bool_)
    numbers = {topic: number for number, topic in enumerate(snapshot.topics)}
    known = [one for one in dir_moves if one[0].topic in numbers]
    if known and len(replicas):
        brokers = np.union1d(known_brokers(replicas), np.array([b for _, b in known], np.int32))
        wanted = pack_keys(
            np.array([numbers[partition.topic] for partition, _ in known]),
            np.array([partition.partition for partition, _ in known]),
            np.array([broker for _, broker in known], np.int32),
            brokers,
        )
        mask = np.isin(replica_keys(replicas, brokers), wanted)
    return mask


# --- throttles


def lowest_rate(share: ThrottleShare) -> Floats:
    """The rate up to which a throttle lets those that it holds never arrive."""
    return np.maximum(share.written_bytes_per_s * EQUAL, FLOOR_BYTES_PER_S)


def _throttled(
    snapshot: Snapshot, watched: WatchedRows, wants: Mask, stopped: Mask, ours: Owned
) -> tuple[Mask, Mask, Mask, Mask]:
    """Rows at a floor, under a throttle that is too low, under an orphan, and in a queue."""
    replicas, sides = snapshot.replicas, watched.sides
    floor, low, orphan = (np.zeros(len(replicas), np.bool_) for _ in range(3))
    held = np.zeros(len(replicas), np.bool_)
    for share, owned in zip(sides, _owned(snapshot, watched.shape), strict=True):
        held |= share.held
        holds = wants & share.held & (share.rate_bytes_per_s <= FLOOR_BYTES_PER_S)
        soon = replicas.lag_bytes <= share.rate_bytes_per_s * FLOOR_ARRIVES_S
        holds &= ~(soon & (replicas.lag_bytes != UNKNOWN))
        never = holds | (stopped & share.held & (share.rate_bytes_per_s <= lowest_rate(share)))
        owned |= _needed(snapshot, share, never & ~owned, ours)
        floor |= holds & owned
        low |= never & owned
        orphan |= never & ~owned
    return floor, low, orphan, stopped & held & _in_queue(replicas, watched, sides)


def _owned(snapshot: Snapshot, shape: Shape) -> tuple[Mask, Mask]:
    """Rows whose listing as a leader, and as a follower, belongs to a move."""
    replicas, count = snapshot.replicas, len(snapshot.topics)
    moves = np.bincount(replicas.topic_index[shape.moving], minlength=count) > 0
    whole = np.zeros((2, max(count, 1)), np.bool_)
    for number in np.flatnonzero(moves).tolist():
        lists = snapshot.throttles.replicas.get(snapshot.topics[number])
        if lists is not None:
            whole[:, number] = lists.leaders.everything, lists.followers.everything
    leaders, followers = whole
    return (
        shape.moving | leaders[replicas.topic_index],
        shape.moving | followers[replicas.topic_index],
    )


def _needed(snapshot: Snapshot, share: ThrottleShare, rows: Mask, ours: Owned) -> Mask:
    """Of some rows, those whose listing on this side an operation of ours needs."""
    needed = np.zeros(len(rows), np.bool_)
    for row in np.flatnonzero(rows).tolist() if ours else ():
        lists = ours.get(snapshot.topic_of(row))
        if lists is not None:
            listed = lists.leaders if share.key == LEADER_RATE else lists.followers
            pair = (int(snapshot.replicas.partition[row]), int(share.broker[row]))
            needed[row] = pair in listed
    return needed


def _in_queue(
    replicas: Replicas, watched: WatchedRows, sides: tuple[ThrottleShare, ThrottleShare]
) -> Mask:
    """Rows whose turn cannot have come yet, or that get their part. Only for rows that are held."""
    due = np.where(np.isfinite(watched.due_bytes_per_s), watched.due_bytes_per_s, 0.0)
    got = np.nan_to_num(replicas.fetched_bytes_per_s.astype(np.float64))
    used, busy = (np.zeros(len(replicas), np.bool_) for _ in range(2))
    for share in sides:
        used |= share.held & (share.used_bytes_per_s >= USED * share.rate_bytes_per_s)
        busy |= share.held & (share.used_bytes_per_s >= BUSY * share.rate_bytes_per_s)
    turns = due * watched.seconds / TURN_BYTES
    queued: Mask = (turns < 1) | (used & (turns < TURNS)) | (busy & (got >= SERVED * due))
    return queued


# --- the others


def _disk_full(snapshot: Snapshot) -> Mask:
    """Rows that lack more than is free where they lie, or where they could."""
    replicas = snapshot.replicas
    free = free_bytes(snapshot)
    lacks = np.where(replicas.lag_bytes == UNKNOWN, FULL_BYTES, replicas.lag_bytes)
    full: Mask = (free != UNKNOWN) & (free < np.minimum(lacks, FULL_BYTES))
    return full


def free_bytes(snapshot: Snapshot) -> Ints:
    """What is free in each row's directory; where that is not known, in the freest of its broker.

    Of a directory that is offline: when it last answered. Shape (replicas,); UNKNOWN where the
    broker does not say.
    """
    replicas = snapshot.replicas
    ids, place = numbered(replicas.broker)
    brokers = {int(one): number for number, one in enumerate(ids)}
    paths = {path: number for number, path in enumerate(snapshot.log_dir_paths)}
    table = np.full((max(len(ids), 1), len(paths) + 1), UNKNOWN, np.int64)
    working = table.copy()
    for directory in snapshot.log_dirs:
        row, column = brokers.get(directory.broker), paths.get(directory.path)
        if row is not None and column is not None:
            table[row, column] = directory.usable_bytes
            working[row, column] = UNKNOWN if directory.error else directory.usable_bytes
    table[:, -1] = working[:, :-1].max(axis=1, initial=UNKNOWN)
    free: Ints = table[place, replicas.log_dir]
    return free


def _held_on_purpose(
    snapshot: Snapshot, causes: NDArray[np.integer], paused: Collection[TopicPartition]
) -> Ints:
    """Rows at the floor of an operation that is paused."""
    floor = np.flatnonzero(causes == Cause.THROTTLE_FLOOR) if paused else ()
    rows = [row for row in floor if snapshot.partition_of(int(row)) in paused]
    return np.array(rows, np.int64)


def _waiting_for_others(replicas: Replicas, shape: Shape, causes: NDArray[np.uint8]) -> Mask:
    """Rows that are in sync, of moves that wait for nothing but a replica that is stuck."""
    lacks = ~replicas.in_isr & ~replicas.removing
    stuck = np.isin(causes, [cause for cause in Cause if cause.is_stuck])
    copies = shape.any_of(lacks & replicas.adding)
    waits: Mask = replicas.adding & replicas.in_isr & ~copies & (causes == Cause.NONE)
    return waits & shape.any_of(lacks & ~replicas.adding & stuck)
