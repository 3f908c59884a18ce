"""The copies of a snapshot, and those that operations will still begin, for the model of copying.

Goals
    The same rows for a backend, which watches replicas for minutes, and for a dashboard, which has
    a snapshot alone.
Constraints
    Linear in the replicas, without a Python loop over them; one over what operations move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.forecast.copies import (
    CHECK_S,
    NOBODY,
    BrokerRates,
    Copies,
    NextLeaders,
)
from kshunt.backend.domain.forecast.expected_ends import HELD
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.turns import MoveQueue, WaitingMoves
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from kshunt.backend.domain.replicas.snapshot import Replicas, Snapshot, partition_starts
from kshunt.backend.domain.replicas.stuck_causes import CURABLE_CAUSES, IDLE_CAUSES, Cause
from kshunt.backend.domain.throttles.configs import Move, ThrottledRate, ThrottledReplicas


@dataclass(frozen=True, eq=False)
class RowRates:
    """What watching a cluster showed of a snapshot's rows. Arrays have shape (replicas,); NaN is
    what is not known."""

    written_bytes_per_s: Floats
    """To the row's partition, over minutes."""
    written_least_bytes_per_s: Floats
    """For this and all but the last see `Copies`."""
    written_lately_bytes_per_s: Floats
    seen_bytes_per_s: Floats
    """What the row's replica fetches."""
    source_seen_bytes_per_s: Floats
    target_seen_bytes_per_s: Floats
    latest_bytes_per_s: Floats
    begins_bytes_per_s: Floats
    age_s: Floats
    """For how long it was out of the ISR."""
    lacked_bytes: Floats
    """What it lacked when that was known last."""

    @classmethod
    def of(cls, rows: Replicas) -> RowRates:
        """What the snapshot alone says."""
        fetched = rows.fetched_bytes_per_s.astype(np.float64)
        written = np.where(rows.in_isr, fetched, fetched - rows.catch_up_bytes_per_s)
        written = np.maximum(written, 0.0)
        nothing = np.full(len(rows), np.nan)
        ages_s = np.full(len(rows), np.inf)
        return cls(
            written, written, written, fetched, fetched, fetched, nothing, nothing, ages_s, nothing
        )


@dataclass(frozen=True, eq=False)
class RunningOperation:
    """An operation of ours that moves partitions."""

    id: str
    partitions: Collection[TopicPartition]
    waiting: tuple[Move, ...]
    """Moves that it has not begun, in the order of its plan."""
    caps: MoveCaps | None
    """None: it begins all moves at the same time."""
    held: bool
    """It is paused: its copies stand still, and it begins none."""
    deadline_ms: int | None = None
    """The moment by which it is to be done, milliseconds since the epoch."""


@dataclass(frozen=True, eq=False)
class SnapshotCopies:
    """Copies, where they stand in the snapshot, and whose they are."""

    copies: Copies
    rates: BrokerRates
    rows: NDArray[np.intp]
    """Of those that have begun; in `copies` they come first, in this order."""
    operation: Ints
    """Place of its operation, -1 where it is nobody's of ours. Shape (copies,)."""
    moving: Mask
    """Its partition moves, and waits for it. Shape (copies,)."""

    def members(self, operations: Sequence[RunningOperation]) -> dict[str, Ints]:
        """The copies of each of these operations, by id, and of `EVERYTHING` that moves."""
        found = {EVERYTHING: np.flatnonzero(self.moving)}
        for place, one in enumerate(operations):
            found[one.id] = np.flatnonzero(self.moving & (self.operation == place))
        return {id: rows for id, rows in found.items() if len(rows)}


