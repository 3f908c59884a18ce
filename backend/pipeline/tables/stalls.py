"""When replicas that want to advance did not, and why.

Goals: maximal intervals, the same whether rates come in one batch or tick by tick.

Algorithm: islands and gaps. A replica *wants* to advance while it is out of the ISR or being added,
and behind. An anchor continues the island of the one before it if both want, no samples are
missing between them, and the log's end did not grow; otherwise it begins one. A change of leader
ends no island: nothing was copied all the same. What is handed on is the islands that are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.domain.pipeline.result_columns import GAP_S, STALL_S, STALLS, UNKNOWN_CAUSE
from kshunt.backend.pipeline.kernels import stalls as kernel
from kshunt.backend.pipeline.spark.column_types import moment, select_as
from kshunt.backend.pipeline.spark.row_packing import of_rows, of_state, worked

STATE: Final = T.StructType(
    [
        T.StructField("rid", T.LongType()),
        T.StructField("start", T.LongType()),
        T.StructField("at", T.LongType()),
        T.StructField("offset", T.LongType()),
        T.StructField("lag_messages", T.LongType()),
        T.StructField("lag_bytes", T.LongType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("broker", T.IntegerType()),
        T.StructField("leader", T.IntegerType()),
        T.StructField("operation_id", T.StringType()),
        T.StructField("start_lag_messages", T.LongType()),
        T.StructField("start_lag_bytes", T.LongType()),
        T.StructField("causes", T.ArrayType(T.StringType())),
        T.StructField("votes", T.ArrayType(T.LongType())),
        T.StructField("seen", T.ArrayType(T.LongType())),
    ]
)
"""One row a replica with an open island, however short.

Its columns are what is known of its last rate, then of its first, then how often each cause was
diagnosed and when last. Times in milliseconds."""

_MADE: Final = T.StructType(
    [*STATE, T.StructField("open", T.BooleanType()), T.StructField("cause", T.StringType())]
)


def stalls(rates: DataFrame, newest_ms: int, state: DataFrame | None = None) -> DataFrame:
    """The table `stalls`, with those that are open at `newest_ms`, the time of the newest rate."""
    return rows_of(islands(rates, newest_ms, state))


def islands(rates: DataFrame, newest_ms: int, state: DataFrame | None = None) -> DataFrame:
    """What `rows_of` and `state_of` are taken from.

    `rates` are whole ticks, none earlier than `state`.
    """
    parcels = of_rows(rates, kernel.RATES)
    if state is not None:
        parcels = parcels.unionByName(of_state(state, kernel.STATE))
    return islands_of(parcels, newest_ms)


def islands_of(parcels: DataFrame, newest_ms: int) -> DataFrame:
    """The same, of rates in parcels."""
    settings = kernel.StallSettings(newest_ms, GAP_S * 1000, STALL_S * 1000, UNKNOWN_CAUSE)

    def islands_of_buckets(batches: Iterable[Any]) -> Iterator[Any]:
        return kernel.work(batches, settings)

    return worked(parcels, islands_of_buckets, _MADE)


def rows_of(islands: DataFrame, *, ended_only: bool = False) -> DataFrame:
    """The table `stalls`, out of what `islands` made."""
    rows = islands.filter(F.col("at") - F.col("start") >= STALL_S * 1000)
    if ended_only:
        rows = rows.filter(~F.col("open"))
    rows = rows.withColumns(
        {
            "lag_start_messages": F.col("start_lag_messages"),
            "lag_start_bytes": F.col("start_lag_bytes"),
            "lag_end_messages": F.col("lag_messages"),
            "lag_end_bytes": F.col("lag_bytes"),
            "seconds": (F.col("at") - F.col("start")) / F.lit(1e3),
            "end": moment("at"),
        }
    )
    return select_as(rows.withColumn("start", moment("start")), STALLS)


def state_of(islands: DataFrame) -> DataFrame:
    """What is to be handed on; see `STATE`."""
    return islands.filter("open").select(*STATE.names)
