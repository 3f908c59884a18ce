"""What answers of a webhook mean, and how its pauses grow."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.notify.retries import (
    AttemptOutcome,
    AttemptResult,
    RetryPolicy,
    given_up,
    judged,
    pause_s,
    retry_after_s,
)

NOW_MS = 1_700_000_000_000
POLICY = RetryPolicy()


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, AttemptResult.DELIVERED),
        (204, AttemptResult.DELIVERED),
        (299, AttemptResult.DELIVERED),
        (301, AttemptResult.REFUSED),
        (308, AttemptResult.REFUSED),
        (400, AttemptResult.REFUSED),
        (401, AttemptResult.REFUSED),
        (404, AttemptResult.REFUSED),
        (408, AttemptResult.AGAIN),
        (410, AttemptResult.GONE),
        (413, AttemptResult.REFUSED),
        (425, AttemptResult.AGAIN),
        (429, AttemptResult.AGAIN),
        (500, AttemptResult.AGAIN),
        (503, AttemptResult.AGAIN),
        (599, AttemptResult.AGAIN),
    ],
)
def test_what_a_status_means(status: int, result: AttemptResult) -> None:
    answer = judged(status, "no such channel", "", NOW_MS)
    assert answer.result is result
    if result is not AttemptResult.DELIVERED:
        assert answer.words.startswith(f"HTTP {status}: no such channel")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("", 0.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("99999999999999", 0.0),
        ("Tue, 14 Nov 99999 22:14:20 GMT", 0.0),
        ("٣", 0.0),
    ],
)
def test_what_retry_after_asks_for(text: str, seconds: float) -> None:
    assert retry_after_s(text, NOW_MS) == seconds


@given(failures=st.integers(1, 10_000), asked_s=st.floats(0, 1e9), seed=st.integers())
def test_a_pause_has_its_bounds(failures: int, asked_s: float, seed: int) -> None:
    found = pause_s(failures, asked_s, POLICY, Random(seed))
    assert min(POLICY.pause_s, POLICY.pause_s_max) / 2 <= found
    assert found <= max(POLICY.pause_s_max, POLICY.retry_after_s_max)
    assert found >= min(asked_s, POLICY.retry_after_s_max)


def test_pauses_double_and_are_never_the_same_for_two() -> None:
    pauses = [[pause_s(n, 0, POLICY, Random(seed)) for n in range(1, 12)] for seed in (1, 2)]
    for n, (one, other) in enumerate(zip(*pauses, strict=True)):
        whole_s = min(POLICY.pause_s * 2**n, POLICY.pause_s_max)
        assert whole_s / 2 <= one <= whole_s
        assert one != other


def test_a_refusal_is_repeated_less_often_than_silence() -> None:
    refused, silent = AttemptOutcome(AttemptResult.REFUSED), AttemptOutcome(AttemptResult.AGAIN)
    assert not given_up(POLICY.attempts_refused - 1, refused, POLICY)
    assert given_up(POLICY.attempts_refused, refused, POLICY)
    assert not given_up(POLICY.attempts - 1, silent, POLICY)
    assert given_up(POLICY.attempts, silent, POLICY)


def test_all_attempts_take_at_least_half_an_hour_where_nobody_is_there() -> None:
    pauses = [pause_s(n, 0, POLICY, Random(0)) for n in range(1, POLICY.attempts)]
    assert 0.25 * 3600 < sum(pauses) < 3600
