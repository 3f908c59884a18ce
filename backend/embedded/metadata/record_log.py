"""The controller's log on disk: what was committed comes back, whatever is cut off.

Goals
    1. A commit that returned is there after any crash of the process or the machine.
    2. A commit is there wholly or not at all.
    3. Damage is never taken for data: a damaged end is cut, damage before it is an error.

Constraints
    - The end of a file may be torn by a crash: cut at any byte, or filled with zeros. Such an
      end was never acknowledged.
    - Damage that whole commits follow is no torn end. Cutting there would lose commits that were
      acknowledged, so opening refuses and names the offset.

Algorithm
    The file is eight bytes of magic and then commits: length (4 bytes), CRC-32 (4), sequence (8),
    payload, all big-endian; the checksum covers everything but itself. The payload is the
    records' encodings, one a line. Opening reads commits while each is whole and follows its
    predecessor. At the first that is not, the rest is searched for any whole commit of a later
    sequence: one found means damage in the middle, none means a torn end.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from kshunt.backend.embedded.metadata.records import Record, decode, encode
from kshunt.backend.errors import Conflict, KshuntError
from kshunt.backend.files import sync_folder

MAGIC: Final = b"kshuntr\x01"
"""The last byte is the version of this format."""

COMMIT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most bytes of one commit's payload."""

_SNAPSHOT_RECORDS: Final = 10_000
"""Records of one commit of a rewritten log."""

_HEAD: Final = struct.Struct(">IIQ")
_LENGTH: Final = struct.Struct(">I")
_SEQUENCE: Final = struct.Struct(">Q")


class RecordLogError(KshuntError):
    """A log is damaged before its end, is no log, or could not be written."""

    title = "Unusable record log"

    def __init__(self, message: str, *, advice: str = "", offset: int = 0) -> None:
        super().__init__(message, advice=advice)
        self.offset = offset
        """Where in the file the trouble begins, in bytes."""


