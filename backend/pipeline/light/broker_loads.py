"""The table `broker_load`, with arrays.

`kshunt.backend.pipeline.tables.broker_load` makes the same by Spark, and says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, GROWTH_S
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.pipeline.kernels.nan_arithmetic import Floats, ratio
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints, longs, millis
from kshunt.backend.pipeline.light.broker_rows import growth_points
from kshunt.backend.pipeline.light.grouped import (
    Groups,
    at_places,
    flags,
    known_only,
    moments,
    numbers,
    places_of,
)
from kshunt.backend.pipeline.light.light_tables import Rates, in_columns

_POINTS: Final = 3
"""Through fewer a line says nothing."""
_HOURS: Final = GROWTH_S * 1000 // HOUR_MS
_THURSDAY: Final = 3
"""The first day of 1970, where 0 is Monday."""
COLUMNS: Final = ("at", "broker", "leader", "advanced_bytes", "elapsed_s")


def broker_load(brokers: Any, rates: Rates, start_ms: int) -> Any:
    """The table `broker_load`, of every hour from a moment on that has samples of brokers.

    `brokers` are clean broker samples; growth is right from `GROWTH_S` after the first of them on.
    """
    s = _Samples.of(brokers)
    here = Groups.by(s.hour, s.broker)
    hour, broker = here.first(s.hour), here.first(s.broker)
    leaders = here.mean(s.numbers["leaders"])
    every = Groups.by(hour)
    total, used, free = (_last(here, s.at, s.whole[name]) for name in ("total", "used", "free"))
    growth, span = _growth(_Samples.of(growth_points(brokers)), hour, broker)
    full = ratio(np.where(free == NULL, np.nan, free.astype(np.float64)), growth)
    written = _written(rates(COLUMNS), hour, broker)
    rows = in_columns(
        BROKER_LOAD,
        {
            "start": moments(hour * HOUR_MS),
            "hour_of_week": (hour * HOUR_MS // DAY_MS + _THURSDAY) % 7 * 24 + hour % 24,
            "broker": broker,
            "samples": here.count(np.ones(len(s.at), np.bool_)),
            "newest": moments(here.most(s.at.astype(np.float64))),
            "answering": here.mean(s.answering.astype(np.float64)),
            **_speeds(here, s),
            **{name: known_only(values) for name, values in written.items()},
            "leaders": leaders,
            "leader_share": known_only(ratio(leaders, every.sum(leaders)[every.of])),
            "replicas": here.mean(s.numbers["replicas"]),
            "log_bytes": longs(_last(here, s.at, s.whole["log"])),
            "disk_total_bytes": longs(total),
            "disk_used_bytes": longs(used),
            "disk_free_bytes": longs(free),
            "growth_bytes_per_s": known_only(growth),
            "growth_span_s": known_only(span),
            "full_in_s": known_only(full),
        },
    )
    return rows.filter(pa.array(hour * HOUR_MS >= start_ms))


@dataclass(frozen=True, eq=False)
class _Samples:
    """Samples of brokers as arrays; shape (rows,)."""

    at: Ints
    """Milliseconds."""
    hour: Ints
    broker: Ints
    answering: Bools
    numbers: Mapping[str, Floats]
    whole: Mapping[str, Ints]

    @classmethod
    def of(cls, rows: Any) -> _Samples:
        at = millis(rows["at"])
        names = ("leaders", "replicas", "in_bytes_per_s", "out_bytes_per_s")
        total, free = ints(rows["disk_total_bytes"]), ints(rows["disk_usable_bytes"])
        used = np.where((total == NULL) | (free == NULL), NULL, total - np.maximum(free, 0))
        log = ints(rows["log_bytes"])
        return cls(
            at,
            at // HOUR_MS,
            ints(rows["broker"]),
            flags(rows["answering"]),
            {name: numbers(rows[name]) for name in names},
            {"log": log, "total": total, "free": free, "used": used},
        )


def _last(groups: Groups, at: Ints, values: Ints) -> Ints:
    """Of each group the last value that is known."""
    rows = groups.last_row(at.astype(np.float64), values != NULL)
    return np.where(rows >= 0, values[rows], NULL)


def _speeds(here: Groups, s: _Samples) -> dict[str, Any]:
    found = {}
    for way in ("in", "out"):
        speeds = s.numbers[f"{way}_bytes_per_s"]
        found[f"{way}_bytes_per_s"] = known_only(here.mean(speeds))
        found[f"{way}_max_bytes_per_s"] = known_only(here.most(speeds))
    return found


def _growth(points: _Samples, hours: Ints, brokers: Ints) -> tuple[Floats, Floats]:
    """Of each hour and broker the slope over the time up to its end, and how long that is."""
    at, used, broker, hour = points.at, points.whole["used"], points.broker, points.hour
    growth, span = np.full(len(hours), np.nan), np.full(len(hours), np.nan)
    for n, (end, whose) in enumerate(zip(hours.tolist(), brokers.tolist(), strict=True)):
        which = (broker == whose) & (hour <= end) & (hour > end - _HOURS)
        if which.any():
            seconds = at[which] / 1e3
            span[n] = seconds.max() - seconds.min()
            growth[n] = _slope(seconds, used[which].astype(np.float64))
    return growth, span


def _slope(x: Floats, y: Floats) -> float:
    """Of the line through some points, by least squares; NaN for too few."""
    if len(x) < _POINTS:
        return np.nan
    away = x - x.mean()
    return float((away * (y - y.mean())).sum() / (away * away).sum())


def _written(rates: Any, hours: Ints, brokers: Ints) -> dict[str, Floats]:
    """What was written to each broker's logs, as a leader and as a follower."""
    advanced, leader = numbers(rates["advanced_bytes"]), ints(rates["leader"])
    which = ~np.isnan(advanced) & (leader != NULL)
    at, broker = millis(rates["at"])[which], ints(rates["broker"])[which]
    since = at - numbers(rates["elapsed_s"])[which] * 1000
    leads, advanced = (leader[which] == broker), advanced[which]
    groups = Groups.by(at // HOUR_MS, broker)
    keys = groups.first(at // HOUR_MS), groups.first(broker)
    found = places_of((hours, brokers), keys)
    of = {}
    for name, mine in (("produced_bytes_per_s", leads), ("replicated_bytes_per_s", ~leads)):
        span = groups.most(np.where(mine, at, np.nan)) - groups.least(np.where(mine, since, np.nan))
        speed = ratio(groups.sum(np.where(mine, advanced, np.nan)) * 1e3, span)
        of[name] = at_places(speed, found)
    return of
