"""The calibration that outcomes make: which bins are believed."""

import math

import numpy as np
import pytest

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


def test_an_upper_end_holds_in_a_group_of_hard_operations_too() -> None:
    right = [1.0 + number / 1_000 for number in range(10 * FEWEST)]
    hard = [0.5, 2.0] * (FEWEST // 2)
    stages = [0] * (len(hard) + len(right))
    alike, told = bins_of(hard + right, stages), bins_of(hard + right, stages, len(hard))
    assert max(one.high for one in alike) < math.log(1.5)
    assert {one.high for one in told} == {round(math.log(2.0), 4)}
    assert [(one.low, one.middle) for one in alike] == [(one.low, one.middle) for one in told]


def test_a_few_hard_operations_do_not_widen_a_range() -> None:
    few = FEWEST - 1
    ratios = [2.0] * few + [1.0] * (10 * FEWEST)
    stages = [0] * len(ratios)
    assert bins_of(ratios, stages, few) == bins_of(ratios, stages)


def outcomes(operations: int, seed: int = 1) -> Outcomes:
    """Ten forecasts each of copies in the middle stage, that are right but for a factor."""
    dice = np.random.default_rng(seed)
    count = operations * 10
    return Outcomes(
        kind=np.zeros(count, np.int64),
        stage=np.full(count, 2),
        held_by=np.full(count, THROTTLE),
        writes=np.zeros(count, np.int64),
        operation=np.repeat(np.arange(operations), 10),
        log_ratio=np.repeat(dice.normal(0.0, 0.5, operations), 10),
        hard=np.empty((count, 0), np.bool_),
    )


def test_a_calibrations_range_holds_eight_times_in_ten() -> None:
    low, middle, high = fitted(outcomes(3_000), "test").quantiles()[0, 2, 1, 0]
    assert middle == 0.0
    later = outcomes(3_000, seed=2).log_ratio
    assert np.mean((later >= low) & (later <= high)) == pytest.approx(0.8, abs=0.05)


def test_a_bin_of_few_operations_falls_into_a_coarser_one() -> None:
    some = outcomes(FEWEST)
    assert {(b.stage, b.held_by, b.writes) for b in fitted(some, "").bins} == {
        (None, None, None),
        (None, None, "none"),
        (None, "throttle", "none"),
        (2, "throttle", "none"),
    }
    found = fitted(some, "").quantiles()
    assert (found[0, 0, 0, 1] == found[0, 2, 1, 0]).all()
    assert (found[1] == 0).all()
    assert fitted(outcomes(FEWEST - 1), "").bins == ()


def test_each_operation_weighs_the_same() -> None:
    some = outcomes(30)
    many = np.append(np.arange(300), np.repeat(np.arange(10), 1_000))
    heavy = Outcomes(*(getattr(some, name)[many] for name in Outcomes.__dataclass_fields__))
    ours, theirs = (fitted(one, "").quantiles()[0, 2, 1, 0] for one in (some, heavy))
    assert ours == pytest.approx(theirs, abs=0.02)
