"""The recording file, `*.kshunt`: a heading, and records behind one another until the file ends.

Layout, little-endian
    - heading: magic (12 bytes), format version (u16), length (u32) and CRC-32 (u32) of a JSON
      object, then that object
    - record: marker `KREC`, kind (u8), flags (u8), stored length (u32), time (i64), wall (i64),
      backend (i64). Two checksums follow: CRC-32 of the payload (u32), CRC-32 of the header up to
      here (u32). The payload comes last, compressed by zlib where the flag says so.

Goals
    A file is only ever appended to, one write a record: a crash loses at most the record that was
    being written. Its index is rebuilt from the headers alone.
Constraints
    Times are milliseconds since the epoch. `time` orders records and never goes back; `wall` is
    what the clock on the wall said, and `backend` the backend's clock, or 0 while that is unknown.
Algorithm
    Headers are read one after the other. Where one is damaged, the next marker whose header is
    sound is looked for; the place is reported, and what lies before it is not affected.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from kshunt.backend.domain.untrusted.strict_json import read_json
from kshunt.backend.errors import BadInput

MAGIC: Final = b"\x89kshunt\r\n\x1a\n\x00"
FORMAT: Final = 1
SUFFIX: Final = ".kshunt"
MARKER: Final = b"KREC"
_HEADING: Final = struct.Struct("<HII")
_HEADER: Final = struct.Struct("<4sBBIqqqI")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
HEADING_BYTES_MOST: Final = 1 << 20
RECORD_BYTES_MOST: Final = 1 << 27
"""Of a payload, packed or unpacked: more is damage, or harm. 200,000 replicas take 30 MB."""
SEARCHED_BYTES: Final = 1 << 20
"""Bytes that one read takes while a sound header is looked for."""
DAMAGES_SHOWN: Final = 20
"""Places of damage that are told one by one."""
PACKED_LEAST: Final = 200
"""Payloads shorter than this do not get shorter."""

# Kinds of records.
WHOLE: Final = 1
CHANGE: Final = 2
SCENE: Final = 3
"""All but the snapshot, as it was just before a whole one."""
FACT: Final = 4
"""A message of the feed, other than a snapshot."""
MARK: Final = 5
"""Something that changed or went wrong, in words."""
ACTION: Final = 6

# Flags.
PACKED: Final = 1
CHANGED: Final = 2
"""A place to jump to: an operation changed, or an operator acted."""
INCIDENT: Final = 4
"""A place to jump to: something went wrong."""


class RecordingError(BadInput):
    """A file is no recording, or one that this version cannot read."""

    title = "Unusable recording"


@dataclass(frozen=True, slots=True)
class RecordHead:
    """One record, without its payload."""

    kind: int
    flags: int
    time_ms: int
    wall_ms: int
    backend_ms: int
    place: int
    """Where its payload begins in the file."""
    stored_bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A place of a file that cannot be read."""

    place: int
    """The first byte."""
    text: str


def heading(about: Mapping[str, Any]) -> bytes:
    """The first bytes of a file."""
    text = json.dumps(about).encode()
    return MAGIC + _HEADING.pack(FORMAT, len(text), zlib.crc32(text)) + text


def record(
    kind: int,
    content: bytes | Iterable[bytes],
    *,
    time_ms: int,
    wall_ms: int,
    backend_ms: int = 0,
    flags: int = 0,
) -> bytes:
    """The bytes of one record; content in parts is packed part by part."""
    if isinstance(content, bytes) and len(content) < PACKED_LEAST:
        payload = content
    else:
        payload, flags = _packed(content), flags | PACKED
    times = (time_ms, wall_ms, backend_ms)
    head = _HEADER.pack(MARKER, kind, flags, len(payload), *times, zlib.crc32(payload))
    return head + _CRC.pack(zlib.crc32(head)) + payload


