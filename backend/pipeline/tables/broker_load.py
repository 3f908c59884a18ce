"""How busy each broker was, hour by hour, and when its disk will be full.

Goals: a row that needs no other row, so that a reader averages by `hour_of_week`, or takes the
last.

Algorithm: what brokers are asked for (moves in and out, leaders, disks) is from broker samples.
What is written is from rates, where a leader's own row says what was produced to it. Time is that
which the samples of the hour span, so that an hour of which ten minutes were recorded is as busy as
those ten minutes. Growth is the slope of what is used over `GROWTH_S`, by least squares through the
last sample of each five minutes. Retention, which deletes whole segments, and moves in and out are
in it. It needs three of these samples, and `growth_span_s` says how much of it there was.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, GROWTH_S
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.spark.column_types import millis, moment, select_as

_POINT_MS: Final = 300_000
_POINTS: Final = 3
"""Through fewer a line says nothing."""
_HOURS: Final = GROWTH_S * 1000 // HOUR_MS


def broker_load(brokers: DataFrame, rates: DataFrame) -> DataFrame:
    """The table `broker_load`, of every hour that has samples of brokers.

    `brokers` are clean broker samples (see `quality_brokers`); growth is right from `GROWTH_S`
    after the first of them on. `rates` may be of fewer hours: what was written then is null.
    """
    samples = brokers.withColumns({"_at": millis("at"), "_hour": _hour("at"), "_used": _used()})
    hours = _hours(samples)
    hours = hours.join(_growth(samples), ["_hour", "broker"], "left")
    rows = hours.join(_written(rates), ["_hour", "broker"], "left")
    full = F.when(
        F.col("growth_bytes_per_s") > 0, F.col("disk_free_bytes") / F.col("growth_bytes_per_s")
    )
    start = moment(F.col("_hour") * HOUR_MS)
    rows = rows.withColumns({"start": start, "full_in_s": full})
    of_week = F.weekday("start") * 24 + F.hour("start")
    return select_as(rows.withColumn("hour_of_week", of_week), BROKER_LOAD)


def _hour(at: str) -> Column:
    return F.floor(millis(at) / F.lit(HOUR_MS))


def _used() -> Column:
    return F.col("disk_total_bytes") - F.col("disk_usable_bytes")


def _last(name: str) -> Column:
    """The last value that is known."""
    return F.max_by(F.col(name), F.when(F.col(name).isNotNull(), F.col("_at")))


def _hours(samples: DataFrame) -> DataFrame:
    hours = samples.groupBy("_hour", "broker").agg(
        F.count(F.lit(1)).alias("samples"),
        F.max("at").alias("newest"),
        F.avg(F.col("answering").cast("double")).alias("answering"),
        *(F.avg(f"{way}_bytes_per_s").alias(f"{way}_bytes_per_s") for way in ("in", "out")),
        *(F.max(f"{way}_bytes_per_s").alias(f"{way}_max_bytes_per_s") for way in ("in", "out")),
        F.avg("leaders").alias("leaders"),
        F.avg("replicas").alias("replicas"),
        _last("log_bytes").alias("log_bytes"),
        _last("disk_total_bytes").alias("disk_total_bytes"),
        _last("_used").alias("disk_used_bytes"),
        _last("disk_usable_bytes").alias("disk_free_bytes"),
    )
    every = F.sum("leaders").over(Window.partitionBy("_hour"))
    return hours.withColumn("leader_share", F.try_divide("leaders", every))


def _growth(samples: DataFrame) -> DataFrame:
    """Of each hour and broker the slope over the time up to its end."""
    points = (
        samples.filter(F.col("_used").isNotNull())
        .groupBy("broker", "_hour", F.floor(F.col("_at") / F.lit(_POINT_MS)).alias("_point"))
        .agg(F.max_by("_used", "_at").alias("_used"), F.max("_at").alias("_at"))
    )
    # Each point counts for its own hour and for those after it.
    hours = F.sequence(F.col("_hour"), F.col("_hour") + (_HOURS - 1))
    points = points.withColumn("_hour", F.explode(hours))
    seconds = F.col("_at") / F.lit(1e3)
    slope = F.regr_slope(F.col("_used").cast("double"), seconds)
    return points.groupBy("_hour", "broker").agg(
        F.when(F.count(F.lit(1)) >= _POINTS, slope).alias("growth_bytes_per_s"),
        (F.max(seconds) - F.min(seconds)).alias("growth_span_s"),
    )


def _written(rates: DataFrame) -> DataFrame:
    """What was written to each broker's logs, as a leader and as a follower."""
    rows = rates.filter(F.col("advanced_bytes").isNotNull() & F.col("leader").isNotNull()).select(
        _hour("at").alias("_hour"),
        "broker",
        (F.col("leader") == F.col("broker")).alias("_leads"),
        "advanced_bytes",
        millis("at").alias("_at"),
        (millis("at") - F.col("elapsed_s") * 1000).alias("_since"),
    )
    leads = F.col("_leads")
    return rows.groupBy("_hour", "broker").agg(
        _per_s(leads).alias("produced_bytes_per_s"), _per_s(~leads).alias("replicated_bytes_per_s")
    )


def _per_s(which: Column) -> Column:
    gained = F.sum(F.when(which, F.col("advanced_bytes"))).cast("double")
    span_ms = F.max(F.when(which, F.col("_at"))) - F.min(F.when(which, F.col("_since")))
    return F.try_divide(gained * F.lit(1e3), span_ms.cast("double"))
