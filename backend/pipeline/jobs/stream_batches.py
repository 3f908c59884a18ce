"""What a batch of the streaming job does by Spark; see `kshunt.backend.pipeline.jobs.stream`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.clock import Clock
from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    EFFECT_S,
    ETA,
    MOVE_PAIRS,
    PAIR_S,
    RATES,
    THROTTLE_EFFECT,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.batches.batch_work import (
    BatchPlace,
    BatchWork,
    DerivedTable,
    Piece,
    WorkerFindings,
)
from kshunt.backend.pipeline.kernels import stream_step
from kshunt.backend.pipeline.kernels.throttle_advice import BEFORE_S
from kshunt.backend.pipeline.samples.broker_samples import broker_samples
from kshunt.backend.pipeline.samples.file_sieve import FileSieve
from kshunt.backend.pipeline.spark.column_types import moment, struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.tables.broker_load import broker_load
from kshunt.backend.pipeline.tables.eta import eta
from kshunt.backend.pipeline.tables.move_pairs import move_pairs
from kshunt.backend.pipeline.tables.throttle_effect import throttle_effect

_RATES: Final = struct_of(RATES.columns)
_FOUND: Final = T.StructType(
    [
        T.StructField("name", T.StringType()),
        T.StructField("number", T.LongType()),
        T.StructField("rows", T.BinaryType()),
    ]
)


def _nothing(piece: Piece[DataFrame], table: ResultTable) -> Any:
    """No rows of a table."""
    return piece.rates.sparkSession.createDataFrame([], struct_of(table.columns)).toArrow()


def _pairs(piece: Piece[DataFrame]) -> Any:
    return move_pairs(piece.rates).toArrow()


def _effects(piece: Piece[DataFrame]) -> Any:
    start = moment(F.lit(piece.start_ms))
    leader, follower = F.col("leader_throttle_bytes_per_s"), F.col("follower_throttle_bytes_per_s")
    if piece.rates.filter(leader.isNotNull() | follower.isNotNull()).isEmpty():
        # Most of the time there is no throttle, and followers need not be looked at.
        return _nothing(piece, THROTTLE_EFFECT)
    return throttle_effect(piece.rates).filter(F.col("start") >= start).toArrow()


def _loads(piece: Piece[DataFrame]) -> Any:
    session, start_ms, end_ms = piece.rates.sparkSession, piece.start_ms, piece.end_ms
    split = None
    if piece.sieve is not None:
        found = broker_samples(session, piece.sieve, start_ms, end_ms, end_ms)
        piece.files.append(found.files)
        split = found.split
    if split is None:
        return _nothing(piece, BROKER_LOAD)
    start = moment(F.lit(start_ms))
    return broker_load(split.good, piece.rates).filter(F.col("start") >= start).toArrow()


def _forecasts(piece: Piece[DataFrame]) -> Any:
    return eta(piece.rates, Calibration.read()).toArrow()


DERIVED: Final = (
    DerivedTable(MOVE_PAIRS, _pairs, PAIR_S),
    DerivedTable(THROTTLE_EFFECT, _effects, EFFECT_S, BEFORE_S),
    DerivedTable(BROKER_LOAD, _loads, HOUR_MS // 1000),
    DerivedTable(ETA, _forecasts),
)
"""What is made in addition to rates and stalls; a table is hooked in by its entry here."""


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What every batch needs."""

    session: SparkSession
    results: Path
    clock: Clock
    derived: Sequence[DerivedTable[DataFrame]] = DERIVED
    sieve: FileSieve | None = None
    """Of the recording; None where samples come from a topic."""

    @property
    def place(self) -> BatchPlace:
        """What needs no Spark."""
        return BatchPlace(self.results, self.clock, self.sieve)


@dataclass(slots=True)
class SparkBatch(BatchWork[DataFrame, DataFrame]):
    """One batch at work, by workers of Spark; its samples are parcels."""

    shop: BatchContext = field(kw_only=True)

    @property
    def derived(self) -> Sequence[DerivedTable[DataFrame]]:
        """See `BatchWork.derived`."""
        return self.shop.derived

    def _worked(self, step: stream_step.WorkerBatch) -> WorkerFindings:
        found = self.arrived.samples.repartition("bucket").mapInArrow(
            lambda batches: stream_step.work(batches, step), _FOUND
        )
        return WorkerFindings.of(found.toArrow())

    def _read(self, paths: Sequence[Path], since_ms: int, until_ms: int) -> DataFrame:
        if not paths:
            return self.shop.session.createDataFrame([], _RATES)
        rows = self.shop.session.read.schema(_RATES).parquet(*map(literal, paths))
        at = F.col("at")
        return rows.filter((at >= moment(F.lit(since_ms))) & (at < moment(F.lit(until_ms))))
