"""How live forecasts turned out: those that backends made while operations ran.

A recording has them at the points of an operation's way (`FORECAST_SAMPLES`). They are judged by
the backend, as the operation ends (`kshunt.backend.domain.forecast.scoring.milestones`). Here they
are only counted. Each forecast weighs the same, as in the words of the dashboard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kshunt.backend.domain.forecast.scoring.kept_forecasts import VoidReason, point_text
from kshunt.backend.domain.text.formatting import many, printable
from kshunt.backend.pipeline.backtest.forecast_scores import percent


@dataclass(frozen=True, slots=True)
class LiveLine:
    """The live forecasts of one point. Shares from 0 to 1; None where there is nothing."""

    point: float | None
    """None: of all points."""
    forecasts: int
    void: Mapping[str, int]
    """Those that do not count, by the reason."""
    coverage: float | None
    """The share of ends within [p10, p90], of forecasts that count."""
    width: float | None
    """Median of p90 / p10, likewise."""
    error: float | None
    """Median of |forecast - actual| / actual, likewise."""

    @property
    def counted(self) -> int:
        """How many of them count."""
        return self.forecasts - sum(self.void.values())


def live_lines(rows: Iterable[Mapping[str, Any]]) -> list[LiveLine]:
    """By point, then all; none where nothing was recorded. `rows` are of `FORECAST_SAMPLES`."""
    # Two backends of one recording may both have written how an operation ended.
    known = {(row["operation_id"], row["point"]): row for row in rows}
    if not known:
        return []
    points = sorted({point for _, point in known})
    made = [
        _line(point, [row for key, row in known.items() if key[1] == point]) for point in points
    ]
    return [*made, _line(None, list(known.values()))]


def _line(point: float | None, rows: Sequence[Mapping[str, Any]]) -> LiveLine:
    counting = [row for row in rows if row["right"] is not None]
    void = Counter(row["void"] or VoidReason.NOT_COMPLETED for row in rows if row["right"] is None)
    widths = [row["p90_s"] / row["p10_s"] for row in counting if row["p10_s"] > 0]
    errors = [
        abs(row["p50_s"] - row["actual_s"]) / row["actual_s"]
        for row in counting
        if row["actual_s"] > 0
    ]
    return LiveLine(
        point,
        len(rows),
        dict(void),
        sum(row["right"] for row in counting) / len(counting) if counting else None,
        median(widths) if widths else None,
        median(errors) if errors else None,
    )


def live_text(made: Sequence[LiveLine]) -> list[str]:
    """The table for an operator; empty without forecasts."""
    if not made:
        return []
    said = [
        "",
        "Forecasts that the backend made while operations ran:",
        f"{'progress':>20}{'forecasts':>11}{'counted':>9}{'80 % holds':>12}{'p90/p10':>9}"
        f"{'median error':>14}",
    ]
    for line in made:
        name = "all" if line.point is None else point_text(line.point)
        width = "-" if line.width is None else f"{line.width:.1f}"
        said.append(
            f"{name:>20}{line.forecasts:>11,}{line.counted:>9,}{percent(line.coverage):>12}"
            f"{width:>9}{percent(line.error):>14}"
        )
    if void := made[-1].void:
        reasons = (f"{_words(name)} ({count:,})" for name, count in void.items())
        said.append(f"{many(sum(void.values()), 'forecast')} not counted: {', '.join(reasons)}.")
    return said


def _words(void: str) -> str:
    """A file comes from anybody: it may have a reason that kshunt does not know."""
    return VoidReason(void).words if void in set(VoidReason) else printable(void)
