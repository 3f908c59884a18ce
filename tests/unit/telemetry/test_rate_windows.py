"""What is remembered of what producers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kshunt.backend.domain.replicas.snapshot import DTYPES, Replicas
from kshunt.backend.telemetry.sampling.rate_windows import RateWindows


def varies(written: Sequence[float]) -> float:
    """By how much it does, after one row was written to at these rates, 2 s each."""
    windows, keys = RateWindows(), np.arange(1)
    found = 0.0
    for tick, rate in enumerate(written):
        now_ms = 1_760_000_000_000 + tick * 2_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:] = now_ms
        rates = windows.update(Replicas(**columns), keys, np.array([rate]), now_ms)
        (found,) = rates.written_varies_bytes_per_s.tolist()
    return found


@pytest.mark.parametrize("rate", [0.0, 5e6])
def test_a_steady_rate_does_not_vary(rate: float) -> None:
    assert varies([rate] * 20) == 0.0


def test_bursts_vary_by_how_far_they_are_from_their_mean() -> None:
    assert varies([2e6, 0.0] * 40) == pytest.approx(1e6, rel=0.15)


def test_a_rate_that_is_not_known_says_nothing() -> None:
    assert varies([np.nan, 5e6, np.nan, 5e6]) == 0.0
