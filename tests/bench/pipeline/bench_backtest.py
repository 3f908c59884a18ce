"""Forecasts against how it went: simulated operations, real ones, and the cost of 20,000 copies.

    python -m tests.bench.pipeline.bench_backtest [--operations 210] [--real] [--keep FOLDER]

records operations, of seeds that no calibration was made from, and back-tests them with the
shipped calibration; `--real` takes moves on real brokers instead. `--calibrate FILE` records
the same number of others and makes a calibration. `make bench` measures the kernel.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kshunt.backend.domain.forecast.ranges import QUANTILES
from kshunt.backend.domain.pipeline.result_columns import ETA_MODEL
from kshunt.backend.pipeline.command import main as pipeline
from kshunt.backend.pipeline.kernels.eta_of_samples import eta
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from tests.support.bench.real_operations import record as record_real
from tests.support.pipeline.recorded import START_MS, time_of
from tests.support.pipeline.simulated_operations import record as record_simulated

EVALUATED_FROM = 0
CALIBRATED_FROM = 10_000
"""Seeds of the shipped calibration begin here, and those of the evaluation end below."""
COPIES, BROKERS, RUNS = 20_000, 100, 5


@pytest.mark.bench
def test_a_tick_of_20_000_copies() -> None:
    rows, times = _tick(), []
    quantiles = np.zeros(QUANTILES)
    for _ in range(RUNS):
        began_s = time.process_time()
        made = eta(rows, quantiles, ETA_MODEL)
        times.append(time.process_time() - began_s)
    assert len(made) == COPIES + 1
    print(
        f"\neta of {COPIES:,} copies on {BROKERS} brokers: {sorted(times)[RUNS // 2]:.2f} s of CPU"
    )


def _tick() -> pa.Table:
    """Copies of unequal sizes between any two brokers, all throttled."""
    dice = np.random.default_rng(1)
    source = dice.integers(0, BROKERS, COPIES)
    target = (source + dice.integers(1, BROKERS, COPIES)) % BROKERS
    rate = np.full(COPIES, 50e6 / (COPIES / BROKERS))
    whole, times = pa.int64(), pa.timestamp("us", "UTC")
    columns = {
        "at": pa.array([time_of(START_MS + 4_000)] * COPIES, times),
        "tick": pa.array([time_of(START_MS)] * COPIES, times),
        "segment_start": pa.array([time_of(START_MS - 600_000)] * COPIES, times),
        "rid": pa.array(np.arange(COPIES)),
        "topic": pa.array([f"topic-{n % 500}" for n in range(COPIES)]),
        "partition": pa.array((np.arange(COPIES) // 500).astype(np.int32)),
        "broker": pa.array(target.astype(np.int32)),
        "leader": pa.array(source.astype(np.int32)),
        "remaining_bytes": pa.array(dice.lognormal(21, 1, COPIES).astype(np.int64)),
        "elapsed_s": pa.array(np.full(COPIES, 5.0)),
        "advanced_bytes": pa.array((rate * 5).astype(np.int64)),
        "span_5m_s": pa.array(np.full(COPIES, 300.0)),
        **{f"catch_up_{name}_bytes_per_s": pa.array(rate) for name in ("30s", "5m")},
        **{
            f"produced_{name}_bytes_per_s": pa.array(dice.uniform(0, 2e4, COPIES))
            for name in ("30s", "5m")
        },
        "in_isr": pa.array(np.zeros(COPIES, np.bool_)),
        "adding": pa.array(np.ones(COPIES, np.bool_)),
        "removing": pa.array(np.zeros(COPIES, np.bool_)),
        **{
            f"{side}_throttle_bytes_per_s": pa.array([50_000_000] * COPIES, whole)
            for side in ("leader", "follower")
        },
        "cause": pa.nulls(COPIES, pa.string()),
        "operation_id": pa.array(["op"] * COPIES),
    }
    return pa.table({name: columns[name] for name in COLUMNS})


def main() -> None:
    """Record, and back-test."""
    parser = argparse.ArgumentParser(description="Record operations, and back-test forecasts.")
    parser.add_argument("--operations", type=int, default=210)
    parser.add_argument("--real", action="store_true", help="moves on real brokers")
    parser.add_argument("--calibrate", metavar="FILE", help="make a calibration from others")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the recording there")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kshunt-backtest-"))
    try:
        _run(options, folder)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _run(options: argparse.Namespace, folder: Path) -> None:
    samples = folder / ("samples" if options.real else "simulated-operations")
    if options.real:
        record_real(folder)
    else:
        first = CALIBRATED_FROM if options.calibrate else EVALUATED_FROM
        record_simulated(samples, range(first, first + options.operations), processes=2)
    command = ["backtest", "--samples", str(samples)]
    if options.calibrate:
        command += ["--calibrate", options.calibrate]
    raise SystemExit(pipeline(command))


if __name__ == "__main__":
    main()
