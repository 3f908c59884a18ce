"""What the engine has to remember of a reassignment, so that any backend can finish it.

A `ReassignmentWork` is in the journal before each effect that it speaks of. Everything here is a
value, or a pure function of values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import (
    Move,
    ReplicaSet,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.moves.pause_throttles import PauseRecord
from kshunt.backend.operations.moves.schedule import Caps, Order, Queue
from kshunt.backend.operations.ownership.ownership import Shares

Document = Mapping[str, Any]

_FIELDS: Final = frozenset(
    {
        "moves", "log_dirs", "throttle", "log_dirs_throttle", "auto_remove", "factor_may_change",
        "timeout_s", "order", "caps", "pause", "failed", "adopted",
    }
)  # fmt: skip
_STATES: Final = ("started", "unanswered", "cancelled", "refused")
MALFORMED: Final = (
    *(TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RecursionError),
)
"""What reading a body can end with that nobody of ours wrote."""
ID_MAX: Final = 2**31 - 1
"""Of brokers and partitions, as Kafka has them."""
NUMBER_MAX: Final = 2**63 - 1
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last moment of the year 9999."""


class UnreadableWork(KshuntError):
    """An operation in the journal cannot be understood; it is listed, and not acted upon."""

    title = "Unreadable operation"


@dataclass(frozen=True, slots=True)
class ReassignmentWork:
    """One reassignment, and how far it was taken."""

    moves: Mapping[TopicPartition, Move]
    """Where each partition was when it was asked for, and where it shall be."""
    log_dirs: Mapping[tuple[TopicPartition, int], str] = field(default_factory=dict)
    throttle_bytes_per_s: int | None = None
    log_dirs_throttle_bytes_per_s: int | None = None
    auto_remove: bool = True
    factor_may_change: bool = True
    timeout_s: float = 10.0
    order: Order = Order.LARGEST_FIRST
    caps: Caps | None = None
    """None: everything is submitted at once, as Kafka's own tool does."""
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
        self, taken: Collection[TopicPartition], not_taken: Iterable[TopicPartition]
    ) -> ReassignmentWork:
        """The cluster took the first, and refused the others."""
        refused = frozenset(not_taken)
        return replace(
            self,
            unanswered=self.unanswered - frozenset(taken) - refused,
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
        (topic, key): frozenset(pair for pair in pairs if (topic, pair[0]) in numbers)
        for (topic, key), pairs in held.lists.items()
    }
    return Shares(
        {cell: rate for cell, rate in held.rates.items() if cell[0] in brokers},
        {cell: pairs for cell, pairs in lists.items() if pairs},
    )


# --- in the journal


def document(work: ReassignmentWork) -> Document:
    """For an entry of the journal."""
    return {
        "moves": [
            [*partition, list(move.current), list(move.target), _state_of(partition, work)]
            for partition, move in work.moves.items()
        ],
        "log_dirs": [
            [*partition, broker, path] for (partition, broker), path in work.log_dirs.items()
        ],
        "throttle": work.throttle_bytes_per_s,
        "log_dirs_throttle": work.log_dirs_throttle_bytes_per_s,
        "auto_remove": work.auto_remove,
        "factor_may_change": work.factor_may_change,
        "timeout_s": work.timeout_s,
        "order": work.order.value,
        "caps": None if work.caps is None else [work.caps.per_broker, work.caps.in_cluster],
        "pause": None if work.pause is None else _pause_document(work.pause),
        "failed": work.failed,
        "adopted": work.adopted,
    }


def _state_of(partition: TopicPartition, work: ReassignmentWork) -> list[str]:
    """Every word that is true of a partition; several can be."""
    sets = (work.started, work.unanswered, work.cancelled, work.refused)
    return [word for word, members in zip(_STATES, sets, strict=True) if partition in members]


def _pause_document(pause: PauseRecord) -> Document:
    return {
        "rates": [[broker, rate] for broker, rate in sorted(pause.rates.items())],
        "added": {topic: str(pairs) for topic, pairs in sorted(pause.added.items())},
    }


def read_work(written: Document) -> ReassignmentWork:
    """The opposite of `document`.

    Raises:
        UnreadableWork: it is not what `document` writes; it must not be acted upon.
    """
    if not isinstance(written, Mapping) or set(written) != _FIELDS:
        raise UnreadableWork("The operation's work has other fields than it must.")
    try:
        return _read(written)
    except MALFORMED as error:
        raise UnreadableWork(f"The operation's work cannot be understood: {error}.") from None


def _read(written: Document) -> ReassignmentWork:
    moves: dict[TopicPartition, Move] = {}
    members: dict[str, set[TopicPartition]] = {word: set() for word in _STATES}
    for topic, number, current, target, words in written["moves"]:
        partition = TopicPartition(_typed(topic, str), whole(number, ID_MAX))
        moves[partition] = Move(partition, _brokers(current), _brokers(target))
        for word in words:
            members[word].add(partition)
    caps, pause = written["caps"], written["pause"]
    return ReassignmentWork(
        moves=moves,
        log_dirs=dict(_log_dir(*entry) for entry in written["log_dirs"]),
        throttle_bytes_per_s=_optional(written["throttle"]),
        log_dirs_throttle_bytes_per_s=_optional(written["log_dirs_throttle"]),
        auto_remove=_typed(written["auto_remove"], bool),
        factor_may_change=_typed(written["factor_may_change"], bool),
        timeout_s=_seconds(written["timeout_s"]),
        order=Order(written["order"]),
        caps=None if caps is None else Caps(*map(whole, caps)),
        pause=None if pause is None else _read_pause(pause),
        failed=_typed(written["failed"], str),
        adopted=_typed(written["adopted"], bool),
        **{word: frozenset(members[word]) for word in _STATES},
    )


def _log_dir(
    topic: Any, number: Any, broker: Any, path: Any
) -> tuple[tuple[TopicPartition, int], str]:
    partition = TopicPartition(_typed(topic, str), whole(number, ID_MAX))
    return (partition, whole(broker, ID_MAX)), _typed(path, str)


def _read_pause(written: Document) -> PauseRecord:
    return PauseRecord(
        {whole(broker, ID_MAX): _optional(rate) for broker, rate in written["rates"]},
        {topic: ReplicaSet.parse(_typed(text, str)) for topic, text in written["added"].items()},
    )


def _brokers(value: Any) -> tuple[int, ...]:
    return tuple(whole(broker, ID_MAX) for broker in value)


def _optional(value: Any) -> int | None:
    return None if value is None else whole(value)


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= TIME_MS_MAX:
        raise TypeError(f"{value!r} is no time in seconds")
    return float(value)


def whole(value: Any, most: int = NUMBER_MAX) -> int:
    """A number from 0 to a greatest one.

    Raises:
        TypeError: it is none.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise TypeError(f"{value!r} is no whole number from 0 to {most}")
    return value


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
