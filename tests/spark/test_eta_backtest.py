"""Forecasts against how it went: results computed by hand, and operations on an embedded core."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.forecast.ranges import THROTTLE
from kshunt.backend.pipeline.backtest.backtest_command import NoOperations, backtest
from kshunt.backend.pipeline.backtest.forecast_scores import (
    Ended,
    ScoreLine,
    as_text,
    forecasts,
    lines,
)
from kshunt.backend.pipeline.backtest.residuals import FEWEST, Outcomes, fitted
from tests.support.pipeline.recorded import sample, write
from tests.support.pipeline.simulated_operations import record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(900, 912)
"""Neither the calibration's nor the evaluation's."""
LONGEST_S = 150.0
NO_RID = 0


# --- the calibration


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


# --- the computation


def test_what_became_of_forecasts() -> None:
    """Two copies of one operation, the second of which is in the ISR after 30 s."""
    turns = [(1, 0, False), (1, 20_000, True), (2, 0, False), (2, 30_000, True)]
    moves = Ended(
        operation=np.zeros(4, np.int64),
        rid=np.array([rid for rid, _, _ in turns]),
        at_ms=np.array([at for _, at, _ in turns]),
        in_isr=np.array([there for _, _, there in turns]),
        removing=np.zeros(4, np.bool_),
    )
    ticks = [(0, 3_000), (10_000, 2_000), (20_000, 500)]
    rows = {
        "operation": np.zeros(3, np.int64),
        "is_operation": np.ones(3, np.bool_),
        "rid": np.full(3, NO_RID),
        "at_ms": np.array([at for at, _ in ticks]),
        "by_throttle": np.ones(3, np.bool_),
        "writes": np.ones(3, np.int64),
        "remaining": np.array([left for _, left in ticks], np.float64),
        "stage": np.array([0.0, 0.4, 0.6]),
        "p10_s": np.array([20.0, 30.0, math.nan]),
        "p50_s": np.array([33.0, 40.0, math.nan]),
        "p90_s": np.array([40.0, 50.0, math.nan]),
    }
    found = forecasts(rows, moves)
    assert found.actual_s.tolist() == [30.0, 20.0, 10.0]
    assert found.progress == pytest.approx([0.0, 1 / 3, 5 / 6])
    two, mean = found.baselines.T
    assert two[1:] == pytest.approx([20.0, 500 / 150])
    assert mean[1:] == pytest.approx([20.0, 500 / 125])
    by_stage = {line.stage: line for line in lines(found) if line.kind == "operation"}
    assert (by_stage["0-20 %"].coverage, by_stage["20-40 %"].coverage) == (1.0, 0.0)
    assert by_stage["0-20 %"].scores[0].error == pytest.approx(0.1)
    assert by_stage["half-way"].scores[0].error == pytest.approx(1.0)
    assert by_stage["80-100 %"].scores[0].silent == 1.0
    text = as_text(lines(found))
    assert "two-sample rate" in text[0]
    unfinished = Ended(
        moves.operation[:3], moves.rid[:3], moves.at_ms[:3], moves.in_isr[:3], moves.removing[:3]
    )
    assert len(forecasts(rows, unfinished).actual_s) == 0


# --- operations


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operations")
    record(folder, SEEDS, LONGEST_S)
    return folder


def line(made: tuple[ScoreLine, ...], kind: str, stage: str) -> ScoreLine:
    return next(one for one in made if (one.kind, one.stage) == (kind, stage))


@pytest.mark.spark
def test_simulated_operations_are_forecast_better_than_by_a_rate(
    spark: SparkSession, recording: Path
) -> None:
    shipped = Calibration.read()
    found = backtest(spark, [recording], shipped, SystemClock())
    assert found.operations >= len(SEEDS) - 2
    for kind in ("operation", "copy"):
        ours, two_samples, lifetime = line(found.lines, kind, "half-way").scores
        assert ours.error is not None
        assert two_samples.error is not None
        assert lifetime.error is not None
        assert ours.error < min(two_samples.error, lifetime.error)
        coverage = line(found.lines, kind, "all").coverage
        assert coverage is not None
        assert 0.5 < coverage < 1.0
    json.dumps([one.coverage for one in found.lines])


@pytest.mark.spark
def test_samples_without_operations(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [sample(second, second * 10) for second in range(20)])
    with pytest.raises(NoOperations):
        backtest(spark, [tmp_path], Calibration(), SystemClock())
