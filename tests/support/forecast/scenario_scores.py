"""How good the forecasts of scenarios were, at the points of the way at which kshunt keeps them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kshunt.backend.domain.forecast.scoring.kept_forecasts import POINTS
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.text.formatting import duration_text, rate_text
from tests.support.forecast.scores import look_at
from tests.support.forecast.watched_operations import Look
from tests.support.forecast.watched_scenarios import WatchedScenario


@dataclass(frozen=True, slots=True)
class Told:
    """One forecast and the truth; times in seconds from then on."""

    low_s: float
    middle_s: float
    high_s: float
    truth_s: float

    @property
    def holds(self) -> bool:
        """Whether the truth lies within the range."""
        return self.low_s <= self.truth_s <= self.high_s

    @property
    def error(self) -> float:
        """How far the middle was off, as a share of the truth."""
        return abs(self.middle_s - self.truth_s) / max(self.truth_s, 1.0)


def told_at(run: WatchedScenario, point: float) -> Told | None:
    """What was told at this point of the way; None where no end was."""
    look, took_s = look_at(run.way, point), run.way.took_s
    if look is None or took_s is None:
        return None
    ends_s = _ends_s(look.end)
    return None if ends_s is None else Told(*ends_s, took_s - look.at_s)


def first_told(run: WatchedScenario) -> Look | None:
    """The first look of the way at which an end was told."""
    return next((look for look in run.way.looks if _ends_s(look.end)), None)


def left_first_range(run: WatchedScenario) -> bool:
    """Whether the end that was told was ever outside of the first range, or was taken back."""
    first = first_told(run)
    if first is None:
        return True
    low_s, _, high_s = _moments_s(first)
    later = [look for look in run.way.looks if look.at_s > first.at_s and look.end is not None]
    return not all(
        look.end.p50_s is not None and low_s <= _moments_s(look)[1] <= high_s
        for look in later
        if look.end is not None
    )


def as_text(name: str, runs: Sequence[WatchedScenario]) -> str:
    """The figures of one scenario as a table."""
    ended = [run for run in runs if run.way.took_s is not None]
    lines = [f"{name}: {len(ended)} of {len(runs)} runs ended"]
    lines += [_run_text(run) for run in runs]
    lines.append(
        f"{'of the way':>10}{'runs':>6}{'forecast':>10}{'truth':>10}{'range':>22}"
        f"{'holds':>7}{'error':>8}"
    )
    lines += [_point_text(point, ended) for point in POINTS]
    left = sum(map(left_first_range, ended))
    return "\n".join(
        [*lines, f"the number left its own first range in {left} of {len(ended)} runs"]
    )


def _point_text(point: float, runs: Sequence[WatchedScenario]) -> str:
    """Medians of the runs that told an end there."""
    found = [told for run in runs if (told := told_at(run, point)) is not None]
    if not found:
        return f"{point:>10.0%}{0:>6}"
    low, middle, high, truth = (
        duration_text(statistics.median(values))
        for values in zip(
            *((one.low_s, one.middle_s, one.high_s, one.truth_s) for one in found), strict=True
        )
    )
    holds = f"{sum(one.holds for one in found)}/{len(found)}"
    error = statistics.median(one.error for one in found)
    return (
        f"{point:>10.0%}{len(found):>6}{middle:>10}{truth:>10}{f'{low} to {high}':>22}"
        f"{holds:>7}{error:>8.1%}"
    )


def _run_text(run: WatchedScenario) -> str:
    took = "given up" if run.way.took_s is None else duration_text(run.way.took_s)
    words = [f"  seed {run.way.seed}: took {took}"]
    first = first_told(run)
    if first is not None:
        low, middle, high = map(duration_text, _moments_s(first))
        words.append(f"first told after {duration_text(first.at_s)}: {middle} ({low} to {high})")
    if run.before and (ends := [look.end for look in run.before if look.end is not None]):
        never = sum(end.p50_s is None and end.never > 0 for end in ends)
        number = sum(end.p50_s is not None for end in ends)
        needs = ends[-1].shortage and ends[-1].shortage.needs_bytes_per_s
        rate = f", needs {rate_text(needs)}" if needs else ""
        words.append(f"before: never {never} times, an end {number} times{rate}")
    return "; ".join(words)


def _ends_s(end: ExpectedEnd | None) -> tuple[float, float, float] | None:
    if end is None or end.p10_s is None or end.p50_s is None or end.p90_s is None:
        return None
    return end.p10_s, end.p50_s, end.p90_s


def _moments_s(look: Look) -> tuple[float, float, float]:
    """The ends that were told, in seconds from the beginning of the way."""
    ends_s = _ends_s(look.end)
    assert ends_s is not None, look
    low, middle, high = (look.at_s + end_s for end_s in ends_s)
    return low, middle, high
