"""What a forecast is put down to: how far it is on its way, and how much is written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kshunt.backend.domain.forecast.copies import Copies
from kshunt.backend.domain.forecast.ranges import (
    COPY,
    HOLDS,
    QUANTILES,
    STAGES,
    WRITES,
    held_by,
    ranges,
    stage_places,
    writes_place,
)


def copies(lacks: list[float], written: list[float], lately: list[float] | None = None) -> Copies:
    """What they lack, what is written to them, and what was lately: the same, if not named."""
    nothing = np.zeros(len(lacks))
    names = Copies.__dataclass_fields__.keys() - {"why", "queue", "next_leaders"}
    values = {
        "remaining_bytes": np.array(lacks),
        "written_bytes_per_s": np.array(written),
        "written_lately_bytes_per_s": np.array(written if lately is None else lately),
    }
    return Copies(**dict.fromkeys(names, nothing) | values, why=())


def writes(found: Copies, end_s: float) -> str:
    """Of all of them together."""
    return WRITES[writes_place(found, np.arange(len(found)), end_s)]


@pytest.mark.parametrize(
    ("end_s", "kind"),
    [(0.0, "none"), (20.0, "none"), (21.0, "some"), (1_000.0, "some"), (1_100.0, "much")],
)
def test_writes_are_told_apart_by_what_copies_lack(end_s: float, kind: str) -> None:
    assert writes(copies([2_000.0, 1_000.0], [1.0, 2.0]), end_s) == kind


def test_writes_that_changed_lately_are_varying_whichever_way_they_went() -> None:
    lacks, written = [100.0, 100.0], [50.0, 50.0]
    changes = {(60.0, 61.0): "varying", (40.0, 39.0): "varying", (55.0, 54.0): "some"}
    # What one producer sends more and another less is no change.
    changes |= {(90.0, 10.0): "some", (math.nan, 54.0): "some", (math.nan, 61.0): "varying"}
    for lately, kind in changes.items():
        assert writes(copies(lacks, written, [*lately]), 1.0) == kind, lately
    # A little that doubles is still little.
    assert writes(copies(lacks, [0.5, 0.5], [1.0, 1.0]), 1.0) == "none"


def test_writes_that_are_not_known_are_not_taken_for_none() -> None:
    assert writes(copies([100.0], [math.nan]), 10.0) == "some"
    assert writes(copies([100.0], [0.0]), math.inf) == "some"


def test_what_is_not_known_of_one_copy_is_left_out() -> None:
    lacks = [100.0, 100.0, math.nan]
    assert writes(copies(lacks, [1.0, math.nan, 2.0]), 60.0) == "some"
    assert writes(copies(lacks, [1.0, math.nan, 2.0]), 70.0) == "much"
    assert writes(copies([0.0], [1.0]), 10.0) == "much"


def test_a_move_that_waits_is_held_by_its_turn_whatever_the_throttle() -> None:
    found = held_by(np.array([True, True, False, False]), np.array([True, False, True, False]))
    assert [HOLDS[one] for one in found] == ["turn", "throttle", "turn", "other"]


def test_a_forecast_is_half_way_when_it_was_watched_as_long_as_is_left() -> None:
    seconds, age_s = np.array([30.0, 90.0, math.inf]), np.array([30.0, -5.0, 10.0])
    nothing = np.zeros(3, np.int64)
    found = ranges(COPY, seconds, age_s, nothing, nothing, np.zeros(QUANTILES))
    assert found.stage[:2].tolist() == [0.5, 0.0]
    assert np.isnan(found.stage[2])
    assert found.ends_s[:2].tolist() == [[30.0] * 3, [90.0] * 3]
    assert np.isnan(found.ends_s[2]).all()


def test_each_fifth_is_a_stage_and_the_end_is_in_the_last() -> None:
    shares = np.array([0.0, 0.19, 0.2, 0.5, 0.99, 1.0, math.nan])
    last = STAGES - 1
    assert stage_places(shares).tolist() == [0, 0, 1, 2, last, last, 0]
