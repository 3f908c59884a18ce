"""Record batches of magic 2: their header, their validation, and batches of our own making.

A batch is 61 bytes of header and then its records, each a run of zigzag varints. The CRC-32C
covers everything from the attributes on, so that a broker may set the base offset and the leader
epoch, which stand before it, without computing it anew. Source: Kafka's protocol guide, section
"Record Batch"; KIP-98 for producers and control batches.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kshunt.backend.embedded.logs.crc import crc32c
from kshunt.backend.embedded.logs.errors import BatchTooLarge, CorruptBatch, InvalidRecord

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
_CRC_FROM: Final = 21
"""First byte that the CRC covers: the attributes."""
_LENGTH_FROM: Final = 12
"""First byte that the batch's length field counts."""
MAGIC: Final = 2
NO_PRODUCER: Final = -1
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
GZIP: Final = 1
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_RECORD_OVERHEAD: Final = 18
"""Bytes of a synthesised record without its value, with its share of the batch header."""
_SYNTHETIC_BATCH_BYTES: Final = 16_384
_SYNTHETIC_BATCH_RECORDS: Final = 64


class BatchHeader(NamedTuple):
    """The fixed fields of a batch, in the order of the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_ms: int
    """Timestamp of the first record, milliseconds since the epoch."""
    max_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record; it holds even where compaction took records away."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences go back to 0 after 2^31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def is_transactional(self) -> bool:
        """True for a batch that belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True for a marker that ends a transaction."""
        return bool(self.attributes & CONTROL)


class BatchRecord(NamedTuple):
    """One record of a batch that is built here."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(data: bytes) -> BatchHeader:
    """The header at the start of `data`.

    Raises:
        CorruptBatch: fewer bytes than a header has.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptBatch(f"A record batch has {len(data)} bytes, fewer than its header.")
    return BatchHeader(*HEADER.unpack_from(data))


def size_of(header: BatchHeader) -> int:
    """Bytes of the whole batch, as its header says."""
    return header.length + _LENGTH_FROM


def check_stored(data: bytes) -> BatchHeader:
    """The header of one whole batch whose length, magic and CRC are right.

    Raises:
        CorruptBatch: length or CRC do not fit.
        InvalidRecord: a magic other than 2, or a record count that no batch has.
    """
    header = read_header(data)
    if header.length != len(data) - _LENGTH_FROM:
        raise CorruptBatch(
            f"A record batch says {header.length + _LENGTH_FROM} bytes and has {len(data)}."
        )
    if header.magic != MAGIC:
        raise InvalidRecord(f"A record batch has magic {header.magic} instead of {MAGIC}.")
    if crc32c(memoryview(data)[_CRC_FROM:]) != header.crc:
        raise CorruptBatch("A record batch does not have the CRC-32C that its header says.")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise InvalidRecord("A record batch counts its records below zero.")
    return header


def check_produced(data: bytes, max_bytes: int) -> BatchHeader:
    """The header of one batch that a client may append.

    Raises:
        BatchTooLarge: more than `max_bytes` (max.message.bytes).
        CorruptBatch, InvalidRecord: see `check_stored`; also a control batch, gaps between
            offsets, or a producer id without a sequence, none of which a client may send.
    """
    if len(data) > max_bytes:
        raise BatchTooLarge(f"A record batch has {len(data)} bytes; {max_bytes} are allowed.")
    header = check_stored(data)
    if header.is_control:
        raise InvalidRecord("A client may not write control records.")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord("A produced batch has gaps between its offsets.")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord("A batch names its producer and has no sequence or epoch.")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecord("A transactional batch does not name its producer.")
    return header


def placed(data: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The batch at its place in the log; what the CRC covers is not touched."""
    return b"".join(
        (
            base_offset.to_bytes(8, "big"),
            data[8:_LENGTH_FROM],
            leader_epoch.to_bytes(4, "big", signed=True),
            data[16:],
        )
    )


