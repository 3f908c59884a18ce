"""Keys of records of all kinds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa


def keys_of(seed: int, count: int) -> list[bytes]:
    """Keys of all kinds: none of bytes, short, long, beyond ASCII, the same."""
    dice = random.Random(seed)
    lengths = [*range(20), 127, 128, 129, 255, 1000]
    words = ["", "ключ", "鍵", "clé", "user-42", "\x00", "\xff" * 7]
    keys = [word.encode() for word in words] + [bytes([255]) * n for n in range(9)]
    return keys + [dice.randbytes(dice.choice(lengths)) for _ in range(count)]


def binary(keys: Sequence[bytes | None]) -> pa.Array:
    return pa.array(keys, pa.binary())
