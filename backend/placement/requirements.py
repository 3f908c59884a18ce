"""What a request has to meet before any shipped placer can place it."""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
)


def check_demand(num_replicas: int, brokers: Sequence[UsableBroker]) -> None:
    """Refuse what no placement can meet, in the words of Kafka's StripedReplicaPlacer.

    Raises:
        InvalidReplicationFactor: no replica is asked for, more than there are brokers, or every
            broker is fenced.
        ReplicaPlacementFailed: some brokers have a rack and some have none (KIP-660,
            Compatibility).
    """
    if num_replicas <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {num_replicas}: the replication factor must be positive."
        )
    if all(broker.fenced for broker in brokers):
        raise InvalidReplicationFactor("All brokers are currently fenced.")
    if num_replicas > len(brokers):
        raise InvalidReplicationFactor(
            f"The target replication factor of {num_replicas} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered."
        )
    _check_racks(brokers)


def _check_racks(brokers: Sequence[UsableBroker]) -> None:
    without = sorted(broker.id for broker in brokers if broker.rack is None)
    if 0 < len(without) < len(brokers):
        raise ReplicaPlacementFailed(
            f"Not all brokers have rack information: {', '.join(map(str, without))} of "
            f"{len(brokers)} brokers have no broker.rack.",
            advice="Nothing was placed. Give broker.rack to every broker, or to none.",
        )
