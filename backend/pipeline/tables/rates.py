"""How fast replicas catch up, and how fast their leaders are written to.

Goals: rates that hold across missing samples, changes of leader, retention and logs that got
shorter; the same rows whether samples come in one batch or tick by tick.

Constraints: little to remember of a replica, since there may be 200,000. Half a million samples a
second on two cores, so no step for each row, neither of Python nor of Spark.

Algorithm: the last sample of each replica in a tick is its *anchor*. Offsets are counters, so a
rate is a difference of two anchors over the time between them; nothing has to be summed up. Where a
counter breaks (the leader changed, a log got shorter, samples were missing for long) a *segment*
begins, and no rate reaches back beyond it. A window starts at a *mark*: the last anchor of a step
of time that has ended. All that is remembered of a replica is its last anchor, the first of its
segment, and a few marks.

A log's size is no counter: retention makes it smaller. Between two anchors it counts where it did
not shrink ("clean"); bytes a message over the clean part of a window, times all its messages, are
its bytes. Where nothing was deleted, that is the difference of the sizes.

All rows of some replicas are worked together, by arrays: see `kshunt.backend.pipeline.kernels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.domain.pipeline.result_columns import GAP_S, RATES
from kshunt.backend.pipeline.kernels import rate_step
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA, arrow_of
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.samples.expectations import REPLICA_EXPECTATIONS
from kshunt.backend.pipeline.spark.column_types import select_as, struct_of
from kshunt.backend.pipeline.spark.row_packing import of_samples, of_state, worked

STATE: Final = T.StructType(
    [
        T.StructField("rid", T.LongType()),
        T.StructField("at", T.LongType()),
        T.StructField("kept", T.BinaryType()),
    ]
)
"""What is handed on from tick to tick: one row a replica, the time of its last anchor in
milliseconds, and what is known of it, as `kshunt.backend.pipeline.kernels.rate_step` packs it."""

_MADE: Final = T.StructType(
    [
        *struct_of(RATES.columns),
        T.StructField("_kind", T.IntegerType()),
        T.StructField("_number", T.LongType()),
        T.StructField("_name", T.StringType()),
        T.StructField("_kept", T.BinaryType()),
    ]
)
MADE_SCHEMA: Final = pa.schema(
    [
        *arrow_of(RATES.columns),
        ("_kind", pa.int32()),
        ("_number", pa.int64()),
        ("_name", pa.string()),
        ("_kept", pa.binary()),
    ]
)


def rates(samples: DataFrame, state: DataFrame | None = None) -> DataFrame:
    """The table `rates`: one row a replica and tick of `samples`.

    `samples` are clean replica samples (see `quality`), at most one a replica and moment, of whole
    ticks, none of them earlier than `state`.
    """
    return rows_of(_stepped(of_samples(samples), state, None, carries=False))


def step(
    samples: DataFrame, state: DataFrame | None = None, checks: Checks | None = None
) -> DataFrame:
    """What `rows_of` and `state_of` are taken from; a caller that needs both may persist it.

    Given `checks`, `samples` may be any, and violations of expectations are counted: see
    `counted`.
    """
    return _stepped(of_samples(samples), state, checks, carries=True)


def unlooked(parcels: DataFrame, checks: Checks) -> DataFrame:
    """What `rows_of` and `counted` are taken from, of any samples in parcels."""
    return _stepped(parcels, None, checks, carries=False)


@dataclass(frozen=True, slots=True)
class Counted:
    """A step whose violations are counted while it is first worked out, and not before."""

    step: DataFrame
    _seen: Observation

    def counts(self) -> Mapping[str, int]:
        """Rows that broke each expectation, and `rows`: all of them. Waits for `step`."""
        return {name: int(count or 0) for name, count in self._seen.get.items()}


def counted(step: DataFrame) -> Counted:
    """A step that was made with checks, and what they counted."""
    names = ("rows", *(expectation.name for expectation in REPLICA_EXPECTATIONS))
    number = F.when(F.col("_kind") == rate_step.COUNT, F.col("_number"))
    seen = Observation("expectations")
    counts = (F.sum(F.when(F.col("_name") == name, number)).alias(name) for name in names)
    return Counted(step.observe(seen, *counts), seen)


def rows_of(step: DataFrame) -> DataFrame:
    """The table `rates`, out of what `step` made."""
    return select_as(step.filter(F.col("_kind") == rate_step.ROW), RATES)


def state_of(step: DataFrame, newest_ms: int | None = None) -> DataFrame:
    """What is to be handed on, out of what `step` made; see `STATE`.

    Given the time of the newest sample of all, replicas that were not seen for `GAP_S` before it
    are left out. If they come back, it is as if for the first time.
    """
    rows = step.filter(F.col("_kind") == rate_step.STATE)
    if newest_ms is not None:
        rows = rows.filter(F.col("_number") >= newest_ms - GAP_S * 1000)
    return rows.select("rid", F.col("_number").alias("at"), F.col("_kept").alias("kept"))


def _stepped(
    parcels: DataFrame, state: DataFrame | None, checks: Checks | None, *, carries: bool
) -> DataFrame:
    if state is not None:
        parcels = parcels.unionByName(of_state(state, rate_step.STATE_SCHEMA))
    plan = rate_step.Work(rate_step.SETTINGS, SAMPLES_SCHEMA, MADE_SCHEMA, checks, carries)

    def rates_of_buckets(batches: Iterable[Any]) -> Iterator[Any]:
        return rate_step.work(batches, plan)

    return worked(parcels, rates_of_buckets, _MADE)