def _packed(content: bytes | Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(1)
    parts = (content,) if isinstance(content, bytes) else content
    return b"".join([*map(packer.compress, parts), packer.flush()])


def read_heading(file: BinaryIO, path: Path) -> dict[str, Any]:
    """What a file says of itself; the records follow.

    Raises:
        RecordingError: it is no recording, of a newer version, or damaged at its beginning.
    """
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise RecordingError(f"{path} is not a recording of kshunt.")
    head = file.read(_HEADING.size)
    if len(head) < _HEADING.size:
        raise RecordingError(f"{path} ends in its heading; it holds no record.")
    version, length, crc = _HEADING.unpack(head)
    if version > FORMAT:
        raise RecordingError(
            f"{path} was written by a newer kshunt (format {version}; this one reads {FORMAT}).",
            advice="Replay it with that version.",
        )
    text = file.read(min(length, HEADING_BYTES_MOST))
    if len(text) != length or zlib.crc32(text) != crc:
        raise RecordingError(f"{path} is damaged in its heading, at byte {len(MAGIC)}.")
    try:
        return dict(read_json(text, bytes_max=HEADING_BYTES_MOST))
    except (ValueError, TypeError):
        raise RecordingError(
            f"{path} is damaged in its heading: it is not a JSON object."
        ) from None


class RecordingFile:
    """A file that is read; it may be one that is still being written."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            RecordingError: it cannot be read, or is none.
        """
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror or error}.") from None
        try:
            self.about = read_heading(self._file, path)
        except OSError as error:
            self._file.close()
            raise RecordingError(f"{path}: {error.strerror or error}.") from None
        except RecordingError:
            self._file.close()
            raise
        self.entries: list[RecordHead] = []
        self.damages: list[Damage] = []
        self._next = self._file.tell()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @property
    def cut_bytes(self) -> int:
        """Bytes at the end that are no whole record: it is being written, or was cut off."""
        return max(os.fstat(self._file.fileno()).st_size - self._next, 0)

    def scan(self) -> int:
        """Index what was appended since the last time; how many records that is."""
        before = len(self.entries)
        size = os.fstat(self._file.fileno()).st_size
        while (entry := self._entry_at(self._next, size)) is not None:
            self.entries.append(entry)
            self._next = entry.place + entry.stored_bytes
        return len(self.entries) - before

    def _entry_at(self, place: int, size: int) -> RecordHead | None:
        """The record at a place, or the next sound one after it; None at the end."""
        if place + HEADER_BYTES > size:
            return None
        entry = self._sound_entry(place)
        if entry is None:
            found = self._resume(place + 1, size)
            if found is None:
                return None
            self.damages.append(
                Damage(place, f"damaged from byte {place} to {found}; later records are used")
            )
            self._next = found
            entry = self._sound_entry(found)
            assert entry is not None
        # Its end is not there yet, or never will be.
        return entry if entry.place + entry.stored_bytes <= size else None

    def _sound_entry(self, place: int) -> RecordHead | None:
        self._file.seek(place)
        head = self._file.read(HEADER_BYTES)
        if len(head) < HEADER_BYTES or not head.startswith(MARKER):
            return None
        if _CRC.unpack_from(head, _HEADER.size)[0] != zlib.crc32(head[: _HEADER.size]):
            return None
        _, kind, flags, length, time_ms, wall_ms, backend_ms, crc = _HEADER.unpack_from(head)
        place += HEADER_BYTES
        return RecordHead(kind, flags, time_ms, wall_ms, backend_ms, place, length, crc)

    def _resume(self, place: int, size: int) -> int | None:
        """Where the next sound header is, at `place` or after it."""
        while place < size:
            self._file.seek(place)
            part = self._file.read(SEARCHED_BYTES)
            at = part.find(MARKER)
            while at >= 0:
                if self._sound_entry(place + at) is not None:
                    return place + at
                at = part.find(MARKER, at + 1)
            if len(part) < SEARCHED_BYTES:
                return None
            # A marker may lie across the end of the part.
            place += SEARCHED_BYTES - len(MARKER) + 1
        return None

    def payload(self, entry: RecordHead) -> bytes:
        """What a record holds.

        Raises:
            RecordingError: it is damaged.
        """
        if entry.stored_bytes > RECORD_BYTES_MOST:
            raise RecordingError(
                f"{self.path} has a record at byte {entry.place} that is too large."
            )
        self._file.seek(entry.place)
        stored = self._file.read(entry.stored_bytes)
        if len(stored) == entry.stored_bytes and zlib.crc32(stored) == entry.crc:
            if not entry.flags & PACKED:
                return stored
            unpacked = self._unpacked(entry, stored)
            if unpacked is not None:
                return unpacked
        raise RecordingError(f"{self.path} is damaged at byte {entry.place}.")

    def _unpacked(self, entry: RecordHead, stored: bytes) -> bytes | None:
        """What a packed record holds; None where it is damaged."""
        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(stored, RECORD_BYTES_MOST)
        except zlib.error:
            return None
        if unpacker.eof:
            return unpacked
        if len(unpacked) < RECORD_BYTES_MOST:
            return None
        raise RecordingError(
            f"{self.path} has a record at byte {entry.place} that unpacks to more than "
            f"{RECORD_BYTES_MOST >> 20} MB."
        )

    def trouble(self) -> tuple[str, ...]:
        """What of the file cannot be read, a sentence each."""
        found = [f"{self.path.name} is {damage.text}." for damage in self.damages[:DAMAGES_SHOWN]]
        if len(self.damages) > DAMAGES_SHOWN:
            more = len(self.damages) - DAMAGES_SHOWN
            found.append(f"{self.path.name} is damaged at {more:,} more places.")
        if self.cut_bytes:
            found.append(
                f"{self.path.name} ends in the middle of a record (the last {self.cut_bytes} "
                "bytes). That record is incomplete; all earlier ones are complete."
            )
        return tuple(found)