def snapshot_copies(
    snapshot: Snapshot,
    operations: Sequence[RunningOperation] = (),
    watched: RowRates | None = None,
    rates: Mapping[int, ThrottledRate] | None = None,
) -> SnapshotCopies:
    """The copies of a snapshot, and those that operations have not begun.

    Without `watched` the snapshot's own rates are taken; `rates` stand in the place of those in
    force.
    """
    known = _Known(snapshot, watched or RowRates.of(snapshot.replicas))
    table = snapshot.replicas
    wants = ~table.in_isr & (table.broker != table.leader) & (table.mode != PartitionMode.NONE)
    rows = np.flatnonzero(wants)
    begun = _begun(known, rows, judged=rates is None)
    waiting = _waiting(known, operations if len(table) else ())
    in_force = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
    queue = _queue(known, rows, waiting, operations) if len(waiting.copies) else None
    columns = {
        name: np.concatenate([getattr(begun, name), getattr(waiting.copies, name)])
        for name in _ARRAYS
    }
    leaders = _next_leaders(known, rows, waiting)
    return SnapshotCopies(
        Copies(**columns, why=begun.why + waiting.copies.why, queue=queue, next_leaders=leaders),
        _broker_rates(known, {**in_force, **(rates or {})}),
        rows,
        np.concatenate([_operations_of(known, rows, operations), waiting.operation]),
        np.concatenate([known.waited_for(rows), np.ones(len(waiting.copies), np.bool_)]),
    )


class _Known:
    """The partitions of a snapshot that matter, as arrays. Shape (rows that matter,)."""

    def __init__(self, snapshot: Snapshot, watched: RowRates) -> None:
        self.snapshot, self.watched = snapshot, watched
        self.table = table = snapshot.replicas
        self.starts = partition_starts(table)
        matters = ~table.in_isr | table.adding | table.removing
        matters |= table.leader_throttled | table.follower_throttled
        self.rows = np.flatnonzero(self.whole(matters))
        broker, leader = table.broker[self.rows], table.leader[self.rows]
        begins = np.zeros(len(table) + 1, np.bool_)
        begins[self.starts] = True
        self.partition: Ints = np.cumsum(begins[self.rows]) - 1
        """A number for each partition that matters."""
        self.leads: Mask = broker == leader
        self.steady: Mask = table.in_isr[self.rows] & ~self.leads
        self.removing = table.removing[self.rows]
        self.listed = self.any(self.leads & table.leader_throttled[self.rows])
        """Its leader is listed: what followers take counts against the leader throttle."""

    def whole(self, rows: Mask) -> Mask:
        """All rows of the partitions of which the mask holds for one."""
        if not len(rows):
            return rows
        counts = np.diff(np.append(self.starts, len(rows)))
        return np.repeat(np.logical_or.reduceat(rows, self.starts), counts)

    def count(self, rows: Mask) -> Floats:
        """How many rows of its partition the mask holds for, on each row that matters."""
        if not len(rows):
            return np.empty(0)
        counts = np.bincount(self.partition, rows).astype(np.float64)
        found: Floats = counts[self.partition]
        return found

    def any(self, rows: Mask) -> Mask:
        """Whether it holds for one of them."""
        return self.count(rows) > 0

    def waited_for(self, rows: NDArray[np.intp]) -> Mask:
        """Of some rows, those that a move of their partition waits for."""
        moves = self.any(self.removing | self.table.adding[self.rows])
        found: Mask = moves[np.searchsorted(self.rows, rows)] & ~self.table.removing[rows]
        return found


def leader_rows(snapshot: Snapshot, partitions: Sequence[TopicPartition]) -> Ints:
    """The row of each partition's leader; -1: no leader."""
    table, numbers = snapshot.replicas, {t: n for n, t in enumerate(snapshot.topics)}
    lead = np.flatnonzero(table.broker == table.leader)
    known = partition_keys(table.topic_index[lead], table.partition[lead])
    topic = np.array([numbers.get(one.topic, -1) for one in partitions], np.int64)
    keys = partition_keys(topic, np.array([one.partition for one in partitions], np.int64))
    if not len(lead):
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(known, keys), len(lead) - 1)
    return np.where(known[place] == keys, lead[place], -1)


