"""What a placer may learn in addition to the question of KIP-660; each of these is optional.

KIP-660's `place` knows neither the topic nor who asks nor how full the brokers are, though its
motivation names placers that need all of it. A placer that has one of these methods is told by it
before each `place`, in the same thread. No other question comes between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kshunt.backend.domain.cluster.broker_loads import BrokerLoads
from kshunt.backend.placement.placer import UsableBroker


@runtime_checkable
class ClusterAware(Protocol):
    """A placer that goes by the brokers' load."""

    def observe(self, view: BrokerLoads) -> None:
        """Take the latest load; it holds until the next one."""
        ...


@runtime_checkable
class RequestAware(Protocol):
    """A placer that goes by what is placed, and for whom."""

    def describe(self, topic: str | None, principal: str | None) -> None:
        """Take the topic and the principal of the next request; None where it is not known."""
        ...


@runtime_checkable
class ExistingReplicasAware(Protocol):
    """A placer that continues from the partitions that a topic has."""

    def follow(self, existing: Sequence[Sequence[int]]) -> None:
        """Take the replica lists of the topic's partitions by number; none for a new topic."""
        ...


@runtime_checkable
class BrokerSelecting(Protocol):
    """A placer that does not use every broker that it may."""

    def candidates(
        self, num_replicas: int, brokers: Sequence[UsableBroker]
    ) -> Sequence[UsableBroker]:
        """The brokers among which the next `place` chooses; the answer is checked against them.

        Raises:
            ReplicaPlacementFailed: there are not enough.
        """
        ...
