"""Placers of somebody else, to be named as `tests.support.placement.given_placers:Class`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event

from kshunt.backend.domain.cluster.broker_loads import BrokerLoads
from kshunt.backend.placement.placer import ReplicaPlacementFailed, UsableBroker

RACK_FIRST = "tests.support.packages.rack_first.rack_first:RackFirst"
"""The ten lines of `tests/support/packages`; `rack.first` names the rack."""
FULL = "The storage of rack 2 is full."


class Counting:
    """Partition `n` begins `n` brokers down from the highest id. It keeps what it is told."""

    ignores_racks = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int, tuple[UsableBroker, ...]]] = []
        self.topics: list[tuple[str | None, str | None]] = []
        self.existing: list[Sequence[Sequence[int]]] = []
        self.closed = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def close(self) -> None:
        self.closed = True

    def describe(self, topic: str | None, principal: str | None) -> None:
        self.topics.append((topic, principal))

    def follow(self, existing: Sequence[Sequence[int]]) -> None:
        self.existing.append(existing)

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        given = tuple(brokers)
        self.asked.append((start_partition, num_partitions, num_replicas, given))
        up = sorted((one.id for one in given if not one.fenced), reverse=True)
        down = [one.id for one in given if one.fenced]
        numbers = range(start_partition, start_partition + num_partitions)
        turned = ([*up[n % len(up) :], *up[: n % len(up)], *down] for n in numbers)
        return [order[:num_replicas] for order in turned]


class Aware(Counting):
    """Wants to know the brokers' loads too."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[BrokerLoads] = []

    def observe(self, view: BrokerLoads) -> None:
        self.loads.append(view)


class Refusing(Counting):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        raise ReplicaPlacementFailed(FULL)


class Broken(Counting):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        raise KeyError("rack")


class Nonsense(Counting):
    def place(
        self, _start: int, num_partitions: int, num_replicas: int, *_: object
    ) -> Sequence[Sequence[int]]:
        return [range(77, 77 + num_replicas)] * num_partitions


class Hanging(Counting):
    def place(self, *_: object) -> Sequence[Sequence[int]]:
        Event().wait()
        return []


class AsNamed(Counting):
    """Does as the topic is called: `refusing-1`; else as `Counting`. It notes when it is closed."""

    def close(self) -> None:
        with Path(self.configs["note.file"]).open("a") as note:
            note.write("closed")

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        kinds = {kind.__name__.lower(): kind for kind in (Refusing, Broken, Nonsense, Hanging)}
        name = (self.topics[-1][0] or "").partition("-")[0]
        place = super().place if name not in kinds else kinds[name]().place
        return place(start_partition, num_partitions, num_replicas, brokers)


class NoPlacer:
    """Lacks every method."""


FAULTS: Mapping[str, str] = {
    "Refusing": FULL,
    "Broken": "failed: KeyError: 'rack'",
    "Nonsense": "names broker 77, which must not be used",
    "Hanging": "gave no answer within 0.2 s",
}
"""Classes of this module that do not place, and words of why."""


def named(name: str) -> str:
    """How a class of this module is named as a placer."""
    return f"{__name__}:{name}"
