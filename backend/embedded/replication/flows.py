"""Who sends what to whom at the moment, and how fast: from columns to rates.

Four kinds of flow. Clients produce to leaders. Followers at their leader's end fetch what comes
in (tails). Followers behind fetch as fast as they may. Copies between the directories of a broker
read and write there. A flow passes through the resources that limit it:

| flow | network | disk | throttles |
|---|---|---|---|
| produce | leader in | leader's, written | |
| tail | leader out, follower in, link | follower's, written | counted, never held back |
| behind | leader out, follower in, link | both | where listed and outside of the ISR |
| move | | both directories | replica.alter.log.dirs.io.max.bytes.per.second |

A tail is read from the page cache. A leader's throttle binds if its *own* replica is listed, a
follower's if its replica is. Bytes of listed replicas that are in sync are counted against the
quota all the same, so in-sync traffic can use a throttle up (Kafka's
`KafkaApis.sizeOfThrottledPartitions` and `ReplicaManager.shouldLeaderThrottle`). "In sync" is
membership in the ISR on both sides; a real follower goes by its own lag, which differs only for
one that is in the ISR and behind. Kafka measures a quota over 11 samples of 1 s and lets a burst
of up to that window pass at the start. Here the rate is exact from the start. Over a move longer
than the window, the two rates agree, up to the window's share of the move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.embedded.replication.columns import (
    NOWHERE,
    BrokerState,
    PartitionRows,
    ReplicaTable,
    Rows,
)
from kshunt.backend.embedded.replication.max_min_fair import (
    Passes,
    Rates,
    highest,
    load,
    max_min,
    sums,
)
from kshunt.backend.embedded.replication.resources import Resources, ResourceTable

SAME_BYTES: Final = 0.5
"""Less than this apart, two ends of a log are the same."""
_SLACK: Final = 1e-9
_WITHOUT_LIMIT: Final = 1e15
_WIDTH: Final = 7
"""Resources that a flow passes through at most."""


@dataclass(frozen=True, eq=False)
class Flows:
    """What moves until something changes. Rates are bytes/s."""

    hot: Rows
    """Partitions that clients write to."""
    hot_leaders: Rows
    tails: Rows
    tail_leaders: Rows
    behind: Rows
    behind_leaders: Rows
    behind_rates: Rates
    moves: Rows
    move_rates: Rates
    watched: Rows
    """Followers in the ISR that are not at their leader's end, and may have to leave."""
    outside: Rows
    """Followers that work and are not in the ISR, and may join."""
    steady: bool
    """False where a tail has just become too slow: a grain later it is one of those behind."""


@dataclass(frozen=True, eq=False)
class _Roles:
    leaders: Rows
    """The leader's row of each replica's partition, or NOWHERE. Shape (replicas,)."""
    live: NDArray[np.bool_]
    """Its broker and its directory work."""
    fetching: NDArray[np.bool_]
    """A live follower of a live leader."""
    gap: Rates
    """Bytes behind its leader; 0 where there is none."""


def _roles(replicas: ReplicaTable, partitions: PartitionRows, limits: ResourceTable) -> _Roles:
    used = replicas.partition != NOWHERE
    leaders = np.where(used, partitions.leader[replicas.partition], NOWHERE)
    dirs_online = np.append(limits.dir_online, True)  # NOWHERE, the last one, never fails
    live = used & (limits.state == BrokerState.UP)[replicas.broker] & dirs_online[replicas.log_dir]
    led = (leaders != NOWHERE) & live[leaders]
    fetching = live & led & (leaders != np.arange(len(replicas)))
    gap = np.where(fetching, replicas.position[leaders] - replicas.position, 0.0)
    return _Roles(leaders, live, fetching, gap)


def work_out(
    replicas: ReplicaTable,
    partitions: PartitionRows,
    limits: ResourceTable,
    now_ms: int,
    grain_s: float,
) -> Flows:
    """Find the flows and their rates; writes `attached`, `caught_up_ms`, `rate`, `produced`."""
    roles = _roles(replicas, partitions, limits)
    attached = roles.fetching & (roles.gap <= 0)
    replicas.caught_up_ms[replicas.attached & ~attached] = now_ms
    replicas.attached = attached
    led = partitions.leader != NOWHERE
    wanted = (partitions.bytes_rate > 0) & led
    hot = np.flatnonzero(wanted & roles.live[partitions.leader]) if len(replicas) else _NONE
    is_hot = np.zeros(len(partitions), np.bool_)
    is_hot[hot] = True
    tails = np.flatnonzero(attached & is_hot[replicas.partition]) if len(hot) else _NONE
    behind = np.flatnonzero(roles.fetching & ~attached)
    moves = np.flatnonzero(roles.live & (replicas.target_dir != NOWHERE))
    solver = _Solver(replicas, partitions, limits, roles, grain_s)
    made, tailed, fetched, moved = solver.rates(hot, tails, behind, moves)

    partitions.produced[:] = 0.0
    partitions.produced[hot] = made
    growth = partitions.produced[replicas.partition[tails]]
    slow = tailed < growth * (1 - _SLACK)
    replicas.rate[:] = 0.0
    replicas.rate[partitions.leader[hot]] = made
    replicas.rate[tails] = np.minimum(tailed, growth)
    replicas.rate[behind] = fetched
    attached[tails[slow]] = False
    replicas.caught_up_ms[tails[slow]] = now_ms
    behind = np.concatenate([behind, tails[slow]])
    fetched = np.concatenate([fetched, tailed[slow]])
    tails = tails[~slow]
    follows = (roles.leaders != NOWHERE) & (roles.leaders != np.arange(len(replicas)))
    return Flows(
        hot=hot,
        hot_leaders=partitions.leader[hot],
        tails=tails,
        tail_leaders=roles.leaders[tails],
        behind=behind,
        behind_leaders=roles.leaders[behind],
        behind_rates=fetched,
        moves=moves,
        move_rates=moved,
        watched=np.flatnonzero(replicas.in_isr & follows & ~attached & roles.live[roles.leaders]),
        outside=np.flatnonzero(roles.fetching & ~replicas.in_isr),
        steady=not slow.any(),
    )


