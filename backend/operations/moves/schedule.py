"""Which moves of a plan start next, and why each of the others waits.

Goals
    A plan of thousands of moves runs without choking a broker and without making the cluster less
    safe than it is. At any time an operator can read for every waiting move what it waits for.
Constraints
    Pure and deterministic: the same queue and view give the same batch. At most
    `Caps.per_broker` moves copy from or to one broker and `Caps.in_cluster` in all, counting
    moves that others started. No move starts that could take its partition under
    min.insync.replicas (below). While partitions that the plan does not touch are under it, no
    move starts but one that heals its own partition.
Algorithm
    1. Each waiting move is judged by itself (`judge`): can it start, and is it safe.
    2. Unrelated partitions under min.insync.replicas hold what is left, but for healing moves.
    3. The rest is ordered by bytes and taken in passes, which are fair to all brokers
       (`kshunt.backend.domain.reassignment.move_passes`).
    The order is a preference: where a move finds its broker full, the next move that does not takes
    its turn, so no place stays free. The queue is finite; each move gets its turn.

What can take a partition under min.insync.replicas
    Kafka adds the new replicas first. It waits until the whole target is in sync (since
    KAFKA-19975: until the added ones are), and then removes the old ones in one record. So:

    - At the end the ISR is what is in sync and stays, and the added ones. It is too small where
      the plan lowers the replication factor under min.insync.replicas, or where it removes
      replicas that are in sync and keeps one that is not. The first never heals by waiting, the
      second when the kept replica is back in sync.
    - While it copies, only added replicas are out of the ISR, and the ISR does not shrink by the
      move. But acks=all needs min(min.insync.replicas, replicas), and the added ones count as
      replicas (`Partition.effectiveMinIsr`). So a topic with fewer replicas than
      min.insync.replicas refuses acks=all from the first moment of a move until its copy is in
      sync.
    - While it copies, the leader also serves the copy. A follower that cannot keep up falls out of
      the ISR. Where one has fallen out already and none is to spare, that would be the end of
      acks=all. Such a partition waits, unless the move brings more replicas in sync than there are.
      Where all replicas are in sync and none is to spare by configuration (min.insync.replicas =
      replication factor), waiting would change nothing and the move starts.
    - A replica that fails by itself while the move runs is beyond a scheduler. The batch is small,
      the gate of step 2 closes, and the cancellation is one key away.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import waits_words
from kshunt.backend.domain.reassignment.move_passes import in_passes
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.errors import BadInput
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.moves.cluster_view import ClusterView, effective_min_isr


class MoveOrder(enum.StrEnum):
    """Which waiting move comes first, by the bytes that it copies."""

    LARGEST_FIRST = "largest_first"
    """The end comes soonest: no large move is left over alone."""
    SMALLEST_FIRST = "smallest_first"
    """Many partitions are done soon."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How many moves may be in flight, those that others started included."""

    per_broker: int = LIMITS.moves_per_broker
    """Copies from the broker as leader and to it as a new replica, together."""
    in_cluster: int = LIMITS.moves_in_cluster

    def __post_init__(self) -> None:
        if self.per_broker < 1 or self.in_cluster < 1:
            raise BadInput(
                f"A cap of {min(self.per_broker, self.in_cluster)} moves would start none.",
                advice="Give at least 1, or pause the operation.",
            )


class WaitReason(enum.StrEnum):
    """Why a move waits."""

    PAUSED = "paused"
    GONE = "gone"
    """The cluster has no such partition any more."""
    LEAVING = "leaving"
    """The partition is read-only or being deleted (KIP-694)."""
    MOVED_BY_OTHERS = "moved_by_others"
    NO_LEADER = "no_leader"
    BROKER_DOWN = "broker_down"
    MIN_ISR_UNKNOWN = "min_isr_unknown"
    WOULD_FALL_UNDER_MIN_ISR = "would_fall_under_min_isr"
    """The move itself would do it, while it copies or when it ends."""
    AT_MIN_ISR = "at_min_isr"
    """A replica has fallen out of the ISR and no other may."""
    MIN_ISR_ELSEWHERE = "min_isr_elsewhere"
    BROKER_FULL = "broker_full"
    CLUSTER_FULL = "cluster_full"
    REQUEST_FULL = "request_full"


