"""What is written to a partition, from samples of its leader's log: laws of the estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.telemetry.stuck.produce_rates import HOLD_S, Leaders, Produced, ProduceRates
from tests.support.runs.examples import many

Sample = tuple[int, int, int, int]
"""Leader, milliseconds, log end offset, bytes."""


def leaders(*samples: Sample, keys: tuple[int, ...] | None = None) -> Leaders:
    columns = np.array(samples, np.int64).reshape(len(samples), 4).T
    return Leaders(
        np.array(range(len(samples)) if keys is None else keys, np.int64),
        columns[0].astype(np.int32),
        *columns[1:],
    )


def told(samples: list[Sample]) -> ProduceRates:
    """The rates of one partition after these samples."""
    produced = Produced()
    for sample in samples[:-1]:
        produced.update(leaders(sample))
    return produced.update(leaders(samples[-1]))


def steadily(seconds: int, *, every_s: int = 1, rate: int = 1_000, size: int = 500) -> list[Sample]:
    return [
        (1, at * 1000, 7 + at * rate, 9 + at * rate * size) for at in range(0, seconds, every_s)
    ]


@given(
    st.lists(st.integers(500, 12_000), min_size=4, max_size=40),
    st.integers(0, 10_000),
    st.integers(1, 100_000),
)
def test_a_steady_rate_is_found_however_it_is_sampled(
    gaps_ms: list[int], rate: int, size: int
) -> None:
    times = np.cumsum([0, *gaps_ms])
    samples = [(1, int(at), int(at) * rate // 1000, int(at) * rate // 1000 * size) for at in times]
    found = told(samples)
    if times[-1] >= 3_000:
        assert found.messages_per_s[0] == pytest.approx(rate, rel=0.02, abs=2)
        assert found.bytes_per_s[0] == pytest.approx(rate * size, rel=0.02, abs=2 * size)


@settings(max_examples=many(40))
@given(st.sets(st.integers(1, 39), max_size=6), st.integers(1, 10**12))
def test_retention_does_not_show(deleted_at_s: set[int], segment_bytes: int) -> None:
    samples, gone = [], 0
    for at, (leader, ms, end, size) in enumerate(steadily(40)):
        if at in deleted_at_s:
            gone = min(gone + segment_bytes, size)
        samples.append((leader, ms, end, max(size - gone, 0)))
    found = told(samples)
    assert found.messages_per_s[0] == pytest.approx(1_000)
    if not math.isnan(found.bytes_per_s[0]):
        assert found.bytes_per_s[0] <= 500_000 * 1.01
        assert found.bytes_per_s[0] >= 500_000 * 0.75


def test_a_new_leader_starts_afresh() -> None:
    produced = Produced()
    for sample in steadily(20):
        produced.update(leaders(sample))
    # Its log is shorter: an unclean election has cut it.
    first = produced.update(leaders((2, 20_000, 5_000, 2_500_000)))
    assert math.isnan(first.bytes_per_s[0])
    for at in range(1, 5):
        found = produced.update(leaders((2, 20_000 + at * 1000, 5_000 + at * 10, 2_500_000 + at)))
    assert found.messages_per_s[0] == pytest.approx(10)


def test_an_end_that_goes_back_starts_afresh() -> None:
    samples = [*steadily(20), (1, 20_000, 50, 10), (1, 24_000, 90, 410)]
    found = told(samples)
    assert (found.messages_per_s[0], found.bytes_per_s[0]) == (10, 100)


def test_messages_that_become_smaller_are_learnt_anew() -> None:
    samples = steadily(60)
    _, ms, end, size = samples[-1]
    samples += [(1, ms + at * 1000, end + at * 1000, size + at * 50_000) for at in range(1, 180)]
    assert told(samples).bytes_per_s[0] == pytest.approx(50_000, rel=0.05)


def test_a_size_that_is_read_late_counts_when_it_is_read() -> None:
    samples = steadily(40)
    late = [(le, ms, end, samples[at // 3 * 3][3]) for at, (le, ms, end, _) in enumerate(samples)]
    assert told(late).bytes_per_s[0] == pytest.approx(500_000, rel=0.1)


def test_a_size_that_is_never_read_leaves_the_messages() -> None:
    unread = [(le, ms, end, -1) for le, ms, end, _ in steadily(20)]
    found = told(unread)
    assert found.messages_per_s[0] == pytest.approx(1_000)
    assert math.isnan(found.bytes_per_s[0])
    stale = [(le, ms, end, 9) for le, ms, end, _ in steadily(int(HOLD_S) + 2)]
    assert told(stale).messages_per_s[0] == pytest.approx(1_000)


def test_nothing_is_told_of_what_was_read_once_or_never() -> None:
    assert math.isnan(told([(1, 1_000, 5, 5)]).messages_per_s[0])
    assert math.isnan(told([(-1, -1, -1, -1)] * 5).bytes_per_s[0])
    idle = told([(1, at * 1000, 5, 5) for at in range(10)])
    assert (idle.messages_per_s[0], idle.bytes_per_s[0]) == (0, 0)


def test_partitions_are_found_again_by_their_keys() -> None:
    produced = Produced()
    for at in range(10):
        produced.update(leaders((1, at * 1000, at * 5, at * 50), (2, at * 1000, at, at)))
    found = produced.update(
        leaders((3, 9_500, 7, 7), (2, 10_000, 10, 10), (1, 10_000, 50, 500), keys=(9, 1, 0))
    )
    assert found.messages_per_s[1:].tolist() == pytest.approx([1, 5])
    assert math.isnan(found.messages_per_s[0])
    assert len(produced.update(leaders(keys=())).bytes_per_s) == 0
