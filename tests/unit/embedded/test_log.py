"""A partition's log: what goes in comes out, and what depends on offsets answers as Kafka's."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.logs.batch import BatchRecord, build_batch
from kshunt.backend.embedded.logs.crc import BLOCK, crc32c
from kshunt.backend.embedded.logs.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    LogError,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from kshunt.backend.embedded.logs.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
PRODUCER = 4_000

blobs = st.none() | st.binary(max_size=200)
records = st.builds(
    BatchRecord,
    st.integers(NOW_MS - 10_000, NOW_MS + 10_000),
    blobs,
    blobs,
    st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple),
)


def kafka_batch(rows: list[BatchRecord], codec: int = 0) -> bytes:
    """A batch as kafka-python's producer builds it."""
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for offset, row in enumerate(rows):
        builder.append(offset, row.timestamp_ms, row.key, row.value, list(row.headers))
    return bytes(builder.build())


def batch(
    *, sequence: int = -1, epoch: int = 0, count: int = 1, transaction: bool = False
) -> bytes:
    """A small batch, of `PRODUCER` if it has a sequence."""
    named = sequence >= 0
    return build_batch(
        [BatchRecord(NOW_MS + place, None, b"x") for place in range(count)],
        producer_id=PRODUCER if named else -1,
        producer_epoch=epoch if named else -1,
        base_sequence=sequence,
        attributes=log_batch.TRANSACTIONAL if transaction else 0,
    )


def consumed(data: bytes) -> list[Any]:
    """The records that kafka-python's consumer finds, each batch's CRC checked."""
    found = []
    batches = MemoryRecords(data)
    while batches.has_next():
        one = batches.next_batch()
        assert one.validate_crc()
        found += list(one)
    return found


def split(data: bytes) -> list[bytes]:
    """The batches of a fetch."""
    out = []
    while data:
        size = log_batch.read_header(data).length + 12
        out.append(data[:size])
        data = data[size:]
    return out


@given(st.binary(max_size=3 * BLOCK))
def test_crc_is_castagnolis(data: bytes) -> None:
    assert crc32c(data) == calc_crc32c(data)


def test_crc_of_the_standards_examples() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


@given(st.lists(records, min_size=1, max_size=20))
def test_our_batches_are_those_of_a_kafka_client(rows: list[BatchRecord]) -> None:
    data = build_batch(rows)
    assert log_batch.check_produced(data, 1 << 20).record_count == len(rows)
    read = [
        (r.timestamp, r.key, r.value, tuple((name, value) for name, value in r.headers))
        for r in consumed(data)
    ]
    assert read == [tuple(row) for row in rows]
    assert log_batch.check_produced(kafka_batch(rows), 1 << 20).record_count == len(rows)


@given(
    st.lists(
        st.lists(records, min_size=1, max_size=5) | st.integers(1, 300), min_size=1, max_size=8
    ),
    st.integers(1, 5_000),
)
def test_what_was_appended_is_read_in_any_order_of_kinds(
    parts: list[list[BatchRecord] | int], max_bytes: int
) -> None:
    log = PartitionLog(seed=3)
    for part in parts:
        if isinstance(part, int):
            log.append_counted(part, 120, NOW_MS, NOW_MS + part, 5)
        else:
            log.append_batch(kafka_batch(part), 5)
    expected: list[tuple[bytes | None, bytes | None] | None] = []
    for part in parts:
        expected += [None] * part if isinstance(part, int) else [(r.key, r.value) for r in part]
    assert log.end_offset == len(expected)
    offset, seen = 0, []
    while offset < log.end_offset:
        data = log.read(offset, max_bytes)
        assert len(split(data)) == 1 or len(data) <= max_bytes
        found = [row for row in consumed(data) if row.offset >= offset]
        assert all(log_batch.read_header(one).leader_epoch == 5 for one in split(data))
        seen += found
        offset = found[-1].offset + 1
    assert [row.offset for row in seen] == list(range(len(expected)))
    for row, known in zip(seen, expected, strict=True):
        assert known is None or (row.key, row.value) == known


def test_placing_a_batch_leaves_all_behind_the_epoch_alone() -> None:
    log = PartitionLog(start_offset=7)
    data = kafka_batch([BatchRecord(NOW_MS, b"k", b"v")], codec=1)
    log.append_batch(data, 9)
    stored = log.read(7, 1 << 20)
    assert (stored[8:12], stored[16:]) == (data[8:12], data[16:])
    header = log_batch.read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (7, 9)


