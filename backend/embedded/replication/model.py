"""How every replica of a cluster comes to hold what its leader holds.

Goals: replication behaves as an operator knows it. A move goes at the rate of its narrowest
throttle, network or disk. A move with a throttle below the produce rate never ends. The ISR shrinks
and grows back. In-sync replicas are not throttled. An hour of cluster time takes seconds, for
200,000 replicas.

Constraints: no I/O, no clock and no randomness: time is passed in, and the same calls give the
same bytes. It decides nothing that a controller decides: leaders, ISR and assignments come from
the caller, who is told what happened as events and answers an ISR proposal with `set_isr`.

Algorithm: a fluid model. Followers' fetches in turns are taken as flows that share what limits
them max-min fairly (`max_min_fair`, `flows`). Rates stay what they are until a
replica reaches its leader's end, a copy between directories is done or the caller changes
something. So a step goes straight to the next such time, but not less than a grain. Replicas at
their leader's end are moved along with it, and only followers behind are computed one by one.
A position counts the bytes of a partition since it exists; between two positions, offsets are
taken in proportion. A follower that is behind was last caught up when its leader was where it is.
The model computes that time back at the partition's produce rate. Leaders look for followers to
drop every half of replica.lag.time.max.ms, as Kafka does. A follower may join the ISR when it
reaches the high watermark, which is the least log end in the ISR. Source: Kafka's `ReplicaManager`,
`Partition` and KIP-73.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshunt.backend.embedded.replication.columns import (
    NOWHERE,
    BrokerState,
    CaughtUp,
    Event,
    IsrExpand,
    IsrShrink,
    LogDirMoveDone,
    PartitionRows,
    ReplicaTable,
    Rows,
)
from kshunt.backend.embedded.replication.flows import SAME_BYTES, Flows, work_out
from kshunt.backend.embedded.replication.max_min_fair import Rates, sums
from kshunt.backend.embedded.replication.resources import ResourceTable
from kshunt.backend.errors import Conflict

LAG_TIME_MAX_MS: Final = 30_000
"""Kafka's default of replica.lag.time.max.ms."""
GRAIN_MS: Final = 100
"""Nothing that follows from rates is timed finer than this."""


