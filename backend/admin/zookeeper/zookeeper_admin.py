"""A cluster that keeps its metadata in ZooKeeper, reached through ZooKeeper as Kafka 2's tools did.

Goals
    The port's verbs with its guarantees, by the znodes that brokers and controllers obey: KIP-179
    and KIP-183 keep that way as it was.
Algorithm
    What is in ZooKeeper is read and written there: who hosts what, reassignments, the
    configurations that hold throttles, preferred elections. Log end offsets, sizes, groups and
    whole configurations come from the brokers that ZooKeeper names, where they answer: those
    subjects are the same objects as in `KafkaAdmin`. No throttle goes by a cluster's own removal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from kshunt.backend.admin.kafka.configs import KafkaConfigs
from kshunt.backend.admin.kafka.groups import KafkaGroups
from kshunt.backend.admin.kafka.logs import KafkaLogs
from kshunt.backend.admin.kafka.records import KafkaRecords
from kshunt.backend.admin.kafka.topics import KafkaTopics
from kshunt.backend.admin.kips.replica_status import KafkaReplicas
from kshunt.backend.admin.kips.throttles.kafka_throttles import KafkaThrottles
from kshunt.backend.admin.port.alteration import AlterationAdmin
from kshunt.backend.admin.port.capabilities import Verb
from kshunt.backend.admin.port.partition_deletion import PartitionDeletionAdmin
from kshunt.backend.admin.port.write_blocks import WriteBlockAdmin
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.admin.zookeeper import cluster_state
from kshunt.backend.admin.zookeeper.elections import ZooKeeperElections
from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.admin.zookeeper.not_offered import NOT_OFFERED, refused
from kshunt.backend.admin.zookeeper.reassignments import ZooKeeperReassignments
from kshunt.backend.admin.zookeeper.session import Session
from kshunt.backend.admin.zookeeper.throttle_configs import ZooKeeperThrottleConfigs
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.settings import Settings

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer


class ZooKeeperAdmin:
    """See the module's text. One instance belongs to one event loop; `opened` makes it."""

    def __init__(self, settings: Settings, session: Session, clock: Clock | None = None) -> None:
        """`settings` have the brokers' addresses, as `opened` has found them."""
        clock = clock or SystemClock()
        self.session = session
        self.not_offered = NOT_OFFERED
        """See `ClusterAdmin.not_offered`."""
        self.guard: Callable[[], None] = lambda: None
        """Asked right before anything is sent that changes the cluster; what it raises stops it."""
        self.placing: BackendPlacer | None = None
        """Says where replicas go that kshunt proposes."""
        self.cluster = BrokerCalls(settings, clock, self._ask_guard, self._described)
        self.configs = KafkaConfigs(self.cluster)
        self.groups = KafkaGroups(self.cluster)
        self.records = KafkaRecords(self.cluster)
        self.logs = KafkaLogs(self.cluster)
        self.replicas = KafkaReplicas(self.cluster, self.logs, clock)
        throttle_configs = ZooKeeperThrottleConfigs(session, self.cluster, clock, self._ask_guard)
        self.throttles = KafkaThrottles(self.cluster, throttle_configs)
        self.reassignments = ZooKeeperReassignments(
            self.cluster, throttle_configs, self.logs, session, self._ask_guard
        )
        self.topics = KafkaTopics(self.cluster, self.configs, self.reassignments)
        self.elections = ZooKeeperElections(self.cluster, session, self._ask_guard)

    @classmethod
    async def opened(
        cls, settings: Settings, clock: Clock | None = None, *, session: Session | None = None
    ) -> Self:
        """An admin with a session, given settings that name an ensemble.

        Raises:
            ClusterUnreachable: ZooKeeper does not answer, or holds no cluster with brokers.
            ConfigError: the flags cannot be meant, or TLS does not come about.
            NotAuthorized: an ACL forbids to read.
        """
        config = ensemble_config(settings.zookeeper, settings.command_config)
        protocol = load_client_config(settings.command_config).security_protocol
        session = session or Session(config)
        await session.open()
        try:
            await cluster_state.cluster_id(session, timeout_s=settings.request_timeout_s)
            found = await cluster_state.brokers(
                session, protocol, timeout_s=settings.request_timeout_s
            )
            addresses = [_address(b) for b in found.values() if b.host]
            if not addresses:
                raise ClusterUnreachable(
                    f"ZooKeeper at {session.connect} lists no broker with a listener of "
                    f"security.protocol {protocol}.",
                    advice="Start a broker, or set the protocol of its listener in the file of "
                    "--zk-tls-config-file.",
                )
            return cls(replace(settings, bootstrap_servers=",".join(addresses)), session, clock)
        except BaseException:
            await session.close()
            raise

    @property
    def alterations(self) -> AlterationAdmin:
        """Not offered: see `NOT_OFFERED`."""
        raise refused(Verb.ALTER_TOPICS)

    @property
    def partition_deletions(self) -> PartitionDeletionAdmin:
        """Not offered: see `NOT_OFFERED`."""
        raise refused(Verb.SHRINK)

    @property
    def write_blocks(self) -> WriteBlockAdmin:
        """Not offered: see `NOT_OFFERED`."""
        raise refused(Verb.SHRINK)

    async def connect(self, *, timeout_s: float = 5.0) -> None:
        """Look whether the cluster is there; brokers need not answer."""
        await self.cluster.describe(NO_TOPICS, timeout_s=timeout_s)

    async def close(self) -> None:
        """See `ClusterAdmin.close`."""
        await self.cluster.close()
        await self.session.close()

    async def _described(self, topics: Sequence[str] | None, timeout_s: float) -> ClusterState:
        """A replica is offline where its broker is: what brokers say of a log directory is not in
        ZooKeeper."""
        protocol = self.cluster.config.security_protocol
        return await cluster_state.describe(self.session, protocol, topics, timeout_s=timeout_s)

    def _ask_guard(self) -> None:
        self.guard()


def _address(broker: Broker) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.port}"
