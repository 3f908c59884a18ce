"""Forecasts against how it went: results computed by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.forecast.scoring.kept_forecasts import VoidReason
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.pipeline.backtest.forecast_scores import (
    Ended,
    as_text,
    forecasts,
    lines,
    not_ended,
    not_ended_text,
    of_ended,
)
from kshunt.backend.pipeline.backtest.live_scores import live_lines, live_text
from kshunt.backend.telemetry.recording.sample_rows import forecast_rows
from tests.support.forecast.kept import kept_forecast

NO_RID = 0
BOTH = ((1, 0, False), (1, 20_000, True), (2, 0, False), (2, 30_000, True))
"""Two copies of one operation, the second of which is in the ISR after 30 s."""


@dataclass(frozen=True)
class Forecast:
    """Of a whole operation."""

    at_ms: int
    remaining: int
    p10_s: float = math.nan
    p50_s: float = math.nan
    p90_s: float = math.nan
    stage: float = 0.0
    operation: int = 0


def turns(*moved: tuple[int, int, bool], operation: int = 0, removing: bool = False) -> Ended:
    """When replicas came into the ISR and left it."""
    return Ended(
        operation=np.full(len(moved), operation),
        rid=np.array([rid for rid, _, _ in moved]),
        at_ms=np.array([at for _, at, _ in moved]),
        in_isr=np.array([there for _, _, there in moved]),
        removing=np.full(len(moved), removing),
    )


def rows_of(*made: Forecast) -> dict[str, Any]:
    """Columns as `forecasts` takes them."""
    count = len(made)
    named = ("operation", "at_ms")
    measured = ("remaining", "stage", "p10_s", "p50_s", "p90_s")
    return {
        "is_operation": np.ones(count, np.bool_),
        "rid": np.full(count, NO_RID),
        "by_throttle": np.ones(count, np.bool_),
        "writes": np.ones(count, np.int64),
        **{name: np.array([getattr(one, name) for one in made], np.int64) for name in named},
        **{name: np.array([getattr(one, name) for one in made], np.float64) for name in measured},
    }


def test_what_became_of_forecasts() -> None:
    rows = rows_of(
        Forecast(0, 3_000, 20.0, 33.0, 40.0, 0.0),
        Forecast(10_000, 2_000, 30.0, 40.0, 50.0, 0.4),
        Forecast(20_000, 500, stage=0.6),
    )
    every = forecasts(rows, turns(*BOTH))
    found = of_ended(every)
    assert found.actual_s.tolist() == [30.0, 20.0, 10.0]
    assert found.progress == pytest.approx([0.0, 1 / 3, 5 / 6])
    two, mean = found.baselines.T
    assert two[1:] == pytest.approx([20.0, 500 / 150])
    assert mean[1:] == pytest.approx([20.0, 500 / 125])
    by_stage = {line.stage: line for line in lines(found) if line.kind == "operation"}
    assert (by_stage["0-20 %"].coverage, by_stage["20-40 %"].coverage) == (1.0, 0.0)
    assert by_stage["0-20 %"].scores[0].error == pytest.approx(0.1)
    assert by_stage["half-way"].scores[0].error == pytest.approx(1.0)
    assert by_stage["80-100 %"].scores[0].silent == 1.0
    assert "two-sample rate" in as_text(lines(found))[0]
    assert not_ended(every) is None
    assert not_ended_text(None) == []


# --- operations that did not end


def test_an_end_that_passed_while_an_operation_went_on_is_known_to_be_wrong() -> None:
    """Seen for 60 s: the first forecast's range had passed, of the second its middle alone."""
    rows = rows_of(
        Forecast(0, 3_000, 20.0, 33.0, 40.0),
        Forecast(10_000, 2_000, 30.0, 40.0, 60.0),
        Forecast(40_000, 1_500, 60.0, 70.0, 80.0),
        Forecast(60_000, 1_500),
    )
    every = forecasts(rows, turns(*BOTH[:3]))
    assert not len(of_ended(every).kind)
    found = not_ended(every)
    assert found is not None
    assert (found.operations, found.forecasts) == (1, 4)
    assert found.range_passed == 0.25
    ours, two_samples, lifetime = found.scores
    assert (ours.silent, ours.passed, ours.still_open) == (0.25, 0.5, 0.25)
    # 2,000 at 100/s and 1,500 at 16.7/s; the first has no rate, and the last no advance.
    assert (two_samples.silent, two_samples.passed, two_samples.still_open) == (0.5, 0.25, 0.25)
    # 2,000 at 100/s, 1,500 at 37.5/s and 1,500 at 25/s.
    assert (lifetime.silent, lifetime.passed, lifetime.still_open) == (0.25, 0.25, 0.5)
    said = not_ended_text(found)
    assert "1 operation, 4 forecasts" in said[1]
    assert said[-1] == "The whole range of pipeline had passed in 25 %."


def test_each_operation_that_did_not_end_weighs_the_same() -> None:
    many = [Forecast(second * 1_000, 100) for second in range(9)]
    rows = rows_of(
        *many, Forecast(0, 100, 1.0, 1.0, 1.0, operation=1), Forecast(9_000, 9, operation=1)
    )
    moves = [turns((1, 0, False)), turns((2, 0, False), operation=1)]
    both = Ended(
        *(np.concatenate([getattr(one, name) for one in moves]) for name in Ended.__slots__)
    )
    found = not_ended(forecasts(rows, both))
    assert found is not None
    assert (found.operations, found.scores[0].silent, found.scores[0].passed) == (2, 0.75, 0.25)


def test_an_operation_whose_replicas_only_leave_is_in_neither_table() -> None:
    rows = rows_of(Forecast(0, 100, 20.0, 33.0, 40.0))
    for moves in (turns((1, 0, False), removing=True), turns((1, 0, True))):
        every = forecasts(rows, moves)
        assert not len(of_ended(every).kind)
        assert not_ended(every) is None


# --- live forecasts


def recorded(**ended: Kept) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = forecast_rows(ended, at_ms=0).to_pylist()
    return rows


def test_live_forecasts_are_counted_by_point_and_void_ones_are_named() -> None:
    void = kept_forecast(point=0.5, void=VoidReason.THROTTLE_CHANGED)
    rows = recorded(
        op1=(kept_forecast(actual_s=850.0), void),
        op2=(kept_forecast(actual_s=2_000.0), kept_forecast(point=0.5, actual_s=900.0)),
    )
    quarter, half, every = live_lines(rows + rows)
    assert (quarter.point, quarter.forecasts, quarter.counted) == (0.25, 2, 2)
    assert quarter.coverage == 0.5
    assert quarter.width == pytest.approx(1_200 / 780)
    assert quarter.error == pytest.approx((50 / 850 + 1_100 / 2_000) / 2)
    assert (half.point, half.forecasts, half.counted, half.coverage) == (0.5, 2, 1, 1.0)
    assert (every.point, every.forecasts, every.counted) == (None, 4, 3)
    said = live_text([quarter, half, every])
    assert said[-1] == "1 forecast not counted: somebody changed the throttle (1)."
    assert len(said) == 3 + 3 + 1


def test_live_forecasts_that_all_are_void_have_no_figures() -> None:
    rows = recorded(op=(kept_forecast(void=VoidReason.PAUSED),))
    rows[0]["void"] = "newer \x1b[31m"
    *_, every = live_lines(rows)
    assert (every.counted, every.coverage, every.width, every.error) == (0, None, None, None)
    said = live_text(live_lines(rows))
    assert not any("\x1b" in line for line in said)
    assert live_text(live_lines([])) == []
