"""The calibration that outcomes make: which bins are believed."""

import math

import numpy as np

from kshunt.backend.domain.forecast.calibration import Bin
from kshunt.backend.domain.forecast.ranges import COPY, RESTLESS, THROTTLE
from kshunt.backend.pipeline.backtest.residuals import FEWEST, Outcomes, fitted


def bins_of(ratios: list[float], stages: list[int]) -> list[Bin]:
    """Of copies below a throttle whose ends wander; each outcome is one of another operation."""
    count = len(ratios)
    return [
        *fitted(
            Outcomes(
                kind=np.full(count, COPY),
                stage=np.array(stages),
                held_by=np.full(count, THROTTLE),
                wander=np.full(count, RESTLESS),
                operation=np.arange(count),
                log_ratio=np.log(ratios),
                weight=np.ones(count),
            ),
            "a test",
        ).bins
    ]


def test_a_bin_of_few_operations_is_left_out() -> None:
    assert bins_of([1.0] * (FEWEST - 1), [0] * (FEWEST - 1)) == []
    assert {one.stage for one in bins_of([1.0] * FEWEST, [2] * FEWEST)} == {None, 2}


def test_a_stage_whose_range_says_nothing_is_left_out_and_still_counts_for_all_stages() -> None:
    late = [90.0] * FEWEST
    found = bins_of([1.1] * FEWEST + late, [1] * FEWEST + [4] * FEWEST)
    assert {one.stage for one in found} == {None, 1}
    assert max(one.high for one in found if one.stage is None) > math.log(20)
