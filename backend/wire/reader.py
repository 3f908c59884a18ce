"""Kafka's primitive types: a reader that trusts no byte, and the writers of the same types.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the compact ("flexible")
forms and tagged fields.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final

from kshunt.backend.errors import ClusterError

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

VARINT_BYTES_MAX: Final = 5
"""An unsigned varint of the protocol has 32 bits."""


class WireError(ClusterError):
    """A broker's answer is not what its protocol says, or it ends too early."""

    title = "Unreadable answer"
    kafka_code: ClassVar[int] = 2


class Reader:
    """Reads one message from the front.

    Every method raises `WireError` where the bytes do not hold what is asked for.
    """

    __slots__ = ("at", "data", "flexible", "what")

    def __init__(self, data: bytes, *, flexible: bool, what: str) -> None:
        self.data = data
        self.at = 0
        """Offset of the next byte."""
        self.flexible = flexible
        """True for the compact forms of KIP-482."""
        self.what = what
        """The message's name, for errors."""

    def error(self, problem: str) -> WireError:
        """An error that says where in which message the problem is."""
        return WireError(
            f"A broker sent an unreadable {self.what}: {problem} at byte {self.at}"
            f" of {len(self.data)}."
        )

    def skip(self, size: int) -> int:
        """Move `size` bytes on and return the offset they begin at."""
        start = self.at
        end = start + size
        if size < 0 or end > len(self.data):
            raise self.error(f"it ends, but {size} more bytes are expected")
        self.at = end
        return start

    def int16(self) -> int:
        """A big-endian int16."""
        value: int = _I16.unpack_from(self.data, self.skip(2))[0]
        return value

    def int32(self) -> int:
        """A big-endian int32."""
        value: int = _I32.unpack_from(self.data, self.skip(4))[0]
        return value

    def int64(self) -> int:
        """A big-endian int64."""
        value: int = _I64.unpack_from(self.data, self.skip(8))[0]
        return value

    def uvarint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        byte = self.data[self.skip(1)]
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
            byte = self.data[self.skip(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 32:
                    raise self.error("a varint has more than 32 bits")
                return value
        raise self.error("a varint does not end")

    def count(self) -> int:
        """The length of an array that the schema does not allow to be null."""
        count = self.uvarint() - 1 if self.flexible else self.int32()
        # No entry takes less than one byte, so this bounds what a hostile length can cost.
        if count < 0 or count > len(self.data) - self.at:
            raise self.error(f"an array of {count} entries does not fit")
        return count

    def nullable_bytes_of_string(self) -> bytes | None:
        """A nullable string's UTF-8, not decoded."""
        length = self.uvarint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        start = self.skip(length)
        return self.data[start : self.at]

    def nullable_string(self) -> str | None:
        """A nullable string."""
        raw = self.nullable_bytes_of_string()
        if raw is None:
            return None
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error("a string is not UTF-8") from None

    def string(self) -> str:
        """A string that the schema does not allow to be null."""
        value = self.nullable_string()
        if value is None:
            raise self.error("a string is null")
        return value

    def tags(self) -> None:
        """Skip a section of tagged fields; there is none before KIP-482."""
        if not self.flexible:
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())

    def end(self) -> None:
        """Check that nothing is left."""
        if self.at != len(self.data):
            raise self.error(f"{len(self.data) - self.at} bytes are left over")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def array_length(count: int, *, flexible: bool) -> bytes:
    """The length before an array's entries; -1 for a null array."""
    return uvarint(count + 1) if flexible else _I32.pack(count)


def string(text: str, *, flexible: bool) -> bytes:
    """A string with its length."""
    raw = text.encode()
    return (uvarint(len(raw) + 1) if flexible else _I16.pack(len(raw))) + raw


def tags(*, flexible: bool) -> bytes:
    """An empty section of tagged fields, where the version has one."""
    return b"\x00" if flexible else b""
