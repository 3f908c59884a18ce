"""Arrow IPC streams of flat columns, read straight into numpy arrays.

pyarrow does this and a thousand other things, for 26 MB of memory and a third of a second; a
dashboard needs neither. What is read: integers, floats and booleans without nulls, and texts that
are dictionary-encoded; little-endian, not compressed. That is what
`kshunt.backend.api.schema.frames.snapshot_writer` writes.

The format: https://arrow.apache.org/docs/format/Columnar.html, its messages are FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

CONTINUATION: Final = 0xFFFFFFFF
META_BYTES_MAX: Final = 64 << 20
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_INT, _FLOAT, _TEXT, _BOOL = 2, 3, 5, 6
_MOST_BYTES: Final = 1 << 34


@dataclass(frozen=True, eq=False)
class FrameBatch:
    """One record batch."""

    columns: dict[str, NDArray[Any]]
    """By name, in the order of the schema; of texts, their places in `words`."""
    words: dict[str, tuple[str, ...]]
    """The texts of each dictionary-encoded column."""
    metadata: dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class _ColumnField:
    name: str
    dtype: np.dtype[Any] | None
    """None for booleans, which are bits."""
    dictionary: int | None


def read_batches(stream: BinaryIO) -> Iterator[FrameBatch]:
    """The record batches of a stream, until it ends.

    Raises:
        ValueError: the bytes are no such stream, or it was cut off.
    """
    try:
        yield from _read(stream)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError, KeyError) as error:
        raise ValueError(f"not an Arrow IPC stream: {error!r}") from error


def _read(stream: BinaryIO) -> Iterator[FrameBatch]:
    fields: list[_ColumnField] | None = None
    words: dict[int, tuple[str, ...]] = {}
    while (message := _next_message(stream)) is not None:
        kind, header = message.scalar(1, "<B"), message.table(2)
        if kind == _SCHEMA:
            fields = [_field(field) for field in header.tables(1)]
        elif fields is None:
            raise ValueError("not an Arrow IPC stream: it does not begin with a schema")
        elif kind == _DICTIONARY:
            if header.scalar(2, "<B"):
                raise ValueError("the dictionary is sent in parts")
            body = _MessageBody(stream, header.table(1), message.scalar(3, "<q"))
            words[header.scalar(0, "<q")] = _texts(body)
        elif kind == _BATCH:
            body = _MessageBody(stream, header, message.scalar(3, "<q"))
            yield _batch(body, fields, words, message)


class _FlatTable:
    """A FlatBuffers table: fields by number, absent ones are zero."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        if self._vtable < 0:
            raise ValueError("not an Arrow IPC stream: a table lies outside its message")
        self._size = struct.unpack_from("<H", data, self._vtable)[0]

    def _place(self, number: int) -> int:
        slot = 4 + 2 * number
        if slot + 2 > self._size:
            return 0
        offset: int = struct.unpack_from("<H", self._data, self._vtable + slot)[0]
        return self._at + offset if offset else 0

    def scalar(self, number: int, form: str) -> int:
        place = self._place(number)
        return int(struct.unpack_from(form, self._data, place)[0]) if place else 0

    def _target(self, number: int) -> int:
        place = self._place(number)
        if not place:
            raise ValueError("not an Arrow IPC stream: a message lacks a part")
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def has(self, number: int) -> bool:
        return self._place(number) > 0

    def table(self, number: int) -> _FlatTable:
        return _FlatTable(self._data, self._target(number))

    def tables(self, number: int) -> list[_FlatTable]:
        if not self.has(number):
            return []
        start, count = self._vector(number)
        places = struct.unpack_from(f"<{count}I", self._data, start)
        return [_FlatTable(self._data, start + 4 * n + place) for n, place in enumerate(places)]

    def _vector(self, number: int) -> tuple[int, int]:
        at = self._target(number)
        count = int(struct.unpack_from("<I", self._data, at)[0])
        if at + 4 + count > len(self._data):
            raise ValueError("not an Arrow IPC stream: a list lies outside its message")
        return at + 4, count

    def text(self, number: int) -> bytes:
        if not self.has(number):
            return b""
        start, count = self._vector(number)
        return self._data[start : start + count]

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        start, count = self._vector(number)
        values = struct.unpack_from(f"<{2 * count}q", self._data, start)
        return list(zip(values[::2], values[1::2], strict=True))


