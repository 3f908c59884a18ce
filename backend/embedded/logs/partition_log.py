"""One partition's log, as its leader keeps it.

Goals: a client reads back, byte for byte, the batches that a client produced. It gets Kafka's
answers to everything that depends on a log: offsets by time, end offsets of leader epochs,
sequences, transactions. Traffic of a scenario costs counters, and yet a consumer can read it.

Constraints: no clock, no I/O, no threads; time is passed in as milliseconds since the epoch. A log
of counters alone takes some 600 bytes however long it runs. For partitions that no client touches,
the cluster keeps only columns (`replication.model`). It makes the log when the first client comes.
There are no segments: retention drops whole entries from the front where Kafka
drops whole segments. Topics with cleanup.policy=compact keep all they were given, which a reader
of a compacted topic has to expect anyway.

Algorithm: entries in the order of their offsets, each a stored batch or a run of counted records
of one size, one interval and one leader epoch. Counters of the same size, interval and epoch
extend the last run. A read turns the part of a run that it needs into batches on a fixed grid of
offsets. Each record follows from (seed, offset) alone, so that two readers see the same. Truncation
replays what is left of the batches' headers to rebuild producers and transactions, as Kafka does.
Source: Kafka's `UnifiedLog`, KIP-98, KIP-101, KIP-279, KIP-360.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.logs.batch import BatchHeader
from kshunt.backend.embedded.logs.epochs import LeaderEpochs
from kshunt.backend.embedded.logs.errors import InvalidRecord, OffsetOutOfRange
from kshunt.backend.embedded.logs.producers import AbortedTransaction, Producers

MAX_BATCH_BYTES: Final = 1_048_588
"""Kafka's default of max.message.bytes: 1 MiB and a header of the oldest format."""
_RUN_DRIFT_MS: Final = 1_000
"""How far a run's timestamps may stray from those given before a new run begins."""


@dataclass(slots=True)
class StoredBatch:
    """A batch that a client produced, or a marker."""

    base: int
    end: int
    """One past its last offset."""
    data: bytes
    last_ms: int
    """Its largest timestamp."""

    @property
    def size_bytes(self) -> int:
        """Bytes in the log."""
        return len(self.data)


@dataclass(slots=True)
class CountedRun:
    """Records that a scenario is said to have written."""

    base: int
    end: int
    """One past its last offset."""
    record_bytes: int
    leader_epoch: int
    anchor: int
    """The offset that was written at `anchor_ms`; it stays where the front is cut off."""
    anchor_ms: int
    interval_ms: float
    """Time between two records."""

    @property
    def size_bytes(self) -> int:
        """Bytes in the log."""
        return (self.end - self.base) * self.record_bytes

    @property
    def last_ms(self) -> int:
        """Its largest timestamp."""
        return self.time_at(self.end - 1)

    def time_at(self, offset: int) -> int:
        """When a record was written, milliseconds since the epoch."""
        return self.anchor_ms + int((offset - self.anchor) * self.interval_ms)

    def first_since(self, timestamp_ms: int) -> int:
        """The first of its offsets that was written at that time or later."""
        if self.interval_ms <= 0 or timestamp_ms <= self.time_at(self.base):
            return self.base
        offset = self.anchor + int((timestamp_ms - self.anchor_ms) / self.interval_ms)
        offset = max(offset, self.base)
        while self.time_at(offset) < timestamp_ms:
            offset += 1
        while offset > self.base and self.time_at(offset - 1) >= timestamp_ms:
            offset -= 1
        return offset


class Appended(NamedTuple):
    """What an append answers."""

    base_offset: int
    end_offset: int
    """One past the last offset."""
    duplicate: bool = False
    """True if an idempotent producer's batch was there already; nothing was written."""


class OffsetAtTime(NamedTuple):
    """One answer of ListOffsets."""

    offset: int
    timestamp_ms: int
    """-1 for the special timestamps that have none."""
    leader_epoch: int


