"""What is expected of recorded rows of brokers, and what becomes of those that break it.

As with replicas nothing is dropped silently; see `kshunt.backend.pipeline.samples.expectations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.samples.expectations import (
    TIME_PLAUSIBLE,
    Expectation,
    RowOutcome,
    TimeBounds,
    keys_known,
    not_negative,
)
from kshunt.backend.pipeline.samples.row_fitness import Fitness, holds, with_bounds

_KEYS: Final = tuple(column.name for column in BROKER_SAMPLES if not column.nullable)
_COUNTS: Final = ("leaders", "preferred_leaders", "replicas")
_SIZES: Final = ("log_bytes", "disk_total_bytes", "disk_usable_bytes")
_SPEEDS: Final = ("in_bytes_per_s", "out_bytes_per_s")

BROKER_EXPECTATIONS: Final = (
    keys_known(_KEYS),
    TIME_PLAUSIBLE,
    not_negative(
        "sizes_not_negative",
        (*_COUNTS, *_SIZES, *_SPEEDS),
        "no count, size or speed is below 0",
    ),
    Expectation(
        "unique", RowOutcome.DROPPED, "one row for each broker and time", "copy_number = 1"
    ),
    Expectation(
        "disk_adds_up",
        RowOutcome.KEPT,
        "its disks have no more free space than their size",
        "disk_usable_bytes <= disk_total_bytes",
    ),
)


@dataclass(frozen=True, slots=True)
class BrokerSplit:
    """Rows to go on with, rows to set aside, and how many broke what."""

    good: DataFrame
    quarantined: DataFrame
    """As recorded, with `reasons`."""
    _counts: DataFrame

    def counts(self) -> Mapping[str, int]:
        """Rows that broke each expectation, and `rows`: all of them; a pass of its own."""
        (counted,) = self._counts.toArrow().to_pylist()
        return {name: int(count) for name, count in counted.items()}


def split_brokers(samples: DataFrame, bounds: TimeBounds, count_from_ms: int = 0) -> BrokerSplit:
    """Part broker samples by `BROKER_EXPECTATIONS`.

    Rows before `count_from_ms` are gone on with, and neither counted nor set aside.
    """
    fitness = Fitness(BROKER_EXPECTATIONS)
    rows = with_bounds(samples, bounds, count_from_ms)
    # Of rows with one key the one that knows most is kept, whatever order they are read in; those
    # that are set aside are not among them.
    ordered = Window.partitionBy("broker", "at", "fits").orderBy(
        *(F.col(name).desc_nulls_last() for name in (*_SIZES, *_SPEEDS, *_COUNTS))
    )
    rows = rows.withColumn("fits", F.expr(fitness.fits))
    rows = rows.withColumn("copy_number", F.when(F.col("fits"), F.row_number().over(ordered)))
    return BrokerSplit(
        rows.filter("fits and copy_number = 1").select(*samples.columns),
        rows.filter("counts and not fits").select(fitness.reasons(), *samples.columns),
        rows.agg(F.count_if("counts").alias("rows"), *map(_broken, BROKER_EXPECTATIONS)),
    )


def _broken(expectation: Expectation) -> Column:
    return F.count_if(F.col("counts") & ~holds(expectation)).alias(expectation.name)
