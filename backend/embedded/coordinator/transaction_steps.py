"""What one transactional id does next: pure decisions from one `TransactionChanged` to another.

Kafka's `TransactionMetadata` and `TransactionCoordinator` (KIP-98, KIP-360, KIP-588). Every
decision that is refused raises `CoordinatorError`. EndTxn from version 5 on ends the epoch with
the transaction (KIP-890), whatever `transaction.version` is: a client that uses it counts its
sequences from 0 again. Clients use it only where that feature is advertised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.records import TransactionChanged, TransactionState

TIMEOUT_MAX_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms."""
EPOCH_MAX: Final = 0x7FFF
"""The last epoch of a producer id is kept for fencing it."""

PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Producer(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


def producer_of(now: TransactionChanged) -> Producer:
    """The producer that a transactional id has, or gets with the end of its transaction."""
    if now.next_producer_id >= 0:
        return Producer(now.next_producer_id, 0)
    return Producer(now.producer_id, now.epoch)


def created(
    transactional_id: str, timeout_ms: int, new_id: Callable[[], int]
) -> TransactionChanged:
    """A transactional id that nobody knew."""
    state = TransactionState.EMPTY
    return TransactionChanged(transactional_id, new_id(), 0, -1, -1, -1, timeout_ms, state)


def fenced(now: TransactionChanged) -> TransactionChanged:
    """The abort of an open transaction whose producer may not write any more."""
    state = TransactionState.PREPARE_ABORT
    return replace(now, epoch=min(now.epoch + 1, EPOCH_MAX), last_epoch=-1, state=state)


def check_init(now: TransactionChanged, expected: Producer | None) -> None:
    """Let InitProducerId continue; `expected` is what the producer has (KIP-360).

    Raises:
        CoordinatorError: it may not continue.
    """
    if expected is not None and expected.producer_id != now.producer_id:
        retried = expected.producer_id == now.last_producer_id and _exhausted(expected.epoch)
        if not retried:
            raise CoordinatorError(CoordinatorCode.PRODUCER_FENCED)
    if now.state in PREPARED:
        raise CoordinatorError(CoordinatorCode.CONCURRENT_TRANSACTIONS)
    if now.state == TransactionState.ONGOING and expected is not None:
        _check_epoch(now, expected.epoch)


def bumped(
    now: TransactionChanged,
    timeout_ms: int,
    expected: Producer | None,
    new_id: Callable[[], int],
) -> TransactionChanged:
    """A new epoch for the next instance of a producer without an open transaction.

    A repeated request of one that expects its epoch gets what it got before.
    """
    last = -1 if expected is None else now.epoch
    state = TransactionState.EMPTY
    if expected is not None and expected.epoch != now.epoch:
        if expected.epoch != now.last_epoch:
            raise CoordinatorError(CoordinatorCode.PRODUCER_FENCED)
        return replace(now, timeout_ms=timeout_ms, state=state)
    if _exhausted(now.epoch):
        following = replace(now, producer_id=new_id(), epoch=0, last_producer_id=now.producer_id)
    else:
        following = replace(now, epoch=now.epoch + 1)
    return replace(following, last_epoch=last, timeout_ms=timeout_ms, state=state)


def added(
    now: TransactionChanged | None,
    who: Producer,
    partitions: Collection[TopicPartition] = (),
    groups: Collection[str] = (),
) -> TransactionChanged:
    """The transaction with partitions, and with groups whose offsets it commits; it begins."""
    current = _of(now, who.producer_id)
    _check_epoch(current, who.epoch)
    if current.state in PREPARED:
        raise CoordinatorError(CoordinatorCode.CONCURRENT_TRANSACTIONS)
    items = sorted(current.members.union(partitions))
    return replace(
        current,
        state=TransactionState.ONGOING,
        topics=tuple(item.topic for item in items),
        partitions=tuple(item.partition for item in items),
        groups=tuple(sorted({*current.groups, *groups})),
    )


def ending(
    now: TransactionChanged | None,
    who: Producer,
    *,
    commit: bool,
    bumps: bool,
    new_id: Callable[[], int],
) -> TransactionChanged:
    """The transaction as it is to end; the same as before if it has ended like this already.

    With `bumps` the epoch ends with it (EndTxn from version 5 on).
    """
    if bumps and now is not None and _repeats(now, who):
        _check_ended(now, commit=commit)
        return now
    current = _of(now, who.producer_id)
    _check_epoch(current, who.epoch)
    if current.state != TransactionState.ONGOING:
        if not bumps:
            _check_ended(current, commit=commit)
            return current
        if commit or current.state in PREPARED:
            raise CoordinatorError(CoordinatorCode.INVALID_TXN_STATE)
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    prepared = replace(current, state=state)
    if not bumps:
        return prepared
    rotates = new_id() if _exhausted(current.epoch) else -1
    epoch = current.epoch + 1
    return replace(prepared, epoch=epoch, last_epoch=current.epoch, next_producer_id=rotates)


def completed(now: TransactionChanged) -> TransactionChanged:
    """A prepared transaction whose markers are all written."""
    commit = now.state == TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    done = replace(now, state=state, topics=(), partitions=(), groups=(), next_producer_id=-1)
    if now.next_producer_id < 0:
        return done
    return replace(
        done, producer_id=now.next_producer_id, epoch=0, last_producer_id=now.producer_id
    )


def _of(now: TransactionChanged | None, producer_id: int) -> TransactionChanged:
    if now is None or now.producer_id != producer_id:
        raise CoordinatorError(CoordinatorCode.INVALID_PRODUCER_ID_MAPPING)
    return now


def _check_epoch(now: TransactionChanged, epoch: int) -> None:
    if epoch != now.epoch:
        raise CoordinatorError(CoordinatorCode.PRODUCER_FENCED)


def _check_ended(now: TransactionChanged, *, commit: bool) -> None:
    """Whether a transaction that is over, or nearly, ended in this way."""
    prepared = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    if now.state == prepared:
        raise CoordinatorError(CoordinatorCode.CONCURRENT_TRANSACTIONS)
    if now.state != done:
        raise CoordinatorError(CoordinatorCode.INVALID_TXN_STATE)


def _repeats(now: TransactionChanged, who: Producer) -> bool:
    """Whether a producer ends again what it ended with the epoch before."""
    if now.state not in (*PREPARED, *COMPLETE) or who.epoch != now.last_epoch:
        return False
    return who.producer_id in (now.producer_id, now.last_producer_id)


def _exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
