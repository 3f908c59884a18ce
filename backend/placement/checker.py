"""Whether the answer of a placer can be used. Nothing else checks it, whichever placer gave it.

It shares no code with any placer, and holds for each of them, Kafka's striped one included. That
one puts racks before fences: it uses a fenced broker as soon as its rack has no other one left,
though another rack may have. A placer that uses every broker that is up first also passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from typing import Final

from kshunt.backend.placement.placer import ReplicaPlacementFailed, UsableBroker


@dataclass(frozen=True, slots=True)
class Expected:
    """What an answer has to meet."""

    start_partition: int
    num_partitions: int
    num_replicas: int
    brokers: Sequence[UsableBroker]
    """Where a replica may go."""
    ignores_racks: bool = False
    """The placer declares that it does not spread replicas over racks."""


def check_answer(
    name: str, answer: Sequence[Sequence[object]], expected: Expected
) -> list[tuple[int, ...]]:
    """The replica lists, each preferred leader first, if every one of them can be used.

    Args:
        name: The placer's, for the error.
        answer: One list for each partition, from `start_partition` on.
        expected: What was asked.

    Raises:
        ReplicaPlacementFailed: a list cannot be used. The reasons are:

            - A list is missing, or there are too many.
            - It has another length than asked.
            - It names something that is no usable broker, or a broker twice.
            - It is led by a fenced broker although another one is up.
            - It uses a fenced broker where one of its rack is free that is not fenced.
            - It covers fewer racks than it could.
    """
    if len(answer) > expected.num_partitions:
        raise _unusable(f"The placer {name} placed more than {expected.num_partitions} partitions.")
    if len(answer) < expected.num_partitions:
        raise _unusable(
            f"The placer {name} placed {len(answer)} of {expected.num_partitions} partitions."
        )
    lists = [tuple(map(_id, replicas)) for replicas in answer]
    rules = _ListRules(expected)
    for partition, (given, replicas) in enumerate(zip(answer, lists, strict=True)):
        fault = next(chain(_no_ids(given, replicas), rules.faults(replicas)), None)
        if fault is not None:
            number = expected.start_partition + partition
            raise _unusable(
                f"The answer of the placer {name} cannot be used: partition {number} {fault}."
            )
    return lists


NO_ID: Final = -1


def _id(replica: object) -> int:
    """A broker id; numpy's integers are as good as others, and True is not 1."""
    if isinstance(replica, bool) or not isinstance(replica, Integral):
        return NO_ID
    return int(replica)


def _unusable(message: str) -> ReplicaPlacementFailed:
    return ReplicaPlacementFailed(
        message, advice="Nothing was placed; this is a fault of the placer."
    )


def _no_ids(given: Sequence[object], replicas: Sequence[int]) -> Iterator[str]:
    for one, replica in zip(given, replicas, strict=True):
        if replica == NO_ID:
            yield f"names {one!r}, which is not a broker id"


class _ListRules:
    """What one list has to meet, with what is the same for every list worked out once."""

    def __init__(self, expected: Expected) -> None:
        self._wanted = expected.num_replicas
        self._brokers = {broker.id: broker for broker in expected.brokers}
        self._up = [broker for broker in expected.brokers if not broker.fenced]
        self._by_rack = not expected.ignores_racks and all(one.rack for one in expected.brokers)
        self._racks = min(self._wanted, len({broker.rack for broker in self._up}))

    def faults(self, replicas: Sequence[int]) -> Iterator[str]:
        """What is wrong; a later fault is sound only where there is none before it."""
        if len(replicas) > self._wanted:
            yield f"has more than the {self._wanted} requested replicas"
        if len(replicas) < self._wanted:
            yield f"has {len(replicas)} of the {self._wanted} requested replicas"
        for replica in replicas:
            if replica not in self._brokers:
                yield f"names broker {replica}, which must not be used"
            if replicas.count(replica) > 1:
                yield f"names broker {replica} more than once"
        chosen = [self._brokers[replica] for replica in replicas]
        if any(broker.fenced for broker in chosen):
            yield from self._fences(chosen)
        covered = len({broker.rack for broker in chosen})
        if self._by_rack and covered < self._racks:
            yield f"covers {covered} of {self._racks} possible racks"

    def _fences(self, chosen: Sequence[UsableBroker]) -> Iterator[str]:
        if chosen[0].fenced and self._up:
            yield f"is led by broker {chosen[0].id}, which is fenced"
        free = [broker for broker in self._up if broker not in chosen]
        for broker in chosen:
            mates = [one.id for one in free if not self._by_rack or one.rack == broker.rack]
            if broker.fenced and mates:
                yield (
                    f"uses broker {broker.id}, which is fenced, although broker {mates[0]} is free"
                )
