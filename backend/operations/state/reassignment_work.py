"""What the engine has to remember of a reassignment, so that any backend can finish it.

A `ReassignmentWork` is in the journal before each effect that it speaks of. Everything here is a
value, or a pure function of values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import (
    Move,
    ReplicaSet,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.domain.untrusted.json_codec import TIME_MS_MAX, Id, Whole, to_document
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.moves.pause_throttles import PauseRecord
from kshunt.backend.operations.moves.schedule import Caps, MoveOrder, Queue
from kshunt.backend.operations.ownership.ownership import Shares

Document = Mapping[str, Any]

_STATES: Final = ("started", "unanswered", "cancelled", "refused")
MALFORMED: Final = (
    *(TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RecursionError),
)
"""What reading a body can end with that nobody of ours wrote."""


class UnreadableWork(KshuntError):
    """An operation in the journal cannot be understood; it is listed, and not acted upon."""

    title = "Unreadable operation"


@dataclass(frozen=True, slots=True)
class ReassignmentWork:
    """One reassignment, and how far it was taken."""

    moves: Mapping[TopicPartition, Move]
    """Where each partition was when the move was asked for, and where it is to be."""
    log_dirs: Mapping[tuple[TopicPartition, int], str] = field(default_factory=dict)
    throttle_bytes_per_s: int | None = None
    log_dirs_throttle_bytes_per_s: int | None = None
    auto_remove: bool = True
    factor_may_change: bool = True
    timeout_s: float = 10.0
    order: MoveOrder = MoveOrder.LARGEST_FIRST
    caps: Caps | None = None
    """None: everything is submitted at the same time, as Kafka's own tool does."""
    started: frozenset[TopicPartition] = frozenset()
    """Submitted at some time, `unanswered` included."""
    unanswered: frozenset[TopicPartition] = frozenset()
    """About to be submitted, or submitted without an answer."""
    cancelled: frozenset[TopicPartition] = frozenset()
    """An operator wants them back where they were."""
    refused: frozenset[TopicPartition] = frozenset()
    """The cluster did not take them."""
    pause: PauseRecord | None = None
    """What the pause changed in the operation's own shares; None where it is not paused."""
    failed: str = ""
    """Why it came to nothing, where it did; it ends as FAILED once its throttle is off."""
    adopted: bool = False
    """True where somebody else started the moves, and only the throttle is ours."""

    @property
    def waiting(self) -> tuple[TopicPartition, ...]:
        """Never submitted, and wanted."""
        gone = self.started | self.cancelled | self.refused
        return tuple(partition for partition in self.moves if partition not in gone)

    @property
    def live(self) -> frozenset[TopicPartition]:
        """Submitted, and neither cancelled nor refused."""
        return self.started - self.cancelled - self.refused

    @property
    def all_cancelled(self) -> bool:
        """True where an operator wants back all that the cluster took."""
        return bool(self.cancelled) and self.moves.keys() <= self.cancelled | self.refused

    @property
    def queue(self) -> Queue:
        """As the scheduler and the cancellation see it."""
        return Queue(
            plan={partition: move.target for partition, move in self.moves.items()},
            started=self.started,
            dropped=self.cancelled | self.refused,
            unanswered=self.unanswered,
            order=self.order,
            caps=self.caps or Caps(),
            paused=self.pause is not None,
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of its partitions, sorted."""
        return tuple(sorted({partition.topic for partition in self.moves}))

    def submitting(self, batch: Iterable[TopicPartition]) -> ReassignmentWork:
        """About to submit these."""
        wanted = frozenset(batch)
        return replace(
            self, started=self.started | wanted, unanswered=self.unanswered | wanted, failed=""
        )

    def answered(
        self, accepted: Collection[TopicPartition], not_accepted: Iterable[TopicPartition]
    ) -> ReassignmentWork:
        """The cluster accepted the first, and refused the others."""
        refused = frozenset(not_accepted)
        return replace(
            self,
            unanswered=self.unanswered - frozenset(accepted) - refused,
            refused=self.refused | refused,
        )

    def found(self, there: Iterable[TopicPartition]) -> ReassignmentWork:
        """What was in doubt is known: these were submitted, the others wait again."""
        lost = self.unanswered - frozenset(there)
        return replace(self, started=self.started - lost, unanswered=frozenset())

    def in_flight(
        self, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> frozenset[TopicPartition]:
        """Its partitions that the cluster is moving, wherever to."""
        return frozenset(partition for partition in self.started if partition in ongoing)


def shares_of(work: ReassignmentWork) -> Shares:
    """What the operation needs throttled, for the partitions that are not given up.

    KIP-179: the old replicas on the leaders' side, the new ones on the followers' side, and the
    rates of every broker that takes part.
    """
    given_up = work.cancelled | work.refused
    moves = [move for partition, move in work.moves.items() if partition not in given_up]
    log_dirs = {broker for (partition, broker) in work.log_dirs if partition not in given_up}
    rate = work.log_dirs_throttle_bytes_per_s
    return Shares.of(
        throttled_replicas_of(moves) if work.throttle_bytes_per_s is not None else {},
        brokers_of(moves),
        work.throttle_bytes_per_s,
        {} if rate is None else dict.fromkeys(sorted(log_dirs), rate),
    )


def still_needed(work: ReassignmentWork, held: Shares) -> Shares:
    """Of the operation's shares, what the partitions need that are not given up.

    Moves that somebody else started may be throttled otherwise than we would: what is held for
    them says what they need.
    """
    if not work.adopted:
        return shares_of(work)
    left = [move for partition, move in work.moves.items() if partition not in work.cancelled]
    brokers, numbers = set(brokers_of(left)), {move.partition for move in left}
    lists = {
        (topic, key): frozenset(pair for pair in pairs if TopicPartition(topic, pair[0]) in numbers)
        for (topic, key), pairs in held.lists.items()
    }
    return Shares(
        {cell: rate for cell, rate in held.rates.items() if cell[0] in brokers},
        {cell: pairs for cell, pairs in lists.items() if pairs},
    )


# --- in the journal


class MoveRow(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """One partition, where it was and is to be, and every word that is true of it."""

    topic: str
    partition: Id
    current: tuple[Id, ...]
    target: tuple[Id, ...]
    words: list[Literal["started", "unanswered", "cancelled", "refused"]]


class WorkRecord(Struct, forbid_unknown_fields=True, frozen=True):
    """A `ReassignmentWork` as an entry of the journal has it."""

    moves: list[MoveRow]
    log_dirs: list[tuple[str, Id, Id, str]]
    throttle: Whole | None
    log_dirs_throttle: Whole | None
    auto_remove: bool
    factor_may_change: bool
    timeout_s: Annotated[float, Meta(ge=0, le=TIME_MS_MAX)]
    order: MoveOrder
    caps: tuple[Whole, Whole] | None
    pause: PauseRow | None
    failed: str
    adopted: bool

    def work(self) -> ReassignmentWork:
        """What was recorded.

        Raises:
            BadInput: a list of throttled replicas, or a cap, is not valid.
        """
        moves: dict[TopicPartition, Move] = {}
        members: dict[str, set[TopicPartition]] = {word: set() for word in _STATES}
        for row in self.moves:
            partition = TopicPartition(row.topic, row.partition)
            moves[partition] = Move(partition, row.current, row.target)
            for word in row.words:
                members[word].add(partition)
        return ReassignmentWork(
            moves=moves,
            log_dirs={(TopicPartition(t, p), broker): path for t, p, broker, path in self.log_dirs},
            throttle_bytes_per_s=self.throttle,
            log_dirs_throttle_bytes_per_s=self.log_dirs_throttle,
            auto_remove=self.auto_remove,
            factor_may_change=self.factor_may_change,
            timeout_s=self.timeout_s,
            order=self.order,
            caps=None if self.caps is None else Caps(*self.caps),
            pause=None if self.pause is None else self.pause.record(),
            failed=self.failed,
            adopted=self.adopted,
            **{word: frozenset(members[word]) for word in _STATES},
        )


class PauseRow(Struct, forbid_unknown_fields=True, frozen=True):
    """A `PauseRecord` as an entry of the journal has it."""

    rates: list[tuple[Id, Whole | None]]
    added: dict[str, str]

    @classmethod
    def of(cls, pause: PauseRecord) -> PauseRow:
        """What a pause changed."""
        added = {topic: str(pairs) for topic, pairs in sorted(pause.added.items())}
        return cls(sorted(pause.rates.items()), added)

    def record(self) -> PauseRecord:
        """The opposite of `of`."""
        added = {topic: ReplicaSet.parse(text) for topic, text in self.added.items()}
        return PauseRecord(dict(self.rates), added)


def document(work: ReassignmentWork) -> Document:
    """For an entry of the journal."""
    log_dirs = [(p.topic, p.partition, broker, dir) for (p, broker), dir in work.log_dirs.items()]
    written = WorkRecord(
        moves=[],
        log_dirs=log_dirs,
        throttle=work.throttle_bytes_per_s,
        log_dirs_throttle=work.log_dirs_throttle_bytes_per_s,
        auto_remove=work.auto_remove,
        factor_may_change=work.factor_may_change,
        timeout_s=work.timeout_s,
        order=work.order,
        caps=None if work.caps is None else (work.caps.per_broker, work.caps.in_cluster),
        pause=None if work.pause is None else PauseRow.of(work.pause),
        failed=work.failed,
        adopted=work.adopted,
    )
    # One call for all rows would hold up every other thread until it returns.
    rows = [
        [*partition, move.current, move.target, _state_of(partition, work)]
        for partition, move in work.moves.items()
    ]
    return {**to_document(written), "moves": rows}


def _state_of(partition: TopicPartition, work: ReassignmentWork) -> list[str]:
    """Every word that is true of a partition; several can be."""
    sets = (work.started, work.unanswered, work.cancelled, work.refused)
    return [word for word, members in zip(_STATES, sets, strict=True) if partition in members]
