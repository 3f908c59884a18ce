"""CPU and memory of the planners at 201,000 replicas on 100 brokers, next to `--generate`."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from random import Random

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.planning.goals import Weighing
from kshunt.backend.domain.planning.proposal import Proposal
from kshunt.backend.placement.generate import generate_assignment
from kshunt.backend.placement.plans.drain import drain
from kshunt.backend.placement.plans.expand import expand
from kshunt.backend.placement.plans.leaders import balance_leaders
from kshunt.backend.placement.plans.log_dirs import move_log_dirs
from kshunt.backend.placement.plans.racks import repair_racks
from kshunt.backend.placement.plans.rebalance import rebalance
from kshunt.backend.placement.plans.replace import replace
from kshunt.backend.placement.plans.replication import set_replication_factor
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation

pytestmark = pytest.mark.bench

BROKERS, TOPICS, PARTITIONS, COPIES = 100, 2_000, 34, 3
RUNS = 3
MOST_BYTES = 1_000_000_000
TOTAL_BYTES = 40_000_000_000_000
SKEW = 1.5
"""Of the draw of a broker: 1 is even; above it, low ids hold more."""


@cache
def situation() -> Situation:
    """Sizes differ a thousandfold, brokers of low id hold more, and two brokers are new."""
    random = Random(11)
    partitions = [
        facts(TopicPartition(f"topic-{topic:05}", number), random)
        for topic in range(TOPICS)
        for number in range(PARTITIONS)
    ]
    held = dict.fromkeys(range(BROKERS), 0)
    for each in partitions:
        for broker in each.replicas:
            held[broker] += each.size_bytes or 0
    return Situation.of(
        partitions,
        [
            BrokerFacts(
                broker,
                f"r{broker % 4}",
                log_dirs=tuple(
                    LogDir(broker, f"/data/{n}", TOTAL_BYTES // 2, (TOTAL_BYTES - used) // 2)
                    for n in (0, 1)
                ),
            )
            for broker, used in held.items()
        ],
    )


def facts(name: TopicPartition, random: Random) -> PartitionSituation:
    """One partition; one in fifty has two replicas in one rack."""
    old = BROKERS - 2
    first = int(old * random.random() ** SKEW)
    steps = (4, 5) if random.random() < 0.02 else random.sample((1, 2, 3, 5, 6, 7), 2)
    replicas = list(dict.fromkeys((first, *((first + step) % old for step in steps))))
    return PartitionSituation(
        name,
        tuple(replicas),
        replicas[0],
        tuple(replicas),
        int(random.lognormvariate(22, 1.2)),
        random.lognormvariate(10, 1),
        random.lognormvariate(11, 1),
        2,
        tuple(random.choice(("/data/0", "/data/0", "/data/1")) for _ in replicas),
    )


GOALS: dict[str, tuple[Callable[[Situation], Proposal], float]] = {
    "drain one broker": (lambda s: drain(s, [7]), 2.0),
    "drain ten brokers": (lambda s: drain(s, range(40, 50)), 2.0),
    "rebalance by bytes": (lambda s: rebalance(s, Weighing.BYTES), 10.0),
    "rebalance by replicas": (lambda s: rebalance(s, Weighing.REPLICAS), 10.0),
    "rebalance by load": (lambda s: rebalance(s, Weighing.LOAD), 10.0),
    "balance leaders": (balance_leaders, 10.0),
    "expand onto two": (lambda s: expand(s, [98, 99]), 10.0),
    "replication factor 4": (
        lambda s: set_replication_factor(s, {"*": 4}, Scope(disk_fraction=1.0)),
        10.0,
    ),
    "replication factor 2": (lambda s: set_replication_factor(s, {"*": 2}), 10.0),
    "repair racks": (repair_racks, 10.0),
    "replace 7 by 99": (lambda s: replace(s, 7, 99), 2.0),
    "even out log dirs": (lambda s: move_log_dirs(s, 7), 2.0),
}


@pytest.mark.parametrize("goal", GOALS)
def test_a_goal(goal: str) -> None:
    planner, target_s = GOALS[goal]
    found = situation()
    spent, proposal = [], None
    for _ in range(RUNS):
        began = time.process_time()
        proposal = planner(found)
        spent.append(time.process_time() - began)
    assert proposal is not None
    tracemalloc.start()
    planner(found)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    measure = proposal.measure
    print(
        f"\n{goal}: median {statistics.median(spent):.2f} s of CPU (target {target_s:g}), "
        f"{peak / 1e6:.0f} MB; {proposal.sentence} {measure.name}: {measure.before:.3g} -> "
        f"{measure.after:.3g}"
    )
    assert peak < MOST_BYTES


def test_generate_for_the_same_cluster() -> None:
    found = situation()
    current = found.current()
    brokers = [Broker(each.id, "host", 9092, each.rack) for each in found.brokers.values()]
    spent = []
    for _ in range(RUNS):
        began = time.process_time()
        proposed = generate_assignment(current, brokers, Random(0))
        spent.append(time.process_time() - began)
    replicas = sum(map(len, current.values()))
    sizes = dict(zip(found.partitions, found.sizes().tolist(), strict=True))
    moved = sum(
        sizes[name] * len(set(target) - set(current[name])) for name, target in proposed.items()
    )
    total = float(np.dot(found.sizes(), (found.replicas >= 0).sum(axis=1)))
    print(
        f"\n--generate, {replicas:,} replicas on {len(brokers)} brokers: median "
        f"{statistics.median(spent):.2f} s of CPU; moves {moved / 1e12:.1f} of "
        f"{total / 1e12:.1f} TB"
    )
