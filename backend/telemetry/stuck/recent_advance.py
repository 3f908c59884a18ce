"""Which replicas came nearer of late, from one snapshot to the next.

Goals
    A replica that stops is seen to have stopped within half a minute, however fast it was before.
    An average over all of its past would still call it fast.
Constraints
    Only rows that lack something are remembered, and of them one sample every `STEP_S` for
    `KEEP_S`. A row is compared only with samples since which it lacked something all the time.
Algorithm
    Brokers are asked at different times, so lags of two moments cannot be compared: a leader that
    was not read again would make its followers seem nearer. Rates can: what the replica's log grew
    by over its own time, less what its leader's did over its own. That is taken since `ENOUGH_S`
    ago or a little more, and since some seconds ago. If it is above zero at either, and would not
    take `NEVER_S` to close the gap, the replica came nearer. In messages: bytes shrink with
    retention.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas, ReplicaStatus, Snapshot
from kshunt.backend.telemetry.stuck.produce_rates import Leaders, Produced
from kshunt.backend.telemetry.stuck.throttle_shares import Shape, ThrottleShare, numbered, sides_of

ENOUGH_S: Final = 20.0
"""A replica that has not come nearer for this long does not advance; two sweeps of the sampler."""
RECENT_S: Final = 4.0
"""A rate of less time than this is left to chance."""
STEP_S: Final = 5.0
KEEP_S: Final = 45.0
NEVER_S: Final = 30 * 86_400.0
"""A replica that would need a month stands still."""
CAUGHT_UP_S: Final = 2.0
"""A replica that lacks at most what is written in this time is at its leader's end."""
STEADY: Final = 1.5
"""A part of a throttle that grew by more is something new."""
_FORGET: Final = 4
"""The watch forgets all that it remembers when it knows over this many times the topics that exist.

A thousand topics more are allowed."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WatchedRows:
    """What watching showed of a snapshot's rows. Arrays have shape (replicas,)."""

    shape: Shape
    keys: Ints
    """One a replica, the same in every snapshot."""
    began_ms: int
    """When the first snapshot was taken."""
    seconds: Floats
    """For how long the row was seen to lack something, at most a little over `ENOUGH_S`."""
    nearer: Mask
    caught_up: Mask
    """At its leader's end, then and at present."""
    whole: Mask
    """Every replica that remains was in sync, then and at present, but the move has not ended."""
    steady: Mask
    """Its part of the throttles that hold it has not grown much in the last `KEEP_S`."""
    sides: tuple[ThrottleShare, ThrottleShare]
    """The leader's side and the follower's."""
    due_bytes_per_s: Floats
    """An equal part of the throttles that hold the row; inf where none does."""
    written_bytes_per_s: Floats
    """What is written to the row's partition; NaN where it is not known."""

    @property
    def enough(self) -> Mask:
        """Rows that were watched for long enough to be judged."""
        long: Mask = self.seconds >= ENOUGH_S
        return long


@dataclass(frozen=True, eq=False)
class _Sample:
    """The rows that lacked something at one time, by key."""

    taken_ms: int
    keys: Ints
    order: NDArray[np.intp]
    sampled_ms: Ints
    end: Ints
    """The replica's log end offset; -1 where its broker has no such replica yet."""
    leader_ms: Ints
    leader_end: Ints
    lag: Ints
    """In messages."""
    due: Floats
    caught_up: Mask
    whole: Mask

    def places(self, keys: Ints) -> Ints:
        """Where each key is, -1 if it is not."""
        if not len(self.keys):
            return np.full(len(keys), UNKNOWN, np.int64)
        found = np.searchsorted(self.keys, keys, sorter=self.order)
        match = self.order[np.minimum(found, len(self.keys) - 1)]
        return np.where(self.keys[match] == keys, match, UNKNOWN)

    def at(self, places: Ints) -> _Sample:
        """The rows at these places, in their order; those at -1 mean nothing."""
        names = (column.name for column in fields(self) if column.name != "taken_ms")
        return replace(self, **{name: getattr(self, name)[places] for name in names})


