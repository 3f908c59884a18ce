"""How fast copies went from one broker to another, by pair and 5 minutes.

A rate is that of one replica over 30 s, one a tick, so the quantiles say what a copy may expect
on that way. The column `bytes` is what all copies of the pair carried together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kshunt.backend.domain.pipeline.result_columns import MOVE_PAIRS, PAIR_S, WINDOWS
from kshunt.backend.pipeline.spark.column_types import millis, moment, select_as

_QUANTILES = {"p10_bytes_per_s": 0.1, "p50_bytes_per_s": 0.5, "p90_bytes_per_s": 0.9}


def move_pairs(rates: DataFrame) -> DataFrame:
    """The table `move_pairs`, of replicas that are added or catch up with the ISR.

    A replica that arrives while the leadership changes has bytes, and no rate.
    """
    rate = f"catch_up_{WINDOWS[0].name}_bytes_per_s"
    throttled = F.coalesce("leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s")
    known = F.col(rate).isNotNull() | F.col("copied_bytes").isNotNull()
    rows = rates.filter(F.col("copied_from").isNotNull() & known).select(
        (F.floor(millis("at") / F.lit(PAIR_S * 1000)) * (PAIR_S * 1000)).alias("_start"),
        F.col("copied_from").alias("source"),
        F.col("broker").alias("destination"),
        throttled.isNotNull().alias("throttled"),
        F.col(rate).alias("_rate"),
        F.col("copied_bytes"),
    )
    pairs = rows.groupBy("_start", "source", "destination", "throttled").agg(
        F.count("_rate").alias("n"),
        F.coalesce(F.sum("copied_bytes"), F.lit(0)).alias("bytes"),
        *(F.percentile("_rate", q).alias(name) for name, q in _QUANTILES.items()),
    )
    return select_as(pairs.withColumn("start", moment("_start")), MOVE_PAIRS)