ACCEPTABLE: Final = frozenset(
    {
        WaitReason.MIN_ISR_UNKNOWN,
        WaitReason.WOULD_FALL_UNDER_MIN_ISR,
        WaitReason.AT_MIN_ISR,
        WaitReason.MIN_ISR_ELSEWHERE,
    }
)
"""Reasons that an operator may overrule for a partition (`Queue.accepted`)."""


@dataclass(frozen=True, slots=True)
class WaitingMove:
    """Why one move waits, and what it waits for."""

    why: WaitReason
    text: str
    """For an operator; without the partition's name."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Queue:
    """A plan's moves, and how far they were taken."""

    plan: Mapping[TopicPartition, tuple[int, ...]]
    """Target replicas of every partition of the operation, those that ended included."""
    started: frozenset[TopicPartition] = frozenset()
    """Submitted at some time; whether they still move is in the view."""
    dropped: frozenset[TopicPartition] = frozenset()
    """Cancelled by an operator before or after they started; they do not start again."""
    accepted: frozenset[TopicPartition] = frozenset()
    """An operator confirmed by name that these start although min.insync.replicas is at risk."""
    unanswered: frozenset[TopicPartition] = frozenset()
    """Those of `started` whose answer was lost; they hold their places until it is known."""
    order: MoveOrder = MoveOrder.LARGEST_FIRST
    caps: Caps = field(default_factory=Caps)
    paused: bool = False

    @property
    def waiting(self) -> tuple[TopicPartition, ...]:
        """Partitions that were never submitted, in the plan's order."""
        submitted = self.started | self.dropped
        return tuple(partition for partition in self.plan if partition not in submitted)


@dataclass(frozen=True, slots=True)
class NextMoves:
    """What to do with the waiting moves now; every one of them is in exactly one of the three."""

    start: tuple[Move, ...]
    """In the order in which they were taken."""
    held: Mapping[TopicPartition, WaitingMove]
    arrived: tuple[TopicPartition, ...] = ()
    """Those that are where the plan wants them without a move."""

    def __str__(self) -> str:
        """One line: how many start, and what the others wait for, the commonest first."""
        words = [f"{many(len(self.start), 'move')} to start"]
        if self.held:
            reasons = Counter(held.text for held in self.held.values()).most_common()
            words.append(
                f"{len(self.held)} waiting: "
                + listed((f"{count} for {text}" for text, count in reasons), 3)
            )
        return "; ".join(words)


def next_moves(queue: Queue, view: ClusterView, claimed: Iterable[Move] = ()) -> NextMoves:
    """The moves to start now, and why each of the others waits.

    `claimed` are moves that other operations were given since the view was read.
    """
    held: dict[TopicPartition, WaitingMove] = {}
    ready: list[Move] = []
    arrived: list[TopicPartition] = []
    blocked_by = _blocked_by(queue, view)
    for partition in queue.waiting:
        target = queue.plan[partition]
        if _arrived(partition, target, view):
            arrived.append(partition)
        elif found := _why_not(partition, target, queue, view, blocked_by):
            held[partition] = found
        else:
            ready.append(view.move_to(partition, target))
    places = _Places(queue.caps, _in_flight(queue, view, claimed))
    start = _in_passes(sorted(ready, key=_ordering(queue.order, view)), view, places, held)
    return NextMoves(tuple(start), held, tuple(arrived))


def judge(move: Move, view: ClusterView) -> WaitingMove | None:
    """Why this move must not start by what its own partition says, or None if it may.

    `move.partition` must be in the view. Caps and the rest of the cluster are not looked at.
    """
    state = view.partitions[move.partition]
    if not state.stays:
        return WaitingMove(WaitReason.LEAVING, waits_words(state.mode))
    other = view.ongoing.get(move.partition)
    if other is not None:
        return WaitingMove(
            WaitReason.MOVED_BY_OTHERS,
            f"a move to {list(other.target)}, which somebody else started, to end",
        )
    if state.leader == NO_BROKER:
        return WaitingMove(WaitReason.NO_LEADER, "a leader to copy from; the partition has none")
    down = [broker for broker in move.adding if broker not in view.live]
    if down:
        return WaitingMove(
            WaitReason.BROKER_DOWN, f"broker {listed(down)} to come back; it is down"
        )
    return _unsafe(move, view)