def stamped(data: bytes, append_ms: int) -> bytes:
    """The batch with the time of its append, which is then that of each of its records.

    The first record's own timestamp stays where it is, as in Kafka: readers do not look at it.
    """
    header = read_header(data)
    attributes = header.attributes | LOG_APPEND_TIME
    changed = header._replace(attributes=attributes, max_ms=append_ms)
    crc = crc32c(HEADER.pack(*changed)[_CRC_FROM:] + data[HEADER_BYTES:])
    return HEADER.pack(*changed._replace(crc=crc)) + data[HEADER_BYTES:]


def _varint(value: int) -> bytes:
    """Zigzag, seven bits a byte, lowest first; for values of 32 and of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return bytes((rest,))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else _varint(len(data)) + data


def _encode_record(record: BatchRecord, delta_ms: int, offset_delta: int) -> bytes:
    body = b"".join(
        (
            b"\x00",
            _varint(delta_ms),
            _varint(offset_delta),
            _sized(record.key),
            _sized(record.value),
            _varint(len(record.headers)),
            *(_sized(name.encode()) + _sized(value) for name, value in record.headers),
        )
    )
    return _varint(len(body)) + body


def build_batch(
    records: Sequence[BatchRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """One uncompressed batch of at least one record, with consecutive offsets."""
    base_ms = records[0].timestamp_ms
    body = b"".join(
        _encode_record(record, record.timestamp_ms - base_ms, delta)
        for delta, record in enumerate(records)
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=HEADER_BYTES - _LENGTH_FROM + len(body),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_ms=base_ms,
        max_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    crc = crc32c(HEADER.pack(*header)[_CRC_FROM:] + body)
    return HEADER.pack(*header._replace(crc=crc)) + body


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int
) -> bytes:
    """The control batch that ends a producer's transaction in a partition (KIP-98)."""
    record = BatchRecord(
        now_ms, _MARKER_KEY.pack(0, int(commit)), _MARKER_VALUE.pack(0, coordinator_epoch)
    )
    return build_batch(
        (record,),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def is_commit(marker: bytes) -> bool:
    """Whether a control batch commits; the type is the last two bytes of its record's key."""
    key_at = HEADER_BYTES + 5  # length, attributes, two deltas and the key's length, a byte each
    return bool(_MARKER_KEY.unpack_from(marker, key_at)[1])


def synthetic_records_per_batch(record_bytes: int) -> int:
    """How many records of this size a synthesised batch holds."""
    return max(1, min(_SYNTHETIC_BATCH_RECORDS, _SYNTHETIC_BATCH_BYTES // max(record_bytes, 1)))


def synthetic_record(seed: int, offset: int, record_bytes: int, timestamp_ms: int) -> BatchRecord:
    """The record that a scenario is said to have written at an offset.

    Its key has eight bytes, its value is printable, and both follow from the seed and the offset.
    """
    digest = hashlib.blake2b(b"%d:%d" % (seed, offset), digest_size=32).hexdigest().encode()
    size = max(record_bytes - _RECORD_OVERHEAD, 0)
    value = (digest * (size // len(digest) + 1))[:size]
    return BatchRecord(timestamp_ms, digest[:8], value)


def record_times(data: bytes) -> Iterator[tuple[int, int]]:
    """Offset and timestamp (milliseconds) of each record of a stored batch.

    Only uncompressed and gzip batches are looked into. Another codec, or records that break the
    format behind a right CRC, give the batch as a whole: its first offset at its largest time.
    """
    header = read_header(data)
    body = data[HEADER_BYTES:]
    codec = header.attributes & CODEC_MASK
    try:
        if codec == GZIP:
            body = zlib.decompress(body, wbits=31)
        times = list(_walk(body, header)) if codec in (0, GZIP) else []
    except (IndexError, zlib.error):
        times = []
    if header.attributes & LOG_APPEND_TIME:
        times = [(offset, header.max_ms) for offset, _ in times]
    yield from times or [(header.base_offset, header.max_ms)]


def _walk(body: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    at = 0
    for _ in range(header.record_count):
        length, at = _take_varint(body, at)
        delta_ms, inner = _take_varint(body, at + 1)
        offset_delta, _ = _take_varint(body, inner)
        yield header.base_offset + offset_delta, header.base_ms + delta_ms
        at += max(length, 1)


def _take_varint(body: bytes, at: int) -> tuple[int, int]:
    rest = shift = 0
    while True:
        byte = body[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            return (rest >> 1) ^ -(rest & 1), at