def _begun(known: _Known, rows: NDArray[np.intp], *, judged: bool) -> Copies:
    """The copies in these rows; `judged`: at the rates under which causes were found."""
    table, watched = known.table, known.watched
    near = np.searchsorted(known.rows, rows)
    arriving = np.zeros(len(table), np.bool_)
    arriving[rows] = table.adding[rows]
    came = np.maximum(known.count(arriving[known.rows]), 1.0)
    leader_leaves = known.any(known.leads & known.removing)
    leaving = known.count(known.steady & known.removing)
    gone = np.where(leader_leaves, known.count(known.steady) + came, leaving)
    takes_over = leader_leaves[near] & table.adding[rows] & (table.position[rows] == 0)
    cause, lags = table.cause[rows], table.lag_bytes[rows]
    return Copies(
        source=table.leader[rows].astype(np.int64),
        target=table.broker[rows].astype(np.int64),
        remaining_bytes=np.where(lags < 0, watched.lacked_bytes[rows], lags),
        written_bytes_per_s=watched.written_bytes_per_s[rows],
        written_least_bytes_per_s=watched.written_least_bytes_per_s[rows],
        written_lately_bytes_per_s=watched.written_lately_bytes_per_s[rows],
        seen_bytes_per_s=watched.seen_bytes_per_s[rows],
        source_seen_bytes_per_s=watched.source_seen_bytes_per_s[rows],
        target_seen_bytes_per_s=watched.target_seen_bytes_per_s[rows],
        latest_bytes_per_s=watched.latest_bytes_per_s[rows],
        begins_bytes_per_s=watched.begins_bytes_per_s[rows],
        age_s=watched.age_s[rows],
        at_source=known.listed[near],
        at_target=table.follower_throttled[rows],
        has_turn=cause != Cause.WAITING_TURN,
        stuck=np.isin(cause, CURABLE_CAUSES) & judged,
        source_after=np.where(table.adding[rows], 1 - (gone / came)[near], 1.0),
        target_after=np.where(takes_over, 0.0, 1.0),
        why=tuple(map(_why, cause.tolist(), table.leader[rows].tolist())),
    )


def _known_or_nan(values: NDArray[np.int64]) -> Floats:
    return np.where(values < 0, np.nan, values).astype(np.float64)


_IDLE: Final = {int(cause): cause.key for cause in IDLE_CAUSES} | {int(Cause.PAUSED): HELD}


def _why(cause: int, leader: int) -> str:
    return Cause.NO_LEADER.key if leader == NO_BROKER else _IDLE.get(cause, "")


# Moves that have not begun


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Copies of moves that wait. Arrays have shape (copies,)."""

    copies: Copies
    operation: Ints
    move: Ints
    """The place of its move in `moves`."""
    moves: tuple[Move, ...]
    leader: Ints
    """The leader's broker of each move, or `NOBODY`. Shape (moves,)."""
    size_bytes: Floats
    """Shape (moves,)."""


def _waiting(known: _Known, operations: Sequence[RunningOperation]) -> _Waiting:
    """What operations will still copy; sizes and leaders are those of the snapshot."""
    owned = [
        (place, move, adding)
        for place, one in enumerate(operations)
        for move in one.waiting
        if (adding := move.adding)
    ]
    moves = tuple(move for _, move, _ in owned)
    rows = leader_rows(known.snapshot, [move.partition for move in moves])
    table, led = known.table, rows >= 0
    leader = np.where(led, table.broker[rows], NOBODY)
    size = _known_or_nan(np.where(led, table.size_bytes[rows], -1))
    entries = [
        (n, broker, 1 - _gone(move, led_by) / len(adding), _takes_over(move, broker))
        for n, ((_, move, adding), led_by) in enumerate(zip(owned, leader.tolist(), strict=True))
        for broker in adding
    ]
    number = np.array([n for n, _, _, _ in entries], np.int64)
    of_leader = rows[number]
    operation = np.array([place for place, _, _ in owned], np.int64)[number]
    written = known.watched.written_bytes_per_s[of_leader]
    nothing = np.full(len(entries), np.nan)
    copies = Copies(
        source=leader[number].astype(np.int64),
        target=np.array([broker for _, broker, _, _ in entries], np.int64),
        remaining_bytes=size[number],
        written_bytes_per_s=written,
        written_least_bytes_per_s=known.watched.written_least_bytes_per_s[of_leader],
        written_lately_bytes_per_s=known.watched.written_lately_bytes_per_s[of_leader],
        seen_bytes_per_s=nothing,
        source_seen_bytes_per_s=nothing,
        target_seen_bytes_per_s=nothing,
        latest_bytes_per_s=nothing,
        begins_bytes_per_s=nothing,
        age_s=np.zeros(len(entries)),
        at_source=table.leader_throttled[of_leader],
        at_target=np.array([_listed(known, moves[n], broker) for n, broker, _, _ in entries], bool),
        has_turn=np.ones(len(entries), np.bool_),
        stuck=np.zeros(len(entries), np.bool_),
        source_after=np.array([after for _, _, after, _ in entries]),
        target_after=np.array([0.0 if takes else 1.0 for _, _, _, takes in entries]),
        why=tuple(
            _why_not(known, operations[op], int(leader[n]), broker)
            for op, (n, broker, _, _) in zip(operation.tolist(), entries, strict=True)
        ),
    )
    return _Waiting(copies, operation, number, moves, leader, size)


