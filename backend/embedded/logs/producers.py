"""What a partition remembers of idempotent producers and of transactions (KIP-98, KIP-360).

The rules are those of Kafka 4.x:

- A batch that repeats one of a producer's last five is answered with the offset it got then.
- Anything else that does not follow the last sequence is out of order, however old it is.
- An epoch below the last one is refused. A higher one begins at sequence 0.
- A producer of which nothing is known may begin anywhere.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kshunt.backend.embedded.logs.batch import BatchHeader
from kshunt.backend.embedded.logs.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
)

REMEMBERED_BATCHES: Final = 5
_SEQUENCE_MAX: Final = 0x7FFFFFFF


class _Written(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class ProducerState:
    """One producer in one partition."""

    epoch: int
    written: deque[_Written] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    """Its last batches of this epoch, newest last."""
    transaction_from: int | None = None
    """First offset of its open transaction."""


class AbortedTransaction(NamedTuple):
    """What a read_committed consumer has to leave out."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""


class Producers:
    """The producers of a partition, its open transactions and those that ended."""

    __slots__ = ("aborted", "ended", "states")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []
        """By the offset of the marker."""
        self.ended: list[tuple[int, int]] = []
        """First offset and marker of transactions whose markers may not be replicated yet."""

    def check(self, header: BatchHeader) -> int | None:
        """The base offset that a repeated batch got, or None for one that may be appended.

        Raises:
            InvalidProducerEpoch, OutOfOrderSequence, InvalidTxnState: see the module.
        """
        state = self.states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch == state.epoch:
            for written in state.written:
                sequences = (written.first_sequence, written.last_sequence)
                if sequences == (header.base_sequence, header.last_sequence):
                    return written.base_offset
        _check_epoch(header.producer_id, header.producer_epoch, state)
        _check_sequence(header, state)
        if state.transaction_from is not None and not header.is_transactional:
            raise InvalidTxnState(
                f"Producer {header.producer_id} wrote outside of its open transaction."
            )
        return None

    def check_marker(self, producer_id: int, producer_epoch: int) -> None:
        """Whether a transaction may be ended by this epoch.

        Raises:
            InvalidProducerEpoch: a newer instance of the producer has written.
        """
        state = self.states.get(producer_id)
        if state is not None:
            _check_epoch(producer_id, producer_epoch, state)

    def add(self, header: BatchHeader) -> None:
        """A batch with a producer id was appended; its base offset is its place in the log."""
        state = self._state(header.producer_id, header.producer_epoch)
        state.written.append(
            _Written(header.base_sequence, header.last_sequence, header.base_offset)
        )
        if header.is_transactional and state.transaction_from is None:
            state.transaction_from = header.base_offset

    def end(self, header: BatchHeader, *, commit: bool) -> None:
        """A marker was appended. One that ends nothing leaves no trace except its epoch."""
        state = self._state(header.producer_id, header.producer_epoch)
        first, state.transaction_from = state.transaction_from, None
        if first is None:
            return
        self.ended.append((first, header.base_offset))
        if not commit:
            self.aborted.append(AbortedTransaction(header.producer_id, first, header.base_offset))

    def _state(self, producer_id: int, epoch: int) -> ProducerState:
        state = self.states.setdefault(producer_id, ProducerState(epoch))
        if state.epoch != epoch:
            state.epoch = epoch
            state.written.clear()
        return state

    def last_stable_offset(self, high_watermark: int) -> int:
        """The first offset that a read_committed consumer may not read yet.

        A transaction counts as open until its marker lies below the high watermark.
        """
        self.ended = [entry for entry in self.ended if entry[1] >= high_watermark]
        open_from = [
            s.transaction_from for s in self.states.values() if s.transaction_from is not None
        ]
        return min((high_watermark, *open_from, *(first for first, _ in self.ended)))

    def aborted_between(self, offset: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Aborted transactions that touch offsets from `offset` up to, without, `end`."""
        return tuple(a for a in self.aborted if a.last_offset >= offset and a.first_offset < end)

    def forget_before(self, offset: int) -> None:
        """The log starts at `offset`: transactions that ended before it concern nobody."""
        self.aborted = [entry for entry in self.aborted if entry.last_offset >= offset]


def _check_epoch(producer_id: int, epoch: int, state: ProducerState) -> None:
    if epoch < state.epoch:
        raise InvalidProducerEpoch(
            f"Producer {producer_id} has epoch {epoch}; epoch {state.epoch} has written already."
        )


def _check_sequence(header: BatchHeader, state: ProducerState) -> None:
    if header.producer_epoch != state.epoch or not state.written:
        follows = header.base_sequence == 0
    else:
        last = state.written[-1].last_sequence
        follows = header.base_sequence == (0 if last == _SEQUENCE_MAX else last + 1)
    if not follows:
        raise OutOfOrderSequence(
            f"Producer {header.producer_id} sent sequence {header.base_sequence}, which does not "
            "follow its last one."
        )
