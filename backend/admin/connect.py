"""The admin of a cluster, by whichever way the settings name: brokers, or ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.settings import Settings

if TYPE_CHECKING:
    from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin

Reached: TypeAlias = "KafkaAdmin | ZooKeeperAdmin"
"""A `ClusterAdmin` with what its owner sets in addition: a guard, and a placer."""


async def reach(
    settings: Settings, clock: Clock | None = None, *, owned_throttles: bool = False
) -> Reached:
    """An admin that `connect` makes ready. ZooKeeper's client is loaded only where it is needed.

    Raises:
        ClusterUnreachable, ConfigError, NotAuthorized: of ZooKeeper; see `ZooKeeperAdmin.opened`.
        ConfigError: the client configuration cannot be used.
    """
    if not settings.zookeeper:
        return KafkaAdmin(settings, clock, owned_throttles=owned_throttles)
    from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin

    return await ZooKeeperAdmin.opened(settings, clock)
