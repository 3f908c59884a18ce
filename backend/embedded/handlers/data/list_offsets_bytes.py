"""The answer to ListOffsets as bytes.

A dashboard asks each broker for all of its replicas every second, so that entries are packed
directly rather than made into objects first. The bytes are those of kafka-python's encoder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kshunt.backend.wire.reader import array_length, string, tags

_THROTTLE_FROM: Final = 2
_EPOCH_FROM: Final = 4
_FLEXIBLE_FROM: Final = 6
_NO_THROTTLE: Final = bytes(4)
_OLD: Final = struct.Struct(">ihqq")
_PLAIN: Final = struct.Struct(">ihqqi")
_FLEXIBLE: Final = struct.Struct(">ihqqix")


class ListedOffset(NamedTuple):
    """One partition of the answer."""

    number: int
    error: int
    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets_answer(
    version: int, topics: Sequence[tuple[str, Sequence[ListedOffset]]]
) -> bytes:
    """The body of the answer: topics' names with their partitions."""
    flexible = version >= _FLEXIBLE_FROM
    parts = [_NO_THROTTLE] if version >= _THROTTLE_FROM else []
    parts.append(array_length(len(topics), flexible=flexible))
    end = tags(flexible=flexible)
    for name, found in topics:
        parts.append(string(name, flexible=flexible))
        parts.append(array_length(len(found), flexible=flexible))
        parts += [_entry(version, *one) for one in found]
        parts.append(end)
    parts.append(end)
    return b"".join(parts)


def _entry(
    version: int, number: int, error: int, offset: int, timestamp_ms: int, leader_epoch: int
) -> bytes:
    if version < _EPOCH_FROM:
        return _OLD.pack(number, error, timestamp_ms, offset)
    kind = _PLAIN if version < _FLEXIBLE_FROM else _FLEXIBLE
    return kind.pack(number, error, timestamp_ms, offset, leader_epoch)
