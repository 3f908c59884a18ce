"""Forecasts of operations on an embedded core, of seeds that nobody has seen before.

Each run has other operations, so bounds are what chance alone breaks less than once in a million
runs. They follow from shares that 240 seeds had, made worse by three standard errors. Of the
forecasts at half-way at least 75 % hold (84 % did), and at most 20 % are off by more than 35 %
(11 % were). At least half of all operations can be judged (72 % could); in others somebody changes
the throttle later, or nothing was known yet. `tests.bench.bench_forecast` has the numbers.
"""

from __future__ import annotations

from math import comb
from random import SystemRandom

import pytest

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from tests.support.forecast.scores import Judged, as_text, judged, scores
from tests.support.forecast.watched_operations import Watched, watched

WANTED = 40
SEEDS_MAX = 120
"""Fewer than `WANTED` are judged once in 12,000 runs; the bounds follow the count."""
FEWEST = 25
"""Fewer are judged less than once in ten billion runs."""
HALF_WAY = 0.5
LONGEST_S = 200.0
HOLD_LEAST = 0.75
FAR = 0.35
FAR_MOST = 0.2
ALARM = 4e-7
"""Each of two bounds is broken by chance so often."""


def least(count: int, share: float) -> int:
    """The least of `count` that happen, each with this share; less has a chance under `ALARM`."""
    so_far = 0.0
    for number in range(count + 1):
        so_far += comb(count, number) * share**number * (1 - share) ** (count - number)
        if so_far > ALARM:
            return number
    return count


@pytest.mark.parametrize(("count", "share", "number"), [(40, 0.75, 15), (40, 0.8, 18), (1, 0.9, 0)])
def test_bounds_are_those_of_the_binomial_tail(count: int, share: float, number: int) -> None:
    assert least(count, share) == number


@pytest.mark.slow
def test_what_is_no_longer_forecast_half_way_is_judged_the_same_there() -> None:
    whole, half = (watched(1_000_107, LONGEST_S, until) for until in (None, HALF_WAY))
    found = judged(whole, HALF_WAY, shipped_quantiles())
    assert isinstance(found, Judged)
    assert judged(half, HALF_WAY, shipped_quantiles()) == found
    assert whole.looks[-1].copies.at_ms > half.looks[-1].copies.at_ms
    assert whole.took_s == half.took_s


@pytest.mark.slow
def test_operations_of_fresh_seeds_end_about_when_it_was_said() -> None:
    seeds = SystemRandom().sample(range(10**6, 10**9), SEEDS_MAX)
    quantiles, runs = shipped_quantiles(), list[Watched]()
    found: list[Judged] = []
    for seed in seeds:
        runs.append(watched(seed, LONGEST_S, HALF_WAY))
        one = judged(runs[-1], HALF_WAY, quantiles)
        found += [one] if isinstance(one, Judged) else []
        if len(found) == WANTED:
            break
    said = f"seeds {seeds[: len(runs)]}\n{as_text(scores(runs, quantiles, until=HALF_WAY))}"
    assert len(found) >= FEWEST, said
    assert sum(one.holds for one in found) >= least(len(found), HOLD_LEAST), said
    assert sum(one.error <= FAR for one in found) >= least(len(found), 1 - FAR_MOST), said