class AdvanceWatch:
    """Remembers the last samples of a cluster; one for each that is watched."""

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._samples: list[_Sample] = []
        self._produced = Produced()
        self._topics: dict[str, int] = {}
        self._brokers: dict[int, int] = {}

    def update(self, snapshot: Snapshot) -> WatchedRows:
        """Take a snapshot in, and say what its rows have done. Snapshots come in their order."""
        replicas, shape = snapshot.replicas, Shape.of(snapshot.replicas)
        began_ms = self._began_ms = snapshot.taken_ms if self._began_ms is None else self._began_ms
        keys = self._keys(snapshot)
        messages, in_bytes = self._rates(replicas, shape, keys)
        lacking = replicas.adding | (~replicas.in_isr & ~replicas.removing & ~shape.leads)
        lacking &= (replicas.status != ReplicaStatus.OFFLINE) & (shape.leader_row >= 0)
        whole = shape.moving & ~shape.any_of(~replicas.in_isr & ~replicas.removing)
        rows = np.flatnonzero(lacking)
        sides = sides_of(snapshot, shape, in_bytes, began_ms)
        due = np.minimum(*(side.fair_bytes_per_s() for side in sides))
        near = np.nan_to_num(messages) * CAUGHT_UP_S
        now = _sample(snapshot, shape, keys, rows, _State(near, due, whole))
        found = self._look_back(now).spread(rows, len(replicas))
        self._remember(now)
        return WatchedRows(
            shape=shape,
            keys=keys,
            began_ms=began_ms,
            seconds=found.seconds,
            nearer=found.nearer,
            caught_up=found.caught_up,
            whole=found.whole,
            steady=~found.grew,
            sides=sides,
            due_bytes_per_s=due,
            written_bytes_per_s=in_bytes,
        )

    def _keys(self, snapshot: Snapshot) -> Ints:
        """One int64 a row that stays the same from snapshot to snapshot (see `pack_keys`)."""
        replicas = snapshot.replicas
        if len(self._topics) > _FORGET * len(snapshot.topics) + 1_000:
            self._topics, self._samples, self._produced = {}, [], Produced()
        topics = np.zeros(len(snapshot.topics), np.int64)
        for index in np.flatnonzero(np.bincount(replicas.topic_index)).tolist():
            topic = snapshot.topics[index]
            topics[index] = self._topics.setdefault(topic, len(self._topics))
        ids, place = numbered(replicas.broker)
        brokers = [self._brokers.setdefault(int(one), len(self._brokers)) for one in ids]
        keys: Ints = (
            (topics[replicas.topic_index] << 44)
            | (replicas.partition.astype(np.int64) << 20)
            | (np.array(brokers, np.int64)[place] if brokers else place)
        )
        return keys

    def _rates(self, replicas: Replicas, shape: Shape, keys: Ints) -> tuple[Floats, Floats]:
        """What is written to each row's partition, in messages and in bytes."""
        rows = shape.leader_row[shape.starts]
        led = rows >= 0
        rates = self._produced.update(
            Leaders(
                keys=keys[shape.starts] >> 20,
                leader=np.where(led, replicas.broker[rows], UNKNOWN).astype(np.int32),
                at_ms=np.where(led, replicas.sampled_ms[rows], UNKNOWN),
                log_end_offset=np.where(led, replicas.log_end_offset[rows], UNKNOWN),
                size_bytes=np.where(led, replicas.size_bytes[rows], UNKNOWN),
            )
        )
        wide = (np.repeat(rate, shape.counts) for rate in (rates.messages_per_s, rates.bytes_per_s))
        messages, in_bytes = wide
        return messages, in_bytes

    def _look_back(self, now: _Sample) -> _Found:
        """What the samples since each row began to lack something say of it.

        Whether its part of a throttle has grown is looked for in all of them. What a throttle is
        used for is an average: it holds what was before it was raised.
        """
        found = _Found.nothing(len(now.keys))
        looking = (now.sampled_ms >= 0) & (now.leader_ms >= 0)
        for sample in reversed(self._samples):
            places = sample.places(now.keys)
            there = places >= 0
            if not there.any():
                looking[:] = False
                continue
            found.grew[there] |= (now.due > sample.due[places] * STEADY)[there]
            looking &= there
            if not looking.any():
                continue
            then = sample.at(places)
            looking &= (then.sampled_ms >= 0) & (then.leader_ms >= 0)
            own_s = (now.sampled_ms - then.sampled_ms) / 1000
            leader_s = (now.leader_ms - then.leader_ms) / 1000
            age_s = np.where(looking, np.minimum(own_s, leader_s), 0.0)
            found.seconds[looking] = age_s[looking]
            old = age_s >= RECENT_S
            found.nearer[old] |= _came_nearer(then, now, own_s, leader_s)[old]
            judged = age_s >= ENOUGH_S
            found.caught_up[judged] |= (then.caught_up & now.caught_up)[judged]
            found.whole[judged] |= (then.whole & now.whole)[judged]
            looking &= ~judged
        return found

    def _remember(self, now: _Sample) -> None:
        samples = self._samples
        if not samples or now.taken_ms - samples[-1].taken_ms >= STEP_S * 1000:
            samples.append(now)
        self._samples = [one for one in samples if now.taken_ms - one.taken_ms <= KEEP_S * 1000]