_NONE: Final = np.zeros(0, np.int64)


class _Solver:
    """Names the resources of each flow and shares them out."""

    def __init__(
        self,
        replicas: ReplicaTable,
        partitions: PartitionRows,
        limits: ResourceTable,
        roles: _Roles,
        grain_s: float,
    ) -> None:
        self._replicas = replicas
        self._partitions = partitions
        self._limits = limits
        self._roles = roles
        self._grain_s = grain_s

    def rates(
        self, hot: Rows, tails: Rows, behind: Rows, moves: Rows
    ) -> tuple[Rates, Rates, Rates, Rates]:
        """The rate of every flow, by kind."""
        capacity = self._limits.capacity()
        self._count_in_sync(tails, capacity)
        rows, writes = self._replicas, self._partitions.bytes_rate
        steady_limits = np.concatenate([writes[hot], writes[rows.partition[tails]]])
        steady = np.concatenate([self._produce_passes(hot), self._fetch_passes(tails)])
        # A flow needs no more than what ends its gap within a grain of time.
        gap = self._roles.gap[behind] / self._grain_s + writes[rows.partition[behind]]
        to_move = (rows.position[moves] - rows.moved[moves]) / self._grain_s
        to_move[np.isin(moves, behind)] = _WITHOUT_LIMIT  # its own end runs ahead meanwhile
        eager_limits = np.concatenate([gap, to_move + writes[rows.partition[moves]]])
        eager = np.concatenate([self._behind_passes(behind), self._move_passes(moves)])
        given = share(steady_limits, steady, eager_limits, eager, capacity)
        at = np.cumsum([len(hot), len(tails), len(behind)])
        made, tailed, fetched, moved = np.split(given, at)
        return made, tailed, fetched, moved

    def _passes(self, count: int, *columns: Resources) -> Passes:
        out = np.full((count, _WIDTH), self._limits.nothing, np.int32)
        for place, column in enumerate(columns):
            out[:, place] = column
        return out

    def _produce_passes(self, hot: Rows) -> Passes:
        leaders = self._partitions.leader[hot]
        return self._passes(
            len(hot),
            self._limits.network_in(self._replicas.broker[leaders]),
            self._limits.disk(self._replicas.log_dir[leaders]),
        )

    def _fetch_passes(self, followers: Rows, *more: Resources) -> Passes:
        rows, limits = self._replicas, self._limits
        leaders = self._roles.leaders[followers]
        source, target = rows.broker[leaders], rows.broker[followers]
        outside = ~rows.in_isr[followers]
        free = np.int32(limits.nothing)
        sends, takes = limits.leader_throttle(source), limits.follower_throttle(target)
        return self._passes(
            len(followers),
            limits.network_out(source),
            limits.network_in(target),
            limits.disk(rows.log_dir[followers]),
            limits.link(source, target),
            np.where(outside & rows.leader_listed[leaders], sends, free),
            np.where(outside & rows.follower_listed[followers], takes, free),
            *more,
        )

    def _behind_passes(self, behind: Rows) -> Passes:
        read = self._limits.disk(self._replicas.log_dir[self._roles.leaders[behind]])
        return self._fetch_passes(behind, read)

    def _move_passes(self, moves: Rows) -> Passes:
        rows, limits = self._replicas, self._limits
        return self._passes(
            len(moves),
            limits.disk(rows.log_dir[moves]),
            limits.disk(rows.target_dir[moves]),
            limits.log_dir_throttle(rows.broker[moves]),
        )

    def _count_in_sync(self, tails: Rows, capacity: Rates) -> None:
        """Take the in-sync traffic of listed replicas from what a throttle leaves to others."""
        rows = self._replicas
        leaders = self._roles.leaders[tails]
        rates = self._partitions.bytes_rate[rows.partition[tails]]
        counted = rows.in_isr[tails]
        for listed, used in (
            (rows.leader_listed[leaders], self._limits.leader_throttle(rows.broker[leaders])),
            (rows.follower_listed[tails], self._limits.follower_throttle(rows.broker[tails])),
        ):
            chosen = counted & listed
            capacity -= sums(used[chosen], rates[chosen], len(capacity))
        np.maximum(capacity, 0.0, out=capacity)


def share(
    steady_limits: Rates, steady: Passes, eager_limits: Rates, eager: Passes, capacity: Rates
) -> Rates:
    """Max-min fair rates of steady flows and then eager ones, in one array.

    Steady flows are many and want little, so the eager ones share what the steady ones leave.
    Only where that turns out to be unfair, all of them share the capacity together.
    """
    count = len(capacity)
    drawn = load(steady, steady_limits, count)
    if (drawn <= capacity * (1 + _SLACK)).all():
        left = np.maximum(capacity - drawn, 0.0)
        rates = max_min(eager_limits, eager, left)
        full = np.isfinite(capacity) & (left - load(eager, rates, count) <= capacity * _SLACK)
        level = highest(eager, rates, count)
        binding = full & (np.bincount(eager.ravel(), minlength=count) > 0)
        if (highest(steady, steady_limits, count) <= level * (1 + _SLACK))[binding].all():
            return np.concatenate([steady_limits, rates])
    return max_min(
        np.concatenate([steady_limits, eager_limits]), np.concatenate([steady, eager]), capacity
    )
