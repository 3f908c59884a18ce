"""What throttles let through, what that did to the others, and which rate would be better.

Goals: a row a broker, side and rate in force, cut into pieces of 5 minutes. So a piece is made
once its time is over, and needs nothing of the ones before it but their last `BEFORE_S`.

Constraints: grouped aggregates, each row of `rates` in two of them. Replicas that rest are sampled
once a minute, so a replica is taken for absent only if it was not seen for longer than that.

Algorithm: a rate's rows are found through its copies (replicas that are added, or out of the ISR).
What they advanced while at least one of them could be copied (no broker of it was down) is what the
throttle achieved. That time is a set of ticks, one bit each. So pauses are left out, and time in
which several copies ran is counted once. Kafka counts what listed replicas in the ISR take as well,
and holds back the others only (KIP-73): the share used is of both. A steady follower is one in the
ISR that no move adds or removes; those led by a broker share what it sends, those hosted by it what
it fetches. A row says what they did in the whole 5 minutes, whichever rates were in force. Their
lag is in seconds, messages by what is written, so that topics can be compared; half against half of
the piece says whether it grew.

Advice, the first that holds:
- keep: the rate only holds, as in a pause.
- keep: less than 30 s were seen.
- lower: steady followers left the ISR while their broker worked, or the p95 of their lag grew by
  half to 5 s or more. The new rate is three quarters of what is used, but never below what is
  written and a tenth, under which nothing arrives. If that is not lower, the advice is keep.
- raise: nine tenths of the rate are used. The new rate is half as much again, or what is written
  and a tenth if that is more.
- keep: the throttle at the other end holds at least half of the copies, by their samples outside of
  the ISR.
- no effect: less than eight tenths are used, so links, disks or brokers are the limit.
- keep: in between.

Rates are rounded to two figures, away from the one in force.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kshunt.backend.domain.pipeline.result_columns import EFFECT_S, THROTTLE_EFFECT, TICK_S, WINDOWS
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S, RATE_SPARE
from kshunt.backend.pipeline.kernels.throttle_advice import (
    BEFORE_S,
    BINDS,
    BINDS_ALL,
    BINDS_ALONE,
    FOLLOWER,
    GREW,
    HELD_ELSEWHERE,
    LAG_S,
    LAGGING,
    LEADER,
    LOWER,
    MOSTLY_USED,
    NOT_ITS_FAULT,
    NOT_LOWER,
    PAUSED,
    PUSHED_OUT,
    RAISE,
    SEEN_S,
    SHORT,
    SLACK,
    SLACK_LEFT,
)
from kshunt.backend.pipeline.spark.column_types import millis, moment, select_as

_SLICE_MS: Final = EFFECT_S * 1000
_TICK_MS: Final = TICK_S * 1000
_SIDES: Final = ((LEADER, FOLLOWER), (FOLLOWER, LEADER))
_INTERVAL: Final = ("_slice", "direction", "_owner", "_rate")


def throttle_effect(rates: DataFrame) -> DataFrame:
    """The table `throttle_effect`; a piece is right if `rates` has all of it and what is before."""
    rows = _followers(rates)
    effects = _by_rate(_with_shares(_listed(rows)))
    steady = F.broadcast(_steady(rows))
    return select_as(_advised(effects.join(steady, [*_INTERVAL[:3]], "left")), THROTTLE_EFFECT)


def _followers(rates: DataFrame) -> DataFrame:
    """The replicas that fetch from a leader, with what is needed of them."""
    written = f"produced_{WINDOWS[0].name}"
    lag, messages = F.col("lag_messages"), F.col(f"{written}_messages_per_s")
    return rates.filter(F.col("leader") != F.col("broker")).select(
        "rid",
        millis("at").alias("_at"),
        F.floor(millis("at") / F.lit(_SLICE_MS)).alias("_slice"),
        F.col("leader").alias("_leader"),
        F.col("broker").alias("_follower"),
        F.col("leader_throttle_bytes_per_s").alias("_leader_rate"),
        F.col("follower_throttle_bytes_per_s").alias("_follower_rate"),
        "in_isr",
        (F.col("adding") | ~F.col("in_isr")).alias("_copied"),
        (F.col("adding") | F.col("removing")).alias("_moves"),
        F.coalesce(F.col("cause").isin(*NOT_ITS_FAULT), F.lit(False)).alias("_excused"),
        "advanced_bytes",
        "elapsed_s",
        F.when(lag == 0, F.lit(0.0)).when(messages > 0, lag / messages).alias("_lag_s"),
        F.col(f"{written}_bytes_per_s").alias("_written"),
    )


# What was achieved


def _listed(rows: DataFrame) -> DataFrame:
    """Of each piece of time and replica what it advanced under each pair of rates."""
    within_ms = F.col("_at") % _SLICE_MS
    # What it advanced before the piece began is not of it.
    inside = F.least(F.lit(1.0), F.try_divide(within_ms, F.col("elapsed_s") * 1000))
    last = F.floor(within_ms / F.lit(_TICK_MS)) + 1
    ticks = F.greatest(F.lit(1), F.least(F.round(F.col("elapsed_s") / F.lit(float(TICK_S))), last))
    rows = rows.filter("_leader_rate is not null or _follower_rate is not null").withColumns(
        {
            "_known": F.col("advanced_bytes").isNotNull(),
            "_gained": F.col("advanced_bytes") * inside,
            "_took_s": F.col("elapsed_s") * inside,
            "_last": last.cast("int"),
            "_ticks": ticks.cast("int"),
        }
    )
    mask = F.expr("shiftleft(shiftleft(1L, _ticks) - 1L, _last - _ticks)")
    copied, known, at = F.col("_copied"), F.col("_known"), F.col("_at")
    works = copied & known & ~F.col("_excused")
    keys = ("_slice", "rid", "_leader", "_leader_rate", "_follower", "_follower_rate")
    return (
        rows.repartition("_slice", "rid")
        .groupBy(*keys)
        .agg(
            F.max("_copied").alias("_copy"),
            F.min(F.when(copied, at)).alias("_start"),
            F.max(F.when(copied, at)).alias("_end"),
            F.bit_or(F.when(works, mask)).alias("_mask"),
            F.sum(F.when(works, F.col("_gained"))).alias("_bytes"),
            F.sum(F.when(~copied & known, F.col("_gained"))).alias("_in_sync_bytes"),
            F.sum(F.when(~copied & known, F.col("_took_s"))).alias("_in_sync_s"),
            F.avg("_written").alias("_written"),
            F.count_if(~F.col("in_isr") & ~F.col("_excused")).alias("_held"),
        )
    )


def _with_shares(each: DataFrame) -> DataFrame:
    """With what all of them use together of the rate on either side."""
    for side in (LEADER, FOLLOWER):
        keys = ("_slice", f"_{side}", f"_{side}_rate")
        sharing = Window.partitionBy(*keys)
        # A replica that had two leaders, or rates, under one rate of this side counts once.
        order = ("_leader", "_leader_rate", "_follower_rate")
        first = Window.partitionBy(*keys, "rid").orderBy(F.col("_copy").desc(), *order)
        seconds = F.bit_count(F.bit_or("_mask").over(sharing)) * TICK_S
        each = each.withColumns(
            {
                f"_{side}_s": F.coalesce(seconds.cast("double"), F.lit(0.0)),
                f"_{side}_first": F.row_number().over(first) == 1,
            }
        )
        took = F.try_divide("_in_sync_bytes", F.greatest(f"_{side}_s", "_in_sync_s"))
        each = each.withColumn(f"_{side}_took", took)
        copied = F.try_divide(F.sum("_bytes").over(sharing), F.col(f"_{side}_s"))
        used = copied + F.coalesce(F.sum(f"_{side}_took").over(sharing), F.lit(0.0))
        each = each.withColumn(f"_{side}_used", used)
    return each


def _by_rate(each: DataFrame) -> DataFrame:
    """One row a rate in force under which something was copied."""
    sides = [_side(own, other) for own, other in _SIDES]
    rows = each.withColumn("_side", F.explode(F.array(*sides)))
    rows = rows.select("*", "_side.*").filter(F.col("_rate").isNotNull())
    held = F.sum("_held").cast("double")
    found = rows.groupBy(*_INTERVAL).agg(
        F.min("_start").alias("_start"),
        F.max("_end").alias("_end"),
        F.first("_seconds").alias("seconds"),
        F.first("_used").alias("_used"),
        F.count_if(F.col("_first") & F.col("_copied_here")).alias("copies"),
        F.try_divide(F.sum("_bytes"), F.first("_seconds")).alias("achieved_bytes_per_s"),
        F.sum("_took").alias("in_sync_bytes_per_s"),
        F.sum(F.when(F.col("_first"), F.col("_written"))).alias("written_bytes_per_s"),
        F.try_divide(F.sum(F.when(F.col("_bound"), F.col("_held")).otherwise(0)), held).alias(
            "held_elsewhere"
        ),
    )
    share = F.try_divide("_used", F.col("_rate").cast("double"))
    return found.filter(F.col("_start").isNotNull()).withColumn("share_used", share)


def _side(own: str, other: str) -> Column:
    """A replica as one side's throttle meets it."""
    rate = F.col(f"_{other}_rate").cast("double")
    bound = F.coalesce(F.col(f"_{other}_used") >= rate * F.lit(BINDS), F.lit(False))
    values = {
        "direction": F.lit(own),
        "_owner": F.col(f"_{own}"),
        "_rate": F.col(f"_{own}_rate"),
        "_seconds": F.col(f"_{own}_s"),
        "_used": F.col(f"_{own}_used"),
        "_took": F.col(f"_{own}_took"),
        "_first": F.col(f"_{own}_first"),
        "_copied_here": F.col("_copy"),
        "_bound": bound,
    }
    return F.struct(*(value.alias(name) for name, value in values.items()))


