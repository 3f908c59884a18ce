"""What a planner knows of a cluster: every replica, in columns, and the brokers.

Unknown is a value of its own: -1 in the integer columns, NaN in the rates. `Situation.sizes`
says what a planner does with a partition of unknown size. Planners that weigh by bytes or by load
leave partitions of unknown weight where they are, and say so.

A partition that is being reassigned is planned around: no planner touches it. What it holds and
what it is still copying counts for its brokers. A note names it where a goal wanted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    LogDir,
    OngoingReassignment,
    TopicPartition,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.errors import BadInput


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker, up or down."""

    id: int
    rack: str | None = None
    up: bool = True
    """False for one that is fenced or does not answer: nothing is placed there."""
    log_dirs: tuple[LogDir, ...] = ()
    """Its directories, or empty where they are not known."""


@dataclass(frozen=True, slots=True)
class PartitionSituation:
    """One partition; None is "not known"."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    leader: int
    """Broker id, or `NO_BROKER`."""
    isr: tuple[int, ...]
    size_bytes: int | None = None
    """Bytes of its log; of the leader's, where replicas differ."""
    in_bytes_per_s: float | None = None
    """What producers write."""
    out_bytes_per_s: float | None = None
    """What consumers read; replication is not in it."""
    min_isr: int | None = None
    log_dirs: tuple[str | None, ...] = ()
    """The directory of each replica, or empty."""


