"""The recorded samples of brokers, as Spark reads them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from backend.domain.results import GROWTH_S
from backend.domain.samples import BROKER_SAMPLES
from backend.pipeline.paths import literal
from backend.pipeline.quality import Bounds
from backend.pipeline.quality_brokers import BrokerSplit, split_brokers
from backend.pipeline.schema import struct_of
from backend.telemetry.recording.layout import Table, counted, within


def broker_samples(
    session: SparkSession, samples: Path, start_ms: int, end_ms: int, now_ms: int
) -> BrokerSplit | None:
    """What `broker_load` of [start_ms, end_ms) is made of; None where no broker was recorded then.

    So much before it is among them as growth is reckoned over; only rows from `start_ms` on are
    counted, or set aside.
    """
    before_ms = start_ms - GROWTH_S * 1000
    hours = within(counted(samples, Table.BROKERS), before_ms, end_ms)
    if not within(hours, start_ms, end_ms):
        return None
    names = [literal(path) for paths in hours.values() for path in paths]
    rows: DataFrame = session.read.schema(struct_of(BROKER_SAMPLES)).parquet(*names)
    return split_brokers(rows, Bounds.of(before_ms, now_ms), start_ms)
