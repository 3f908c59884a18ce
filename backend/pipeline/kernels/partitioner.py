"""Which partition a key belongs to, for many keys together, by each partitioner that is known.

Records without a key are nobody's and are answered by `NO_KEY`. What each partitioner does is said
in `kshunt.backend.domain.topics.partitioners`; here are the same numbers over arrays. A key of no
bytes has a partition here, so its records stay together; librdkafka's default takes it for none.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshunt.backend.domain.topics.partitioners import Partitioner

NO_KEY: Final = -1
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_LOW: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
_FEW: Final = 24
"""At most this many long keys are finished one by one.

A step over arrays costs as much as this many words."""

Hashes = NDArray[np.uint32]


def partitions_of(
    keys: Any, partitions: int, partitioner: Partitioner = Partitioner.MURMUR2
) -> NDArray[np.int64]:
    """The partition of each key; `NO_KEY` where it is null.

    Args:
        keys: Arrow's array of type binary.
        partitions: How many the topic has.
        partitioner: Which one chooses.
    """
    match partitioner:
        case Partitioner.MURMUR2:
            numbers = (murmur2(keys) & np.uint32(_POSITIVE)).astype(np.int64)
        case Partitioner.CRC32:
            numbers = crc32(keys).astype(np.int64)
        case Partitioner.FNV1A:
            # As a signed number, without its sign.
            numbers = np.abs(fnv1a(keys).view(np.int32).astype(np.int64))
    chosen: NDArray[np.int64] = numbers % partitions
    if keys.null_count:
        chosen[np.asarray(keys.is_null())] = NO_KEY
    return chosen


def partitions_of_bytes(
    keys: Sequence[bytes | None], partitions: int, partitioner: Partitioner = Partitioner.MURMUR2
) -> list[int]:
    """The same of keys as Python has them."""
    found: list[int] = partitions_of(pa.array(keys, pa.binary()), partitions, partitioner).tolist()
    return found


def crc32(keys: Any) -> Hashes:
    """The checksum of each key; of null that of no bytes."""
    return np.array([zlib.crc32(key or b"") for key in keys.to_pylist()], np.uint32)


def fnv1a(keys: Any) -> Hashes:
    """The 32-bit hash of each key; of null that of no bytes."""
    starts, sizes, data = _laid_out(keys)
    hashes = np.full(len(sizes), _FNV_OFFSET, np.uint32)
    left = np.flatnonzero(sizes > 0)
    at = 0
    while len(left) > _FEW:
        hashes[left] = (hashes[left] ^ data[starts[left] + at]) * np.uint32(_FNV_PRIME)
        at += 1
        left = left[sizes[left] > at]
    for n in left.tolist():
        h = int(hashes[n])
        for byte in data[starts[n] + at : starts[n] + sizes[n]].tolist():
            h = (h ^ byte) * _FNV_PRIME & _MASK
        hashes[n] = h
    return hashes


def murmur2(keys: Any) -> Hashes:
    """The 32-bit hash of each key; of null that of no bytes."""
    starts, sizes, data = _laid_out(keys)
    hashes = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    words = sizes >> 2
    # By length, the longest first: those that have an i-th word come before those that have none.
    order = _longest_first(words) if len(words) and np.ptp(words) else None
    if order is not None:
        starts, sizes, words, hashes = starts[order], sizes[order], words[order], hashes[order]
    _add_words(hashes, starts, words, data)
    _add_rest(hashes, starts, sizes, data)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(_M)
    hashes ^= hashes >> np.uint32(15)
    if order is None:
        return hashes
    unsorted = np.empty_like(hashes)
    unsorted[order] = hashes
    return unsorted


def _laid_out(keys: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Where each key starts, how long it is, and the bytes of all."""
    _, offsets_buffer, data_buffer = keys.buffers()
    if not len(keys):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(4, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    at = offsets.astype(np.int64)
    bytes_n = int(at[-1])
    data = np.zeros(bytes_n + 4, np.uint8)
    if bytes_n:
        data[:bytes_n] = np.frombuffer(data_buffer, np.uint8, bytes_n)
    return at[:-1], np.diff(at), data


def _longest_first(words: NDArray[np.int64]) -> NDArray[np.intp]:
    most = int(words.max())
    # Sixteen bits are sorted by counting.
    return np.argsort((most - words).astype(np.min_scalar_type(most)), kind="stable")


def _add_words(
    hashes: Hashes, starts: NDArray[np.int64], words: NDArray[np.int64], data: NDArray[np.uint8]
) -> None:
    """Mix in all whole words of four bytes; keys are sorted by the number of them."""
    if not len(words):
        return
    word_at = _words_of(data)
    having = len(words) - np.searchsorted(words[::-1], np.arange(int(words[0])), side="right")
    for i, n in enumerate(having.tolist()):
        if n <= _FEW:
            _finish(hashes, starts[:n], words[:n], data, i)
            return
        k = word_at[starts[:n] + 4 * i]
        k *= np.uint32(_M)
        k ^= k >> np.uint32(_R)
        k *= np.uint32(_M)
        hashes[:n] *= np.uint32(_M)
        hashes[:n] ^= k


def _finish(
    hashes: Hashes,
    starts: NDArray[np.int64],
    words: NDArray[np.int64],
    data: NDArray[np.uint8],
    first: int,
) -> None:
    """Mix in the words of few keys from the `first` on."""
    for n, (start, count) in enumerate(zip(starts.tolist(), words.tolist(), strict=True)):
        h = int(hashes[n])
        for k in np.frombuffer(data, "<u4", count - first, start + 4 * first).tolist():
            k = k * _M & _MASK
            h = h * _M & _MASK ^ (k ^ k >> _R) * _M & _MASK
        hashes[n] = h


def _add_rest(
    hashes: Hashes, starts: NDArray[np.int64], sizes: NDArray[np.int64], data: NDArray[np.uint8]
) -> None:
    """Mix in the up to three bytes after the last whole word."""
    rest = sizes & 3
    last = _words_of(data)[starts + (sizes & ~3)] & _LOW[rest]
    np.copyto(hashes, (hashes ^ last) * np.uint32(_M), where=rest > 0)


def _words_of(data: NDArray[np.uint8]) -> Hashes:
    """The four bytes from each byte on."""
    return np.ndarray((len(data) - 3,), "<u4", data.data, 0, (1,))
