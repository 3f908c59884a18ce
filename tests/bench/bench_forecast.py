"""Forecasts of operations while they run: how often they hold, and what they cost.

    python -m tests.bench.bench_forecast [--operations 200] [--seed N] [--calibration FILE]

runs operations of fresh seeds on embedded cores. At some points of the way it prints how often the
80 % range held, how wide it was and how far the middle was off. Next to that it prints the same for
the two common ways.
`make bench` measures the processor time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.domain.forecast.calibration import SHIPPED, Calibration
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.replicas.snapshot import (
    DTYPES,
    BrokerStatus,
    Replicas,
    ReplicaStatus,
    Snapshot,
)
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    Move,
    ThrottledRate,
    Throttles,
    throttled_replicas_of,
)
from kshunt.backend.telemetry.sampling.forecaster import EVERY_S, SHARE, Forecaster
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from tests.support.forecast.scores import POINTS, as_text, group_scores, groups_text, scores
from tests.support.forecast.watched_operations import watched_all

BROKERS, TOPICS, PARTITIONS, COPIES = 100, 2_000, 34, 3
ROWS = TOPICS * PARTITIONS * COPIES
START_MS = 1_760_000_000_000
MB = 1_000_000
RATE = ThrottledRate(50 * MB, 50 * MB)
TICKS = 12


def snapshot(tick: int, moving: Any, waiting: Sequence[Move]) -> Snapshot:
    """The last replica of some partitions is added, throttled, and gets its share."""
    dice = np.random.default_rng(tick)
    place = np.arange(ROWS)
    topic, position = place // (PARTITIONS * COPIES), place % COPIES
    broker = (topic * 7 + place // COPIES * 13 + position * 11) % BROKERS
    added, led = np.zeros((2, ROWS), np.bool_)
    added[moving], led[moving - (COPIES - 1)] = True, True
    size = np.full(ROWS, 40_000 * MB) + tick * MB
    got = np.zeros(ROWS, np.int64)
    got[moving] = tick * dice.integers(2 * MB, 3 * MB, len(moving)) + moving % 1_000 * MB
    columns = {
        "topic_index": topic,
        "partition": place // COPIES % PARTITIONS,
        "broker": broker,
        "position": position,
        "leader": np.repeat(broker[::COPIES], COPIES),
        "in_isr": ~added,
        "adding": added,
        "follower_throttled": added,
        "leader_throttled": led,
        "status": np.where(added, ReplicaStatus.BEHIND, ReplicaStatus.IN_SYNC),
        "size_bytes": np.where(added, got, size),
        "lag_bytes": np.where(added, size - got, 0),
        "fetched_bytes_per_s": np.where(added, 2.5e6, 1e4),
        "sampled_ms": np.full(ROWS, START_MS + tick * 1_000),
    }
    nothing = np.zeros(ROWS)
    rows = {name: np.asarray(columns.get(name, nothing), kind) for name, kind in DTYPES.items()}
    taken_ms = START_MS + tick * 1_000
    return Snapshot(
        version=tick + 1,
        taken_ms=taken_ms,
        cluster_id="bench",
        controller=1,
        topics=tuple(f"topic-{number:05}" for number in range(TOPICS)),
        replicas=Replicas(**rows),
        brokers={b: BrokerStatus(Broker(b, "h", 9), taken_ms, False) for b in range(BROKERS)},
        throttles=Throttles(
            {b: BrokerThrottle(b, RATE) for b in range(BROKERS)}, throttled_replicas_of(waiting)
        ),
    )


def waiting_moves(count: int) -> tuple[Move, ...]:
    """Moves that have not begun, of partitions that do not move."""
    moves = []
    for topic, partition in (divmod(n * 31 + 1, PARTITIONS) for n in range(count)):
        first = (topic * 7 + (topic * PARTITIONS + partition) * 13) % BROKERS
        current = (first, (first + 11) % BROKERS, (first + 22) % BROKERS)
        target = (*current[:2], (first + 50) % BROKERS)
        moves.append(Move(TopicPartition(f"topic-{topic:05}", partition), current, target))
    return tuple(moves)


@pytest.mark.bench
@pytest.mark.parametrize(("moving", "waits"), [(20, 0), (2_000, 0), (200, 1_800)])
def test_a_forecast(moving: int, waits: int) -> None:
    chosen = np.linspace(0, ROWS // COPIES - 1, moving).astype(np.int64) * COPIES + COPIES - 1
    moves = waiting_moves(waits)
    names = [one.partition for one in moves]
    running = RunningOperation("op", set(names), moves, MoveCaps(5, 200), held=False)
    forecaster, spent_ms = Forecaster(), []
    for tick in range(TICKS):
        whole = snapshot(tick * round(EVERY_S * 20), chosen, moves)
        part = focused(whole, concerned_rows(whole, (), names))
        keys = np.arange(len(part.replicas))
        began_s = time.process_time()
        made = forecaster.update(part, keys, np.full(len(keys), 1e4), [running] if waits else [])
        spent_ms.append((time.process_time() - began_s) * 1_000)
    assert made.ends[""].copies >= moving
    cost_ms = statistics.median(spent_ms[3:])
    every_s = max(EVERY_S, cost_ms / 1_000 / SHARE)
    print(
        f"\n{ROWS:,} replicas, {moving:,} copied and {waits:,} waiting: a forecast takes "
        f"{cost_ms:.1f} ms CPU, {cost_ms / every_s / 10:.1f} % of a processor every {every_s:.0f} s"
    )


def main() -> None:
    """Run operations, and print how forecasts of them turned out."""
    parser = argparse.ArgumentParser(description="Score forecasts of operations while they run.")
    parser.add_argument("--operations", type=int, default=200)
    parser.add_argument("--seed", type=int, help="of the seeds; fresh ones where it is not given")
    parser.add_argument("--calibration", type=Path, default=SHIPPED)
    options = parser.parse_args()
    dice = SystemRandom() if options.seed is None else Random(options.seed)
    seeds = dice.sample(range(10**6, 10**9), options.operations)
    runs = watched_all(seeds, processes=2)
    ended = sum(run.took_s is not None for run in runs)
    print(f"{ended} of {len(runs)} operations ended; calibration {options.calibration}")
    quantiles = Calibration.read(options.calibration).quantiles()
    print(as_text(scores(runs, quantiles)))
    print("and with those that a change of the throttle made void:")
    print(as_text(scores(runs, quantiles, every=True)))
    for point in POINTS:
        print(f"at {point:.0%} of the bytes, by what happened on the way:")
        print(groups_text(group_scores(runs, quantiles, point)))


if __name__ == "__main__":
    main()
