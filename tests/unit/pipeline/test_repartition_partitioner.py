"""Kafka's murmur2 over arrays, compared with Java's, librdkafka's and one written out plainly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.pipeline.kernels.partitioner import (
    NO_KEY,
    murmur2,
    partitions_of_bytes,
)
from tests.support.pipeline.keys import binary


def plain(key: bytes) -> int:
    """The hash as Kafka's source has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=80), st.integers(0, 5))
def test_every_key_has_the_hash_of_the_plain_way(keys: list[bytes | None], skipped: int) -> None:
    expected = [plain(key or b"") for key in keys]
    assert murmur2(binary(keys)).tolist() == expected
    # A part of an array begins in the middle of its buffers.
    assert murmur2(binary(keys).slice(skipped)).tolist() == expected[skipped:]


def test_long_keys_among_short_ones() -> None:
    keys = [b"x" * 100_000, *(b"k%d" % n for n in range(1_000)), bytes(range(256)) * 40]
    assert murmur2(binary(keys)).tolist() == [plain(key) for key in keys]


def test_a_record_without_key_has_no_partition() -> None:
    keys = [b"a", None, b"", None]
    found = partitions_of_bytes(keys, 5)
    assert [found[1], found[3]] == [NO_KEY, NO_KEY]
    assert [found[0], found[2]] == [(plain(key) & 0x7FFFFFFF) % 5 for key in (b"a", b"")]
    assert partitions_of_bytes([], 5) == []