def heals(move: Move, view: ClusterView) -> bool:
    """True where the partition lacks replicas in sync and the move brings more of them."""
    isr = view.partitions[move.partition].isr
    min_isr = view.min_isr.get(move.partition.topic)
    if min_isr is None or len(isr) > effective_min_isr(min_isr, len(move.current)):
        return False
    return len(isr) < len(move.current) and len(isr_after(move, isr)) > len(isr)


def isr_after(move: Move, isr: Iterable[int]) -> frozenset[int]:
    """The smallest ISR that a partition can have when the move ends, if nothing else happens."""
    return frozenset((set(isr) & set(move.target)) | set(move.adding))


# One move by itself


def _why_not(
    partition: TopicPartition,
    target: tuple[int, ...],
    queue: Queue,
    view: ClusterView,
    blocked_by: WaitingMove | None,
) -> WaitingMove | None:
    if partition not in view.partitions:
        return WaitingMove(WaitReason.GONE, "nothing: the cluster has no such partition any more")
    if queue.paused:
        return WaitingMove(WaitReason.PAUSED, "the operation to be resumed")
    move = view.move_to(partition, target)
    found = judge(move, view)
    if found is None and blocked_by is not None and not heals(move, view):
        found = blocked_by
    if found is not None and found.why in ACCEPTABLE and partition in queue.accepted:
        return None
    return found


def _arrived(partition: TopicPartition, target: tuple[int, ...], view: ClusterView) -> bool:
    state = view.partitions.get(partition)
    return state is not None and state.replicas == target and partition not in view.ongoing


def _unsafe(move: Move, view: ClusterView) -> WaitingMove | None:
    """See the module's text on what can take a partition under min.insync.replicas."""
    isr = view.partitions[move.partition].isr
    min_isr = view.min_isr.get(move.partition.topic)
    if min_isr is None:
        return WaitingMove(
            WaitReason.MIN_ISR_UNKNOWN, "min.insync.replicas of its topic, which was not read"
        )
    missing = [broker for broker in move.current if broker not in isr]
    after = len(isr_after(move, isr))
    found = _too_few_replicas(move, min_isr) or _unsafe_meanwhile(move, min_isr, len(isr))
    if found is not None or (missing and after > len(isr)):
        return found
    return _unsafe_at_end(move, min_isr, after) or _nothing_to_spare(
        move, min_isr, len(isr), missing
    )


def _too_few_replicas(move: Move, min_isr: int) -> WaitingMove | None:
    if len(move.target) >= min(min_isr, len(move.current)):
        return None
    return WaitingMove(
        WaitReason.WOULD_FALL_UNDER_MIN_ISR,
        f"another plan: {many(len(move.target), 'replica')} would be fewer than "
        f"min.insync.replicas, {min_isr}",
    )


def _unsafe_at_end(move: Move, min_isr: int, after: int) -> WaitingMove | None:
    if after >= effective_min_isr(min_isr, len(move.target)):
        return None
    return WaitingMove(
        WaitReason.WOULD_FALL_UNDER_MIN_ISR,
        f"the replicas that stay to be in sync: without {listed(move.removing)} there would be "
        f"{after}, and min.insync.replicas is {min_isr}",
    )


def _unsafe_meanwhile(move: Move, min_isr: int, in_sync: int) -> WaitingMove | None:
    before = effective_min_isr(min_isr, len(move.current))
    meanwhile = effective_min_isr(min_isr, len(move.current) + len(move.adding))
    if before <= in_sync < meanwhile:
        return WaitingMove(
            WaitReason.WOULD_FALL_UNDER_MIN_ISR,
            f"min.insync.replicas, {min_isr}, to be at most {in_sync}: with more replicas the "
            "partition would reject acks=all until its copy is in sync",
        )
    return None


def _nothing_to_spare(
    move: Move, min_isr: int, in_sync: int, missing: list[int]
) -> WaitingMove | None:
    if missing and in_sync <= effective_min_isr(min_isr, len(move.current)):
        return WaitingMove(
            WaitReason.AT_MIN_ISR,
            f"broker {listed(missing)} to be in sync: {in_sync} in sync, and "
            f"min.insync.replicas is {min_isr}",
        )
    return None


# The rest of the cluster


