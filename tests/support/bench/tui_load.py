"""A cluster of 200,000 replicas that changes every second, served by a process of its own.

Run as a module: `SOCKET` as its argument; on its standard input, a share of rows to change with
each tick (`0.05`, `0.05 fixed`), or `stop` for no more ticks. Frames are as the service's.

The replicas that are furthest behind have fixed places of the order by lag. Each tick gives a share
of these places to other replicas. So a table sorted by lag replaces just that share of its visible
lines. The same share of all other rows gets other numbers. `fixed` leaves every replica at its
place, and gives it other numbers: half of the cells that a table shows of it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from kshunt.backend.domain.replicas.snapshot import (
    DTYPES,
    HistoryPoint,
    Replicas,
    ReplicaStatus,
    Snapshot,
)
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import START_MS, ScriptedCluster

ROWS = 200_000
BROKERS = 30
COPIES = 3
PARTITIONS = 40
MOVING_EVERY = 50
"""At most one replica in this number is being added."""
PLACES = 200
"""This number of replicas have fixed places of the order by lag."""
STEP_BYTES = 10_000_000_000
TICK_S = 1.0


class LoadCluster(ScriptedCluster):
    """Many rows, of which a share changes with each step."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__(racks={id: f"rack-{'abc'[id % 3]}" for id in range(1, BROKERS + 1)})
        self.share = 0.0
        self.fixed = False
        self._random = np.random.default_rng(7)
        self._columns = {name: np.zeros(rows, dtype) for name, dtype in DTYPES.items()}
        self._fill(rows)
        moving = np.flatnonzero(self._columns["adding"])
        self._moving, self._top = moving, moving[:PLACES].copy()
        self._place(np.arange(PLACES))
        self._points = [HistoryPoint(START_MS, 5 * 10**13, len(moving))]

    def _fill(self, rows: int) -> None:
        columns, row = self._columns, np.arange(rows)
        partition = row // COPIES
        columns["topic_index"][:] = partition // PARTITIONS
        columns["partition"][:] = partition % PARTITIONS
        columns["position"][:] = row % COPIES
        columns["broker"][:] = (partition * 7 + row % COPIES * 11) % BROKERS + 1
        columns["leader"][:] = (partition * 7) % BROKERS + 1
        adding = (row % MOVING_EVERY == 1) & (columns["position"] > 0)
        columns["adding"][:] = adding
        columns["in_isr"][:] = ~adding
        columns["status"][:] = np.where(adding, ReplicaStatus.BEHIND, ReplicaStatus.IN_SYNC)
        for name in ("catch_up_bytes_per_s", "catch_up_messages_per_s", "fetched_bytes_per_s"):
            columns[name][:] = np.nan
        columns["eta_s"][:] = np.where(adding, np.nan, 0.0)
        columns["sampled_ms"][:] = START_MS
        self._renumber(row)

    def _renumber(self, rows: np.ndarray) -> None:
        """Other numbers for these rows; those that copy are some way behind."""
        columns, count = self._columns, len(rows)
        size = self._random.integers(10**9, 10**12, count)
        columns["size_bytes"][rows] = size
        columns["log_end_offset"][rows] = size // 1_000
        copying = columns["adding"][rows]
        lag = np.where(copying, self._random.integers(10**6, STEP_BYTES, count), 0)
        self._behind(rows, lag)

    def _behind(self, rows: np.ndarray, lag: np.ndarray) -> None:
        columns = self._columns
        copying = columns["adding"][rows]
        rate = self._random.uniform(1e6, 9e8, len(rows))
        columns["lag_bytes"][rows] = lag
        columns["lag_messages"][rows] = lag // self._random.integers(500, 1_500, len(rows))
        columns["catch_up_bytes_per_s"][rows] = np.where(copying, rate, np.nan)
        columns["catch_up_messages_per_s"][rows] = np.where(copying, rate / 1_000, np.nan)
        columns["fetched_bytes_per_s"][rows] = np.where(copying, rate, np.nan)
        columns["eta_s"][rows] = np.where(copying, lag / rate, 0.0)

    def _place(self, places: np.ndarray) -> None:
        """Give these places of the order by lag to other replicas."""
        self._renumber(self._top[places])
        if not self.fixed:
            free = np.setdiff1d(self._moving, self._top)
            self._top[places] = self._random.choice(free, len(places), replace=False)
        lag = (PLACES + 1 - places) * STEP_BYTES + self._random.integers(0, STEP_BYTES, len(places))
        self._behind(self._top[places], lag)

    def step(self, seconds: float = 1.0) -> Snapshot:
        """A share of the rows changes."""
        self.now_ms += round(seconds * 1000)
        if self.share:
            # What is copied changes hands by its place alone.
            resting = np.flatnonzero(~self._columns["adding"])
            count = round(len(resting) * self.share)
            self._renumber(self._random.choice(resting, count, replace=False))
            self._place(self._random.permutation(PLACES)[: round(PLACES * self.share)])
            self._points.append(
                HistoryPoint(self.now_ms, int(self._columns["lag_bytes"].sum()), len(self._moving))
            )
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """The cluster as it is."""
        self.version += 1
        topics = int(self._columns["topic_index"][-1]) + 1
        return Snapshot(
            version=self.version,
            taken_ms=self.now_ms,
            cluster_id=self.cluster_id,
            controller=1,
            topics=tuple(f"payments-{place:05}-events" for place in range(topics)),
            replicas=Replicas(**{name: column.copy() for name, column in self._columns.items()}),
            brokers={id: self._status(id) for id in sorted(self.racks)},
            throttles=self._throttles(),
            log_dir_paths=("/var/lib/kafka",),
            history=tuple(self._points[-900:]),
            sweep_ms=self.now_ms,
        )


async def serve(socket: Path) -> None:
    """Serve until the standard input ends; says `ready` on its output."""
    loop = asyncio.get_running_loop()
    ticking, ended = asyncio.Event(), asyncio.Event()
    cluster = LoadCluster()

    def obey() -> None:
        line = sys.stdin.readline().strip()
        if not line:
            loop.remove_reader(sys.stdin)
            ended.set()
        elif line == "stop":
            ticking.clear()
        else:
            share, _, fixed = line.partition(" ")
            cluster.share, cluster.fixed = float(share), bool(fixed)
            ticking.set()

    async with ScriptedBackend(socket, cluster) as backend:
        loop.add_reader(sys.stdin, obey)
        print("ready", flush=True)
        while not ended.is_set():
            await ticking.wait()
            next_s = loop.time() + TICK_S
            backend.publish()
            # What the making of a tick takes is no part of the pause after it.
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), max(next_s - loop.time(), 0.001))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
