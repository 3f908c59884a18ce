"""The pluggable placement of new partitions (KIP-660): its interface, and how one is found.

A placer is named by `replica.placer.class.name` as `module:Class`. Whoever uses its answer checks
it: a placer is somebody else's code.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

from backend.errors import ConfigError, KshuntError


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker where a replica can be placed (KIP-660, UsableBroker)."""

    id: int
    rack: str | None
    fenced: bool
    """It is registered and not up; to be used only where no other is left."""


class InvalidReplicationFactor(KshuntError):
    """More replicas were asked for than there are brokers."""

    title = "Invalid replication factor"
    kafka_code: ClassVar[int] = 38


class ReplicaPlacementFailed(KshuntError):
    """A placer could not, or would not, place a topic or partition; asking again is no use."""

    title = "Replica placement failed"
    kafka_code: ClassVar[int] = 10_000


@runtime_checkable
class ReplicaPlacer(Protocol):
    """KIP-660, ReplicaPlacer; made without arguments."""

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        """The replica list of each new partition, its preferred leader first.

        Args:
            start_partition: The number of the first of them.
            num_partitions: How many to place.
            num_replicas: Replicas of each.
            brokers: Every broker where a replica may go.

        Raises:
            InvalidReplicationFactor: too many replicas were requested.
            ReplicaPlacementFailed: there is no placement.
        """
        ...

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the brokers' configuration, before anything is placed."""
        ...

    def close(self) -> None:
        """Let go of what is held; nothing is placed after this."""
        ...


@lru_cache(maxsize=16)
def load_placer(name: str) -> ReplicaPlacer:
    """The placer of that name; each name has one, made and configured when it is first used.

    Raises:
        ConfigError: it cannot be imported or made, or does not fit the interface.
    """
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ConfigError(f"'{name}' is no placer.", advice="Write module:Class.")
    try:
        made: Any = getattr(importlib.import_module(module), attribute)()
    # Whatever a stranger's module does when it is imported, it is the setting that is wrong.
    except Exception as error:
        raise ConfigError(
            f"The placer {name} cannot be made: {type(error).__name__}: {error}.",
            advice="See replica.placer.class.name.",
        ) from error
    if not isinstance(made, ReplicaPlacer):
        raise ConfigError(f"{name} has not the methods place, configure and close.")
    made.configure({"replica.placer.class.name": name})
    return made