def _blocked_by(queue: Queue, view: ClusterView) -> WaitingMove | None:
    """What holds every move that does not heal: partitions of others under min.insync.replicas."""
    elsewhere = sorted(view.under_min_isr - queue.plan.keys())
    if not elsewhere:
        return None
    return WaitingMove(
        WaitReason.MIN_ISR_ELSEWHERE,
        f"{many(len(elsewhere), 'partition')} under min.insync.replicas elsewhere "
        f"({listed(elsewhere, 3)})",
    )


# Places


def copying_brokers(move: Move, view: ClusterView) -> frozenset[int]:
    """Brokers that a move makes work: its leader, and those that get a new replica."""
    adding = move.adding
    if not adding:
        return frozenset()
    return frozenset({view.leader_of(move.partition), *adding}) - {NO_BROKER}


def _in_flight(
    queue: Queue, view: ClusterView, claimed: Iterable[Move]
) -> dict[TopicPartition, frozenset[int]]:
    """The brokers of every move that holds places: listed ones, lost ones, claimed ones."""
    moving = {
        partition: frozenset({view.leader_of(partition), *move.adding}) - {NO_BROKER}
        for partition, move in view.ongoing.items()
        if move.adding
    }
    for partition in queue.unanswered - moving.keys():
        if partition in view.partitions:
            lost = view.move_to(partition, queue.plan[partition])
            moving[partition] = copying_brokers(lost, view)
    for move in claimed:
        moving.setdefault(move.partition, copying_brokers(move, view))
    return {partition: brokers for partition, brokers in moving.items() if brokers}


@dataclass(slots=True)
class _Places:
    """What is taken, while a batch is put together."""

    caps: Caps
    moving: Mapping[TopicPartition, frozenset[int]]
    by_broker: Counter[int] = field(default_factory=Counter)
    in_cluster: int = 0
    in_request: int = 0
    refused: WaitingMove | None = None
    """Why the last move found no room, where it found none."""

    def __post_init__(self) -> None:
        for brokers in self.moving.values():
            self.by_broker.update(brokers)
        self.in_cluster = len(self.moving)

    def room(self, brokers: frozenset[int]) -> bool:
        """Whether a move that makes these brokers copy finds a place; else `refused` says why."""
        self.refused = self._refusal(brokers)
        return self.refused is None

    def _refusal(self, brokers: frozenset[int]) -> WaitingMove | None:
        if self.in_request >= LIMITS.partitions_per_reassignment:
            return WaitingMove(
                WaitReason.REQUEST_FULL, "the next request; Kafka accepts no more in one"
            )
        if not brokers:
            return None
        full = sorted(b for b in brokers if self.by_broker[b] >= self.caps.per_broker)
        if full:
            return WaitingMove(
                WaitReason.BROKER_FULL,
                f"broker {full[0]}: {self.by_broker[full[0]]} of {self.caps.per_broker} moves",
            )
        if self.in_cluster >= self.caps.in_cluster:
            return WaitingMove(
                WaitReason.CLUSTER_FULL,
                f"the cluster: {self.in_cluster} of {self.caps.in_cluster} moves",
            )
        return None

    def take(self, brokers: frozenset[int]) -> None:
        """One more is in flight."""
        self.in_request += 1
        self.by_broker.update(brokers)
        self.in_cluster += bool(brokers)


def _in_passes(
    ready: list[Move],
    view: ClusterView,
    places: _Places,
    held: dict[TopicPartition, WaitingMove],
) -> Iterator[Move]:
    """Take moves round-robin over the brokers; note in `held` why the others find no place."""
    waiting = ((move, copying_brokers(move, view)) for move in ready)
    for move, begins in in_passes(waiting, places):
        if begins:
            yield move
        elif places.refused is not None:
            held[move.partition] = places.refused


def _ordering(
    order: MoveOrder, view: ClusterView
) -> Callable[[Move], tuple[bool, int, TopicPartition]]:
    """Sorts by bytes; moves of unknown size last, and names decide between equals."""
    sign = -1 if order is MoveOrder.LARGEST_FIRST else 1

    def key(move: Move) -> tuple[bool, int, TopicPartition]:
        size_bytes = view.copy_bytes(move)
        return size_bytes is None, sign * (size_bytes or 0), move.partition

    return key