def test_counted_records_are_the_same_for_every_reader() -> None:
    log, twin = PartitionLog(seed=1), PartitionLog(seed=1)
    log.append_counted(1_000, 200, NOW_MS, NOW_MS + 10_000, 0)
    for _ in range(10):
        twin.append_counted(100, 200, NOW_MS, NOW_MS + 1_000, 0)
    whole = {row.offset: row for row in consumed(log.read(0, 1 << 30))}
    for row in consumed(twin.read(345, 10)) + consumed(log.read(999, 10)):
        assert (row.key, row.value) == (whole[row.offset].key, whole[row.offset].value)
    assert [row.offset for row in consumed(log.read(0, 1 << 30, max_offset=70))] == list(range(70))
    assert consumed(PartitionLog(2).read(0, 10)) == []
    read_bytes = len(log.read(0, 1 << 30))
    assert read_bytes == pytest.approx(log.size_bytes, rel=0.02)


def test_reads_outside_of_the_log_are_refused() -> None:
    log = PartitionLog(start_offset=5)
    log.append_counted(10, 100, NOW_MS, NOW_MS, 0)
    assert log.read(15, 100) == b""
    for offset in (4, 16, -1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)


def test_a_batch_above_the_high_watermark_is_not_read() -> None:
    log = PartitionLog()
    log.append_batch(batch(count=3), 0)
    log.append_batch(batch(count=3), 0)
    assert len(split(log.read(0, 1 << 20, max_offset=6))) == 2
    assert len(split(log.read(0, 1 << 20, max_offset=5))) == 1
    assert log.read(3, 1 << 20, max_offset=3) == b""


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_never_stored(place: int, mask: int) -> None:
    data = bytearray(kafka_batch([BatchRecord(NOW_MS, b"key", b"value")]))
    # What stands before the length and between it and the magic is the broker's to write.
    covered = [*range(8, 12), *range(16, len(data))]
    data[covered[place % len(covered)]] ^= mask
    log = PartitionLog()
    with pytest.raises(LogError):
        log.append_batch(bytes(data), 0)
    assert (log.end_offset, log.size_bytes) == (0, 0)


@given(st.binary(max_size=300))
def test_garbage_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(LogError):
        PartitionLog().append_batch(data, 0)


def test_what_a_client_may_not_write() -> None:
    log = PartitionLog()
    marker = log_batch.build_marker(PRODUCER, 0, commit=True, coordinator_epoch=0, now_ms=NOW_MS)
    unnamed = build_batch([BatchRecord(NOW_MS, None, None)], attributes=log_batch.TRANSACTIONAL)
    unsequenced = build_batch([BatchRecord(NOW_MS, None, None)], producer_id=1, producer_epoch=0)
    for data in (marker, unnamed, unsequenced):
        with pytest.raises(InvalidRecord):
            log.append_batch(data, 0)
    with pytest.raises(BatchTooLarge):
        log.append_batch(batch(), 0, max_bytes=60)
    with pytest.raises(CorruptBatch):
        log.append_batch(batch() + batch(), 0)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=10), st.integers(0, 500))
def test_truncation_keeps_exactly_what_lies_before(counts: list[int], cut: int) -> None:
    log = PartitionLog()
    for place, count in enumerate(counts):
        if place % 2:
            log.append_counted(count, 100, NOW_MS, NOW_MS, place)
        else:
            log.append_batch(batch(count=count), place)
    end = log.end_offset
    whole = consumed(log.read(0, 1 << 30))
    log.truncate_to(cut)
    assert log.end_offset == min(cut, end)
    left = [row.offset for row in consumed(log.read(0, 1 << 30))]
    assert left == [row.offset for row in whole][: len(left)]
    assert len(left) <= min(cut, end)
    assert log.size_bytes >= 0
    base = log.append_batch(batch(), len(counts)).base_offset
    assert base == min(cut, end)
    assert consumed(log.read(base, 1 << 20))[-1].offset == base


