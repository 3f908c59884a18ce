"""Rows of brokers as Spark parts them, by `broker_expectations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kshunt.backend.pipeline.samples.broker_expectations import BROKER_EXPECTATIONS, KNOWN_BEFORE
from kshunt.backend.pipeline.samples.expectations import Expectation, TimeBounds
from kshunt.backend.pipeline.samples.row_fitness import Fitness, holds, with_bounds


@dataclass(frozen=True, slots=True)
class BrokerSplit:
    """Rows to use, rows to set aside, and how many broke what."""

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
        *(F.col(name).desc_nulls_last() for name in KNOWN_BEFORE)
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
