"""The admin of a cluster, by whichever way the settings name: brokers, or ZooKeeper."""

from __future__ import annotations

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.settings import Settings


async def reach(
    settings: Settings, clock: Clock | None = None, *, owned_throttles: bool = False
) -> KafkaAdmin:
    """An admin that `connect` makes ready. ZooKeeper's client is loaded only where it is needed.

    Raises:
        ClusterUnreachable, ConfigError, NotAuthorized: of ZooKeeper; see `ZooKeeperAdmin.opened`.
        ConfigError: the client configuration cannot be used.
    """
    if not settings.zookeeper:
        return KafkaAdmin(settings, clock, owned_throttles=owned_throttles)
    from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin

    return await ZooKeeperAdmin.opened(settings, clock)
