"""The calibration of forecasts while a backend runs: shipped, the cluster's own, or a file's."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest

from kshunt.backend.domain.forecast.calibration import Bin, Calibration, shipped_quantiles
from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.limits import LIMITS
from kshunt.backend.telemetry.sampling.calibration_in_use import SHIPPED_WORDS, CalibrationInUse

FEWEST = LIMITS.calibration_operations


class Cluster:
    """Operations that end one after the other, half as long again as forecast."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def end(self, count: int) -> None:
        more = {
            f"op{len(self.kept) + n}": (
                KeptForecast(
                    *(0.5, 1_000, 80.0, 100.0, 130.0, 100.0, 2, "throttle", "none", None),
                    *(50, 100, "t", None, 150.0),
                ),
            )
            for n in range(count)
        }
        self.kept = {**self.kept, **more}


def calibration(middle: float, about: str) -> str:
    bins = tuple(
        Bin(kind, None, None, None, 50, 500, middle - 0.3, middle, middle + 0.3)
        for kind in ("copy", "operation")
    )
    return Calibration(bins, about).to_json()


def test_the_shipped_one_is_used_until_enough_operations_ended() -> None:
    cluster = Cluster()
    found = CalibrationInUse(None, lambda: cluster.kept)
    cluster.end(FEWEST - 1)
    assert np.array_equal(found.quantiles(), shipped_quantiles())
    assert found.record.calibration == SHIPPED_WORDS
    assert (found.record.right, found.record.counted) == (0, FEWEST - 1)
    cluster.end(1)
    own = found.quantiles()
    assert (own[..., 1] > shipped_quantiles()[..., 1]).all(), "operations take longer here"
    assert found.record.calibration == f"{FEWEST} operations of this cluster"
    assert found.remarks == ()


def test_a_file_is_taken_up_while_the_backend_runs(tmp_path: Path) -> None:
    cluster, file = Cluster(), tmp_path / "prod.json"
    cluster.end(FEWEST)
    found = CalibrationInUse(file, lambda: cluster.kept)
    found.quantiles()
    assert "cannot be read" in found.remarks[0]
    assert found.remarks[0].endswith(f"kshunt uses {FEWEST} operations of this cluster.")
    file.write_text(calibration(0.5, "41 operations of prod"))
    assert found.quantiles()[1, 0, 0, 0] == pytest.approx([0.2, 0.4, 0.8])
    assert found.record.calibration == "prod.json (41 operations of prod)"
    assert found.remarks == ()
    replaced = tmp_path / "new.json"
    replaced.write_text(calibration(0.9, "60 operations of prod"))
    os.replace(replaced, file)
    assert found.quantiles()[1, 0, 0, 0] == pytest.approx([0.6, 0.8, 1.2])
    assert found.record.calibration == "prod.json (60 operations of prod)"


@pytest.mark.parametrize("content", ["", "{", json.dumps({"model": 1, "about": "", "bins": []})])
def test_a_damaged_file_leaves_the_last_good_one(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "prod.json"
    file.write_text(calibration(0.5, "41 operations of prod"))
    found = CalibrationInUse(file, dict)
    good = found.quantiles()
    file.write_text(content)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert np.array_equal(found.quantiles(), good)
    assert len(caplog.records) == 1, "it is said once"
    assert found.remarks[0].endswith("kshunt uses prod.json (41 operations of prod).")
    file.unlink()
    assert np.array_equal(found.quantiles(), good)
    assert "No such file" in found.remarks[0]
    file.write_text(calibration(0.9, "60 operations of prod"))
    assert not np.array_equal(found.quantiles(), good)
    assert found.remarks == ()


def test_a_file_without_bins_leaves_it_to_the_operations(tmp_path: Path) -> None:
    file = tmp_path / "few.json"
    file.write_text(Calibration((), "3 operations of prod").to_json())
    found = CalibrationInUse(file, dict)
    assert np.array_equal(found.quantiles(), shipped_quantiles())
    assert found.record.calibration == SHIPPED_WORDS
    assert found.remarks == ()
