"""The recorded samples of brokers, as Spark reads them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kshunt.backend.domain.pipeline.result_columns import GROWTH_S
from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.samples.broker_expectations import BrokerSplit, split_brokers
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, within


def broker_samples(
    session: SparkSession, samples: Path, start_ms: int, end_ms: int, now_ms: int
) -> BrokerSplit | None:
    """What `broker_load` of [start_ms, end_ms) is made of; None where no broker was recorded then.

    So much before it is among them as growth is reckoned over; only rows from `start_ms` on are
    counted, or set aside.
    """
    before_ms = start_ms - GROWTH_S * 1000
    hours = within(counted(samples, SampleTable.BROKERS), before_ms, end_ms)
    if not within(hours, start_ms, end_ms):
        return None
    names = [literal(path) for paths in hours.values() for path in paths]
    rows: DataFrame = session.read.schema(struct_of(BROKER_SAMPLES)).parquet(*names)
    return split_brokers(rows, TimeBounds.of(before_ms, now_ms), start_ms)
