"""How good forecasts were, once it is known how it went: numbers of `kshunt pipeline backtest`.

A forecast is of a copy or an operation at one tick. Each operation weighs the same in every
number, however long it took and however many copies it had. Two common forecasts are scored next to
the pipeline's. One divides what remains by the rate between the last two ticks, the other by the
mean rate since the start. Both are of what remains, so that what is written meanwhile counts
against them no more than it must.

An operation that did not end within the samples has no actual end. What can be known of its
forecasts is whether they named one, and whether that had passed when the operation was last seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.ranges import KINDS, OPERATION, STAGES, held_by, stage_places
from kshunt.backend.domain.forecast.scoring.residual_quantiles import shares, weighted_quantiles
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.pipeline.backtest.residuals import Outcomes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SHORTEST_S: Final = 5.0
"""An end that is nearer than a tick is no longer forecast."""
METHODS: Final = ("pipeline", "two-sample rate", "lifetime mean")


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Forecasts in the order of operation, replica and time. Shape (forecasts,)."""

    kind: Ints
    operation: Ints
    by_throttle: Mask
    """A throttle gave no more."""
    writes: Ints
    """What was written until the end. A place in `WRITES`."""
    stage: Floats
    """As forecast; NaN without a forecast."""
    progress: Floats
    """Of the bytes, as it turned out, from 0 to 1."""
    actual_s: Floats
    """inf: it did not end; NaN: it never had to wait for a copy."""
    seen_s: Floats
    """From the forecast until its operation was last seen."""
    seconds: Floats
    """Shape (forecasts, 3): p10, p50 and p90; NaN where it was said why there is none."""
    baselines: Floats
    """Shape (forecasts, 2); NaN where there is none."""


@dataclass(frozen=True, slots=True)
class Ended:
    """When replicas came into the ISR and left it; by operation, replica and time."""

    operation: Ints
    rid: Ints
    at_ms: Ints
    in_isr: Mask
    removing: Mask


def forecasts(rows: dict[str, NDArray[Any]], moves: Ended) -> Forecasts:
    """Join forecasts with what became of them.

    `rows` are columns of `eta`, with `operation` as a number, `is_operation`, and times in
    milliseconds; NaN for null.
    """
    order = np.lexsort((rows["at_ms"], rows["rid"], rows["is_operation"], rows["operation"]))
    rows = {name: column[order] for name, column in rows.items()}
    ends = _ends(moves)
    end_ms = np.array([ends.get(int(o), np.nan) for o in rows["operation"]], np.float64)
    series = _series(rows)
    whole = rows["is_operation"]
    arrival_ms = np.where(np.isfinite(end_ms), _arrivals(rows, moves), np.inf)
    return Forecasts(
        whole.astype(np.int64),
        rows["operation"],
        rows["by_throttle"],
        rows["writes"],
        rows["stage"],
        _progress(rows, series),
        (np.where(whole, end_ms, arrival_ms) - rows["at_ms"]) / 1000,
        (_last_seen(rows) - rows["at_ms"]) / 1000,
        np.stack([rows[name] for name in ("p10_s", "p50_s", "p90_s")], axis=1),
        np.stack([_two_samples(rows, series), _lifetime(rows, series)], axis=1),
    )


def _last_seen(rows: dict[str, NDArray[Any]]) -> Floats:
    """When each row's operation had its last forecast, milliseconds."""
    last = np.zeros(int(rows["operation"].max(initial=-1)) + 1)
    np.maximum.at(last, rows["operation"], rows["at_ms"].astype(np.float64))
    found: Floats = last[rows["operation"]]
    return found


def of_ended(found: Forecasts) -> Forecasts:
    """Those whose end is known, and was not too near to be forecast."""
    return _where(found, np.isfinite(found.actual_s) & (found.actual_s >= SHORTEST_S))


def _where(found: Forecasts, which: Mask) -> Forecasts:
    return Forecasts(*(getattr(found, name)[which] for name in Forecasts.__dataclass_fields__))


def _ends(moves: Ended) -> dict[int, float]:
    """When each operation ended, milliseconds: the last replica that had been out came back.

    inf: it did not. One of which no replica was out is missing.
    """
    found: dict[int, float] = {}
    if not len(moves.rid):
        return found
    last = np.append(
        (moves.operation[1:] != moves.operation[:-1]) | (moves.rid[1:] != moves.rid[:-1]), True
    )
    first = np.append(True, last[:-1])
    lasting = np.zeros(len(last), np.bool_)
    lasting[last & moves.in_isr & ~first] = True
    for operation, at_ms in zip(moves.operation[lasting], moves.at_ms[lasting], strict=True):
        found[int(operation)] = max(found.get(int(operation), 0.0), float(at_ms))
    is_open = last & ~moves.in_isr & ~moves.removing
    return found | dict.fromkeys(np.unique(moves.operation[is_open]).tolist(), np.inf)


