"""How good forecasts were, at a quarter of the way and elsewhere, against the two common ways.

Those are: what is left over the rate between the last two looks, and over the mean rate since the
start. Each operation counts once at each point of its way. A forecast is of throttles as they are:
it is void once somebody changes one, and scored as well as if it were not.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.forecast.ranges import HOLDS, OPERATION, WRITES, ranges
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from tests.support.forecast.watched_operations import Look, Watched

POINTS: Final = (0.1, 0.25, 0.5, 0.75)
"""Of the bytes."""
SHORTEST_S: Final = 5.0
"""What ends sooner is no longer forecast."""


@dataclass(frozen=True, slots=True)
class Score:
    """At one point of the way. Shares from 0 to 1; NaN where there is nothing."""

    point: float
    operations: int
    """That had a forecast there."""
    silent: int
    """That had none."""
    void: int
    """Of which somebody changed the throttle later; they are not in the numbers."""
    coverage: float
    """Share of ends between p10 and p90."""
    width: float
    """Median of p90 - p10, over what was left."""
    spread: float
    """Median of p90 / p10."""
    error: float
    """Median of |p50 - left| / left."""
    two_looks: float
    """The same of the present rate."""
    since_start: float
    """The same of the mean rate."""


def scores(
    runs: Sequence[Watched],
    quantiles: Floats | None,
    *,
    every: bool = False,
    until: float = POINTS[-1],
) -> list[Score]:
    """Of operations that ended, with the ranges that these quantiles make; None: with their own.

    `every`: void forecasts count like the others. `until`: how far they were forecast.
    """
    points = [point for point in POINTS if point <= until]
    return [_score(point, runs, quantiles, every=every) for point in points]


def group_scores(
    runs: Sequence[Watched], quantiles: Floats | None, point: float
) -> dict[str, Score]:
    """The scores at one point of the way, by what happened to operations.

    An operation is in each group that something in it belongs to. After a throttle was changed, a
    forecast of what was left counts like any other.
    """
    groups = sorted({name for run in runs for name in run.happened})
    return {
        name: _score(point, [run for run in runs if name in run.happened], quantiles, every=False)
        for name in groups
    }


@dataclass(frozen=True, slots=True)
class Judged:
    """One forecast of an operation, and how it turned out. Values are over what was left."""

    low: float
    middle: float
    high: float
    two_looks: float
    """By the present rate; NaN where there is none."""
    since_start: float
    """By the mean rate, likewise."""

    @property
    def holds(self) -> bool:
        """It ended between p10 and p90."""
        return self.low <= 1 <= self.high

    @property
    def error(self) -> float:
        """How far the middle was off."""
        return abs(self.middle - 1)


class NotJudged(enum.Enum):
    """Why a forecast is not in the numbers."""

    OVER = "the operation did not end, or there was too little left of it"
    SILENT = "there was no forecast"
    VOID = "somebody changed the throttle later"


def judged(
    run: Watched, point: float, quantiles: Floats | None, *, every: bool = False
) -> Judged | NotJudged:
    """The forecast at this point of the way; for `every` see `scores`."""
    place = _place(run, point)
    if run.took_s is None or place is None:
        return NotJudged.OVER
    look = run.looks[place]
    left_s = run.took_s - look.at_s
    if left_s < SHORTEST_S:
        return NotJudged.OVER
    end = look.end
    if end is None or end.p50_s is None or end.never or end.unknown:
        return NotJudged.SILENT
    if run.altered(look.at_s, run.took_s) and not every:
        return NotJudged.VOID
    low, middle, high = _range(end, quantiles)
    two_looks, since_start = _common(run, place)(left_s)
    return Judged(low / left_s, middle / left_s, high / left_s, two_looks, since_start)


def _range(end: ExpectedEnd, quantiles: Floats | None) -> tuple[float, float, float]:
    if quantiles is None:
        return end.p10_s or 0.0, end.p50_s or 0.0, end.p90_s or 0.0
    low, middle, high = ranges(
        OPERATION,
        np.array([end.p50_s], np.float64),
        np.array([end.watched_s]),
        np.array([HOLDS.index(end.held_by)]),
        np.array([WRITES.index(end.writes)]),
        quantiles,
    ).ends_s[0]
    return float(low), float(middle), float(high)


def _score(
    point: float, runs: Sequence[Watched], quantiles: Floats | None, *, every: bool
) -> Score:
    all_ = [judged(run, point, quantiles, every=every) for run in runs]
    found = [one for one in all_ if isinstance(one, Judged)]
    return Score(
        point,
        len(found),
        all_.count(NotJudged.SILENT),
        all_.count(NotJudged.VOID),
        sum(one.holds for one in found) / len(found) if found else math.nan,
        _median([one.high - one.low for one in found]),
        _median([one.high / one.low if one.low > 0 else math.inf for one in found]),
        _median([one.error for one in found]),
        _median([abs(one.two_looks - 1) for one in found]),
        _median([abs(one.since_start - 1) for one in found]),
    )


def look_at(run: Watched, point: float) -> Look | None:
    """The first look at which so much had been copied."""
    place = _place(run, point)
    return None if place is None else run.looks[place]


def _place(run: Watched, point: float) -> int | None:
    most = max((look.remaining_bytes for look in run.looks), default=0)
    reached = (n for n, look in enumerate(run.looks) if look.remaining_bytes <= (1 - point) * most)
    return next(reached, None)


def _common(run: Watched, place: int) -> _Common:
    return _Common(run.looks[0], run.looks[max(place - 1, 0)], run.looks[place])


@dataclass(frozen=True, slots=True)
class _Common:
    first: Look
    before: Look
    now: Look

    def __call__(self, left_s: float) -> tuple[float, float]:
        """Both common forecasts, over what was left; NaN where there is none."""
        return self._by(self.before) / left_s, self._by(self.first) / left_s

    def _by(self, then: Look) -> float:
        copied, seconds = then.remaining_bytes - self.now.remaining_bytes, self.now.at_s - then.at_s
        return self.now.remaining_bytes * seconds / copied if copied > 0 else np.nan


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def as_text(made: Sequence[Score]) -> str:
    """The figures as a table, a line a point of the way."""
    return _table("of the way", {f"{one.point:.0%}": one for one in made})


def groups_text(made: Mapping[str, Score]) -> str:
    """The figures as a table, a line a group."""
    return _table("what happened", made)


def _table(head: str, made: Mapping[str, Score]) -> str:
    first = max(len(name) for name in [head, *made])
    lines = [
        f"{head:>{first}}{'ops':>6}{'silent':>8}{'void':>6}{'80 % holds':>12}{'width':>8}"
        f"{'p90/p10':>9}{'error':>8}{'two looks':>11}{'since start':>13}"
    ]
    lines += [
        f"{name:>{first}}{one.operations:>6}{one.silent:>8}{one.void:>6}{one.coverage:>12.0%}"
        f"{one.width:>8.0%}{one.spread:>9.2f}{one.error:>8.1%}{one.two_looks:>11.0%}"
        f"{one.since_start:>13.0%}"
        for name, one in made.items()
    ]
    return "\n".join(lines)