def _gone(move: Move, leader: int) -> int:
    """Followers that leave the leader with the move's end, those that came with it included."""
    removing = move.removing
    if leader in removing:
        return len(move.current) - 1 + len(move.adding)
    return len(removing)


def _takes_over(move: Move, broker: int) -> bool:
    """Whether the new replica leads in the end."""
    return move.target[0] == broker and move.current[:1] != move.target[:1]


def _listed(known: _Known, move: Move, broker: int) -> bool:
    return (move.partition.partition, broker) in _lists(known, move).followers


def _lists(known: _Known, move: Move) -> ThrottledReplicas:
    """The throttled replicas of the move's topic."""
    lists = known.snapshot.throttles.replicas.get(move.partition.topic)
    return ThrottledReplicas() if lists is None else lists


def _why_not(known: _Known, operation: RunningOperation, leader: int, broker: int) -> str:
    if operation.held:
        return HELD
    status = known.snapshot.brokers.get(broker)
    if status is None or not status.broker.host:
        return Cause.BROKER_DOWN.key
    return Cause.NO_LEADER.key if leader == NOBODY else ""


# Together


def _operations_of(
    known: _Known, rows: NDArray[np.intp], operations: Sequence[RunningOperation]
) -> Ints:
    found = np.full(len(rows), -1)
    if operations:
        for place, row in enumerate(rows.tolist()):
            partition = known.snapshot.partition_of(row)
            owners = (n for n, one in enumerate(operations) if partition in one.partitions)
            found[place] = next(owners, -1)
    return found


def _queue(
    known: _Known,
    rows: NDArray[np.intp],
    waiting: _Waiting,
    operations: Sequence[RunningOperation],
) -> MoveQueue:
    """Moves by number: first those that are under way, then those that wait."""
    table = known.table
    partitions, move = np.unique(known.partition[np.searchsorted(known.rows, rows)], False, True)
    brokers: list[set[int]] = [set() for _ in partitions]
    for number, row in zip(move.tolist(), rows.tolist(), strict=True):
        if table.adding[row]:
            brokers[number] |= {int(table.leader[row]), int(table.broker[row])} - {NO_BROKER}
    first = len(brokers)
    ends = [
        frozenset({leader, *one.adding} - {NOBODY})
        for one, leader in zip(waiting.moves, waiting.leader.tolist(), strict=True)
    ]
    number = waiting.move + first
    owner = np.zeros(len(waiting.moves), np.int64)
    owner[waiting.move] = waiting.operation
    return MoveQueue(
        np.concatenate([move.reshape(-1), number]),
        np.zeros(first + len(ends), np.int64),
        [*map(frozenset, brokers), *ends],
        tuple(
            WaitingMoves(first + _in_order(waiting, np.flatnonzero(owner == n), caps), caps)
            for n, one in enumerate(operations)
            if (caps := one.caps or _NO_CAPS)
        ),
    )


def _in_order(waiting: _Waiting, moves: Ints, caps: MoveCaps) -> Ints:
    """By bytes, as the backend's scheduler takes them; those of unknown size last."""
    counts = np.bincount(waiting.move, minlength=len(waiting.moves))[moves]
    sizes = waiting.size_bytes[moves] * counts * (1 if caps.smallest_first else -1)
    names = [waiting.moves[n].partition for n in moves.tolist()]
    by_name = np.argsort(np.array(sorted(range(len(names)), key=names.__getitem__), np.int64))
    return moves[np.lexsort((by_name, np.nan_to_num(sizes), np.isnan(sizes)))]


