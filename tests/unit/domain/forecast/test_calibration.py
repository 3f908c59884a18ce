"""Calibrations: what a file may say, and the ranges that one makes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.forecast.calibration import (
    SHIPPED,
    BadCalibration,
    Bin,
    Calibration,
    shipped,
)
from kshunt.backend.domain.forecast.ranges import (
    COPY,
    OPERATION,
    QUANTILES,
    STAGES,
    THROTTLE,
    WRITES,
    ranges,
)
from kshunt.backend.domain.pipeline.result_columns import ETA_MODEL

BIN = {
    "kind": "copy",
    "stage": 2,
    "held_by": "throttle",
    "writes": None,
    "operations": 50,
    "forecasts": 500,
    "low": -0.5,
    "middle": 0.0,
    "high": 0.7,
}
GOOD: dict[str, Any] = {"model": ETA_MODEL, "about": "a test", "bins": [BIN]}


def test_a_calibration_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(GOOD))
    found = Calibration.read(path)
    assert found.about == "a test"
    path.write_text(found.to_json())
    assert Calibration.read(path) == found


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "not JSON"),
        ("[]", "Expected object"),
        ('{"model": 2}', "missing required field"),
        (json.dumps(GOOD | {"model": ETA_MODEL - 1}), "is of model"),
        (json.dumps(GOOD | {"more": 1}), "unknown field"),
        (json.dumps(GOOD | {"bins": [BIN | {"kind": "topic"}]}), "kind"),
        (json.dumps(GOOD | {"bins": [BIN | {"stage": STAGES}]}), "stage"),
        (json.dumps(GOOD | {"bins": [BIN | {"high": 1e9}]}), "high"),
        (json.dumps(GOOD | {"bins": [BIN | {"low": 0.1}]}), "do not ascend"),
        (json.dumps(GOOD).replace("-0.5", "NaN"), "NaN"),
        (json.dumps(GOOD | {"bins": [BIN] * 1_001}), "bins"),
    ],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, written: str, words: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(written)
    with pytest.raises(BadCalibration, match=words):
        Calibration.read(path)
    with pytest.raises(BadCalibration, match="cannot be read"):
        Calibration.read(tmp_path / "none.json")


def test_one_without_bins_is_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(GOOD | {"bins": []}))
    assert Calibration.read(path) is shipped()


def test_the_middle_follows_only_what_is_off_by_much() -> None:
    def middle(of: float) -> float:
        return Bin("copy", None, None, None, 9, 9, -1.0, of, 1.0).used()[1]

    assert [middle(0.05), middle(-0.1)] == [0.0, 0.0]
    assert [middle(0.3), middle(-0.3)] == pytest.approx([0.2, -0.2])


def test_the_shipped_calibration_covers_every_kind_of_forecast() -> None:
    found = Calibration.read(SHIPPED).quantiles()
    assert found.shape == QUANTILES
    assert (found[..., 0] <= 0).all()
    assert (found[..., 2] > 0).all()
    assert (found[..., 2] < math.log(20)).all()


def test_ranges_are_those_of_the_bin() -> None:
    bins = (Bin("copy", 2, "throttle", "none", 50, 500, math.log(0.5), 0.0, math.log(3.0)),)
    quantiles = Calibration(bins).quantiles()
    seconds, age_s = np.array([100.0, 100.0, np.inf]), np.array([100.0, 5.0, 50.0])
    writes = np.array([WRITES.index(one) for one in ("none", "much", "none")])
    found = ranges(COPY, seconds, age_s, np.full(3, THROTTLE), writes, quantiles)
    assert found.stage[:2] == pytest.approx([0.5, 1 / 21])
    assert found.ends_s[0] == pytest.approx([50.0, 100.0, 300.0])
    assert found.ends_s[1] == pytest.approx([100.0, 100.0, 100.0])
    assert np.isnan(found.ends_s[2]).all()
    other = ranges(OPERATION, seconds, age_s, np.full(3, THROTTLE), writes, quantiles)
    assert other.ends_s[0] == pytest.approx([100.0] * 3)