class RecordLog:
    """An open log. One process holds it at a time; it is not for use by several threads."""

    def __init__(self, path: Path, replay: Callable[[Record], None], *, fsync: bool = True) -> None:
        """Open or create a log, hand every record to `replay`, and cut a torn end.

        `fsync` false leaves it to the system when data reaches the disk; a killed process loses
        nothing then, a machine without power may.

        Raises:
            RecordLogError: the file is no record log, or is damaged before its end.
            RecordError: a commit holds a record that this version does not know.
            Conflict: another process holds the log.
            OSError: the file cannot be read or written.
        """
        self.path = path
        self.cut_bytes = 0
        """How much of a torn end was cut when the log was opened."""
        self._fsync = fsync
        self._broken = False
        self._file: BinaryIO = _opened(path)
        with ExitStack() as on_failure:
            on_failure.callback(self._file.close)
            self._lock()
            self._sequence, self._end = self._read(replay)
            on_failure.pop_all()

    @property
    def sequence(self) -> int:
        """How many commits the log holds."""
        return self._sequence

    def commit(self, records: Sequence[Record]) -> int:
        """Write records as one commit and wait until they are on disk; its sequence number.

        Raises:
            RecordLogError: there are none or too many; or an earlier write failed and may be
                there by half, so that the log must be opened again.
            OSError: the write failed; nothing more is accepted.
        """
        if self._broken:
            raise RecordLogError(f"An earlier write to {self.path} failed.", offset=self._end)
        payload = b"\n".join(map(encode, records))
        if not 0 < len(payload) <= COMMIT_BYTES_MAX:
            raise RecordLogError(f"A commit of {len(payload)} bytes cannot be written.")
        entry = _entry(self._sequence, payload)
        self._broken = True
        self._file.seek(self._end)
        self._file.write(entry)
        self._flush()
        self._broken = False
        self._end += len(entry)
        self._sequence += 1
        return self._sequence - 1

    @property
    def size_bytes(self) -> int:
        """How long the log is on disk."""
        return self._end

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace the log by one that begins with these records; there is always one of the two.

        Raises:
            RecordLogError: an earlier write failed.
            OSError: the new log could not be written; the old one is as it was.
        """
        if self._broken:
            raise RecordLogError(f"An earlier write to {self.path} failed.", offset=self._end)
        entries = [
            _entry(number, b"\n".join(chunk)) for number, chunk in enumerate(_chunks(records))
        ]
        aside = self.path.with_suffix(".new")
        with _opened(aside) as fresh:
            fresh.truncate()
            fresh.write(MAGIC + b"".join(entries))
            fresh.flush()
            os.fsync(fresh.fileno())
        replacement = _opened(aside)
        fcntl.flock(replacement.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside.replace(self.path)
        sync_folder(self.path.parent)
        self._file.close()
        self._file = replacement
        self._sequence = len(entries)
        self._end = len(MAGIC) + sum(map(len, entries))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> RecordLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"Another process uses {self.path}.") from error

    def _read(self, replay: Callable[[Record], None]) -> tuple[int, int]:
        """Replay every commit; how many there are, and where the next one goes."""
        data = self._file.read()
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise RecordLogError(f"{self.path} is not a record log of this version.")
        if len(data) < len(MAGIC):
            self._create()
            return 0, len(MAGIC)
        end, sequence = len(MAGIC), 0
        for payload in _commits(data):
            for line in payload.split(b"\n"):
                replay(decode(line))
            end += _HEAD.size + len(payload)
            sequence += 1
        if end < len(data):
            self._cut(data, end, sequence)
        return sequence, end

    def _create(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(MAGIC)
        self._flush()
        if self._fsync:
            sync_folder(self.path.parent)

    def _cut(self, data: bytes, end: int, sequence: int) -> None:
        later = _later_commit(data, end, sequence)
        if later is not None:
            raise RecordLogError(
                f"{self.path} is damaged at byte {end}; a whole commit follows at byte {later}.",
                advice="Restore the file from a copy.",
                offset=end,
            )
        self.cut_bytes = len(data) - end
        self._file.truncate(end)
        self._flush()

    def _flush(self) -> None:
        self._file.flush()
        if self._fsync:
            os.fsync(self._file.fileno())


def _opened(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+b")


def _entry(sequence: int, payload: bytes) -> bytes:
    checksum = _checksum(_LENGTH.pack(len(payload)), _SEQUENCE.pack(sequence), payload)
    return _HEAD.pack(len(payload), checksum, sequence) + payload


def _checksum(length: bytes, sequence: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(sequence, zlib.crc32(length)))


def _chunks(records: Iterable[Record]) -> Iterator[list[bytes]]:
    """Encoded records, in groups that each make a commit of a snapshot."""
    encoded = map(encode, records)
    while chunk := list(islice(encoded, _SNAPSHOT_RECORDS)):
        yield chunk


def _commits(data: bytes) -> Iterator[bytes]:
    """The payloads of the commits, up to the first that is not whole or not the next."""
    offset, expected = len(MAGIC), 0
    while (found := _commit_at(data, offset)) is not None:
        sequence, payload = found
        if sequence != expected:
            return
        yield payload
        offset += _HEAD.size + len(payload)
        expected += 1


def _commit_at(data: bytes, offset: int) -> tuple[int, bytes] | None:
    """The commit at an offset, if there is a whole one."""
    if offset + _HEAD.size > len(data):
        return None
    length, checksum, sequence = _HEAD.unpack_from(data, offset)
    begin = offset + _HEAD.size
    if not 0 < length <= len(data) - begin:
        return None
    payload = data[begin : begin + length]
    whole = checksum == _checksum(_LENGTH.pack(length), _SEQUENCE.pack(sequence), payload)
    return (sequence, payload) if whole else None


def _later_commit(data: bytes, begin: int, sequence: int) -> int | None:
    """Where a whole commit of a sequence number that could follow lies, or None.

    Numbers are compared before checksums are computed, which keeps the search linear.
    """
    last = sequence + (len(data) - begin) // _HEAD.size
    for offset in range(begin + 1, len(data) - _HEAD.size):
        (number,) = _SEQUENCE.unpack_from(data, offset + _HEAD.size - _SEQUENCE.size)
        if sequence < number <= last and _commit_at(data, offset) is not None:
            return offset
    return None
