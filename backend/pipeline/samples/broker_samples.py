"""The recorded samples of brokers, as Spark reads them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from kshunt.backend.domain.pipeline.result_columns import GROWTH_S
from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.samples.broker_fitness import BrokerSplit, split_brokers
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.samples.file_sieve import FileSieve, Sifted
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, within


@dataclass(frozen=True, slots=True)
class BrokerSamples:
    """The samples of brokers of a time, and the files that they are in."""

    split: BrokerSplit | None
    """None where no broker was recorded then, or no file can be read."""
    files: Sifted
    """Of the time itself, without what was read before it."""


def broker_samples(
    session: SparkSession, sieve: FileSieve, start_ms: int, end_ms: int, now_ms: int
) -> BrokerSamples:
    """What `broker_load` of [start_ms, end_ms) is made of.

    It includes the samples of the time before, over which growth is computed. Only rows from
    `start_ms` on are counted, or set aside.
    """
    before_ms = start_ms - GROWTH_S * 1000
    hours = within(counted(sieve.folder, SampleTable.BROKERS), before_ms, end_ms)
    found = sieve.sifted(SampleTable.BROKERS, hours)
    files = found.within(start_ms, end_ms)
    if not files.good:
        return BrokerSamples(None, files)
    names = [literal(path) for path in found.paths]
    rows: DataFrame = session.read.schema(struct_of(BROKER_SAMPLES)).parquet(*names)
    return BrokerSamples(split_brokers(rows, TimeBounds.of(before_ms, now_ms), start_ms), files)