def test_epochs_end_where_the_next_begins() -> None:
    log = PartitionLog()
    assert log.end_of_epoch(0) == (-1, -1)
    log.append_counted(10, 100, NOW_MS, NOW_MS, 2)
    log.begin_epoch(4)
    log.append_counted(5, 100, NOW_MS, NOW_MS, 4)
    assert log.end_of_epoch(1) == (1, 0)
    assert log.end_of_epoch(2) == (2, 10)
    assert log.end_of_epoch(3) == (2, 10)
    assert log.end_of_epoch(4) == (4, 15)
    assert log.end_of_epoch(5) == (-1, -1)
    assert log.end_of_epoch(-1) == (-1, -1)
    log.truncate_to(10)
    assert (log.leader_epoch, log.end_of_epoch(2)) == (2, (2, 10))
    log.delete_records(6)
    assert log.earliest() == (6, -1, 2)


@given(st.integers(-50, 1_200))
def test_offsets_by_time_are_those_of_the_records(ago: int) -> None:
    log = PartitionLog()
    log.append_counted(100, 100, NOW_MS, NOW_MS + 500, 0)
    rows = [BatchRecord(NOW_MS + 500 + 30 * place, None, b"x") for place in range(10)]
    log.append_batch(kafka_batch(rows, codec=1), 0)
    log.append_batch(kafka_batch([BatchRecord(NOW_MS + 600, None, b"late")]), 0)
    wanted = NOW_MS + ago
    first = next((r for r in consumed(log.read(0, 1 << 30)) if r.timestamp >= wanted), None)
    found = log.offset_since(wanted)
    assert (found and found[:2]) == (first and (first.offset, first.timestamp))
    newest = log.max_timestamp()
    assert newest is not None
    assert newest[:2] == (109, NOW_MS + 770)


def test_records_of_a_codec_that_is_not_read_are_found_by_their_batch() -> None:
    plain = kafka_batch([BatchRecord(NOW_MS, None, b"x")])
    zstd = plain[:21] + b"\x00\x04" + plain[23:]
    assert list(log_batch.record_times(zstd)) == [(0, NOW_MS)]
    broken = plain[:61] + zlib.compress(b"no record")
    assert list(log_batch.record_times(broken)) != []


def test_records_are_deleted_from_the_front() -> None:
    log = PartitionLog()
    log.append_counted(100, 50, NOW_MS, NOW_MS + 100, 0)
    log.append_batch(batch(count=10), 0)
    size = log.size_bytes
    assert log.delete_records(40) == 40
    assert log.delete_records(30) == 40
    assert log.size_bytes == size - 40 * 50
    assert consumed(log.read(40, 10))[0].offset == 40
    assert log.delete_records(105) == 105
    assert log.size_bytes == size - 100 * 50
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(111)


def test_retention_by_time_and_by_size_stops_at_the_high_watermark() -> None:
    log = PartitionLog()
    log.append_counted(1_000, 100, NOW_MS, NOW_MS + 1_000, 0)
    log.append_batch(batch(count=10), 0)
    now_ms = NOW_MS + 2_000
    assert log.retain(1_010, now_ms) == 0
    assert log.retain(1_010, now_ms, retention_ms=1_800) == 200
    assert log.retain(300, now_ms, retention_bytes=0) == 300
    stored = len(log.read(1_000, 1 << 20))
    assert log.retain(1_010, now_ms, retention_bytes=50 * 100 + stored) == 950
    assert log.size_bytes == 50 * 100 + stored
    assert log.retain(1_010, now_ms, retention_ms=0) == 1_010


def test_a_stored_log_is_read_back() -> None:
    log, copy = PartitionLog(), PartitionLog()
    log.append_batch(batch(sequence=0), 1)
    log.append_batch(batch(sequence=1, transaction=True), 2)
    log.delete_records(1)
    for data in log.stored_batches():
        copy.append_stored(data)
    assert copy.read(1, 1 << 20) == log.read(1, 1 << 20)
    assert copy.last_stable_offset(2) == 1
    assert copy.leader_epoch == 2
    with pytest.raises(InvalidRecord):
        copy.append_stored(log.read(1, 1 << 20))


def test_a_repeated_batch_gets_the_offset_it_had() -> None:
    log = PartitionLog()
    sent = [batch(sequence=place) for place in range(7)]
    offsets = [log.append_batch(data, 0).base_offset for data in sent]
    assert offsets == list(range(7))
    for place in range(2, 7):
        assert log.append_batch(sent[place], 0) == (place, place + 1, True)
    with pytest.raises(OutOfOrderSequence):
        log.append_batch(sent[0], 0)
    assert log.end_offset == 7