@dataclass(frozen=True, eq=False)
class Situation:
    """See the module's text. P partitions, W replicas in the longest list, B brokers."""

    partitions: tuple[TopicPartition, ...]
    """Sorted, each once; a row of the columns each."""
    replicas: NDArray[np.int32]
    """Broker ids, preferred leader first, then `NO_BROKER` up to the width. Shape (P, W)."""
    leader: NDArray[np.int32]
    """Broker id, or `NO_BROKER`. Shape (P,)."""
    in_sync: NDArray[np.bool_]
    """Whether the replica in that place is in the ISR. Shape (P, W)."""
    size_bytes: NDArray[np.int64]
    """-1 where it is not known. Shape (P,)."""
    in_bytes_per_s: NDArray[np.float64]
    """NaN where it is not known. Shape (P,)."""
    out_bytes_per_s: NDArray[np.float64]
    min_isr: NDArray[np.int32]
    """-1 where it is not known. Shape (P,)."""
    log_dir: NDArray[np.int16]
    """Index into `log_dir_paths`, or -1. Shape (P, W)."""
    log_dir_paths: tuple[str, ...]
    brokers: Mapping[int, BrokerFacts]
    """By id: every broker that is registered or that a replica list names."""
    moving: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    leaving: Mapping[TopicPartition, PartitionMode] = field(default_factory=dict)
    """Partitions that are read-only or being deleted (KIP-694): no planner touches one."""

    def __post_init__(self) -> None:
        width = self.replicas.shape[1:]
        rows = (self.leader, self.size_bytes, self.in_bytes_per_s, self.out_bytes_per_s)
        if any(column.shape != (len(self),) for column in (*rows, self.min_isr)) or any(
            table.shape != (len(self), *width)
            for table in (self.replicas, self.in_sync, self.log_dir)
        ):
            raise BadInput("The columns of a situation differ in length; nothing was planned.")

    def __len__(self) -> int:
        return len(self.partitions)

    @classmethod
    def of(
        cls,
        partitions: Iterable[PartitionSituation],
        brokers: Iterable[BrokerFacts],
        moving: Iterable[OngoingReassignment] = (),
        leaving: Mapping[TopicPartition, PartitionMode] | None = None,
    ) -> Situation:
        """A situation from plain values.

        A broker that only a replica list names is down and of unknown rack.

        Raises:
            BadInput: a partition or broker is given twice, a partition has no replicas, names a
                broker twice, or has another number of directories than of replicas.
        """
        facts = sorted(partitions, key=lambda each: each.partition)
        for each in facts:
            _check(each)
        for each, following in pairwise(facts):
            if each.partition == following.partition:
                raise BadInput(f"Partition {each.partition} is given twice; nothing was planned.")
        known: dict[int, BrokerFacts] = {}
        for broker in brokers:
            if broker.id in known:
                raise BadInput(f"Broker {broker.id} is given twice; nothing was planned.")
            known[broker.id] = broker
        width = max((len(each.replicas) for each in facts), default=1)
        paths = sorted({path for each in facts for path in each.log_dirs if path is not None})
        replicas = _table([each.replicas for each in facts], width)
        return cls(
            partitions=tuple(each.partition for each in facts),
            replicas=replicas,
            leader=np.array([each.leader for each in facts], np.int32),
            in_sync=_in_sync(facts, width),
            size_bytes=_integers([each.size_bytes for each in facts]),
            in_bytes_per_s=_rates([each.in_bytes_per_s for each in facts]),
            out_bytes_per_s=_rates([each.out_bytes_per_s for each in facts]),
            min_isr=_integers([each.min_isr for each in facts]).astype(np.int32),
            log_dir=_dirs(facts, width, paths),
            log_dir_paths=tuple(paths),
            brokers=with_strangers(known, replicas),
            moving={move.partition: move for move in moving},
            leaving={} if leaving is None else leaving,
        )

    def current(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Every partition's replicas, as plain values."""
        return {
            partition: tuple(broker for broker in row if broker != NO_BROKER)
            for partition, row in zip(self.partitions, self.replicas.tolist(), strict=True)
        }

    def sizes(self) -> NDArray[np.int64]:
        """Bytes to plan with, where a size is not known: the largest known one. Shape (P,).

        That keeps a disk from being filled by what nobody has measured. Where no size is known,
        each counts as 1: then the fewest replicas move, and no disk limit can be kept.
        """
        largest = int(self.size_bytes.max(initial=UNKNOWN))
        return np.where(self.size_bytes < 0, max(largest, 1), self.size_bytes)


def with_strangers(
    known: Mapping[int, BrokerFacts], replicas: NDArray[np.int32]
) -> dict[int, BrokerFacts]:
    """`known`, and every other broker of the lists as one that is down."""
    named = {int(broker) for broker in np.unique(replicas)} - {NO_BROKER}
    strangers = {broker: BrokerFacts(broker, up=False) for broker in named - known.keys()}
    return dict(sorted({**known, **strangers}.items()))


def _check(each: PartitionSituation) -> None:
    name = each.partition
    if not each.replicas:
        raise BadInput(f"Partition {name} has no replicas; nothing was planned.")
    if len(set(each.replicas)) != len(each.replicas):
        raise BadInput(f"Partition {name} names a broker twice; nothing was planned.")
    if each.log_dirs and len(each.log_dirs) != len(each.replicas):
        raise BadInput(
            f"Partition {name} has {len(each.log_dirs)} directories for {len(each.replicas)} "
            "replicas; nothing was planned."
        )


def _table(rows: Sequence[Sequence[int]], width: int) -> NDArray[np.int32]:
    table = np.full((len(rows), width), NO_BROKER, np.int32)
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def _in_sync(facts: Sequence[PartitionSituation], width: int) -> NDArray[np.bool_]:
    table = np.zeros((len(facts), width), np.bool_)
    for row, each in enumerate(facts):
        isr = each.isr
        table[row, : len(each.replicas)] = [broker in isr for broker in each.replicas]
    return table


def _dirs(
    facts: Sequence[PartitionSituation], width: int, paths: Sequence[str]
) -> NDArray[np.int16]:
    number: dict[str | None, int] = {path: index for index, path in enumerate(paths)}
    table = np.full((len(facts), width), UNKNOWN, np.int16)
    for row, each in enumerate(facts):
        if each.log_dirs:
            table[row, : len(each.log_dirs)] = [number.get(path, -1) for path in each.log_dirs]
    return table


def _integers(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([UNKNOWN if value is None else value for value in values], np.int64)


def _rates(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)