# What became of the others


def _steady(rows: DataFrame) -> DataFrame:
    """Of each piece of time, side and broker what became of the followers that share it."""
    each = _each_replica(rows)
    sides = [
        F.struct(F.lit(side).alias("direction"), F.col(f"_{side}").alias("_owner"))
        for side in (LEADER, FOLLOWER)
    ]
    each = each.withColumn("_side", F.explode(F.array(*sides))).select("*", "_side.*")
    was_in, was_out = (F.coalesce(name, F.lit(False)) for name in ("_was_in", "_was_out"))
    later_out = F.coalesce(F.col("_last_out") > F.col("_first_in"), F.lit(False))
    later_in = F.coalesce(F.col("_last_in") > F.col("_first_out"), F.lit(False))
    left = F.col("_last_out").isNotNull() & (was_in | later_out)
    joined = F.col("_last_in").isNotNull() & (was_out | later_in)
    halves = F.col("_lag_first_s").isNotNull() & F.col("_lag_second_s").isNotNull()
    return each.groupBy("_slice", "direction", "_owner").agg(
        F.count_if(F.col("_first_in").isNotNull() | was_in).alias("steady"),
        F.count_if(left).alias("left_isr"),
        F.count_if(left & F.col("_at_fault")).alias("_pushed_out"),
        F.count_if(joined).alias("joined_isr"),
        F.percentile("_lag_s", 0.5).alias("steady_lag_p50_s"),
        F.percentile("_lag_s", 0.95).alias("steady_lag_p95_s"),
        F.percentile(F.when(halves, F.col("_lag_first_s")), 0.95).alias("_p95_first"),
        F.percentile(F.when(halves, F.col("_lag_second_s")), 0.95).alias("_p95_second"),
    )