def _next_message(stream: BinaryIO) -> _FlatTable | None:
    """The next message; None at the end of the stream."""
    prefix = stream.read(8)
    if not prefix:
        return None
    mark, size = struct.unpack("<II", prefix)
    if mark != CONTINUATION or size > META_BYTES_MAX:
        raise ValueError("not an Arrow IPC stream: no message begins here")
    if not size:
        return None
    data = stream.read(size)
    if len(data) < size:
        raise ValueError("the stream was cut off")
    return _FlatTable(data, struct.unpack_from("<I", data, 0)[0])


def _field(field: _FlatTable) -> _ColumnField:
    kind, about = field.scalar(2, "<B"), field.table(3)
    name = field.text(0).decode()
    if kind == _TEXT and field.has(4):
        return _ColumnField(name, np.dtype(np.int32), field.table(4).scalar(0, "<q"))
    if kind == _INT:
        bits, signed = about.scalar(0, "<i"), about.scalar(1, "<B")
        if bits in (8, 16, 32, 64):
            return _ColumnField(name, np.dtype(f"<{'i' if signed else 'u'}{bits // 8}"), None)
    if kind == _FLOAT and about.scalar(0, "<h") in (1, 2):
        return _ColumnField(name, np.dtype(f"<f{4 * about.scalar(0, '<h')}"), None)
    if kind == _BOOL:
        return _ColumnField(name, None, None)
    raise ValueError(f"column {name!r} has a type that is not supported")


class _MessageBody:
    """The buffers of a message, each read into memory of its own as it is asked for.

    They stand in the stream in the order of the columns, so nothing is held twice.
    """

    def __init__(self, stream: BinaryIO, header: _FlatTable, size: int) -> None:
        if header.has(3):
            raise ValueError("the stream is compressed")
        self.rows = header.scalar(0, "<q")
        self._stream, self._left, self._at = stream, size, 0
        self._buffers = iter(header.pairs(2))
        if any(missing for _, missing in header.pairs(1)):
            raise ValueError("a column has nulls")

    def buffer(self) -> memoryview:
        """The next buffer."""
        offset, size = next(self._buffers, (-1, -1))
        if size < 0 or offset < self._at or offset + size > self._left or size > _MOST_BYTES:
            raise ValueError("not an Arrow IPC stream: a buffer lies outside its message")
        self._skip(offset)
        # Empty until it is filled: what a broken stream promises is not set aside for it.
        data = _filled(self._stream, size)
        self._at += size
        return data

    def column(self, dtype: np.dtype[Any] | None) -> NDArray[Any]:
        """The next column."""
        self.buffer()
        data = self.buffer()
        if dtype is None:
            bits = np.frombuffer(data, np.uint8)
            return np.unpackbits(bits, count=self.rows, bitorder="little").view(np.bool_)
        found = np.frombuffer(data, dtype)[: self.rows]
        if len(found) != self.rows:
            raise ValueError("not an Arrow IPC stream: a column is too short")
        return found

    def end(self) -> None:
        """Skip the rest."""
        self._skip(self._left)

    def _skip(self, place: int) -> None:
        if place > self._at:
            _filled(self._stream, place - self._at)
            self._at = place


PART_BYTES: Final = 1 << 24


def _filled(stream: BinaryIO, size: int) -> memoryview:
    """The next `size` bytes of the stream."""
    if size > PART_BYTES:
        parts = b"".join(
            _filled(stream, min(PART_BYTES, size - at)) for at in range(0, size, PART_BYTES)
        )
        return memoryview(parts)
    data = np.empty(size, np.uint8).data
    done = 0
    while done < size:
        count = stream.readinto(data[done:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError("the stream was cut off")
        done += count
    return data


def _texts(body: _MessageBody) -> tuple[str, ...]:
    offsets = np.frombuffer(_after_validity(body), np.int32)[: body.rows + 1].tolist()
    data = bytes(body.buffer())
    body.end()
    pairs = pairwise(offsets)
    return tuple(data[start:end].decode() for start, end in pairs)


def _after_validity(body: _MessageBody) -> memoryview:
    body.buffer()
    return body.buffer()


def _batch(
    body: _MessageBody,
    fields: list[_ColumnField],
    words: dict[int, tuple[str, ...]],
    message: _FlatTable,
) -> FrameBatch:
    columns = {field.name: body.column(field.dtype) for field in fields}
    body.end()
    metadata = {pair.text(0): pair.text(1) for pair in message.tables(4)}
    texts = {f.name: words[f.dictionary] for f in fields if f.dictionary is not None}
    return FrameBatch(columns, texts, metadata)
