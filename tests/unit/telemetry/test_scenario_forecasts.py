"""What the head line says of the moves of two scenarios, from their beginning to their end."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.forecast.scoring.kept_forecasts import POINTS
from tests.support.forecast.scenario_scores import as_text, first_told, left_first_range, told_at
from tests.support.forecast.watched_scenarios import watched_scenario

SEED = 7
OFF_MOST = 0.1


@pytest.mark.slow
def test_brokers_that_crash_and_return_do_not_move_the_end() -> None:
    """In `rack-loss` three of nine brokers crash after 20 s, and are back after three minutes."""
    run = watched_scenario("rack-loss", SEED)
    said = as_text("rack-loss", [run])
    assert not left_first_range(run), said
    for point in POINTS:
        told = told_at(run, point)
        assert told is not None, said
        assert told.error < OFF_MOST, said


@pytest.mark.slow
def test_a_move_that_never_ends_is_never_said_to_end() -> None:
    """In `throttle-too-low` it does not until the operator raises the throttle after a minute."""
    run = watched_scenario("throttle-too-low", SEED)
    said = as_text("throttle-too-low", [run])
    ends = [look.end for look in run.before if look.end is not None]
    assert ends, said
    assert {end.p50_s for end in ends} == {None}, said
    assert ends[-1].never, said
    assert ends[-1].shortage, said
    first = first_told(run)
    assert first is not None, said
    assert first.at_s == 0, said
    assert not left_first_range(run), said