_NO_CAPS: Final = MoveCaps(10**9, 10**9)
_ARRAYS: Final = tuple(
    column.name for column in fields(Copies) if column.name not in ("why", "queue", "next_leaders")
)


# Leaders that change while copies run


def _next_leaders(known: _Known, rows: NDArray[np.intp], waiting: _Waiting) -> NextLeaders | None:
    """Preferred leaders that are in the ISR and do not lead, though a copy still runs.

    A controller that had the time to put one back, and did not, puts none back.
    """
    begun = _next_of_begun(known, rows)
    ages_s = known.watched.age_s[rows][begun.source != NOBODY]
    left_s = CHECK_S - float(ages_s.max(initial=0.0))
    # When it looks is not known: it may be at any moment of what is left.
    later = _next_of_waiting(known, waiting)
    found = NextLeaders(
        left_s / 2,
        np.concatenate([begun.source, later.source]),
        np.concatenate([begun.at_source, later.at_source]),
        np.concatenate([begun.source_after, later.source_after]),
        np.concatenate([begun.in_sync, later.in_sync]),
    )
    return found if left_s > 0 and (found.source != NOBODY).any() else None


def _next_of_begun(known: _Known, rows: NDArray[np.intp]) -> NextLeaders:
    """Of the copies in these rows."""
    table, near = known.table, np.searchsorted(known.rows, rows)
    preferred = known.steady & (table.position[known.rows] == 0)
    places = known.partition[preferred]
    source = np.full(known.partition.max(initial=-1) + 1, NOBODY)
    source[places] = table.broker[known.rows][preferred]
    listed = known.any(preferred & table.leader_throttled[known.rows])
    copied = np.bincount(known.partition[near], minlength=len(source))[known.partition[near]]
    leaving = known.count(table.in_isr[known.rows] & known.removing)[near]
    return NextLeaders(
        math.inf,
        source[known.partition[near]],
        listed[near],
        np.where(table.adding[rows], 1 - leaving / copied, 1.0),
        known.count(known.steady)[near] / copied,
    )


def _next_of_waiting(known: _Known, waiting: _Waiting) -> NextLeaders:
    """Of the copies of moves that wait, if all their present replicas are in the ISR by then."""
    moves = [
        (move, move.target[0] if move.target[0] in move.current else NOBODY)
        for move in waiting.moves
    ]
    source = np.array([broker for _, broker in moves], np.int64)
    source = np.where(source == waiting.leader, NOBODY, source)
    listed = np.array(
        [
            (move.partition.partition, broker) in _lists(known, move).leaders
            for move, broker in moves
        ],
        bool,
    )
    came = np.array([len(move.adding) for move, _ in moves], np.float64)
    after = 1 - np.array([len(move.removing) for move, _ in moves], np.float64) / came
    in_sync = np.array([len(move.current) - 1.0 for move, _ in moves]) / came
    of = waiting.move
    return NextLeaders(math.inf, source[of], listed[of], after[of], in_sync[of])


# Rates


def _broker_rates(known: _Known, rates: Mapping[int, ThrottledRate]) -> BrokerRates:
    """Throttles, and what followers in the ISR that are listed take of them."""
    table, rows = known.table, known.rows
    brokers = np.array(sorted(rates), np.int64)
    written = np.nan_to_num(known.watched.written_bytes_per_s[rows])

    def in_sync(ends: NDArray[np.int32], listed: Mask) -> Floats:
        some = known.steady & listed & np.isin(ends, brokers)
        places = np.searchsorted(brokers, ends[some])
        return np.bincount(places, written[some], len(brokers)).astype(np.float64)

    def column(side: Callable[[ThrottledRate], int | None]) -> Floats:
        found = (side(rates[broker]) for broker in brokers.tolist())
        return np.array([math.inf if one is None else float(one) for one in found])

    return BrokerRates(
        brokers,
        column(lambda rate: rate.leader_bytes_per_s),
        column(lambda rate: rate.follower_bytes_per_s),
        in_sync(table.leader[rows], known.listed),
        in_sync(table.broker[rows], table.follower_throttled[rows]),
    )