def _each_replica(rows: DataFrame) -> DataFrame:
    """Of each piece of time and replica: when it was in the ISR and out of it, and its lag."""
    at, own = F.col("_at"), F.col("_slice")
    # Late samples of a piece say how a replica came into the next one.
    late = at % _SLICE_MS >= _SLICE_MS - BEFORE_S * 1000
    of = F.when(late, F.array(own, own + 1)).otherwise(F.array(own))
    rows = rows.withColumn("_of", F.explode(of))
    inside = F.col("_of") == own
    out, steady = ~F.col("in_isr"), F.col("in_isr") & ~F.col("_moves")
    pushed = inside & out & ~F.col("_moves")
    lag = F.when(inside & steady, F.col("_lag_s"))
    second = at % _SLICE_MS >= _SLICE_MS // 2
    each = rows.groupBy(F.col("_of").alias("_slice"), "rid").agg(
        F.max_by("_leader", F.when(inside, at)).alias("_leader"),
        F.first("_follower").alias("_follower"),
        F.max_by(steady, F.when(~inside, at)).alias("_was_in"),
        F.max_by(out, F.when(~inside, at)).alias("_was_out"),
        F.min(F.when(inside & steady, at)).alias("_first_in"),
        F.max(F.when(pushed, at)).alias("_last_out"),
        F.coalesce(F.max(pushed & ~F.col("_excused")), F.lit(False)).alias("_at_fault"),
        F.min(F.when(inside & out, at)).alias("_first_out"),
        F.max(F.when(inside & F.col("in_isr"), at)).alias("_last_in"),
        F.avg(lag).alias("_lag_s"),
        F.avg(F.when(~second, lag)).alias("_lag_first_s"),
        F.avg(F.when(second, lag)).alias("_lag_second_s"),
    )
    return each.filter(F.col("_leader").isNotNull())


