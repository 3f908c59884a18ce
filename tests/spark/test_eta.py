"""The table of forecasts by Spark is what the kernel makes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.domain.forecast.calibration import Bin, Calibration
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.tables import eta as of_spark
from tests.support.pipeline.forecasts import Row, forecast, row, table
from tests.support.pipeline.recorded import START_MS, time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_spark_makes_the_same_rows(spark: SparkSession) -> None:
    later: Row = {"tick": time_of(START_MS + 60_000), "at": time_of(START_MS + 62_000)}
    rows = [row(4, 100), row(4, 200, partition=1), row(3, 100, partition=2), row(4, 60) | later]
    schema = struct_of([c for c in RATES.columns if c.name in COLUMNS])
    frame = spark.createDataFrame(table(*rows).select(schema.names), schema)
    found = of_spark.eta(frame, Calibration()).toArrow().to_pylist()
    key = lambda one: (one["rid"] is None, one["at"], one["rid"])  # noqa: E731
    assert sorted(found, key=key) == sorted(forecast(*rows), key=key)
    bins = (Bin("copy", None, None, None, 99, 999, -0.5, 0.0, 0.5),)
    wider = of_spark.eta(frame, Calibration(bins)).filter("rid is not null").toArrow().to_pylist()
    for one in wider:
        assert one["p90_s"] == pytest.approx(one["p50_s"] * math.exp(0.5))
