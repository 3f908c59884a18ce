"""A cluster that keeps its metadata in ZooKeeper, reached through ZooKeeper as Kafka 2's tools did.

Goals
    The port's verbs with its guarantees, by the znodes that brokers and controllers obey: KIP-179
    and KIP-183 keep that way as it was. The verbs are those that are composed (`emulated`); what
    they are composed from is here.
Constraints
    - A controller looks at `/admin/reassign_partitions` when it is made, and at no other moment:
      nothing can be added to a reassignment, nothing taken from it, and none be cancelled.
    - The brokers hear of a configuration by a notification, and nobody says when they obey it.
Algorithm
    reassign_partitions      `/admin/reassign_partitions` is made; where it is there already, those
                             partitions are refused of which it does not say the same. The
                             controller removes it when all is done.
    throttles                the configuration's znode and a notification in one commit.
    elect_preferred_leaders  `/admin/preferred_replica_election` is made for those that need it; it
                             is gone when the controller is done, and the leaders tell the results.
    What is in ZooKeeper is read there. Log end offsets, sizes, groups and whole configurations
    come from the brokers that ZooKeeper names, where they answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NoReturn, Self

from kshunt.backend.admin.kafka.config_propagation import wait_until_in_force
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.kips.reassignment import emulated
from kshunt.backend.admin.kips.reassignment.checks import (
    check_plan,
    fit_part,
    meant_options,
    with_refused,
)
from kshunt.backend.admin.port.capabilities import NotOffered, Verb, refusal, require
from kshunt.backend.admin.port.cluster_admin import (
    OK,
    ItemResult,
    PartitionResults,
    ReassignOptions,
    ReassignOutcome,
)
from kshunt.backend.admin.port.effects import WriteBlock
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.configs import RATE_KEYS, REPLICA_KEYS, Changes, Values
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.admin.zookeeper import cluster_state, config_znodes, znode_layout
from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.admin.zookeeper.preferred_election import elect
from kshunt.backend.admin.zookeeper.session import Create, Outdated, Session
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.error_codes import (
    BROKER_NOT_AVAILABLE,
    REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from kshunt.backend.domain.cluster.metadata import Broker, OngoingReassignment, TopicPartition
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import ClusterError, ClusterUnreachable
from kshunt.backend.settings import Settings

ATTEMPTS: Final = 3
"""Somebody else's znode would have to be there and gone as often."""
SHOWN_S: Final = 3.0
"""Brokers are asked so long whether they obey a rate."""

NOT_OFFERED: Final[NotOffered] = MappingProxyType(
    {
        Verb.CANCEL: "a controller looks at /admin/reassign_partitions only when it is made, and "
        "deleting it stops nothing",
        Verb.UNCLEAN_ELECTION: "no znode asks for one",
        Verb.LOG_DIRS: "only the broker itself takes such a move",
        Verb.ALTER_TOPICS: "that way is for reassignments and preferred elections",
        Verb.SHRINK: "it needs the brokers for every step",
    }
)


