"""A cluster's own calibration, from how the forecasts of its operations turned out."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from kshunt.backend.domain.forecast.calibration import EXACT, shipped_quantiles
from kshunt.backend.domain.forecast.ranges import HOLDS, OPERATION, WRITES, Ranges, ranges
from kshunt.backend.domain.forecast.scoring.kept_forecasts import (
    POINTS,
    KeptForecast,
    VoidReason,
    record_of,
)
from kshunt.backend.domain.forecast.scoring.own_calibration import (
    NARROWEST,
    WIDEST,
    own_calibration,
)
from kshunt.backend.domain.replicas.expected_end_values import ResourceKind

Kept = tuple[KeptForecast, ...]
FEWEST = 30
BINS = [(stage, held, writes) for stage in range(5) for held in HOLDS for writes in WRITES]


def forecast(
    actual_s: float | None, model_s: float = 100.0, bin: tuple[int, str, str] = BINS[0]
) -> KeptForecast:
    stage, held_by, writes = bin
    return KeptForecast(
        *(0.25, 1_000, 80.0, 100.0, 130.0, model_s, stage, held_by, writes),  # type: ignore[arg-type]
        *(ResourceKind.LEADER_THROTTLE, 75, 100, "t", None, actual_s),
    )


def drawn(seed: int, count: int, factor: float, spread: float) -> list[Kept]:
    """Operations whose ends are off by a factor, and by a log-normal spread round that."""
    dice = Random(seed)
    return [
        tuple(
            forecast(100 * factor * math.exp(dice.gauss(0, spread)), bin=dice.choice(BINS))
            for _ in POINTS
        )
        for _ in range(count)
    ]


def coverage(operations: list[Kept], quantiles: np.ndarray) -> float:
    """How many of the ends these quantiles would have had in their ranges."""
    held = [
        bool(low <= (one.actual_s or 0) <= high)
        for kept in operations
        for one in kept
        for low, _, high in range_of(one, quantiles).ends_s
    ]
    return sum(held) / len(held)


def range_of(one: KeptForecast, quantiles: np.ndarray) -> Ranges:
    # The age that puts a forecast into the middle of its stage.
    way = (one.stage + 0.5) / 5
    age_s = one.model_s * way / (1 - way)
    holds, writes = HOLDS.index(one.held_by), WRITES.index(one.writes)
    return ranges(
        OPERATION,
        np.array([one.model_s]),
        np.array([age_s]),
        np.array([holds]),
        np.array([writes]),
        quantiles,
    )


@pytest.mark.parametrize(("factor", "spread"), [(1.0, 0.05), (1.0, 0.3), (1.6, 0.15), (0.6, 0.15)])
def test_its_ranges_hold_eight_times_in_ten_of_operations_that_it_has_not_seen(
    factor: float, spread: float
) -> None:
    found = own_calibration(drawn(1, 100, factor, spread), shipped_quantiles(), FEWEST)
    assert found is not None
    assert found.operations == 100
    unseen = drawn(2, 300, factor, spread)
    shipped, own = coverage(unseen, shipped_quantiles()), coverage(unseen, found.quantiles)
    assert 0.72 <= own <= 0.95, (shipped, own)
    assert abs(own - 0.8) <= abs(shipped - 0.8) + 0.02, (shipped, own)


def test_fewer_operations_than_needed_make_none() -> None:
    few = drawn(1, FEWEST - 1, 1.5, 0.1)
    assert own_calibration(few, shipped_quantiles(), FEWEST) is None
    assert own_calibration([], shipped_quantiles(), FEWEST) is None
    void = tuple(replace(one, void=VoidReason.PAUSED) for one in few[0])
    still_open = (forecast(None),)
    assert own_calibration([*few, void, still_open], shipped_quantiles(), FEWEST) is None
    assert own_calibration([*few, few[0]], shipped_quantiles(), FEWEST) is not None


def test_forecasts_that_are_right_leave_the_middle_as_it_is() -> None:
    found = own_calibration(drawn(3, 60, math.exp(EXACT / 2), 0.02), shipped_quantiles(), FEWEST)
    assert found is not None
    middles = found.quantiles[..., 1] - shipped_quantiles()[..., 1]
    assert np.abs(middles).max() < 0.1


def test_no_side_of_a_range_gets_far_narrower_or_wider_than_shipped() -> None:
    for spread, factor in ((0.0, NARROWEST), (3.0, WIDEST)):
        found = own_calibration(drawn(4, 60, 1.0, spread), shipped_quantiles(), FEWEST)
        assert found is not None
        shipped = shipped_quantiles()
        wide = found.quantiles[..., 2] - found.quantiles[..., 1]
        limit = (shipped[..., 2] - shipped[..., 1]) * factor
        assert (wide >= limit - 1e-9).all() if factor < 1 else (wide <= limit + 1e-9).all()


def test_an_operation_with_many_forecasts_weighs_no_more_than_another() -> None:
    late = tuple(forecast(300.0) for _ in range(60))
    rest = [(forecast(100.0),) for _ in range(40)]
    found = own_calibration([late, *rest], shipped_quantiles(), FEWEST)
    assert found is not None
    assert np.allclose(found.quantiles[..., 1], shipped_quantiles()[..., 1], atol=0.05)


def test_the_record_counts_what_is_neither_void_nor_open() -> None:
    kept = [
        forecast(100.0),
        forecast(200.0),
        forecast(None),
        replace(forecast(100.0), void=VoidReason.THROTTLE_CHANGED),
    ]
    found = record_of("the shipped calibration", kept)
    assert (found.right, found.counted) == (1, 2)
    assert str(found) == "right 50 % of 2 forecasts; ranges from the shipped calibration"
    assert str(record_of("", [])) == "none checked yet"
