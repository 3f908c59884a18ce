"""What is remembered of what producers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kshunt.backend.domain.replicas.snapshot import DTYPES, UNKNOWN, Replicas
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.telemetry.sampling.rate_windows import SETTLES_S, RateWindows


def expected_writes(written: Sequence[float]) -> float:
    """What is taken to be written from now on, after these rates, 2 s each."""
    windows, keys = RateWindows(), np.arange(1)
    found = 0.0
    for tick, rate in enumerate(written):
        now_ms = 1_760_000_000_000 + tick * 2_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:] = now_ms
        rates = windows.update(Replicas(**columns), keys, np.array([rate]), now_ms)
        (found,) = rates.written_bytes_per_s.tolist()
    return found


@pytest.mark.parametrize("rate", [0.0, 5e6])
def test_a_steady_rate_goes_on(rate: float) -> None:
    assert expected_writes([rate] * 20) == pytest.approx(rate)


@pytest.mark.parametrize(("last", "share"), [(2e6, 1.3), (0.0, 0.7)])
def test_bursts_count_by_their_mean_and_the_latest_a_little_more(last: float, share: float) -> None:
    bursts = [2e6 - last, last] * 40
    assert expected_writes(bursts) == pytest.approx(share * 1e6, rel=0.15)


def test_a_rate_that_is_not_known_changes_nothing() -> None:
    assert expected_writes([np.nan, 5e6, np.nan, 5e6]) == pytest.approx(5e6)


def test_while_a_new_throttle_settles_only_what_it_began_with_is_told() -> None:
    """A replica gets 3 MB/s, and its throttle is changed at the third look."""
    windows, keys = RateWindows(), np.arange(1)
    told = []
    for tick in range(12):
        now_ms = 1_760_000_000_000 + tick * 2_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:], columns["size_bytes"][:] = now_ms, tick * 6_000_000
        found = windows.update(
            Replicas(**columns), keys, np.zeros(1), now_ms, np.array([tick == 2])
        )
        told.append((found.seen_bytes_per_s.item(), found.begins_bytes_per_s.item()))
    seen, begins = np.array(told).T
    assert np.isnan(begins).tolist() == [place not in range(3, 8) for place in range(12)]
    assert np.isnan(seen).tolist() == [place in (0, *range(2, 8)) for place in range(12)]
    assert begins[3:8] == pytest.approx(3e6)
    assert seen[8:] == pytest.approx(3e6)


def test_what_a_replica_lacked_is_known_while_its_leader_does_not_answer() -> None:
    windows, keys = RateWindows(), np.arange(1)
    told = []
    for tick, lag in enumerate((UNKNOWN, 5_000, UNKNOWN, 4_000)):
        now_ms = 1_760_000_000_000 + tick * 2_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:], columns["lag_bytes"][:] = now_ms, lag
        found = windows.update(Replicas(**columns), keys, np.zeros(1), now_ms)
        told.append(found.lacked_bytes.item())
    assert np.isnan(told[0])
    assert told[1:] == [5_000, 5_000, 4_000]


def test_a_copy_that_goes_on_is_measured_from_the_next_look_on() -> None:
    """Its broker was down at the first two looks, and returned shortly before the third."""
    windows, keys = RateWindows(), np.arange(1)
    told = []
    for tick, size_bytes in enumerate((0, 0, 100_000, 6_100_000)):
        now_ms = 1_760_000_000_000 + tick * 2_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:], columns["size_bytes"][:] = now_ms, size_bytes
        columns["cause"][:] = Cause.BROKER_DOWN if tick < 2 else 0
        found = windows.update(Replicas(**columns), keys, np.zeros(1), now_ms)
        told.append(found.seen_bytes_per_s.item())
    assert np.isnan(told[:3]).all()
    assert told[3] == pytest.approx(3e6)


def test_what_a_copy_got_while_it_began_leaves_the_mean_when_it_is_settled() -> None:
    """It gets 1 MB/s for its first seconds, and 5 MB/s from then on."""
    windows, keys = RateWindows(), np.arange(1)
    told, size_bytes = [], 0
    for tick in range(24):
        now_ms = 1_760_000_000_000 + tick * 2_000
        size_bytes += 2_000_000 if tick * 2 <= SETTLES_S else 10_000_000
        columns = {name: np.zeros(1, kind) for name, kind in DTYPES.items()}
        columns["sampled_ms"][:], columns["size_bytes"][:] = now_ms, size_bytes
        found = windows.update(Replicas(**columns), keys, np.zeros(1), now_ms)
        told.append((found.seen_bytes_per_s.item(), found.target_seen_bytes_per_s.item()))
    seen, together = told[-1]
    assert seen == pytest.approx(5e6, rel=0.05)
    assert together == pytest.approx(5e6, rel=0.1)
