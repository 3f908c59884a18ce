"""Forecasts of simulated operations on an embedded core, against how it went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.pipeline.sample_columns import hour_folder
from kshunt.backend.pipeline.backtest.backtest_command import (
    NoOperations,
    TooFewOperations,
    backtest,
)
from kshunt.backend.pipeline.backtest.forecast_scores import ScoreLine
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.sample_rows import forecast_rows
from kshunt.backend.telemetry.recording.schema import parquet
from tests.support.forecast.kept import kept_forecast
from tests.support.pipeline.recorded import START_MS, sample, write
from tests.support.pipeline.simulated_operations import record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(900, 912)
"""Neither the calibration's nor the evaluation's."""
LONGEST_S = 150.0


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


@pytest.mark.spark
def test_an_operation_that_did_not_end_and_live_forecasts_are_told_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The samples end before the operation does, and so no calibration can be made of it."""
    write(tmp_path, [sample(s, s * 1_000, operation_id="op1") for s in range(120)])
    ended = {"op0": (kept_forecast(actual_s=850.0),)}
    rows = forecast_rows(ended, START_MS)
    folder = tmp_path / SampleTable.FORECASTS / hour_folder(START_MS)
    folder.mkdir(parents=True)
    whole = parquet(rows, SampleTable.FORECASTS, "c1").to_pybytes()
    (folder / file_name(START_MS, 1)).write_bytes(whole)
    (folder / file_name(START_MS, 2)).write_bytes(whole[:-8])
    found = backtest(spark, [tmp_path], Calibration.read(), SystemClock())
    assert found.operations == 0
    assert found.not_ended is not None
    assert found.not_ended.operations == 1
    ours = found.not_ended.scores[0]
    assert 0 < ours.still_open + ours.silent <= 1.0
    assert [(line.forecasts, line.coverage) for line in found.live] == [(1, 1.0), (1, 1.0)]
    assert "A file was set aside" in capsys.readouterr().out
    with pytest.raises(TooFewOperations, match="0 operations ended"):
        backtest(spark, [tmp_path], None, SystemClock())
