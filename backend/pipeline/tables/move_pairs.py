"""How fast copies went from one broker to another, by pair and 5 minutes.

A rate is that of one replica over 30 s, one a tick, so the quantiles say what a copy may expect
on that way; `bytes` is what all copies of the pair carried together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kshunt.backend.domain.pipeline.result_columns import MOVE_PAIRS, PAIR_S, WINDOWS
from kshunt.backend.pipeline.spark.column_types import millis, moment, select_as

_QUANTILES = {"p10_bytes_per_s": 0.1, "p50_bytes_per_s": 0.5, "p90_bytes_per_s": 0.9}


def move_pairs(rates: DataFrame) -> DataFrame:
    """The table `move_pairs`, of replicas that are added or catch up with the ISR."""
    rate = f"catch_up_{WINDOWS[0].name}_bytes_per_s"
    throttled = F.coalesce("leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s")
    copying = (F.col("adding") | ~F.col("in_isr")) & (F.col("leader") != F.col("broker"))
    rows = rates.filter(copying & F.col(rate).isNotNull()).select(
        (F.floor(millis("at") / F.lit(PAIR_S * 1000)) * (PAIR_S * 1000)).alias("_start"),
        F.col("leader").alias("source"),
        F.col("broker").alias("destination"),
        throttled.isNotNull().alias("throttled"),
        F.col(rate).alias("_rate"),
        F.col("advanced_bytes"),
    )
    pairs = rows.groupBy("_start", "source", "destination", "throttled").agg(
        F.count(F.lit(1)).alias("n"),
        F.coalesce(F.sum("advanced_bytes"), F.lit(0)).alias("bytes"),
        *(F.percentile("_rate", q).alias(name) for name, q in _QUANTILES.items()),
    )
    return select_as(pairs.withColumn("start", moment("_start")), MOVE_PAIRS)