def _arrivals(rows: dict[str, NDArray[Any]], moves: Ended) -> Floats:
    """When each copy was next in the ISR; inf where it never was."""
    joined = np.flatnonzero(moves.in_isr)
    keys = np.stack([moves.operation[joined], moves.rid[joined]], axis=1)
    wanted = np.stack([rows["operation"], rows["rid"]], axis=1)
    _, places = np.unique(np.concatenate([keys, wanted]), axis=0, return_inverse=True)
    places = places.reshape(-1)
    # Times within 2^42 ms leave room for a number of the replica above them.
    have = places[: len(keys)] * 2**42 + moves.at_ms[joined]
    ask = places[len(keys) :] * 2**42 + rows["at_ms"]
    sorted_ = np.sort(have)
    at = np.searchsorted(sorted_, ask, side="right")
    next_ = sorted_[np.minimum(at, max(len(sorted_) - 1, 0))] if len(sorted_) else ask
    same = (at < len(sorted_)) & (next_ // 2**42 == ask // 2**42)
    return np.where(same, next_ % 2**42, np.inf)


def _series(rows: dict[str, NDArray[Any]]) -> Ints:
    """A number for each replica, or operation, in a row."""
    changes = np.zeros(len(rows["at_ms"]), np.bool_)
    for name in ("operation", "is_operation", "rid"):
        changes[1:] |= rows[name][1:] != rows[name][:-1]
    return np.cumsum(changes)


def _two_samples(rows: dict[str, NDArray[Any]], series: Ints) -> Floats:
    """What remains, over how fast it became less since the row before."""
    remaining, at_ms = rows["remaining"], rows["at_ms"].astype(np.float64)
    found = np.full(len(remaining), np.nan)
    seconds = np.diff(at_ms) / 1000
    speed = np.full(len(seconds), np.nan)
    np.divide(-np.diff(remaining), seconds, out=speed, where=seconds > 0)
    usable = (np.diff(series) == 0) & (speed > 0)
    np.divide(remaining[1:], speed, out=found[1:], where=usable)
    return found


def _lifetime(rows: dict[str, NDArray[Any]], series: Ints) -> Floats:
    """What remains, over the mean speed since the series began."""
    first = np.searchsorted(series, np.arange(series[-1] + 1)) if len(series) else series
    remaining, at_ms = rows["remaining"], rows["at_ms"].astype(np.float64)
    start = first[series] if len(series) else series
    age_s = (at_ms - at_ms[start]) / 1000
    gained = remaining[start] - remaining
    found = np.full(len(remaining), np.nan)
    np.divide(remaining * age_s, gained, out=found, where=(gained > 0) & (age_s > 0))
    return found


def _progress(rows: dict[str, NDArray[Any]], series: Ints) -> Floats:
    """The share that was copied of the most that ever remained."""
    most = np.zeros(int(series.max(initial=-1)) + 1)
    remaining = np.nan_to_num(rows["remaining"])
    np.maximum.at(most, series, remaining)
    share: Floats = 1 - remaining / np.maximum(most[series], 1.0)
    return share


def outcomes(found: Forecasts) -> Outcomes:
    """What a calibration is made from, of forecasts that were made without one."""
    ratio = found.actual_s / found.seconds[:, 1]
    known = np.isfinite(ratio) & (ratio > 0)
    return Outcomes(
        found.kind[known],
        stage_places(found.stage)[known],
        held_by(found.by_throttle, np.zeros_like(found.by_throttle))[known],
        found.writes[known],
        found.operation[known],
        np.log(ratio[known]),
        np.empty((int(known.sum()), 0), np.bool_),
    )


# The numbers


@dataclass(frozen=True, slots=True)
class Score:
    """Of one method, over some forecasts. Shares from 0 to 1; None where there is nothing."""

    method: str
    error: float | None
    """Median of |forecast - actual| / actual."""
    silent: float | None
    """Share without a forecast."""


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """The forecasts of one kind and stage."""

    kind: str
    stage: str
    operations: int
    forecasts: int
    coverage: float | None
    """Share of ends within [p10, p90], of those that a range was said of."""
    below: float | None
    """Share that ended before p10."""
    width: float | None
    """Median of p90 / p10."""
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class NotEndedScore:
    """Of one method, over forecasts of operations that did not end. Shares from 0 to 1."""

    method: str
    silent: float
    """Named no end."""
    passed: float
    """Named an end that had passed when the operation was last seen."""
    still_open: float
    """Named a later end, of which nothing can be said."""


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The forecasts of whole operations that did not end within the samples."""

    operations: int
    forecasts: int
    range_passed: float
    """The share whose whole range had passed: known to be wrong."""
    scores: tuple[NotEndedScore, ...]


def not_ended(found: Forecasts) -> NotEnded | None:
    """What is known of operations that did not end; None where all did."""
    some = _where(found, (found.kind == OPERATION) & np.isposinf(found.actual_s))
    if not len(some.kind):
        return None
    weights = shares(some.operation)

    def share(which: Mask) -> float:
        return float(np.average(which, weights=weights))

    scores = []
    for name, column in _methods(some):
        silent, passed = ~np.isfinite(column), column < some.seen_s
        scores.append(NotEndedScore(name, share(silent), share(passed), share(~silent & ~passed)))
    return NotEnded(
        len(np.unique(some.operation)),
        len(some.kind),
        share(some.seconds[:, 2] < some.seen_s),
        tuple(scores),
    )


def _methods(some: Forecasts) -> Iterator[tuple[str, Floats]]:
    """Each method with the end that it names, seconds from the forecast on."""
    return zip(METHODS, (some.seconds[:, 1], *some.baselines.T), strict=True)


def lines(found: Forecasts) -> list[ScoreLine]:
    """By kind: each fifth of the progress, all of it, and the one tick nearest to half-way."""
    made = []
    for kind, name in reversed(list(enumerate(KINDS))):
        of_kind = found.kind == kind
        fifth = stage_places(found.progress)
        for place in range(STAGES):
            label = f"{place * 100 // STAGES}-{(place + 1) * 100 // STAGES} %"
            made.append(_line(_where(found, of_kind & (fifth == place)), name, label))
        made.append(_line(_where(found, of_kind), name, "all"))
        made.append(_line(_where(found, of_kind & _half_way(found)), name, "half-way"))
    return made


def _half_way(found: Forecasts) -> Mask:
    """Of each operation, the forecasts that are as near to half of its bytes as there is one."""
    away = np.abs(found.progress - 0.5)
    chosen = np.zeros(len(away), np.bool_)
    series = found.operation * 2 + found.kind
    nearest = np.full(int(series.max(initial=-1)) + 1, np.inf)
    np.minimum.at(nearest, series, away)
    chosen[(away <= nearest[series]) | ((found.kind == 0) & (away <= 0.05))] = True
    return chosen


def _line(some: Forecasts, kind: str, stage: str) -> ScoreLine:
    weights = shares(some.operation)
    low, middle, high = some.seconds.T
    said = np.isfinite(middle)
    held = said & (some.actual_s >= low) & (some.actual_s <= high)
    before = said & (some.actual_s < low)
    return ScoreLine(
        kind,
        stage,
        len(np.unique(some.operation)),
        len(middle),
        _share(held[said], shares(some.operation[said])),
        _share(before[said], shares(some.operation[said])),
        _median((high / low)[said], some.operation[said]),
        tuple(
            Score(name, _error(column, some), _share(~np.isfinite(column), weights))
            for name, column in _methods(some)
        ),
    )


def _error(forecast: Floats, some: Forecasts) -> float | None:
    known = np.isfinite(forecast)
    error = np.abs(forecast - some.actual_s) / some.actual_s
    return _median(error[known], some.operation[known])


def _median(values: Floats, operation: Ints) -> float | None:
    if not len(values):
        return None
    return weighted_quantiles(values, shares(operation), (0.5,))[0]


def _share(which: Mask, weights: Floats) -> float | None:
    return float(np.average(which, weights=weights)) if len(which) else None


def as_text(made: Sequence[ScoreLine]) -> list[str]:
    """The table for an operator."""
    head = (
        f"{'of':<10}{'progress':>10}{'ops':>6}{'forecasts':>11}{'80 % holds':>12}{'p90/p10':>9}"
        f"   {'median error: ' + METHODS[0]:>23}{METHODS[1]:>18}{METHODS[2]:>16}"
    )
    said = [head]
    for line in made:
        if line.stage.startswith("0-"):
            said.append("")
        errors = [percent(score.error) + _silent(score.silent) for score in line.scores]
        width = "-" if line.width is None else f"{line.width:.1f}"
        said.append(
            f"{line.kind:<10}{line.stage:>10}{line.operations:>6}{line.forecasts:>11,}"
            f"{percent(line.coverage):>12}{width:>9}   {errors[0]:>23}{errors[1]:>18}"
            f"{errors[2]:>16}"
        )
    return said


def not_ended_text(made: NotEnded | None) -> list[str]:
    """The table of operations that did not end; empty if all did."""
    if made is None:
        return []
    head = (
        f"Not ended when last seen: {many(made.operations, 'operation')}, "
        f"{many(made.forecasts, 'forecast')}."
    )
    said = ["", head, f"{'':<20}{'no end named':>14}{'end passed':>12}{'still open':>12}"]
    said += [
        f"{one.method:<20}{percent(one.silent):>14}{percent(one.passed):>12}"
        f"{percent(one.still_open):>12}"
        for one in made.scores
    ]
    return [*said, f"The whole range of {METHODS[0]} had passed in {percent(made.range_passed)}."]


def percent(share: float | None) -> str:
    """`82 %`, as in a column; `-` for None."""
    return "-" if share is None else f"{share * 100:.0f} %"


def _silent(share: float | None) -> str:
    """How often a method says nothing, where it does."""
    return f" ({share * 100:.0f})" if share is not None and round(share * 100) else ""
