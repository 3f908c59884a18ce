"""The calibration that outcomes make: which bins are believed."""

import math

import numpy as np

from kshunt.backend.domain.forecast.calibration import Bin
from kshunt.backend.domain.forecast.ranges import COPY, THROTTLE, WRITES
from kshunt.backend.pipeline.backtest.residuals import FEWEST, Outcomes, fitted


def bins_of(ratios: list[float], stages: list[int], hard: int = 0) -> list[Bin]:
    """Of copies below a throttle; each outcome is one of another operation, the first are hard."""
    count = len(ratios)
    return [
        *fitted(
            Outcomes(
                kind=np.full(count, COPY),
                stage=np.array(stages),
                held_by=np.full(count, THROTTLE),
                writes=np.full(count, WRITES.index("much")),
                operation=np.arange(count),
                log_ratio=np.log(ratios),
                hard=(np.arange(count) < hard)[:, None],
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


def test_a_range_holds_in_a_group_of_hard_operations_too() -> None:
    right = [1.0 + number / 1_000 for number in range(10 * FEWEST)]
    hard = [0.5, 2.0] * (FEWEST // 2)
    stages = [0] * (len(hard) + len(right))
    alike, told = bins_of(hard + right, stages), bins_of(hard + right, stages, len(hard))
    assert max(one.high for one in alike) < math.log(1.5)
    assert {(one.low, one.high) for one in told} == {(round(math.log(0.5), 4), 0.6931)}
    assert [one.middle for one in alike] == [one.middle for one in told]


def test_a_few_hard_operations_do_not_widen_a_range() -> None:
    few = FEWEST - 1
    ratios = [2.0] * few + [1.0] * (10 * FEWEST)
    stages = [0] * len(ratios)
    assert bins_of(ratios, stages, few) == bins_of(ratios, stages)
