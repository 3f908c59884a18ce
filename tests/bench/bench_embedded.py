"""The embedded cluster's core: a simulated hour of a drain, and what 200,000 replicas cost."""

from __future__ import annotations

import statistics
import time
import tracemalloc

import numpy as np
import pytest

from kshunt.backend.embedded.logs.batch import BatchRecord, build_batch
from kshunt.backend.embedded.logs.partition_log import PartitionLog
from kshunt.backend.embedded.replication.columns import Event, IsrExpand, IsrShrink
from kshunt.backend.embedded.replication.model import Replication

pytestmark = pytest.mark.bench

MB = 1e6
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
LOG_BYTES = 1e9
RECORD_BYTES = 1_000


def cluster(brokers: int, partitions: int, dirs: int = 2) -> Replication:
    """Three replicas of every partition, striped, of sizes that vary; no traffic."""
    sim = Replication(0)
    for _ in range(brokers):
        broker = sim.add_broker(125 * MB, 125 * MB)
        for _ in range(dirs):
            sim.add_log_dir(broker, 400 * MB)
    rows = sim.add_partitions(partitions)
    size = LOG_BYTES * np.random.default_rng(1).lognormal(0, 0.8, partitions).round(3)
    for position in range(3):
        hosts = (rows + position * (1 + rows // brokers % 5)) % brokers
        replicas = sim.add_replicas(
            rows,
            hosts,
            hosts * dirs + rows % dirs,
            offsets=size / RECORD_BYTES,
            positions=size,
            in_isr=True,
        )
        if position == 0:
            sim.set_leaders(rows, replicas)
    return sim


def obey(sim: Replication, events: list[Event]) -> None:
    """Decide every proposal as the leader wants it."""
    for event in events:
        if isinstance(event, IsrExpand | IsrShrink):
            sim.set_isr([event.replica], isinstance(event, IsrExpand))


@pytest.mark.parametrize("throttle_mb", [30, 1000], ids=lambda rate: f"{rate}MB")
@pytest.mark.parametrize("step_ms", [None, 1000], ids=["adaptive", "1s-steps"])
def test_an_hour_of_a_drain(throttle_mb: int, step_ms: int | None) -> None:
    sim = cluster(20, 5_000)
    rows = np.arange(5_000)
    leaving = np.flatnonzero(sim.replicas.broker == 0)
    moving = sim.replicas.partition[leaving].astype(np.int64)
    hosts = [
        next(b for b in range(1, 20) if b not in taken)
        for taken in (
            {*sim.replicas.broker[sim.replicas.partition == row].tolist()} for row in moving
        )
    ]
    hosts = [1 + (host + place) % 19 for place, host in enumerate(hosts)]
    added = sim.add_replicas(moving, hosts, np.array(hosts) * 2)
    sim.set_throttled(np.arange(len(sim.replicas)), leader=True)
    sim.set_throttled(added, follower=True)
    for broker in range(20):
        sim.set_throttle_rates(broker, throttle_mb * MB, throttle_mb * MB)
    started = time.perf_counter()
    joined = 0
    for minute in range(60):
        rate = 5_000 * (1 + 0.5 * np.sin(minute / 60 + rows % 7))
        sim.set_rates(rows, rate, rate / RECORD_BYTES)
        while sim.now_ms < (minute + 1) * MINUTE_MS:
            events = sim.tick((minute + 1) * MINUTE_MS, step_ms)
            obey(sim, events)
            joined += sum(isinstance(event, IsrExpand) for event in events)
    took = time.perf_counter() - started
    print(
        f"\nan hour of draining {len(moving)} replicas at {throttle_mb} MB/s: {took:.2f} s, "
        f"{sim.steps} steps, {joined} joined, {sim.traffic()[0].sum() / 1e9:.0f} GB"
    )


def test_two_hundred_thousand_replicas() -> None:
    tracemalloc.start()
    started = time.perf_counter()
    sim = cluster(100, 66_667)
    built = time.perf_counter() - started
    sim.tick(1)
    used, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"\n{len(sim.replicas)} replicas: {used / MB:.0f} MB (peak {peak / MB:.0f}), {built:.2f} s"
    )
    measure(sim, "quiet", change=False)
    measure(sim, "quiet, something changed before each tick", change=True)
    sim.set_rates(np.arange(66_667), 2_000.0, 2.0)
    measure(sim, "all with traffic", change=False)
    measure(sim, "all with traffic, something changed before each tick", change=True)


def measure(sim: Replication, title: str, *, change: bool) -> None:
    """Print the median and the worst of twenty ticks of a second."""
    times = []
    for _ in range(20):
        if change:
            sim.set_isr([0], True)
        started = time.perf_counter()
        sim.tick(sim.now_ms + 1_000)
        times.append((time.perf_counter() - started) * 1000)
    print(f"  tick, {title}: {statistics.median(times):.2f} ms (worst {max(times):.2f})")


def test_logs() -> None:
    data = build_batch([BatchRecord(0, b"key", b"v" * 1_000)] * 1_000)
    log = PartitionLog()
    started = time.perf_counter()
    for _ in range(100):
        log.append_batch(data, 0)
    took = time.perf_counter() - started
    print(f"\n100,000 records of 1 KB in 100 batches appended: {took * 1000:.0f} ms")
    counted = PartitionLog(seed=7)
    counted.append_counted(100_000, 1_000, 0, 60_000, 0)
    started = time.perf_counter()
    offset = size = 0
    while offset < counted.end_offset:
        size += len(counted.read(offset, 1 << 20))
        offset += (1 << 20) // 16_000 * 16
    took = time.perf_counter() - started
    print(f"counted records synthesised: {size / took / MB:.0f} MB/s")
    tracemalloc.start()
    logs = [PartitionLog(seed) for seed in range(10_000)]
    for log in logs:
        log.append_counted(1_000, 1_000, 1_700_000_000_000, 1_700_000_060_000, 0)
    each = tracemalloc.get_traced_memory()[0] / len(logs)
    tracemalloc.stop()
    print(f"a log of counters: {each:.0f} bytes")
