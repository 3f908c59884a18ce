"""What a placer of one's own imports (KIP-660): `from kshunt.placement import UsableBroker`.

These names stay where they are; where kshunt itself keeps them may change.
"""

from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.optional_interfaces import (
    BrokerSelecting,
    ClusterAware,
    ExistingReplicasAware,
    RequestAware,
)
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    ReplicaPlacer,
    UsableBroker,
)

__all__ = [
    "BrokerLoad",
    "BrokerLoads",
    "BrokerSelecting",
    "ClusterAware",
    "ConfigError",
    "ExistingReplicasAware",
    "InvalidReplicationFactor",
    "ReplicaPlacementFailed",
    "ReplicaPlacer",
    "RequestAware",
    "UsableBroker",
]
