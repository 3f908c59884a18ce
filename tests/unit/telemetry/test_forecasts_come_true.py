"""Forecasts of operations on an embedded core, of seeds that nobody has seen before.

The bounds are wide: each run has other operations. `tests.bench.bench_forecast` has the numbers.
"""

from __future__ import annotations

from random import SystemRandom

import pytest

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from tests.support.forecast.scores import as_text, scores
from tests.support.forecast.watched_operations import watched_all

OPERATIONS = 20
LONGEST_S = 200.0


@pytest.mark.slow
def test_operations_of_fresh_seeds_end_about_when_it_was_said() -> None:
    seeds = SystemRandom().sample(range(10**6, 10**9), OPERATIONS)
    found = scores(watched_all(seeds, LONGEST_S), shipped_quantiles())
    half_way = next(one for one in found if one.point == 0.5)
    said = f"seeds {seeds}\n{as_text(found)}"
    assert half_way.operations >= OPERATIONS // 2, said
    # Of 20 that hold 80 % of the time, fewer than 9 hold once in ten thousand runs.
    assert half_way.coverage > 0.44, said
    assert half_way.error < 0.35, said