class Replication:
    """See the module. Rates are bytes/s, positions bytes, times milliseconds."""

    def __init__(
        self, now_ms: int, *, lag_time_max_ms: int = LAG_TIME_MAX_MS, grain_ms: int = GRAIN_MS
    ) -> None:
        self.replicas = ReplicaTable()
        """To be read; changed by the calls below, or followed by `invalidate`."""
        self.partitions = PartitionRows()
        self.limits = ResourceTable()
        self.now_ms = now_ms
        self.steps = 0
        """Steps taken; what a simulated hour costs."""
        self._grain_ms = grain_ms
        self._lag_time_max_ms = lag_time_max_ms
        self._next_check_ms = now_ms + lag_time_max_ms // 2
        self._flows: Flows | None = None
        self._received = np.zeros(0)
        self._sent = np.zeros(0)
        self._tail_in = self._tail_out = np.zeros(0)
        self._by_partition: tuple[Rows, Rows, Rows] | None = None

    # --- what is there

    def add_broker(self, in_rate: float, out_rate: float) -> int:
        """A broker with its network's rates, `math.inf` for no limit; returns its number."""
        self._flows = None
        self._received = np.append(self._received, 0.0)
        self._sent = np.append(self._sent, 0.0)
        return self.limits.add_broker(in_rate, out_rate)

    def add_log_dir(self, broker: int, rate: float) -> int:
        """A log directory with its disk's rate; returns its number."""
        self._flows = None
        return self.limits.add_dir(broker, rate)

    def add_partitions(self, count: int) -> Rows:
        """Partitions without replicas and without traffic; returns their rows."""
        self._flows = self._by_partition = None
        return self.partitions.take(count)

    def remove_partitions(self, rows: ArrayLike) -> None:
        """Take partitions away, with all their replicas."""
        gone = np.zeros(len(self.partitions), np.bool_)
        gone[_rows(rows)] = True
        used = self.replicas.partition != NOWHERE
        self.remove_replicas(np.flatnonzero(used & gone[self.replicas.partition]))
        self.partitions.release(_rows(rows))

    def add_replicas(
        self,
        partitions: ArrayLike,
        brokers: ArrayLike,
        log_dirs: ArrayLike = NOWHERE,
        *,
        offsets: ArrayLike | None = None,
        positions: ArrayLike | None = None,
        in_isr: ArrayLike = False,
    ) -> Rows:
        """Replicas of partitions on brokers; returns their rows.

        Args:
            partitions, brokers, log_dirs, in_isr: shape (n,), or one value for all.
            offsets, positions: what they hold already; both, or none for an empty replica. An
                empty replica begins at the partition's log start.
        """
        places = _rows(partitions)
        rows = self.replicas.take(len(places))
        table = self.replicas
        table.partition[rows] = places
        table.broker[rows] = brokers
        table.log_dir[rows] = log_dirs
        starts = self.partitions.start_offset[places], self.partitions.start_position[places]
        table.leo[rows] = starts[0] if offsets is None else offsets
        table.position[rows] = starts[1] if positions is None else positions
        table.in_isr[rows] = in_isr
        table.caught_up_ms[rows] = self.now_ms
        self._flows = self._by_partition = None
        return rows

    def remove_replicas(self, rows: ArrayLike) -> None:
        """Take replicas away. A partition whose leader goes has no leader until it is set."""
        gone = _rows(rows)
        places = self.replicas.partition[gone]
        led = self.partitions.leader[places] == gone
        self.partitions.leader[places[led]] = NOWHERE
        self.replicas.release(gone)
        self._flows = self._by_partition = None

    # --- what the caller changes

    def set_leaders(self, partitions: ArrayLike, replicas: ArrayLike) -> None:
        """Replicas lead from here on; NOWHERE leaves a partition without a leader.

        A follower that holds more than its new leader is cut back to it, and those in the ISR
        have the whole of replica.lag.time.max.ms anew.
        """
        places, leaders = _rows(partitions), _rows(replicas)
        self.partitions.leader[places] = leaders
        touched = np.zeros(len(self.partitions), np.bool_)
        touched[places] = True
        table = self.replicas
        rows = np.flatnonzero((table.partition != NOWHERE) & touched[table.partition])
        table.proposed[rows] = False
        table.caught_up_ms[rows] = self.now_ms
        led_by = self.partitions.leader[table.partition[rows]]
        rows, led_by = rows[led_by != NOWHERE], led_by[led_by != NOWHERE]
        for column in (table.leo, table.position):
            column[rows] = np.minimum(column[rows], column[led_by])
        self._flows = None

    def set_isr(self, replicas: ArrayLike, in_isr: ArrayLike) -> None:
        """What the controller has decided; it also answers a proposal that it refused."""
        rows = _rows(replicas)
        self.replicas.caught_up_ms[rows[~self.replicas.in_isr[rows]]] = self.now_ms
        self.replicas.in_isr[rows] = in_isr
        self.replicas.proposed[rows] = False
        self._flows = None

    def set_throttled(
        self,
        replicas: ArrayLike,
        *,
        leader: ArrayLike | None = None,
        follower: ArrayLike | None = None,
    ) -> None:
        """Whether replicas are listed in a topic's throttled replicas; None changes nothing."""
        if leader is not None:
            self.replicas.leader_listed[_rows(replicas)] = leader
        if follower is not None:
            self.replicas.follower_listed[_rows(replicas)] = follower
        self._flows = None

    def set_throttle_rates(
        self,
        broker: int,
        leader: float = math.inf,
        follower: float = math.inf,
        log_dirs: float = math.inf,
    ) -> None:
        """A broker's three replication throttles, all set together."""
        self.limits.set_throttles(broker, leader, follower, log_dirs)
        self._flows = None

    def set_network(self, broker: int, in_rate: float, out_rate: float) -> None:
        """A broker's network is another."""
        self.limits.set_network(broker, in_rate, out_rate)
        self._flows = None

    def set_link_rate(self, source: int, target: int, rate: float = math.inf) -> None:
        """Slow the link from one broker to another, or free it."""
        self.limits.set_link(source, target, rate)
        self._flows = None

    def set_broker_state(self, broker: int, state: BrokerState) -> None:
        """A broker stops, stalls or comes back."""
        self.limits.state[broker] = state
        self._flows = None

    def set_log_dir_online(self, log_dir: int, *, online: bool) -> None:
        """A disk fails or is there again; its replicas stand still meanwhile."""
        self.limits.dir_online[log_dir] = online
        self._flows = None

    def set_rates(
        self, partitions: ArrayLike, bytes_rate: ArrayLike, records_rate: ArrayLike
    ) -> None:
        """What the scenario writes to partitions from here on, bytes/s and records/s."""
        self.partitions.bytes_rate[_rows(partitions)] = bytes_rate
        self.partitions.records_rate[_rows(partitions)] = records_rate
        self._flows = None

    def append(self, partition: int, records: int, size_bytes: int) -> None:
        """A client's batch was appended on the leader; followers have it yet to fetch.

        Raises:
            Conflict: the partition has no leader.
        """
        leader = self.partitions.leader[partition]
        if leader == NOWHERE:
            raise Conflict(f"The partition in row {partition} has no leader to append to.")
        self.replicas.leo[leader] += records
        self.replicas.position[leader] += size_bytes
        self._flows = None

    def set_log_start(self, partitions: ArrayLike, offsets: ArrayLike) -> None:
        """Retention or DeleteRecords: logs start at `offsets`; bytes go in proportion.

        A follower that has not come as far begins at the new start.
        """
        places = _rows(partitions)
        table, rows = self.partitions, self.partitions.leader[places]
        led = rows != NOWHERE
        new = np.broadcast_to(np.asarray(offsets, np.float64), len(places))[led]
        places, rows = places[led], rows[led]
        held = self.replicas.leo[rows] - table.start_offset[places]
        share = (new - table.start_offset[places]) / np.maximum(held, 1e-9)
        share = np.clip(share, 0.0, 1.0)
        size = self.replicas.position[rows] - table.start_position[places]
        table.start_position[places] += share * size
        table.start_offset[places] += share * held
        own = self.replicas.partition
        used = np.flatnonzero(own != NOWHERE)
        for column, start in (
            (self.replicas.leo, table.start_offset),
            (self.replicas.position, table.start_position),
            (self.replicas.moved, table.start_position),
        ):
            column[used] = np.maximum(column[used], start[own[used]])
        self._flows = None

    def retain(self, partitions: ArrayLike, size_bytes: ArrayLike) -> None:
        """Retention by size: logs keep at most `size_bytes`, and lose their front in proportion."""
        table, places = self.partitions, _rows(partitions)
        rows = table.leader[places]
        led = rows != NOWHERE
        places, rows = places[led], rows[led]
        retained = np.broadcast_to(np.asarray(size_bytes, np.float64), len(led))[led]
        size = self.replicas.position[rows] - table.start_position[places]
        share = np.clip(1 - retained / np.maximum(size, 1e-9), 0.0, 1.0)
        held = self.replicas.leo[rows] - table.start_offset[places]
        self.set_log_start(places, table.start_offset[places] + share * held)

    def move_log_dirs(self, replicas: ArrayLike, log_dirs: ArrayLike) -> None:
        """Copy replicas to other directories of their brokers; their own one cancels a move."""
        rows, table = _rows(replicas), self.replicas
        targets = np.broadcast_to(np.asarray(log_dirs, np.int32), len(rows))
        starts = self.partitions.start_position[table.partition[rows]]
        fresh = table.target_dir[rows] != targets
        table.moved[rows[fresh]] = starts[fresh]
        table.target_dir[rows] = np.where(targets == table.log_dir[rows], NOWHERE, targets)
        self._flows = None

    def invalidate(self) -> None:
        """Columns were written from outside: work the flows out anew."""
        self._flows = None

    # --- what it reports

    def log_end_offsets(self) -> NDArray[np.int64]:
        """Each replica's log end offset. Shape (replicas,)."""
        return self.replicas.leo.astype(np.int64)

    def sizes(self) -> NDArray[np.int64]:
        """Each replica's bytes on disk. Shape (replicas,)."""
        used = self.replicas.partition != NOWHERE
        start = self.partitions.start_position[self.replicas.partition] if used.any() else 0.0
        return np.where(used, self.replicas.position - start, 0.0).astype(np.int64)

    def high_watermarks(self) -> NDArray[np.int64]:
        """The least log end in each ISR, -1 where that is empty. Shape (partitions,)."""
        rows, starts, places = self._grouped()
        marks = np.full(len(self.partitions), -1, np.int64)
        if len(rows):
            ends = np.where(self.replicas.in_isr[rows], self.replicas.leo[rows], np.inf)
            least = np.minimum.reduceat(ends, starts)
            known = np.isfinite(least)
            marks[places[known]] = least[known].astype(np.int64)
        return marks

    def traffic(self) -> tuple[Rates, Rates]:
        """Bytes of replication that each broker has received and sent. Shape (brokers,) each."""
        return self._received.copy(), self._sent.copy()

    def _grouped(self) -> tuple[Rows, Rows, Rows]:
        """Rows in use by partition, where each partition's begin, and which partition it is."""
        if self._by_partition is None:
            own = self.replicas.partition
            rows = np.argsort(own, kind="stable")
            rows = rows[own[rows] != NOWHERE]
            places, starts = np.unique(own[rows], return_index=True)
            self._by_partition = rows, starts, places
        return self._by_partition

    # --- time

    def tick(self, now_ms: int, step_ms: int | None = None) -> list[Event]:
        """Advance to `now_ms`, or to the first time before it at which something happens.

        `self.now_ms` says how far it came: a caller with a goal calls again until it is there.
        A `step_ms` keeps steps from being longer than that; without it they are as long as
        rates stay what they are. Events are ordered by kind and then by row.
        """
        while self.now_ms < now_ms:
            flows = self._current_flows()
            until = min(now_ms, self._next_time(flows))
            if step_ms is not None:
                until = min(until, self.now_ms + step_ms)
            events = self._step(flows, until)
            if events:
                return events
        return []

    def _current_flows(self) -> Flows:
        if self._flows is None:
            self._flows = work_out(
                self.replicas, self.partitions, self.limits, self.now_ms, self._grain_ms / 1000
            )
            count, table = self.limits.brokers, self.replicas
            rates = table.rate[self._flows.tails]
            self._tail_in = sums(table.broker[self._flows.tails], rates, count)
            self._tail_out = sums(table.broker[self._flows.tail_leaders], rates, count)
        return self._flows

    def _next_time(self, flows: Flows) -> int:
        """When the next thing happens by itself; the ISR is looked at when it may shrink."""
        table = self.replicas
        away = table.position[flows.behind_leaders] - table.position[flows.behind]
        closing = flows.behind_rates - self.partitions.produced[table.partition[flows.behind]]
        copying = flows.move_rates - table.rate[flows.moves]
        left = table.position[flows.moves] - table.moved[flows.moves]
        seconds = min(_soonest(away, closing), _soonest(left, copying), self._joining_s(flows))
        wait_ms = max(math.ceil(seconds * 1000), self._grain_ms) if seconds < 1e12 else None
        times = [self.now_ms + wait_ms] if wait_ms is not None else []
        if not flows.steady:
            times.append(self.now_ms + self._grain_ms)
        if len(flows.watched):
            self._skip_checks()
            times.append(self._next_check_ms)
        return min(times, default=2**62)

    def _joining_s(self, flows: Flows) -> float:
        """Seconds until a follower reaches the least end in an ISR whose members are not equal."""
        table = self.replicas
        joining = flows.outside[~table.proposed[flows.outside]]
        if not len(flows.watched) or not len(joining):
            return 0.0 if table.attached[joining].any() else math.inf
        rows, starts, places = self._grouped()
        ends = np.where(table.in_isr[rows], table.position[rows], np.inf)
        least, pace = np.zeros((2, len(self.partitions)))
        least[places] = np.minimum.reduceat(ends, starts)
        last = ends == least[table.partition[rows]]
        pace[places] = np.minimum.reduceat(np.where(last, table.rate[rows], np.inf), starts)
        own = table.partition[joining]
        return _soonest(least[own] - table.position[joining], table.rate[joining] - pace[own])

    def _skip_checks(self) -> None:
        """Bring the time of the next look at the ISR after the present."""
        every = max(self._lag_time_max_ms // 2, 1)
        if self._next_check_ms <= self.now_ms:
            self._next_check_ms += ((self.now_ms - self._next_check_ms) // every + 1) * every

    def _step(self, flows: Flows, until_ms: int) -> list[Event]:
        seconds = (until_ms - self.now_ms) / 1000
        table, parts = self.replicas, self.partitions
        grown = parts.produced[flows.hot] * seconds
        records = parts.records_rate[flows.hot] / parts.bytes_rate[flows.hot]
        table.position[flows.hot_leaders] += grown
        table.leo[flows.hot_leaders] += grown * records
        for column in (table.position, table.leo):
            column[flows.tails] = column[flows.tail_leaders]
        self._received += self._tail_in * seconds
        self._sent += self._tail_out * seconds
        self.now_ms = until_ms
        self.steps += 1
        if not flows.steady:
            self._flows = None
        events: list[Event] = [*self._fetch(flows, seconds)]
        events += self._copy(flows, seconds)
        if len(flows.watched) and until_ms >= self._next_check_ms:
            events += self._shrinks(flows)
        events += self._expands(flows)
        return events

    def _fetch(self, flows: Flows, seconds: float) -> Iterator[Event]:
        """Followers behind get their share; those at their leader's end now are reported."""
        table, rows, leaders = self.replicas, flows.behind, flows.behind_leaders
        gap = table.position[leaders] - table.position[rows]
        got = np.minimum(flows.behind_rates * seconds, gap)
        done = gap - got <= SAME_BYTES
        got[done] = gap[done]
        part = np.divide(got, gap, out=np.ones_like(gap), where=gap > 0)
        table.leo[rows] += part * (table.leo[leaders] - table.leo[rows])
        table.position[rows] += got
        for column in (table.position, table.leo):
            column[rows[done]] = column[leaders[done]]
        count = self.limits.brokers
        self._received += sums(table.broker[rows], got, count)
        self._sent += sums(table.broker[leaders], got, count)
        if done.any():
            self._flows = None
        for row in np.sort(rows[done & ~table.in_isr[rows]]).tolist():
            yield CaughtUp(self.now_ms, int(table.partition[row]), row, int(table.broker[row]))

    def _copy(self, flows: Flows, seconds: float) -> Iterator[Event]:
        """Copies between directories; one that has all there is takes the replica's place."""
        table, rows = self.replicas, flows.moves
        table.moved[rows] = np.minimum(
            table.moved[rows] + flows.move_rates * seconds, table.position[rows]
        )
        done = rows[table.position[rows] - table.moved[rows] <= SAME_BYTES]
        if len(done):
            table.log_dir[done] = table.target_dir[done]
            table.target_dir[done] = NOWHERE
            self._flows = None
        for row in done.tolist():
            yield LogDirMoveDone(
                self.now_ms,
                int(table.partition[row]),
                row,
                int(table.broker[row]),
                int(table.log_dir[row]),
            )

    def _shrinks(self, flows: Flows) -> Iterator[Event]:
        table, rows = self.replicas, flows.watched
        places = table.partition[rows]
        gap = table.position[self.partitions.leader[places]] - table.position[rows]
        made = self.partitions.produced[places]
        age_ms = np.divide(gap * 1000, made, out=np.full(len(rows), np.inf), where=made > 0)
        reached = np.maximum(table.caught_up_ms[rows], self.now_ms - age_ms)
        table.caught_up_ms[rows] = reached
        late = (self.now_ms - reached > self._lag_time_max_ms) & ~table.proposed[rows]
        late &= gap > SAME_BYTES  # who lacks nothing is in sync, even if it is dead
        table.proposed[rows[late]] = True
        for row in rows[late].tolist():
            yield IsrShrink(self.now_ms, int(table.partition[row]), row, int(table.broker[row]))

    def _expands(self, flows: Flows) -> Iterator[Event]:
        table, rows = self.replicas, flows.outside
        rows = rows[~table.proposed[rows]]
        if not len(rows):
            return
        marks = self.high_watermarks()[table.partition[rows]]
        ready = rows[table.leo[rows].astype(np.int64) >= marks]
        table.proposed[ready] = True
        for row in ready.tolist():
            yield IsrExpand(self.now_ms, int(table.partition[row]), row, int(table.broker[row]))


def _rows(rows: ArrayLike) -> Rows:
    return np.atleast_1d(np.asarray(rows, np.int64))


def _soonest(away: Rates, closing: Rates) -> float:
    """Seconds until the first gap that closes is closed; inf if none does."""
    if (away <= SAME_BYTES).any():
        return 0.0
    closes = closing > 0
    return float(np.min(away[closes] / closing[closes], initial=math.inf))