def test_sequences_follow_each_other_within_an_epoch() -> None:
    log = PartitionLog()
    log.append_batch(batch(sequence=10, count=3), 0)
    with pytest.raises(OutOfOrderSequence):
        log.append_batch(batch(sequence=14), 0)
    log.append_batch(batch(sequence=13), 0)
    with pytest.raises(OutOfOrderSequence):
        log.append_batch(batch(sequence=14, epoch=1), 0)
    log.append_batch(batch(sequence=0, epoch=1), 0)
    with pytest.raises(InvalidProducerEpoch):
        log.append_batch(batch(sequence=14, epoch=0), 0)


def test_a_sequence_begins_again_after_its_largest() -> None:
    log = PartitionLog()
    log.append_batch(batch(sequence=0x7FFFFFFF), 0)
    log.append_batch(batch(sequence=0), 0)
    assert log.end_offset == 2


def test_truncation_forgets_what_producers_wrote_there() -> None:
    log = PartitionLog()
    for place in range(3):
        log.append_batch(batch(sequence=place), 0)
    log.truncate_to(1)
    assert log.append_batch(batch(sequence=1), 0) == (1, 2, False)


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = PartitionLog()
    log.append_counted(5, 100, NOW_MS, NOW_MS, 0)
    assert log.last_stable_offset(5) == 5
    log.append_batch(batch(sequence=0, transaction=True), 0)
    log.append_batch(batch(), 0)
    assert log.last_stable_offset(7) == 5
    with pytest.raises(InvalidTxnState):
        log.append_batch(batch(sequence=1), 0)
    marker = log.append_marker(PRODUCER, 0, 0, NOW_MS, commit=True)
    assert marker == (7, 8, False)
    assert log.last_stable_offset(7) == 5  # the marker itself is not replicated yet
    assert log.last_stable_offset(8) == 8
    assert log.aborted_transactions(0, 8) == ()


def test_an_aborted_transaction_is_named_to_those_who_read_it() -> None:
    log = PartitionLog()
    log.append_batch(batch(sequence=0, count=2, transaction=True), 0)
    log.append_marker(PRODUCER, 0, 0, NOW_MS, commit=False)
    log.append_batch(batch(sequence=2, transaction=True), 0)
    log.append_marker(PRODUCER, 0, 0, NOW_MS, commit=True)
    assert log.aborted_transactions(0, 5) == ((PRODUCER, 0, 2),)
    assert log.aborted_transactions(3, 5) == ()
    with pytest.raises(InvalidProducerEpoch):
        log.append_marker(PRODUCER, -1, 0, NOW_MS, commit=False)
    log.truncate_to(4)
    assert log.last_stable_offset(4) == 3
    assert log.aborted_transactions(0, 5) == ((PRODUCER, 0, 2),)
    log.delete_records(3)
    assert log.aborted_transactions(0, 5) == ()


def test_a_marker_is_a_control_batch_that_consumers_know() -> None:
    log = PartitionLog()
    for commit in (False, True):
        log.append_marker(PRODUCER, 3, 0, NOW_MS, commit=commit, coordinator_epoch=8)
    for data, commit in zip(split(log.read(0, 1 << 20)), (False, True), strict=True):
        one = MemoryRecords(data).next_batch()
        assert one.validate_crc()
        assert one.is_control_batch
        (row,) = list(one)
        assert row.key == b"\x00\x00\x00" + (b"\x01" if commit else b"\x00")
        assert row.value == b"\x00\x00\x00\x00\x00\x08"
        assert log_batch.is_commit(data) is commit
    with pytest.raises(OutOfOrderSequence):
        log.append_batch(batch(sequence=5, epoch=3), 0)


def test_a_new_epochs_marker_fences_the_old_producer() -> None:
    log = PartitionLog()
    log.append_batch(batch(sequence=0, transaction=True), 0)
    log.append_marker(PRODUCER, 1, 0, NOW_MS, commit=False)
    with pytest.raises(InvalidProducerEpoch):
        log.append_batch(batch(sequence=1, transaction=True), 0)
    assert log.last_stable_offset(2) == 2