# Advice


def _advised(rows: DataFrame) -> DataFrame:
    rate = F.col("_rate").cast("double")
    written = F.coalesce("written_bytes_per_s", F.lit(0.0)) * F.lit(RATE_SPARE)
    down = _rounded(F.greatest(F.least(rate, "_used") * F.lit(LOWER), written), up=False)
    # Rounded down it might carry less than is written.
    down = F.greatest(down, F.ceil(written).cast("long"), F.lit(RATE_MIN_BYTES_PER_S).cast("long"))
    rows = rows.withColumns(
        {
            "_lower": down,
            "_raise": _rounded(F.greatest(rate * F.lit(RAISE), written), up=True),
        }
    )
    cases = _cases()
    advice, reason = _first_of(cases, 1), _first_of(cases, 2)
    rows = rows.withColumns({"advice": advice, "reason": reason})
    return rows.withColumns(
        {
            "start": moment("_start"),
            "end": moment("_end"),
            "broker": F.col("_owner"),
            "permitted_bytes_per_s": F.col("_rate"),
            **{
                name: F.coalesce(name, F.lit(0).cast("long"))
                for name in ("steady", "left_isr", "joined_isr")
            },
            "steady_lag_change_s": F.col("_p95_second") - F.col("_p95_first"),
            "recommended_bytes_per_s": F.when(F.col("advice") == "raise", F.col("_raise"))
            .when(F.col("advice") == "lower", F.col("_lower"))
            .otherwise(F.col("_rate")),
        }
    )


def _cases() -> list[tuple[Column, str, str]]:
    """Conditions in the order in which they are looked at, with advice and reason."""
    grew = F.col("_p95_second") >= F.greatest(F.lit(LAG_S), F.col("_p95_first") * F.lit(GREW))
    pushed = F.coalesce(F.col("_pushed_out") > 0, F.lit(False))
    suffers = pushed | F.coalesce(grew, F.lit(False))
    lower = F.col("_lower") < F.col("_rate")
    used, elsewhere = F.col("share_used"), F.coalesce("held_elsewhere", F.lit(0.0))
    nobody = F.coalesce(F.col("steady"), F.lit(0)) == 0
    return [
        (F.col("_rate") <= RATE_MIN_BYTES_PER_S, "keep", PAUSED),
        (F.col("seconds") < SEEN_S, "keep", SHORT),
        (pushed & lower, "lower", PUSHED_OUT),
        (suffers & lower, "lower", LAGGING),
        (
            suffers,
            "keep",
            NOT_LOWER,
        ),
        (
            (used >= BINDS) & nobody,
            "raise",
            BINDS_ALONE,
        ),
        (used >= BINDS, "raise", BINDS_ALL),
        (elsewhere >= F.lit(0.5), "keep", HELD_ELSEWHERE),
        (used < SLACK, "no effect", SLACK_LEFT),
        (F.lit(True), "keep", MOSTLY_USED),
    ]


def _first_of(cases: list[tuple[Column, str, str]], part: int) -> Column:
    (condition, *words), *others = cases
    found = F.when(condition, F.lit(words[part - 1]))
    for condition, *words in others:
        found = found.when(condition, F.lit(words[part - 1]))
    return found


def _rounded(rate: Column, *, up: bool) -> Column:
    """Two figures of it."""
    unit = F.pow(F.lit(10.0), F.greatest(F.floor(F.log10(rate)) - 1, F.lit(0)))
    whole = F.ceil(rate / unit) if up else F.floor(rate / unit)
    return (whole * unit).cast("long")
