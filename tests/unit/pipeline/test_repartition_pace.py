"""How large batches and transactions of a copy become where records, or the target, are slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.pipeline.kernels.copying import following_bytes
from kshunt.backend.pipeline.repartition.copy_batches import (
    FIRST_RECORDS,
    LEAST_RECORDS,
    following_size,
)

MB = 1 << 20


def sizes(rate_per_s: float, most: int, batches: int = 12, seconds: float = 5.0) -> list[int]:
    """Batches of a copy that goes at this rate."""
    found = [min(FIRST_RECORDS, most)]
    while len(found) < batches:
        share = found[-1] / rate_per_s / seconds
        found.append(following_size(found[-1], share, most))
    return found


def test_batches_of_quick_copies_grow_to_what_is_allowed() -> None:
    assert sizes(1e9, 1_000_000) == [20_000, 80_000, 320_000, *[1_000_000] * 9]
    assert sizes(1e9, 5_000) == [5_000] * 12


@given(st.floats(300, 1e7), st.integers(1_000, 2_000_000))
def test_batches_come_to_take_about_their_time(rate_per_s: float, most: int) -> None:
    last = sizes(rate_per_s, most)[-1]
    assert last <= max(most, LEAST_RECORDS)
    took_s = last / rate_per_s
    assert took_s <= 7.5 + 1e-6
    assert took_s >= 1.2 or last == most


def test_transactions_grow_with_quick_targets_and_shrink_with_slow_ones() -> None:
    assert [following_bytes(16 * MB, s) for s in (0.5, 3.0, 6.0)] == [64 * MB, 16 * MB, 8 * MB]
    assert following_bytes(256 * MB, 0.1) == 256 * MB
    assert following_bytes(MB, 60.0) == MB
