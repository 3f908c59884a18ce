"""Makes the calibration that comes with kshunt, of operations that were never run.

    python -m tests.support.forecast.calibrating [--operations 1800] [--seed 301] [FILE]

Each look at an operation is a forecast of it, and of each of its copies. What became of one after
somebody had changed a throttle is not counted. The late end of a range holds in each group of
`HARD`, too: people look at a forecast when something happens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np

from kshunt.backend.domain.forecast.calibration import SHIPPED, Calibration
from kshunt.backend.domain.forecast.ranges import (
    COPY,
    HOLDS,
    OPERATION,
    OTHER,
    SOME,
    THROTTLE,
    WRITES,
    stage_places,
)
from kshunt.backend.domain.replicas.expected_end_values import ResourceKind
from kshunt.backend.pipeline.backtest.residuals import Outcomes, fitted
from tests.support.forecast.watched_operations import Watched, watched_all

SHORTEST_S = 5.0
"""What ends sooner is no longer forecast."""
HARD = ("writes: steps", "a broker restarted")
"""What made the ends of some operations later without a warning."""
THROTTLES = {ResourceKind.LEADER_THROTTLE, ResourceKind.FOLLOWER_THROTTLE}
_Row = tuple[int, float, float, int, int, int, float]
"""Kind, forecast, for how long it was watched, what held it up, what was written, operation, and
what was left; times in seconds."""


def outcomes(runs: Sequence[Watched]) -> Outcomes:
    """How the forecasts of these operations turned out."""
    rows = [row for number, run in enumerate(runs) for row in _rows(number, run)]
    kind, forecast_s, age_s, holds, writes, operation, left_s = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return Outcomes(
        kind=kind,
        stage=stage_places(age_s / (age_s + forecast_s)),
        held_by=holds,
        writes=writes,
        operation=operation,
        log_ratio=np.log(left_s / forecast_s),
        hard=np.array([[name in run.happened for name in HARD] for run in runs])[operation],
    )


def _rows(number: int, run: Watched) -> Iterator[_Row]:
    if run.took_s is None:
        return
    arrived_s, since_s = _copies(run, run.took_s)
    for look in run.looks:
        end, left_s = look.end, run.took_s - look.at_s
        if end is None:
            continue
        known = end.p50_s is not None and not end.never and not end.unknown
        if known and end.p50_s and left_s >= SHORTEST_S and not run.altered(look.at_s, run.took_s):
            held_by = HOLDS.index(end.held_by)
            writes = WRITES.index(end.writes)
            yield OPERATION, end.p50_s, end.watched_s, held_by, writes, number, left_s
        kinds = {one.resource.kind for one in end.bottlenecks}
        holds = OTHER if kinds.isdisjoint(THROTTLES) else THROTTLE
        keys, ends_s = look.copies.keys.tolist(), look.copies.ends_s.tolist()
        for key, forecast_s in zip(keys, ends_s, strict=True):
            left_s = arrived_s[key] - look.at_s
            counts = np.isfinite(forecast_s) and forecast_s > 0 and left_s >= SHORTEST_S
            if counts and not run.altered(look.at_s, arrived_s[key]):
                age_s = look.at_s - since_s[key]
                yield COPY, forecast_s, age_s, holds, SOME, number, left_s


def _copies(run: Watched, took_s: float) -> tuple[dict[int, float], dict[int, float]]:
    """When each copy arrived, in the middle between two looks, and when it was seen first."""
    arrived_s: dict[int, float] = {}
    since_s: dict[int, float] = {}
    nexts_s = [look.at_s for look in run.looks[1:]] + [took_s]
    for look, next_s in zip(run.looks, nexts_s, strict=True):
        for key in look.copies.keys.tolist():
            since_s.setdefault(key, look.at_s)
            arrived_s[key] = (look.at_s + next_s) / 2
    return arrived_s, since_s


def calibration(runs: Sequence[Watched]) -> Calibration:
    """The one that these operations make."""
    ended = sum(run.took_s is not None for run in runs)
    return fitted(outcomes(runs), f"{ended} simulated operations")


def main() -> None:
    """Run operations, and write what they make."""
    parser = argparse.ArgumentParser(description="Make the calibration that comes with kshunt.")
    parser.add_argument("file", type=Path, nargs="?", default=SHIPPED)
    parser.add_argument("--operations", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=301, help="of the seeds; scores use fresh ones")
    options = parser.parse_args()
    seeds = Random(options.seed).sample(range(10**6, 10**9), options.operations)
    made = calibration(watched_all(seeds, processes=2))
    options.file.write_text(made.to_json() + "\n")
    sys.stdout.write(f"{options.file}: {len(made.bins)} bins of {made.about}\n")


if __name__ == "__main__":
    main()
