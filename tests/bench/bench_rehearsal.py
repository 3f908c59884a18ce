"""Rehearsals: how near they come to real brokers, and what they cost for a large cluster.

    python -m tests.bench.bench_rehearsal

moves 120 MB between three real brokers under three throttles, each rehearsed from a picture taken
just before.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.rehearsal.picture import Capacity, Picture
from kshunt.backend.rehearsal.run import rehearse
from tests.support.brokers.launcher import RealKafka
from tests.support.placement.rehearsed_moves import compare

PARTITIONS, BROKERS, FACTOR, MOVED, RUNS = 66_700, 100, 3, 2_000, 3
THROTTLES = (1_000_000, 2_000_000, 4_000_000)
MEGABYTES = (30, 30, 30, 30)


@pytest.mark.bench
def test_a_rehearsal_of_200_000_replicas() -> None:
    dice = Random(1)
    rows = [
        PartitionSituation(
            TopicPartition(f"t{n // 50:04}", n % 50),
            tuple((n + k) % BROKERS for k in range(FACTOR)),
            n % BROKERS,
            tuple((n + k) % BROKERS for k in range(FACTOR)),
            int(dice.lognormvariate(20, 1)),
            dice.lognormvariate(9, 1),
        )
        for n in range(PARTITIONS)
    ]
    machine = Capacity(1.25e9, 1.25e9)
    picture = Picture(
        Situation.of(rows, map(BrokerFacts, range(BROKERS))),
        capacities=dict.fromkeys(range(BROKERS), machine),
    )
    targets = {
        row.partition: (*row.replicas[:-1], (row.replicas[0] + 50) % BROKERS)
        for row in dice.sample(rows, MOVED)
    }
    times, found = [], None
    for _ in range(RUNS):
        began_s = time.process_time()
        found = rehearse(picture, targets, 50_000_000)
        times.append(time.process_time() - began_s)
    assert found is not None
    assert found.finish_s is not None
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\na rehearsal of {MOVED:,} moves among {PARTITIONS * FACTOR:,} replicas, "
        f"{found.finish_s / 3600:.1f} h of the cluster: {median(times):.1f} s of CPU "
        f"(of {', '.join(f'{one:.1f}' for one in sorted(times))}), {peak_mb:,.0f} MB"
    )


def main() -> None:
    """Rehearse and move."""
    with RealKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        for one in compare(kafka, Path(folder), MEGABYTES, THROTTLES):
            print(one, flush=True)


if __name__ == "__main__":
    main()