@dataclass(frozen=True, eq=False)
class _Found:
    """The columns of `WatchedRows`, of the rows of a sample."""

    seconds: Floats
    nearer: Mask
    caught_up: Mask
    whole: Mask
    grew: Mask
    """Its part of a throttle did."""

    @classmethod
    def nothing(cls, rows: int) -> _Found:
        return cls(np.zeros(rows), *(np.zeros(rows, np.bool_) for _ in range(4)))

    def spread(self, rows: NDArray[np.intp], count: int) -> _Found:
        """The same on all rows of a snapshot, of which `rows` are these."""
        wide = _Found.nothing(count)
        for column in fields(self):
            getattr(wide, column.name)[rows] = getattr(self, column.name)
        return wide


@dataclass(frozen=True, eq=False)
class _State:
    """More columns of a snapshot."""

    near: Floats
    """How many messages of lag count as none."""
    due: Floats
    whole: Mask


def _sample(
    snapshot: Snapshot, shape: Shape, keys: Ints, rows: NDArray[np.intp], state: _State
) -> _Sample:
    """The rows that lack something."""
    replicas = snapshot.replicas
    leaders, lag = shape.leader_row[rows], replicas.lag_messages[rows]
    return _Sample(
        taken_ms=snapshot.taken_ms,
        keys=keys[rows],
        order=np.argsort(keys[rows]),
        sampled_ms=replicas.sampled_ms[rows],
        end=replicas.log_end_offset[rows],
        leader_ms=replicas.sampled_ms[leaders],
        leader_end=replicas.log_end_offset[leaders],
        lag=lag,
        due=state.due[rows],
        caught_up=(lag != UNKNOWN) & (lag <= state.near[rows]),
        whole=state.whole[rows],
    )


def _came_nearer(then: _Sample, now: _Sample, own_s: Floats, leader_s: Floats) -> Mask:
    """Which rows grew faster than their leaders, or have appeared. Rows of both are the same."""
    known = (then.end >= 0) & (now.end >= 0) & (then.leader_end >= 0) & (now.leader_end >= 0)
    own, leader = now.end - then.end, now.leader_end - then.leader_end
    gains = _per_s(own, own_s) - _per_s(leader, leader_s)
    moves = known & (gains > 0) & (gains * NEVER_S >= now.lag)
    nearer: Mask = moves | ((then.end < 0) & (now.end >= 0))
    return nearer


def _per_s(grown: Ints, seconds: Floats) -> Floats:
    rate = np.zeros(len(grown))
    np.divide(grown, seconds, out=rate, where=seconds > 0)
    return rate