class PartitionLog:
    """See the module. Offsets count records, sizes are bytes, times milliseconds."""

    __slots__ = ("_end", "_entries", "_epochs", "_producers", "_seed", "_size_bytes", "_start")

    def __init__(self, seed: int = 0, start_offset: int = 0) -> None:
        self._seed = seed
        """Together with an offset it gives a synthesised record."""
        self._entries: list[StoredBatch | CountedRun] = []
        self._epochs = LeaderEpochs()
        self._producers: Producers | None = None
        self._start = self._end = start_offset
        self._size_bytes = 0

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """Bytes of everything that is kept, as DescribeLogDirs says them."""
        return self._size_bytes

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that has written or begun here, or -1."""
        return self._epochs.latest

    # --- writing

    def begin_epoch(self, leader_epoch: int) -> None:
        """A broker became leader: its epoch starts at the end of the log."""
        self._epochs.assign(leader_epoch, self._end)

    def append_batch(
        self,
        data: bytes,
        leader_epoch: int,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        append_ms: int | None = None,
    ) -> Appended:
        """Append the one batch of a produce request.

        `append_ms` becomes the time of its records (message.timestamp.type=LogAppendTime).

        Raises:
            LogError: what Kafka would answer; see `batch.check_produced` and `Producers`.
        """
        header = log_batch.check_produced(data, max_bytes)
        if header.producer_id >= 0:
            known = self._remembered().check(header)
            if known is not None:
                return Appended(known, known + header.record_count, duplicate=True)
        if append_ms is not None:
            data = log_batch.stamped(data, append_ms)
            header = log_batch.read_header(data)
        return self._place(data, header, leader_epoch)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
    ) -> Appended:
        """End a producer's transaction in this partition with a control batch.

        Raises:
            InvalidProducerEpoch: a newer instance of the producer has written.
        """
        self._remembered().check_marker(producer_id, producer_epoch)
        data = log_batch.build_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=now_ms,
        )
        return self._place(data, log_batch.read_header(data), leader_epoch)

    def append_stored(self, data: bytes) -> Appended:
        """Append a batch that has its place already: one that was written to disk and read back.

        Raises:
            LogError: it is damaged, or its offset lies before the log's end.
        """
        header = log_batch.check_stored(data)
        if header.base_offset < self._end:
            raise InvalidRecord(
                f"A stored batch begins at {header.base_offset}, before the end {self._end}."
            )
        if not self._entries:
            self._start = max(self._start, header.base_offset)
        self._epochs.assign(header.leader_epoch, header.base_offset)
        return self._store(data, header)

    def append_counted(
        self, count: int, record_bytes: int, first_ms: int, last_ms: int, leader_epoch: int
    ) -> Appended:
        """Append `count` records of one size, written evenly from `first_ms` to `last_ms`."""
        base = self._end
        if count <= 0:
            return Appended(base, base)
        self._epochs.assign(leader_epoch, base)
        last = self._entries[-1] if self._entries else None
        if (
            isinstance(last, CountedRun)
            and last.end == base
            and (last.record_bytes, last.leader_epoch) == (record_bytes, leader_epoch)
            and abs(last.time_at(base + count - 1) - last_ms) <= _RUN_DRIFT_MS
        ):
            last.end += count
        else:
            interval_ms = (last_ms - first_ms) / count
            self._entries.append(
                CountedRun(
                    base, base + count, record_bytes, leader_epoch, base, first_ms, interval_ms
                )
            )
        self._end += count
        self._size_bytes += count * record_bytes
        return Appended(base, self._end)

    def _remembered(self) -> Producers:
        if self._producers is None:
            self._producers = Producers()
        return self._producers

    def _place(self, data: bytes, header: BatchHeader, leader_epoch: int) -> Appended:
        self._epochs.assign(leader_epoch, self._end)
        placed = log_batch.placed(data, self._end, leader_epoch)
        return self._store(
            placed, header._replace(base_offset=self._end, leader_epoch=leader_epoch)
        )

    def _store(self, data: bytes, header: BatchHeader) -> Appended:
        end = header.last_offset + 1
        self._entries.append(StoredBatch(header.base_offset, end, data, header.max_ms))
        self._end = end
        self._size_bytes += len(data)
        self._remember(data, header)
        return Appended(header.base_offset, end)

    def _remember(self, data: bytes, header: BatchHeader) -> None:
        if header.producer_id < 0:
            return
        if header.is_control:
            self._remembered().end(header, commit=log_batch.is_commit(data))
        else:
            self._remembered().add(header)

    # --- reading

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        """What `read_batches` gives, in one piece; the first batch even if it is too large."""
        return b"".join(self.read_batches(offset, max_bytes, max_offset))

    def read_batches(
        self,
        offset: int,
        max_bytes: int,
        max_offset: int | None = None,
        *,
        at_least_one: bool = True,
    ) -> list[bytes]:
        """Whole batches from the one that holds `offset`, below `max_offset` (exclusive).

        `max_offset` is the high watermark or the last stable offset, or None for all. With
        `at_least_one` the first batch is given even if it exceeds `max_bytes` (KIP-74).

        Raises:
            OffsetOutOfRange: `offset` is not between the start and the end of the log.
        """
        if not self._start <= offset <= self._end:
            raise OffsetOutOfRange(f"Offset {offset} is not between {self._start} and {self._end}.")
        parts: list[bytes] = []
        size = 0
        for data in self._batches(offset, self._end if max_offset is None else max_offset):
            if (parts or not at_least_one) and size + len(data) > max_bytes:
                break
            parts.append(data)
            size += len(data)
            if size >= max_bytes:
                break
        return parts

    def _batches(self, offset: int, max_offset: int) -> Iterator[bytes]:
        for place in range(self._place_of(offset), len(self._entries)):
            entry = self._entries[place]
            if isinstance(entry, CountedRun):
                yield from self._synthesised(entry, max(offset, entry.base), max_offset)
            elif entry.end > max_offset:
                return
            elif entry.end > offset:
                yield entry.data

    def _synthesised(self, run: CountedRun, offset: int, max_offset: int) -> Iterator[bytes]:
        """The run's batches from the one that holds `offset`, on the grid of its size."""
        grid = log_batch.synthetic_records_per_batch(run.record_bytes)
        end = min(run.end, max_offset)
        if offset >= end:
            return
        base = max(offset - offset % grid, run.base)
        while base < end:
            stop = min(base - base % grid + grid, end)
            records = [
                log_batch.synthetic_record(self._seed, at, run.record_bytes, run.time_at(at))
                for at in range(base, stop)
            ]
            yield log_batch.build_batch(records, base_offset=base, leader_epoch=run.leader_epoch)
            base = stop

    def _place_of(self, offset: int) -> int:
        """Index of the last entry that begins at or before `offset`, or 0."""
        return max(bisect_right(self._entries, offset, key=lambda entry: entry.base) - 1, 0)

    def stored_batches(self) -> Iterator[bytes]:
        """The real batches in order; the counted runs between them are left out."""
        return (entry.data for entry in self._entries if isinstance(entry, StoredBatch))

    def last_batch(self) -> bytes:
        """The batch that was appended last, as it lies in the log; empty if it was counted."""
        last = self._entries[-1] if self._entries else None
        return last.data if isinstance(last, StoredBatch) else b""

    # --- offsets by time and by epoch

    def earliest(self) -> OffsetAtTime:
        """ListOffsets -2."""
        return OffsetAtTime(self._start, -1, self._epochs.at(self._start))

    def latest(self) -> OffsetAtTime:
        """ListOffsets -1 of a replica; consumers are given the high watermark instead."""
        return OffsetAtTime(self._end, -1, self._epochs.latest)

    def max_timestamp(self) -> OffsetAtTime | None:
        """ListOffsets -3: the first record that has the largest timestamp."""
        newest = max(self._entries, key=lambda entry: entry.last_ms, default=None)
        return None if newest is None else self._first_since(newest, newest.last_ms)

    def offset_since(self, timestamp_ms: int) -> OffsetAtTime | None:
        """The first record with that timestamp or a later one, or None if there is none."""
        for entry in self._entries:
            if entry.last_ms >= timestamp_ms:
                found = self._first_since(entry, timestamp_ms)
                if found is not None:
                    return found
        return None

    def _first_since(
        self, entry: StoredBatch | CountedRun, timestamp_ms: int
    ) -> OffsetAtTime | None:
        if isinstance(entry, CountedRun):
            offset = entry.first_since(timestamp_ms)
            return OffsetAtTime(offset, entry.time_at(offset), entry.leader_epoch)
        for offset, record_ms in log_batch.record_times(entry.data):
            if record_ms >= timestamp_ms and offset >= self._start:
                return OffsetAtTime(offset, record_ms, self._epochs.at(offset))
        return None

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Epoch and end offset for OffsetForLeaderEpoch; (-1, -1) for an epoch unknown here."""
        return self._epochs.end_offset(leader_epoch, self._end)

    # --- transactions

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where a read_committed consumer may read."""
        if self._producers is None:
            return high_watermark
        return self._producers.last_stable_offset(high_watermark)

    def aborted_transactions(self, offset: int, end: int) -> tuple[AbortedTransaction, ...]:
        """What a read_committed fetch of [offset, end) has to leave out."""
        return () if self._producers is None else self._producers.aborted_between(offset, end)

    # --- shortening

    def delete_records(self, before_offset: int) -> int:
        """Let the log start at an offset, and return its new start; never goes back.

        Raises:
            OffsetOutOfRange: the offset lies after the end.
        """
        if before_offset > self._end:
            raise OffsetOutOfRange(f"Offset {before_offset} lies after the end {self._end}.")
        if before_offset > self._start:
            self._start = before_offset
            self._epochs.truncate_start(before_offset)
            self._drop_front()
        return self._start

    def _drop_front(self) -> None:
        """Free what lies wholly before the start; a batch that reaches over it stays whole."""
        keep = 0
        while keep < len(self._entries) and self._entries[keep].end <= self._start:
            self._size_bytes -= self._entries[keep].size_bytes
            keep += 1
        del self._entries[:keep]
        first = self._entries[0] if self._entries else None
        if isinstance(first, CountedRun) and first.base < self._start:
            self._size_bytes -= (self._start - first.base) * first.record_bytes
            first.base = self._start
        if self._producers is not None:
            self._producers.forget_before(self._start)

    def retain(
        self,
        high_watermark: int,
        now_ms: int,
        retention_ms: int = -1,
        retention_bytes: int = -1,
    ) -> int:
        """Apply retention.ms and retention.bytes below the high watermark; return the start.

        -1 means without limit, as in Kafka. By size, nothing goes whose loss would leave less
        than `retention_bytes`.
        """
        start = self._start
        excess = self._size_bytes - retention_bytes if retention_bytes >= 0 else 0
        for entry in self._entries:
            old_end = self._expired_until(entry, now_ms - retention_ms) if retention_ms >= 0 else 0
            big_end = entry.end
            if entry.size_bytes > excess:
                big_end = _fitting_end(entry, excess)
            excess -= entry.size_bytes
            start = max(start, old_end, big_end)
            if start < entry.end:
                break
        return self.delete_records(max(self._start, min(start, high_watermark)))

    def _expired_until(self, entry: StoredBatch | CountedRun, limit_ms: int) -> int:
        """One past the last offset of an entry that is older than `limit_ms`."""
        if entry.last_ms < limit_ms:
            return entry.end
        return entry.first_since(limit_ms) if isinstance(entry, CountedRun) else entry.base

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on; the next record gets that offset.

        A batch that reaches over `offset` goes whole, so that offsets may have a gap there, as
        in Kafka. An offset at or after the end changes nothing; one before the start empties the
        log and moves its start there.
        """
        if offset >= self._end:
            return
        while self._entries and self._entries[-1].end > offset:
            last = self._entries[-1]
            self._size_bytes -= last.size_bytes
            if isinstance(last, CountedRun) and last.base < offset:
                last.end = offset
                self._size_bytes += last.size_bytes
                break
            self._entries.pop()
        self._end = offset
        self._start = min(self._start, offset)
        self._epochs.truncate_end(offset)
        if self._producers is not None:
            self._producers = None
            for data in self.stored_batches():
                self._remember(data, log_batch.read_header(data))


def _fitting_end(entry: StoredBatch | CountedRun, excess_bytes: int) -> int:
    """How far into an entry `excess_bytes` reach in whole records, or in whole batches."""
    if isinstance(entry, CountedRun) and excess_bytes > 0:
        return entry.base + excess_bytes // max(entry.record_bytes, 1)
    return entry.base
