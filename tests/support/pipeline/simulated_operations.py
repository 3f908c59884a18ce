"""Operations that were never run: moves on an embedded core, and samples of them as recorded.

Everything about an operation is drawn from its seed. The seed says how many brokers there are,
which replicas move and how unequal they are, and which throttles somebody changes when. It also
says what producers write, and what fails. The core's fluid is smoother than a cluster is, so
capacities jitter. What a throttle lets through stays a little below its rate and wanders, and now
and then one link carries less.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.telemetry.recording.due_samples import DueSamples
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.sample_rows import replica_rows
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet
from kshunt.backend.telemetry.sampling.replica_lags import RowIndex
from kshunt.backend.telemetry.stuck.diagnosis import diagnose
from tests.support.embedded.core import MB, SmallCluster
from tests.support.operations.stuck import Observer, configure

APART_MS = 6 * HOUR_MS
"""From the start of one operation to that of the next: one recording has them one by one."""
START_MS = 1_750_000_000_000 - 1_750_000_000_000 % HOUR_MS
LOOKS = 80
"""About so often an operation is looked at, but not more than once in `SHORTEST_LOOK_S`."""
SHORTEST_LOOK_S, LONGEST_LOOK_S = 1.25, 4.5
SHORTEST_S, LONGEST_S = 90.0, 1_200.0
AFTER_S = 15.0
TOO_LONG = 4.0
"""The throttle doubles after this many times the expected duration, then after each further one.
Some topics are written to faster than they may be copied, and would never end."""
GIVEN_UP = 8.0
DIAGNOSED = 3
"""One look in this number is diagnosed; in between causes stay what they were."""


class Eye(Observer):
    """Observes at any times, and keeps the samples that a recorder would."""

    def __init__(self, core: Core, operations: Mapping[TopicPartition, str]) -> None:
        super().__init__(core)
        self.operations = operations
        self.samples: list[Any] = []
        self._due = DueSamples(60)
        self._causes = np.zeros(0, np.uint8)

    def look(self, seconds: float) -> None:
        """Time passes, and brokers are asked."""
        self.core.advance(self.core.now_ms + round(seconds * 1000))
        self.ticks += 1
        snapshot = self._with_causes(self._snapshot())
        layout, rows = self._due.of(snapshot)
        if len(rows):
            self.samples.append(replica_rows(snapshot, layout, rows, self.operations))

    def _observe(self, index: RowIndex) -> None:
        """All replicas, each time: a partition that has arrived is looked at for a while, too."""
        plane, observed, assignment = self.core.plane, self._observed, index.assignment
        sizes, ends = plane.replication.sizes(), plane.replication.log_end_offsets()
        up = {broker: plane.is_up(broker) for broker in np.unique(assignment.broker).tolist()}
        numbers, brokers = assignment.partition.tolist(), assignment.broker.tolist()
        for row, (number, broker) in enumerate(zip(numbers, brokers, strict=True)):
            held = plane.named(assignment.topics[int(assignment.topic_index[row])], number)
            place = None if held is None else held.replicas.get(broker)
            if up[broker] and place is not None:
                observed.offset_ms[row] = observed.size_ms[row] = self.core.now_ms
                observed.log_end_offset[row] = ends[place]
                observed.size_bytes[row] = sizes[place]

    def _with_causes(self, snapshot: Snapshot) -> Snapshot:
        if self.ticks % DIAGNOSED == 0 or len(self._causes) != len(snapshot.replicas):
            self._causes = diagnose(snapshot, self._watch.update(snapshot), []).causes
        return replace(snapshot, replicas=replace(snapshot.replicas, cause=self._causes))


class Operation:
    """One operation, as drawn and as it goes."""

    def __init__(self, seed: int, longest_s: float = LONGEST_S) -> None:
        self.seed, self.longest_s = seed, longest_s

    def samples(self) -> Any:
        """Run it; its samples from a while before it until a while after, times from 0 on."""
        self._draw()
        self._build()
        for _ in range(4):
            self._look()
        self._begin()
        began_ms = self.core.now_ms
        while self.core.image.is_moving:
            elapsed_s = (self.core.now_ms - began_ms) / 1000
            if elapsed_s > GIVEN_UP * self.seconds:
                break
            self._meanwhile(elapsed_s)
            self._look()
        for _ in range(math.ceil(AFTER_S / self.look_s)):
            self._look()
        return pa.concat_tables(self.eye.samples)

    # What it is

    def _draw(self) -> None:
        dice = self.dice = Random(f"operation {self.seed}")
        self.seconds = math.exp(dice.uniform(math.log(SHORTEST_S), math.log(self.longest_s)))
        """What it would take about, if nothing happened."""
        self.patience_s = TOO_LONG * self.seconds
        self.look_s = min(max(self.seconds / LOOKS, SHORTEST_LOOK_S), LONGEST_LOOK_S)
        self.brokers = dice.randint(4, 8)
        self.partitions = dice.choice((1, 2, 4, 6, 8, 12, 16, 24))
        self.factor = dice.choice((1, 2, 3, 3))
        self.throttle = None if dice.random() < 0.2 else dice.uniform(2, 40) * MB
        self.rate = self.throttle
        self.shape = dice.choice(("drain", "expand", "shuffle", "shuffle"))
        self.writing = dice.choice(("none", "steady", "steady", "steps", "bursts"))
        self.efficiency = dice.uniform(0.88, 1.0)
        self.wander = dice.uniform(0.0, 0.06)
        """How much capacities jitter."""
        self.events: list[tuple[float, str]] = []
        if self.throttle is not None and dice.random() < 0.45:
            for _ in range(dice.randint(1, 2)):
                self.events.append((dice.uniform(0.05, 1.0) * self.seconds, "throttle"))
        if dice.random() < 0.3:
            fault = dice.choice(("kill", "restart", "slow link", "slow broker"))
            self.events.append((dice.uniform(0.05, 0.9) * self.seconds, fault))
        if self.writing == "steps":
            for _ in range(dice.randint(1, 3)):
                self.events.append((dice.uniform(0.05, 1.0) * self.seconds, "step"))
        self.events.sort()

    def _build(self) -> None:
        dice = self.dice
        timing_seed = dice.randrange(2**31)
        self.cluster = SmallCluster(self.brokers, seed=timing_seed)
        self.core = self.cluster.core
        self.cluster.start()
        self.topic = f"moved-{self.seed}"
        everyone = range(1, self.brokers + 1)
        spread = [b for b in everyone if self.shape != "expand" or b < self.brokers]
        placed = [tuple(dice.sample(spread, self.factor)) for _ in range(self.partitions)]
        self.targets = [self._target(replicas) for replicas in placed]
        self.cluster.create(self.topic, *placed)
        sizes = [dice.lognormvariate(0.0, dice.choice((0.3, 0.6, 1.0))) for _ in placed]
        narrow = self.throttle or self._hardware()
        self.load = self._heaviest(placed, sizes)
        unit = narrow * self.seconds / self.load
        table = self._topic_keys()
        self.cluster.plane.fill(table, [size * unit for size in sizes], 1_000)
        self.sizes = [size * unit for size in sizes]
        shares = [dice.lognormvariate(0.0, 0.7) for _ in placed]
        crowd = max(1.0, self.factor - 1) * self.partitions / self.brokers
        mean = narrow * dice.uniform(0.01, 0.2) / max(1.0, crowd)
        total = sum(shares) / len(shares)
        self.written = [share / total * mean for share in shares]
        self.factor_now = 0.0 if self.writing == "none" else 1.0
        self.burst_until_s = 0.0
        self._write()
        operations = {
            TopicPartition(self.topic, n): f"op-{self.seed}" for n in range(self.partitions)
        }
        self.begun: dict[TopicPartition, str] = {}
        self.operations = operations
        self.eye = Eye(self.core, self.begun)
        self.noise: dict[int, float] = {}
        self.narrow: dict[tuple[int, int], int] = {}
        """Links that carry less, and until when."""
        self.again: list[tuple[float, str, int]] = []

    def _hardware(self) -> float:
        """Networks that are all alike, and the one limit without a throttle."""
        self.network = self.dice.uniform(10, 60) * MB
        for broker in range(1, self.brokers + 1):
            self.cluster.plane.set_network(broker, self.network, self.network)
        return self.network

    def _target(self, replicas: Sequence[int]) -> tuple[int, ...]:
        dice = self.dice
        free = [b for b in range(1, self.brokers + 1) if b not in replicas]
        if self.shape == "drain":
            leaves = replicas.index(1) if 1 in replicas else dice.randrange(len(replicas))
            free = [b for b in free if b != 1] or free
        else:
            leaves = dice.randrange(len(replicas))
        comes = self.brokers if self.shape == "expand" else dice.choice(free)
        return tuple(comes if n == leaves else b for n, b in enumerate(replicas))

    def _heaviest(self, placed: Sequence[Sequence[int]], sizes: Sequence[float]) -> float:
        """The largest share of one broker and direction, in units of a size."""
        loads: dict[tuple[str, int], float] = {}
        for before, after, size in zip(placed, self.targets, sizes, strict=True):
            (comes,) = set(after) - set(before)
            for key in (("out", before[0]), ("in", comes)):
                loads[key] = loads.get(key, 0.0) + size
        return max(loads.values())

    def _topic_keys(self) -> list[tuple[str, int]]:
        found = self.core.image.topic(self.topic)
        assert found is not None
        return [(found.topic_id, number) for number in found.partitions]

    def _begin(self) -> None:
        rate = UNTHROTTLED if self.throttle is None else int(self.throttle)
        targets = {item: self.targets[item.partition] for item in self.operations}
        decision = reassign_partitions(
            self.core.image, targets, throttle_bytes_per_s=rate, remove_throttle=False
        )
        answer = self.core.commit(decision)
        assert all(result.ok for result in answer.results), answer
        self.begun.update(self.operations)

    # What happens

    def _look(self) -> None:
        self._jitter()
        self.eye.look(self.look_s * self.dice.uniform(0.8, 1.2))

    def _meanwhile(self, elapsed_s: float) -> None:
        while self.events and self.events[0][0] <= elapsed_s:
            self._happen(self.events.pop(0)[1], elapsed_s)
        for at_s, what, broker in list(self.again):
            if at_s <= elapsed_s:
                self.again.remove((at_s, what, broker))
                self._mend(what, broker)
        if self.writing == "bursts":
            self._burst(elapsed_s)
        if elapsed_s > self.patience_s and self.rate is not None:
            self.patience_s += self.seconds
            self._throttle(self.rate * 2)

    def _happen(self, what: str, elapsed_s: float) -> None:
        dice = self.dice
        broker = dice.randint(1, self.brokers)
        back_s = elapsed_s + dice.uniform(20, 180)
        if what == "throttle" and self.rate is not None:
            self._throttle(self.rate * math.exp(dice.uniform(math.log(0.4), math.log(3.0))))
        elif what == "step":
            self.factor_now = dice.choice((0.0, 0.5, 1.5, 2.0))
            self._write()
        elif what in ("kill", "restart") and self.core.plane.is_up(broker):
            (self.core.lose_broker if what == "kill" else self.core.stop_broker)(broker)
            self.again.append((back_s, "start", broker))
        elif what == "slow broker":
            slow = dice.uniform(0.1, 0.6) * (self.rate or self.network)
            self.cluster.plane.set_network(broker, slow, slow)
            self.again.append((back_s, "network", broker))
        elif what == "slow link":
            other = dice.choice([b for b in range(1, self.brokers + 1) if b != broker])
            self._narrow(broker, other, dice.uniform(0.05, 0.4), dice.uniform(30, 240))

    def _mend(self, what: str, broker: int) -> None:
        if what == "start" and not self.core.plane.is_up(broker):
            self.cluster.restart(broker)
        elif what == "network":
            speed = 100 * MB if self.throttle is not None else self.network
            self.cluster.plane.set_network(broker, speed, speed)

    def _burst(self, elapsed_s: float) -> None:
        if elapsed_s >= self.burst_until_s:
            quiet = self.factor_now > 0.5
            self.factor_now = 0.2 if quiet else self.dice.uniform(1.0, 2.5)
            self.burst_until_s = elapsed_s + self.dice.expovariate(1 / 40)
            self._write()

    def _write(self) -> None:
        rates = [rate * self.factor_now for rate in self.written]
        self.cluster.plane.set_traffic(self._topic_keys(), rates, 1_000)

    def _throttle(self, rate: float) -> None:
        self.rate = max(rate, 0.2 * MB)
        value = str(int(self.rate))
        for broker in range(1, self.brokers + 1):
            configure(
                self.core,
                ResourceType.BROKER,
                str(broker),
                {LEADER_RATE: value, FOLLOWER_RATE: value},
            )

    def _jitter(self) -> None:
        """What the core is too smooth for."""
        dice, plane = self.dice, self.cluster.plane
        for broker in range(1, self.brokers + 1):
            before = self.noise.get(broker, 0.0)
            self.noise[broker] = 0.7 * before + dice.gauss(0.0, self.wander)
            share = self.efficiency * math.exp(self.noise[broker])
            if self.rate is None:
                if not any(one[1:] == ("network", broker) for one in self.again):
                    plane.set_network(broker, share * self.network, share * self.network)
                continue
            rate = min(share, 1.05) * self.rate
            plane.replication.set_throttle_rates(
                plane.broker_number(broker), leader=rate, follower=rate, log_dirs=math.inf
            )
        self._jitter_links()

    def _jitter_links(self) -> None:
        """Now and then what goes from one broker to another gets less for a while."""
        dice, now_ms = self.dice, self.core.now_ms
        for pair, until_ms in list(self.narrow.items()):
            if until_ms <= now_ms:
                del self.narrow[pair]
                self.cluster.plane.set_link(*pair, math.inf)
        if dice.random() < self.look_s / 60 * self.wander / 0.03:
            source, target = dice.sample(range(1, self.brokers + 1), 2)
            self._narrow(source, target, dice.uniform(0.2, 0.8), dice.expovariate(1 / 20))

    def _narrow(self, source: int, target: int, share: float, seconds: float) -> None:
        self.narrow[source, target] = self.core.now_ms + int(seconds * 1000)
        self.cluster.plane.set_link(source, target, share * (self.rate or self.network))


def recorded(seed: int, place: int, longest_s: float = LONGEST_S) -> Any:
    """Samples of one operation, at the time of its place in a recording."""
    return _moved(Operation(seed, longest_s).samples(), START_MS + place * APART_MS)


def _moved(samples: Any, by_ms: int) -> Any:
    for name in ("at", "leader_at"):
        place = samples.schema.get_field_index(name)
        shifted = pc.add(samples[name].cast(pa.int64()), by_ms)
        field = samples.schema.field(place)
        samples = samples.set_column(place, field, shifted.cast(field.type))
    return samples.cast(SCHEMAS[SampleTable.REPLICAS])


def write(folder: Path, samples: Any, number: int, cluster: str = "simulated") -> None:
    """Add the samples of an operation to a recording, a file an hour."""
    hours = pc.floor(pc.divide(samples["at"].cast(pa.int64()), HOUR_MS))
    for hour in pc.unique(hours).to_pylist():
        begin = int(hour) * HOUR_MS
        path = folder / "replicas" / hour_folder(begin) / file_name(begin, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        some = samples.filter(pc.equal(hours, hour))
        path.write_bytes(parquet(some, SampleTable.REPLICAS, cluster))


def record(
    folder: Path, seeds: Iterable[int], longest_s: float = LONGEST_S, processes: int = 1
) -> None:
    """A recording of all these operations."""
    wanted = list(seeds)
    places = range(len(wanted))
    if processes == 1:
        for seed, place in zip(wanted, places, strict=True):
            write(folder, recorded(seed, place, longest_s), place + 1)
        return
    with ProcessPoolExecutor(processes) as pool:
        every = pool.map(recorded, wanted, places, [longest_s] * len(wanted))
        for place, samples in zip(places, every, strict=True):
            write(folder, samples, place + 1)


def main() -> None:
    """Record operations in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--operations", type=int, default=200)
    parser.add_argument("--longest", type=float, default=LONGEST_S)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.operations)
    record(options.folder, seeds, options.longest, options.processes)


if __name__ == "__main__":
    main()