class ZooKeeperAdmin(KafkaAdmin):
    """See the module's text. One instance belongs to one event loop; `opened` makes it."""

    def __init__(self, settings: Settings, session: Session, clock: Clock | None = None) -> None:
        """`settings` have the brokers' addresses, as `opened` has found them."""
        super().__init__(settings, clock, owned_throttles=True)
        self.session = session
        self._protocol = self._config.security_protocol
        self._zk_clock = clock or SystemClock()

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
                    f"ZooKeeper at {session.connect} names no broker with a listener of "
                    f"security.protocol {protocol}.",
                    advice="Start a broker, or name its protocol in --zk-tls-config-file.",
                )
            return cls(replace(settings, bootstrap_servers=",".join(addresses)), session, clock)
        except BaseException:
            await session.close()
            raise

    @property
    def not_offered(self) -> NotOffered:
        """See `kshunt.backend.admin.port.capabilities`."""
        return NOT_OFFERED

    async def connect(self, *, timeout_s: float = 5.0) -> None:
        """Look whether the cluster is there; brokers need not answer."""
        await self.describe((), timeout_s=timeout_s)

    async def close(self) -> None:
        """See `ClusterAdmin.close`."""
        await super().close()
        await self.session.close()

    # Reading

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """See `ClusterAdmin.describe`. A replica is offline where its broker is: what brokers say
        of a log directory is not in ZooKeeper."""
        state = await cluster_state.describe(
            self.session, self._protocol, topics, timeout_s=timeout_s
        )
        self._links.learn({b.id: (b.host, b.port) for b in state.brokers.values() if b.host})
        self._controller = state.controller
        return state

    async def list_reassignments(
        self, *, timeout_s: float
    ) -> Mapping[TopicPartition, OngoingReassignment]:
        """See `ClusterAdmin.list_reassignments`."""
        return await cluster_state.ongoing(self.session, timeout_s=timeout_s)

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """See `ClusterAdmin.accepts_moves`."""
        znode = await self.session.read(znode_layout.REASSIGN, timeout_s=timeout_s)
        return "" if znode is None else _BUSY

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """Also of a broker that is down, if it was ever configured: it obeys when it starts."""
        return await config_znodes.read_brokers(
            self.session, brokers, RATE_KEYS, timeout_s=timeout_s
        )

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent."""
        return await config_znodes.read_topics(
            self.session, topics, REPLICA_KEYS, timeout_s=timeout_s
        )

    async def highest_version(
        self, api_key: int, broker: int | None = None, *, timeout_s: float
    ) -> int:
        """None of the seeds' RPCs is asked for: no cluster in ZooKeeper has them."""
        return -1

    # Throttles

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at once; never raises for one."""
        known = await self.read_brokers(list(changes), timeout_s=timeout_s)
        results = {
            broker: item_result(BROKER_NOT_AVAILABLE, f"ZooKeeper knows no broker {broker}")
            for broker in changes
            if broker not in known
        }
        wanted = {config_znodes.broker_entity(b): changes[b] for b in changes if b in known}
        written = await self._write(wanted, validate_only=validate_only, timeout_s=timeout_s)
        results |= {b: written[config_znodes.broker_entity(b)] for b in changes if b in known}
        if not validate_only:
            await self.brokers_show(
                {b: changes[b] for b in changes if results[b].ok}, timeout_s=SHOWN_S
            )
        return {broker: results[broker] for broker in changes}

    async def brokers_show(self, changes: Mapping[int, Changes], *, timeout_s: float) -> None:
        """Wait until the brokers in reach say that they obey; see `wait_until_in_force`."""
        shown = KafkaAdmin.read_brokers
        await wait_until_in_force(
            self._zk_clock, changes, lambda names: shown(self, names, timeout_s=timeout_s)
        )

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        known = await self.read_topics(list(changes), timeout_s=timeout_s)
        results = {
            topic: item_result(UNKNOWN_TOPIC_OR_PARTITION, "the cluster has no such topic")
            for topic in changes
            if topic not in known
        }
        wanted = {config_znodes.topic_entity(t): changes[t] for t in changes if t in known}
        written = await self._write(wanted, validate_only=validate_only, timeout_s=timeout_s)
        results |= {t: written[config_znodes.topic_entity(t)] for t in changes if t in known}
        return {topic: results[topic] for topic in changes}

    async def topics_show(self, changes: Mapping[str, Changes], *, timeout_s: float) -> None:
        """Brokers of such a cluster say what is written, whether or not they obey it yet."""

    async def _write(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        if validate_only:
            return dict.fromkeys(changes, OK)
        self._ask_guard()
        found = await together(
            config_znodes.change(self.session, entity, change, timeout_s=timeout_s)
            for entity, change in changes.items()
        )
        return dict(zip(changes, found, strict=True))

    # Moves

    async def reassign_partitions(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """See `ClusterAdmin.reassign_partitions`.

        Raises:
            NotSupported: a log directory is named, or a rate for moves between them.
            BadInput: the plan is larger than a znode may be.
        """
        if log_dirs or options.log_dirs_throttle_bytes_per_s is not None:
            require(Verb.LOG_DIRS, self)
        self.session.check_size([_made(assignments)])
        options, timeout_s = meant_options(options), options.timeout_s
        situation = await emulated.read_situation(self, assignments, log_dirs, timeout_s)
        checked = check_plan(assignments, log_dirs, options, situation)
        fit, _ = fit_part(assignments, log_dirs, checked)
        if not fit:
            return ReassignOutcome(checked, {}, {}, {})
        asked = await cluster_state.reassignment(self.session, timeout_s=timeout_s)
        if asked is not None and not all(r.ok for r in _among(fit, asked).values()):
            busy = ReassignOutcome(dict.fromkeys(fit, _in_progress()), {}, {}, {})
            return with_refused(busy, checked)
        if options.validate_only:
            return ReassignOutcome(checked, {}, {}, {})
        started = await emulated.start_checked(self, situation, checked, fit, options, log_dirs)
        return with_refused(started, checked)

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """Make `/admin/reassign_partitions`; a partition that shall be cancelled is refused.

        Where it is there, a partition of which it says the same is accepted, as brokers do it.
        """
        results = {partition: _not_cancelled(self) for partition in targets}
        wanted = {p: target for p, target in targets.items() if target is not None}
        if not wanted:
            return results
        for _ in range(ATTEMPTS):
            self._ask_guard()
            try:
                await self.session.commit([_made(wanted)], timeout_s=timeout_s)
            except Outdated:
                asked = await cluster_state.reassignment(self.session, timeout_s=timeout_s)
                if asked is not None:
                    return results | _among(wanted, asked)
                continue
            return results | dict.fromkeys(wanted, OK)
        return results | dict.fromkeys(wanted, _in_progress())

    async def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """See `ClusterAdmin.elect_preferred_leaders`, and the module's text.

        Raises:
            Conflict: an election is held already; nothing was changed.
        """
        return await elect(self, self.session, self._ask_guard, partitions, timeout_s=timeout_s)

    elect_leaders = elect_preferred_leaders

    # Not offered

    async def alter_log_dirs(
        self, broker: int, paths: Mapping[TopicPartition, str], *, timeout_s: float
    ) -> PartitionResults:
        """Not offered: see `NOT_OFFERED`."""
        return {} if not paths else self._refuse(Verb.LOG_DIRS)

    async def elect_unclean_leaders(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """Not offered: see `NOT_OFFERED`."""
        self._refuse(Verb.UNCLEAN_ELECTION)

    async def alter_topics(
        self, topics: Mapping[str, AlteredTopic], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """Not offered: see `NOT_OFFERED`."""
        self._refuse(Verb.ALTER_TOPICS)

    async def shrink_support(self, *, timeout_s: float) -> ShrinkSupport:
        """Not offered: see `NOT_OFFERED`."""
        self._refuse(Verb.SHRINK)

    async def delete_partitions(
        self, topics: Mapping[str, DeletePartitions], *, validate_only: bool, timeout_s: float
    ) -> Mapping[TopicPartition, DeletedPartition]:
        """Not offered: see `NOT_OFFERED`."""
        self._refuse(Verb.SHRINK)

    async def write_block(self, topic: str, *, timeout_s: float) -> WriteBlock:
        """Not offered: see `NOT_OFFERED`."""
        self._refuse(Verb.SHRINK)

    def _refuse(self, verb: Verb) -> NoReturn:
        require(verb, self)
        raise ClusterError(f"{verb} is not offered through ZooKeeper.")


def _address(broker: Broker) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.port}"


_BUSY: Final = (
    f"a reassignment runs: {znode_layout.REASSIGN} is there, and another can be asked for through "
    "ZooKeeper when it is gone"
)


def _among(
    wanted: Mapping[TopicPartition, Sequence[int]], asked: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, ItemResult]:
    """Accepted is what was asked for already, in just the same way."""
    return {p: OK if asked.get(p) == tuple(to) else _in_progress() for p, to in wanted.items()}


def _in_progress() -> ItemResult:
    return item_result(REASSIGNMENT_IN_PROGRESS, _BUSY)


def _not_cancelled(way: ZooKeeperAdmin) -> ItemResult:
    return item_result(UNSUPPORTED_VERSION, str(refusal(Verb.CANCEL, way)))


def _made(targets: Mapping[TopicPartition, Sequence[int]]) -> Create:
    return Create(znode_layout.REASSIGN, znode_layout.reassignment_text(targets))
