"""The transaction coordinator: every transactional id, and the markers that end transactions.

Goals: a transaction ends in all of its partitions and groups in the same way, whatever stops in
between; of several instances of a producer only the last one writes.

Constraints: no clock and no I/O. A state is persisted before anybody is answered, and before a
marker is written.

Algorithm: EndTxn, a new instance of the producer, or the transaction's time-out make it prepared
(PREPARE_COMMIT or PREPARE_ABORT). Then each partition gets a marker, which `markers` writes; where
that is not possible, as without a leader, `tick` tries again. When all have theirs, the offsets
hold or go, and the transaction is complete. Markers that are repeated after a restart end
nothing, so they do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator import transaction_steps
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.records import TransactionChanged, TransactionState
from kshunt.backend.embedded.coordinator.transaction_steps import PREPARED, TIMEOUT_MAX_MS, Producer
from kshunt.backend.embedded.metadata.records import Record

_OPEN: Final = (TransactionState.ONGOING, *PREPARED)


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction in a partition."""

    partition: TopicPartition
    producer: Producer
    commit: bool


class PendingOffsets(Protocol):
    """Who keeps the offsets that transactions commit."""

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Let the offsets of a producer's transaction hold, or forget them."""
        ...


class TransactionCoordinator:
    """See the module. Times are seconds of a clock that never goes back."""

    def __init__(
        self,
        persist: Callable[[Sequence[Record]], None],
        markers: Callable[[Marker], bool],
        offsets: PendingOffsets,
        *,
        timeout_max_ms: int = TIMEOUT_MAX_MS,
    ) -> None:
        """`markers` writes one, and says whether its partition is done with the transaction."""
        self.timeout_max_ms = timeout_max_ms
        self._persist = persist
        self._markers = markers
        self._offsets = offsets
        self._known: dict[str, TransactionChanged] = {}
        self._by_producer: dict[int, str] = {}
        self._deadlines_s: dict[str, float] = {}
        self._marked: dict[str, set[TopicPartition]] = {}

    # --- requests

    def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        new_id: Callable[[], int],
    ) -> Producer:
        """A producer id and a new epoch; an open transaction of its last instance is aborted.

        Raises:
            CoordinatorError: the time-out is none, the producer is fenced, or its transaction
                is not over yet (CONCURRENT_TRANSACTIONS; the client asks again).
        """
        if not 0 < timeout_ms <= self.timeout_max_ms:
            raise CoordinatorError(CoordinatorCode.INVALID_TRANSACTION_TIMEOUT)
        now = self._known.get(transactional_id)
        if now is None:
            self._emit(transaction_steps.created(transactional_id, timeout_ms, new_id))
            return transaction_steps.producer_of(self._known[transactional_id])
        transaction_steps.check_init(now, expected)
        if now.state == TransactionState.ONGOING:
            now = self._end(transaction_steps.fenced(now))
            expected = None
            if now.state in PREPARED:
                raise CoordinatorError(CoordinatorCode.CONCURRENT_TRANSACTIONS)
        following = transaction_steps.bumped(now, timeout_ms, expected, new_id)
        self._emit(following)
        return transaction_steps.producer_of(following)

    def add(
        self,
        transactional_id: str,
        who: Producer,
        now_s: float,
        *,
        partitions: Collection[TopicPartition] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Let a transaction write to partitions, and commit offsets of groups.

        Raises:
            CoordinatorError: see `transaction_steps.added`.
        """
        now = self._known.get(transactional_id)
        following = transaction_steps.added(now, who, partitions, groups)
        if now is None or now.state != TransactionState.ONGOING:
            self._deadlines_s[transactional_id] = now_s + following.timeout_ms / 1000
        if following != now:
            self._emit(following)

    def end(
        self,
        transactional_id: str,
        who: Producer,
        *,
        commit: bool,
        bumps: bool,
        new_id: Callable[[], int],
    ) -> Producer:
        """Commit or abort; returns the producer for what follows.

        The answer may go out before all markers are written, as Kafka's does: until they are,
        the next request of the producer gets CONCURRENT_TRANSACTIONS.

        Raises:
            CoordinatorError: see `transaction_steps.ending`.
        """
        now = self._known.get(transactional_id)
        following = transaction_steps.ending(now, who, commit=commit, bumps=bumps, new_id=new_id)
        if following != now:
            following = self._end(following)
        return transaction_steps.producer_of(following)

    # --- looking

    def may_write(self, producer_id: int, epoch: int, topic: str, partition: int) -> bool:
        """Whether a producer's transaction is open and holds the partition."""
        who = Producer(producer_id, epoch)
        return self.refuses_write(who, TopicPartition(topic, partition)) is CoordinatorCode.NONE

    def refuses_write(self, who: Producer, partition: TopicPartition) -> CoordinatorCode:
        """Why a producer may not write to a partition in its transaction; NONE if it may."""
        return self._refuses(who, lambda now: partition in now.members)

    def refuses_offsets(self, who: Producer, group: str) -> CoordinatorCode:
        """Why a producer may not commit a group's offsets in its transaction; NONE if it may."""
        return self._refuses(who, lambda now: group in now.groups)

    def _refuses(
        self, who: Producer, holds: Callable[[TransactionChanged], bool]
    ) -> CoordinatorCode:
        now = self._known.get(self._by_producer.get(who.producer_id, ""))
        if now is None or now.producer_id != who.producer_id:
            return CoordinatorCode.INVALID_PRODUCER_ID_MAPPING
        if now.epoch != who.epoch:
            return CoordinatorCode.INVALID_PRODUCER_EPOCH
        is_open = now.state == TransactionState.ONGOING and holds(now)
        return CoordinatorCode.NONE if is_open else CoordinatorCode.INVALID_TXN_STATE

    def known(self, transactional_id: str) -> TransactionChanged | None:
        """All that is known of a transactional id."""
        return self._known.get(transactional_id)

    # --- time

    def tick(self, now_s: float) -> bool:
        """Abort what took too long, and retry what could not end; whether anything changed."""
        before = [now for now in self._known.values() if now.state in _OPEN]
        for now in before:
            if now.state in PREPARED:
                self._finish(now)
            elif self._is_late(now, now_s):
                self._end(transaction_steps.fenced(now))
        return any(self._known[now.transactional_id] != now for now in before)

    def _is_late(self, now: TransactionChanged, now_s: float) -> bool:
        """Whether a transaction's time is over; after a restart it begins again."""
        limit_s = now_s + now.timeout_ms / 1000
        return self._deadlines_s.setdefault(now.transactional_id, limit_s) <= now_s

    # --- ending

    def _end(self, prepared: TransactionChanged) -> TransactionChanged:
        self._deadlines_s.pop(prepared.transactional_id, None)
        self._marked.pop(prepared.transactional_id, None)
        self._emit(prepared)
        return self._finish(prepared)

    def _finish(self, now: TransactionChanged) -> TransactionChanged:
        """Write the markers that are missing; complete the transaction if none is any more."""
        commit = now.state == TransactionState.PREPARE_COMMIT
        who = Producer(now.producer_id, now.epoch)
        marked = self._marked.setdefault(now.transactional_id, set())
        for partition in sorted(now.members - marked):
            if self._markers(Marker(partition, who, commit)):
                marked.add(partition)
        if marked != now.members:
            return now
        del self._marked[now.transactional_id]
        self._offsets.end_transaction(now.producer_id, commit=commit)
        done = transaction_steps.completed(now)
        self._emit(done)
        return done

    # --- durability

    def replay(self, record: Record) -> None:
        """Let a record that was persisted become true; records of others are left alone."""
        if isinstance(record, TransactionChanged):
            self._known[record.transactional_id] = record
            self._by_producer[record.producer_id] = record.transactional_id

    def _emit(self, record: TransactionChanged) -> None:
        self._persist([record])
        self.replay(record)
