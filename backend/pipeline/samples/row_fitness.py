"""Expectations of recorded rows as Spark looks at them; see
`kshunt.backend.pipeline.samples.expectations`.

`quarantined` is for the replica samples themselves that are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kshunt.backend.pipeline.samples.expectations import (
    REPLICA_EXPECTATIONS,
    Expectation,
    RowOutcome,
    TimeBounds,
)
from kshunt.backend.pipeline.spark.column_types import millis


class Fitness:
    """Expectations that need no other row, for Spark."""

    def __init__(self, expectations: Iterable[Expectation]) -> None:
        """Of these, those that a row is quarantined by."""
        self._each = [e for e in expectations if e.outcome is RowOutcome.QUARANTINED]
        self.fits: Final = " and ".join(f"coalesce({e.holds}, true)" for e in self._each)
        """Whether a row breaks none; by SQL, of rows `with_bounds`."""

    def reasons(self) -> Column:
        """The names of those that a row breaks."""
        broken = (F.when(~holds(e), F.lit(e.name)) for e in self._each)
        return F.concat_ws(",", *broken).alias("reasons")


def with_bounds(samples: DataFrame, bounds: TimeBounds, count_from_ms: int) -> DataFrame:
    """Samples with what expectations may name, and `counts`: whether the row is of the period.

    Rows before `count_from_ms` are not: they were looked at with the period that they belong to.
    """
    before = F.col("at_ms").between(F.lit(bounds.earliest_ms), F.lit(count_from_ms - 1))
    return samples.withColumn("at_ms", millis("at")).withColumns(
        {
            "counts": ~F.coalesce(before, F.lit(False)),
            "earliest_ms": F.lit(bounds.earliest_ms),
            "latest_ms": F.lit(bounds.latest_ms),
        }
    )


def holds(expectation: Expectation) -> Column:
    """Whether a row does not break it."""
    return F.coalesce(F.expr(expectation.holds), F.lit(True))


def quarantined(samples: DataFrame, bounds: TimeBounds, count_from_ms: int = 0) -> DataFrame:
    """Replica samples from `count_from_ms` on that no table can be made from.

    As recorded, with `reasons`: the names of the expectations, with commas.
    """
    fitness = Fitness(REPLICA_EXPECTATIONS)
    rows = with_bounds(samples, bounds, count_from_ms)
    broken = rows.filter(f"counts and not ({fitness.fits})")
    return broken.select(fitness.reasons(), *samples.columns)
