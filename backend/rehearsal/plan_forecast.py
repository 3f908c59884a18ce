"""When a plan would be done, by the model of copying and without a twin.

Goals
    The forecast of a plan that has not begun is that of the dashboard a second after its start.
Algorithm
    A snapshot is made as a backend would see it right after the start: the new replicas lack
    everything, and the throttle's lists name them. `snapshot_copies` and `outlook` do the rest.
    Only partitions that move, or that a throttle lists, are in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.forecast.expected_ends import Group, expected_ends
from kshunt.backend.domain.forecast.known_capacities import Spare
from kshunt.backend.domain.forecast.outlook import outlook
from kshunt.backend.domain.forecast.snapshot_copies import (
    RowRates,
    RunningOperation,
    snapshot_copies,
)
from kshunt.backend.domain.planning.rehearsal import PlanForecast
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import DTYPES, UNKNOWN, Replicas, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import (
    Move,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
    throttled_replicas_of,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.rehearsal.picture import Capacity, Picture

ID: Final = "plan"
"""Of the plan, where the model asks for an operation's id."""


class PlannedMoves:
    """Moves that have not begun, in a cluster as it is."""

    def __init__(self, picture: Picture, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """What these moves need is worked out once, for any number of throttles.

        Raises:
            BadInput: a move cannot be started there; with every refusal.
        """
        rows = {name: row for row, name in enumerate(picture.situation.partitions)}
        _refuse(picture, targets, rows)
        current = picture.situation.current()
        self.moves = [Move(name, current[name], tuple(to)) for name, to in targets.items()]
        self._brokers = {b for move in self.moves for b in (*move.current, *move.target)}
        self._plan = RunningOperation(ID, frozenset(targets), (), None, held=False)
        self._spare = dict(_spare(picture))
        self._free = _seen(picture, self.moves, rows, {})
        self._throttled = _seen(picture, self.moves, rows, throttled_replicas_of(self.moves))

    def forecast(self, throttle_bytes_per_s: int | None, at_ms: int) -> PlanForecast:
        """When they are done that begin then; None: without a throttle of their own."""
        if not any(move.adding for move in self.moves):
            return PlanForecast(throttle_bytes_per_s, ExpectedEnd(at_ms, 0, 0.0, 0.0, 0.0))
        rate = ThrottledRate(throttle_bytes_per_s, throttle_bytes_per_s)
        unset = throttle_bytes_per_s is None
        snapshot, watched = self._free if unset else self._throttled
        rates = {} if unset else dict.fromkeys(self._brokers, rate)
        found = snapshot_copies(snapshot, (self._plan,), watched, rates)
        expected = outlook(found.copies, found.rates, spare=self._spare)
        group = Group(found.members((self._plan,))[ID], 0.0)
        end = expected_ends(expected, [group], shipped_quantiles(), at_ms)[0]
        return PlanForecast(throttle_bytes_per_s, end)


def _refuse(
    picture: Picture,
    targets: Mapping[TopicPartition, Sequence[int]],
    rows: Mapping[TopicPartition, int],
) -> None:
    situation, refused = picture.situation, []
    if not targets:
        raise BadInput("There is nothing to rehearse: the plan moves no partition.")
    for name, target in targets.items():
        strangers = sorted(set(target) - situation.brokers.keys())
        if name not in rows:
            refused.append(f"{name} does not exist")
        elif strangers:
            refused.append(f"{name}: no such broker is registered: {listed(strangers)}")
        elif not target or len(set(target)) != len(target):
            refused.append(f"{name} needs each of its brokers once")
        elif name in situation.moving:
            refused.append(f"{name} is being reassigned already")
    if refused:
        raise BadInput(
            f"The plan cannot be started: {listed(refused, 3)}.",
            advice="Nothing was changed. Correct the plan, or take a new picture of the cluster.",
        )


# The snapshot right after the start


@dataclass(frozen=True, slots=True)
class _Partition:
    """One partition, with the replicas that it gains."""

    name: TopicPartition
    replicas: tuple[int, ...]
    """In the order that the list has at the end; those that leave come last."""
    adding: frozenset[int]
    removing: frozenset[int]
    row: int
    """Of the situation."""


def _seen(
    picture: Picture,
    moves: Sequence[Move],
    rows: Mapping[TopicPartition, int],
    lists: Mapping[str, ThrottledReplicas],
) -> tuple[Snapshot, RowRates]:
    """The cluster with the moves under way and with their lists, and what is written."""
    throttles = Throttles(picture.throttles.rates, _merged(picture.throttles.replicas, lists))
    found = sorted(_matters(picture, moves, rows, throttles), key=lambda one: one.name)
    topics = tuple(sorted({one.name.topic for one in found}))
    numbers = {topic: number for number, topic in enumerate(topics)}
    known = picture.situation.size_bytes
    # As a twin takes it: the largest known size where one is not known.
    sizes = np.where(known < 0, known.max(initial=UNKNOWN), known)
    columns: dict[str, list[Any]] = {name: [] for name in DTYPES}
    for one in found:
        for position, broker in enumerate(one.replicas):
            fields = _row(picture, one, position, broker, sizes, throttles.replicas)
            fields["topic_index"] = numbers[one.name.topic]
            for name, column in columns.items():
                column.append(fields.get(name, 0))
    table = Replicas(**{name: np.array(column, DTYPES[name]) for name, column in columns.items()})
    written = np.nan_to_num(picture.situation.in_bytes_per_s)
    by_row = np.array([written[one.row] for one in found for _ in one.replicas])
    nothing = np.full(len(by_row), math.nan)
    watched = RowRates(
        written_bytes_per_s=by_row,
        written_least_bytes_per_s=by_row,
        written_lately_bytes_per_s=by_row,
        seen_bytes_per_s=nothing,
        source_seen_bytes_per_s=nothing,
        target_seen_bytes_per_s=nothing,
        latest_bytes_per_s=nothing,
        begins_bytes_per_s=nothing,
        age_s=np.zeros(len(by_row)),
        lacked_bytes=nothing,
    )
    snapshot = Snapshot(
        0, picture.taken_ms, picture.cluster_id, NO_BROKER, topics, table, {}, throttles
    )
    return snapshot, watched


def _matters(
    picture: Picture,
    moves: Iterable[Move],
    rows: Mapping[TopicPartition, int],
    throttles: Throttles,
) -> Iterable[_Partition]:
    """Partitions of the plan, those that move or lag already, and those that a throttle lists."""
    situation, planned = picture.situation, {move.partition: move for move in moves}
    current = situation.current()
    lagging = {name for name, _ in picture.lag_bytes}
    for name, row in rows.items():
        if name in planned:
            move = planned[name]
            ends = (*move.target, *move.removing)
            adding, removing = frozenset(move.adding), frozenset(move.removing)
        elif name in lagging or name in situation.moving or name.topic in throttles.replicas:
            ongoing = situation.moving.get(name)
            ends = current[name]
            adding = frozenset() if ongoing is None else frozenset(ongoing.adding)
            removing = frozenset() if ongoing is None else frozenset(ongoing.removing)
        else:
            continue
        yield _Partition(name, ends, adding, removing, row)


def _row(
    picture: Picture,
    one: _Partition,
    position: int,
    broker: int,
    sizes: NDArray[np.int64],
    lists: Mapping[str, ThrottledReplicas],
) -> dict[str, Any]:
    situation, row = picture.situation, one.row
    leader = int(situation.leader[row])
    in_sync = situation.replicas[row][situation.in_sync[row]].tolist()
    size_bytes = int(sizes[row])
    key = (one.name.partition, broker)
    listed_there = lists.get(one.name.topic, ThrottledReplicas())
    is_new = broker in one.adding
    lag_bytes = picture.lag_bytes.get((one.name, broker), size_bytes if is_new else UNKNOWN)
    lives = situation.brokers[broker].up
    return {
        "partition": one.name.partition,
        "broker": broker,
        "position": position,
        "leader": leader,
        "in_isr": broker in in_sync,
        "adding": is_new,
        "removing": broker in one.removing,
        "leader_throttled": key in listed_there.leaders,
        "follower_throttled": key in listed_there.followers,
        "cause": Cause.NONE if lives else Cause.BROKER_DOWN,
        "size_bytes": size_bytes,
        "lag_bytes": 0 if broker in in_sync else lag_bytes,
        "log_dir": UNKNOWN,
    }


def _merged(
    there: Mapping[str, ThrottledReplicas], ours: Mapping[str, ThrottledReplicas]
) -> dict[str, ThrottledReplicas]:
    merged = dict(there)
    for topic, lists in ours.items():
        before = there.get(topic, ThrottledReplicas())
        merged[topic] = ThrottledReplicas(
            before.leaders | lists.leaders, before.followers | lists.followers
        )
    return merged


# What brokers carry


def _spare(picture: Picture) -> Iterable[tuple[int, Spare]]:
    """What is left for copies of each broker of which somebody said what it carries.

    Followers in the ISR take their part first. Disks are counted by broker, reads and writes each
    by themselves, so a disk that does much of both is thought to be quicker than it is.
    """
    if not picture.capacities:
        return
    situation = picture.situation
    written = np.nan_to_num(situation.in_bytes_per_s)
    follows = situation.in_sync & (situation.replicas != situation.leader[:, None])
    sends, receives, writes = (dict.fromkeys(situation.brokers, 0.0) for _ in range(3))
    for row in np.flatnonzero(written > 0).tolist():
        leader, rate = int(situation.leader[row]), float(written[row])
        followers = situation.replicas[row][follows[row]].tolist()
        for broker in followers:
            receives[broker] += rate
        if leader in sends:
            sends[leader] += rate * len(followers)
            writes[leader] += rate
    for broker, capacity in picture.capacities.items():
        if broker not in sends:
            continue
        disks = len(situation.brokers[broker].log_dirs) or 1
        disk = _rate(capacity.disk_bytes_per_s) * disks
        yield broker, _left(capacity, disk, sends[broker], receives[broker], writes[broker])


def _left(capacity: Capacity, disk: float, sends: float, receives: float, writes: float) -> Spare:
    network_out = _rate(capacity.network_out_bytes_per_s) - sends
    network_in = _rate(capacity.network_in_bytes_per_s) - receives
    at_disk = max(disk - writes - receives, 0.0)
    return Spare(max(min(network_out, at_disk), 0.0), max(min(network_in, at_disk), 0.0))


def _rate(rate: float | None) -> float:
    return math.inf if rate is None else rate
