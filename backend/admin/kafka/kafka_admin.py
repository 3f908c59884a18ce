"""A cluster of real Kafka brokers, 2.4 and later, behind the `ClusterAdmin` port."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshunt.backend.admin.kafka.configs import KafkaConfigs
from kshunt.backend.admin.kafka.groups import KafkaGroups
from kshunt.backend.admin.kafka.logs import KafkaLogs
from kshunt.backend.admin.kafka.records import KafkaRecords
from kshunt.backend.admin.kafka.throttle_configs import KafkaThrottleConfigs
from kshunt.backend.admin.kafka.topics import KafkaTopics
from kshunt.backend.admin.kafka.write_blocks import KafkaWriteBlocks
from kshunt.backend.admin.kips.alter_topics.native import KafkaAlterations
from kshunt.backend.admin.kips.elections import KafkaElections
from kshunt.backend.admin.kips.partition_deletion import KafkaPartitionDeletions
from kshunt.backend.admin.kips.reassignment.native import KafkaReassignments
from kshunt.backend.admin.kips.replica_status import KafkaReplicas
from kshunt.backend.admin.kips.throttles.kafka_throttles import KafkaThrottles
from kshunt.backend.admin.kips.throttles.native import NativeThrottles
from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import BrokerDown
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.settings import Settings

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer

CONNECT_TIMEOUT_S: Final = 5.0


class KafkaAdmin:
    """Reads and changes a cluster by its brokers: an object a subject. One instance belongs to one
    event loop."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, *, owned_throttles: bool = False
    ) -> None:
        """`owned_throttles`: the caller removes the throttles that it sets.

        Then no rate or list comes under the cluster's own removal, which would delete what was
        there before.
        """
        clock = clock or SystemClock()
        self.not_offered: NotOffered = {}
        """Brokers do all."""
        self.guard: Callable[[], None] = lambda: None
        """Asked right before anything is sent that changes the cluster; what it raises stops it."""
        self.placing: BackendPlacer | None = None
        """Says where replicas go, where neither the request nor a cluster with KIP-660 does."""
        self.cluster = BrokerCalls(settings, clock, self._ask_guard)
        self.throttle_configs = KafkaThrottleConfigs(self.cluster, clock)
        """What throttles are made of."""
        self.configs = KafkaConfigs(self.cluster)
        self.groups = KafkaGroups(self.cluster)
        self.records = KafkaRecords(self.cluster)
        self.write_blocks = KafkaWriteBlocks(self.cluster)
        self.logs = KafkaLogs(self.cluster)
        self.replicas = KafkaReplicas(self.cluster, self.logs, clock)
        self.reassignments = KafkaReassignments(self.cluster, self.throttle_configs, self.logs)
        native = NativeThrottles(self.cluster, self.throttle_configs, self.reassignments, clock)
        self.throttles = KafkaThrottles(
            self.cluster, self.throttle_configs, None if owned_throttles else native
        )
        self.topics = KafkaTopics(self.cluster, self.configs, self.reassignments)
        self.elections = KafkaElections(self.cluster)
        self.alterations = KafkaAlterations(self.cluster, self.reassignments, lambda: self.placing)
        self.partition_deletions = KafkaPartitionDeletions(self.cluster, self.reassignments, clock)

    async def connect(self, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Find the cluster's brokers by the bootstrap servers.

        Raises:
            ClusterUnreachable: none of the servers answered in time.
            NotAuthorized: the cluster refuses our credentials.
            ConfigError: the servers speak another security protocol.
        """
        try:
            await self.cluster.describe(NO_TOPICS, timeout_s=timeout_s)
        except ClusterUnreachable as unreachable:
            if isinstance(unreachable.__cause__, BrokerDown):
                raise
            protocol = self.cluster.config.security_protocol
            raise ClusterUnreachable(
                unreachable.message,
                advice=f"Does the listener use {protocol}? Check security.protocol in the file of "
                "--command-config.",
            ) from unreachable

    async def close(self) -> None:
        """See `ClusterAdmin.close`."""
        await self.cluster.close()

    def _ask_guard(self) -> None:
        self.guard()
