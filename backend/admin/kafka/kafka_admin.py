"""A cluster of real Kafka brokers, 2.4 and later, behind the `ClusterAdmin` port."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kshunt.backend.admin.kafka import (
    consumer_groups,
    elections,
    group_changes,
    offsets_and_producers,
    topic_changes,
    topic_descriptions,
    write_blocks,
)
from kshunt.backend.admin.kafka.config_propagation import wait_until_in_force
from kshunt.backend.admin.kafka.config_writer import ConfigWriter
from kshunt.backend.admin.kips import partition_deletion, preferred_election, replica_status
from kshunt.backend.admin.kips.alter_topics.native import alter_topics
from kshunt.backend.admin.kips.reassignment import native as reassignment
from kshunt.backend.admin.kips.throttles.checks import checked_rates, checked_replicas
from kshunt.backend.admin.kips.throttles.rates import alter_rates, alter_rates_by_configs
from kshunt.backend.admin.kips.throttles.replicas import alter_replicas, alter_replicas_by_configs
from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.cluster_admin import (
    ItemResult,
    PartitionResults,
    ReplicaLag,
)
from kshunt.backend.admin.rpc import configs, requests
from kshunt.backend.admin.rpc.bootstrap import bootstrap_addresses
from kshunt.backend.admin.rpc.concurrency import first_answer, together
from kshunt.backend.admin.rpc.configs import Changes, Values
from kshunt.backend.admin.rpc.connections import BrokerConnections, Lane, silence_clients
from kshunt.backend.admin.rpc.error_mapping import BrokerDown, BrokerName, item_error
from kshunt.backend.admin.security.client_properties import ClientConfig, load_client_config
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import NO_BROKER, OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.groups import RecordSample
from kshunt.backend.errors import BrokerUnreachable, ClusterError, ClusterUnreachable
from kshunt.backend.offload import offload
from kshunt.backend.settings import LIMITS, Settings
from kshunt.backend.wire import columnar, metadata
from kshunt.backend.wire.api_keys import DESCRIBE_LOG_DIRS_KEY, LIST_OFFSETS_KEY
from kshunt.backend.wire.raw import RawAnswer, RawRequest

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer

log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 5.0
HEDGE_S: Final = 0.5
"""A read that any broker can answer is sent to another one after this long."""
ASK_BROKERS_MAX: Final = 4
"""Brokers that one such read is sent to at most."""
DECODE_INLINE_BYTES_MAX: Final = 64 * 1024
"""A larger answer is decoded on another thread, so that the event loop goes on."""
TOPICS_PER_REQUEST: Final = 2_000
BROKER_WRITE_TIMEOUT_S: Final = 3.0
"""A broker that does not take its configuration by then fails alone."""
RETRY_TIMEOUT_S_MIN: Final = 1.0

_NO_TOPICS: Final[Sequence[str]] = ()


class KafkaAdmin:
    """Reads and changes a cluster. One instance belongs to one event loop.

    A verb that has a file of its own is a function there, and a method here by its name.
    """

    def __init__(
        self, settings: Settings, clock: Clock | None = None, *, owned_throttles: bool = False
    ) -> None:
        """`owned_throttles`: whoever asks takes them off, and no rate or list comes under the
        cluster's own removal, which would delete what was there before."""
        silence_clients()
        self._alter_rates = alter_rates_by_configs if owned_throttles else alter_rates
        self._alter_lists = alter_replicas_by_configs if owned_throttles else alter_replicas
        self._clock = clock or SystemClock()
        self._settings = settings
        self._config = load_client_config(settings.command_config)
        if self._config.ignored:
            named = ", ".join(self._config.ignored)
            log.info("%s: passed over, they mean nothing here: %s", settings.command_config, named)
        self._servers = bootstrap_addresses(settings.bootstrap_servers)
        self.guard: Callable[[], None] = lambda: None
        """Asked right before anything is sent that changes the cluster; what it raises stops it."""
        self.placing: BackendPlacer | None = None
        """Says where replicas go, where neither the request nor a cluster with KIP-660 does."""
        self._links = BrokerConnections(
            self._config, frame_bytes_max=LIMITS.response_frame_bytes, guard=self._ask_guard
        )
        self._changes = ConfigWriter(settings.bootstrap_servers, self._config, self._ask_guard)
        self._controller = NO_BROKER
        self._responsive: BrokerName = self._servers[0]
        """Whoever answered last."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port`, as it was given."""
        return self._settings.bootstrap_servers

    async def connect(self, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Find the cluster's brokers by the bootstrap servers.

        Raises:
            ClusterUnreachable: none of the servers answered in time.
            NotAuthorized: the cluster refuses our credentials.
            ConfigError: the servers speak another security protocol.
        """
        try:
            await self.describe(_NO_TOPICS, timeout_s=timeout_s)
        except ClusterUnreachable as unreachable:
            if isinstance(unreachable.__cause__, BrokerDown):
                raise
            protocol = self._config.security_protocol
            raise ClusterUnreachable(
                unreachable.message,
                advice=f"Is {protocol} what they expect? See security.protocol, --command-config.",
            ) from unreachable

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """See `ClusterAdmin.describe`."""
        answer = await self.ask_any(lambda: requests.metadata_request(topics), timeout_s=timeout_s)
        state = await self._decoded(answer, lambda: metadata.decode_metadata(*_parts(answer)))
        if not state.brokers:
            raise ClusterUnreachable("The bootstrap servers know no broker yet.")
        self._links.learn({b.id: (b.host, b.port) for b in state.brokers.values()})
        self._controller = state.controller
        return state

    async def list_reassignments(
        self, *, timeout_s: float
    ) -> Mapping[TopicPartition, OngoingReassignment]:
        """See `ClusterAdmin.list_reassignments`."""
        answer = await self.ask_controller(
            lambda: requests.list_request(timeout_s), timeout_s=timeout_s
        )
        return await self._decoded(answer, lambda: requests.listed(answer))

    async def log_end_offsets(
        self, broker: int, partitions: PartitionColumns, *, timeout_s: float
    ) -> OffsetColumns:
        """See `ClusterAdmin.log_end_offsets`."""
        request = RawRequest(
            "ListOffsets",
            LIST_OFFSETS_KEY,
            columnar.LIST_OFFSETS_VERSIONS,
            columnar.LIST_OFFSETS_FLEXIBLE_FROM,
            lambda version: columnar.encode_list_offsets(partitions, version),
        )
        answer = await self.call(broker, request, timeout_s=timeout_s)
        return await self._decoded(
            answer, lambda: columnar.decode_list_offsets(*_parts(answer), partitions)
        )

    async def log_dirs(
        self, broker: int, partitions: PartitionColumns | None = None, *, timeout_s: float
    ) -> LogDirColumns:
        """See `ClusterAdmin.log_dirs`."""
        request = RawRequest(
            "DescribeLogDirs",
            DESCRIBE_LOG_DIRS_KEY,
            columnar.DESCRIBE_LOG_DIRS_VERSIONS,
            columnar.DESCRIBE_LOG_DIRS_FLEXIBLE_FROM,
            lambda version: columnar.encode_describe_log_dirs(partitions, version),
        )
        answer = await self.call(broker, request, timeout_s=timeout_s)
        return await self._decoded(
            answer, lambda: columnar.decode_describe_log_dirs(*_parts(answer), broker)
        )

    async def throttles(
        self, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
    ) -> Throttles:
        """See `ClusterAdmin.throttles`."""
        of_brokers, of_topics = await asyncio.gather(
            self.read_brokers(brokers, timeout_s=timeout_s),
            self.read_topics(topics, timeout_s=timeout_s),
        )
        rates = {b: configs.broker_throttle(b, v) for b, v in of_brokers.items()}
        lists = await offload(configs.pairs_of(of_topics), configs.replicas_by_topic, of_topics)
        return Throttles(
            rates,
            {topic: replicas for topic, replicas in lists.items() if replicas},
            tuple(broker for broker in brokers if broker not in rates),
        )

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """See `ClusterAdmin.min_isr`."""
        if topics is None:
            topics = (await self.describe(timeout_s=timeout_s)).assignment.topics
        answers = await together(
            self.ask_topic_configs(chunk, configs.MIN_ISR_KEYS, configs.min_isr, timeout_s)
            for chunk in _chunks(topics, TOPICS_PER_REQUEST)
        )
        return {topic: minimum for found in answers for topic, minimum in found.items()}

    async def topic_configs(
        self, topic: str, *, timeout_s: float
    ) -> tuple[TopicConfig, ...] | None:
        """See `ClusterAdmin.topic_configs`."""
        read = partial(configs.topic_configs, topic=topic)
        return await self.ask_topic_configs([topic], None, read, timeout_s)

    # The verbs of the seeds

    reassign_partitions = reassignment.reassign_partitions
    elect_preferred_leaders = preferred_election.elect_preferred_leaders
    shrink_support = partition_deletion.shrink_support
    delete_partitions = partition_deletion.delete_partitions

    async def cancel_reassignments(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """See `ClusterAdmin.cancel_reassignments`."""
        return await self.alter_reassignments(dict.fromkeys(partitions), timeout_s=timeout_s)

    async def alter_interbroker_throttled_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        log_dir_rates: Mapping[int, int | None] | None = None,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[int, ItemResult]:
        """See `ClusterAdmin.alter_interbroker_throttled_rates`."""
        write = partial(self._alter_rates, self, validate_only=validate_only, timeout_s=timeout_s)
        if as_found:
            return await write(rates, log_dir_rates or {})
        return await checked_rates(write, rates, log_dir_rates or {})

    async def alter_interbroker_throttled_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[str, ItemResult]:
        """See `ClusterAdmin.alter_interbroker_throttled_replicas`."""
        write = partial(self._alter_lists, self, validate_only=validate_only, timeout_s=timeout_s)
        if as_found:
            return await write(replicas)
        return await checked_replicas(self, write, replicas, timeout_s)

    async def elect_unclean_leaders(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """See `ClusterAdmin.elect_unclean_leaders`."""
        return await elections.elect(self, partitions, unclean=True, timeout_s=timeout_s)

    async def replica_status(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> Sequence[ReplicaLag]:
        """See `ClusterAdmin.replica_status`."""
        return await replica_status.replica_status(
            self, self._clock, partitions, timeout_s=timeout_s
        )

    async def alter_topics(
        self, topics: Mapping[str, AlteredTopic], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """See `ClusterAdmin.alter_topics`."""
        return await alter_topics(
            self,
            topics,
            validate_only=validate_only,
            timeout_s=timeout_s,
            random=random.Random(),
            placing=self.placing,
        )

    # Topics, and who reads and writes them

    describe_topics = topic_descriptions.describe_topics
    partition_modes = topic_descriptions.partition_modes
    topic_groups = consumer_groups.consumer_groups
    topic_offsets = offsets_and_producers.topic_offsets
    topic_producers = offsets_and_producers.topic_producers

    async def record_sample(
        self, topic: str, ends: Mapping[int, tuple[int, int]], *, timeout_s: float
    ) -> RecordSample:
        """See `ClusterAdmin.record_sample`."""
        return await asyncio.to_thread(
            _sample, self.bootstrap_servers, self._config, topic, ends, timeout_s
        )

    # What durable operations do besides: see `ClusterEffects`

    @property
    def not_offered(self) -> NotOffered:
        """See `ClusterEffects.not_offered`: brokers do all."""
        return {}

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """See `ClusterEffects.accepts_moves`: brokers take moves at any time (KIP-455)."""
        return ""

    create_topic = topic_changes.create_topic
    delete_topic = topic_changes.delete_topic
    topic_known = topic_changes.topic_known
    topic_overrides = topic_changes.topic_overrides
    alter_topic_configs = topic_changes.alter_topic_configs
    topic_configs_in_force = topic_changes.topic_configs_in_force
    alter_group_offsets = group_changes.alter_group_offsets
    delete_groups = group_changes.delete_groups
    write_block = write_blocks.write_block
    block_writes = write_blocks.block_writes
    unblock_writes = write_blocks.unblock_writes

    async def close(self) -> None:
        """See `ClusterAdmin.close`."""
        await self._changes.close()
        await self._links.close()

    # What the verbs are composed from: see `KafkaCalls` and `BrokerCalls`

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """The brokers' rates; one that does not answer is absent."""
        wanted = list(dict.fromkeys(brokers))
        found = await together(self._broker_values(broker, timeout_s) for broker in wanted)
        return {
            broker: values
            for broker, values in zip(wanted, found, strict=True)
            if values is not None
        }

    async def _broker_values(self, broker: int, timeout_s: float) -> Values | None:
        try:
            return await self._broker_values_or_raise(broker, timeout_s)
        except BrokerUnreachable:
            return None

    async def _broker_values_or_raise(self, broker: int, timeout_s: float) -> Values | None:
        request = configs.describe_request(configs.BROKER, [str(broker)], configs.RATE_KEYS)
        answer = await self.call(broker, request, timeout_s=timeout_s)
        return configs.described(answer).get(str(broker))

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent."""
        found = await together(
            self.ask_topic_configs(chunk, configs.REPLICA_KEYS, configs.described, timeout_s)
            for chunk in _chunks(topics, TOPICS_PER_REQUEST)
        )
        return {topic: values for chunk in found for topic, values in chunk.items()}

    async def ask_topic_configs(
        self,
        topics: Sequence[str],
        keys: Sequence[str] | None,
        read: Callable[[RawAnswer], T],
        timeout_s: float,
    ) -> T:
        """What any broker says of a few keys of these topics, or of all of them."""
        answer = await self.ask_any(
            lambda: configs.describe_request(configs.TOPIC, topics, keys), timeout_s=timeout_s
        )
        return await self._decoded(answer, lambda: read(answer))

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at once; never raises for one."""
        if not changes:
            return {}
        await self.describe(_NO_TOPICS, timeout_s=timeout_s)
        deadline_s = min(timeout_s, BROKER_WRITE_TIMEOUT_S)
        found = await together(
            self._write_broker(broker, change, validate_only, deadline_s)
            for broker, change in changes.items()
        )
        results = dict(zip(changes, found, strict=True))
        written = {broker: changes[broker] for broker, result in results.items() if result.ok}
        if not validate_only:
            await self.brokers_show(written, timeout_s=deadline_s)
        return results

    async def brokers_show(self, changes: Mapping[int, Changes], *, timeout_s: float) -> None:
        """Wait until the brokers show these configurations; see `wait_until_in_force`."""
        await wait_until_in_force(
            self._clock, changes, lambda names: self.read_brokers(names, timeout_s=timeout_s)
        )

    async def _write_broker(
        self, broker: int, change: Changes, validate_only: bool, timeout_s: float
    ) -> ItemResult:
        try:
            # librdkafka would wait for a broker that refuses connections; a question to it first
            # tells at once.
            await self._broker_values_or_raise(broker, timeout_s)
        except ClusterError as error:
            return item_error(error)
        return await self._changes.alter_broker(
            broker, change, validate_only=validate_only, timeout_s=timeout_s
        )

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        results: dict[str, ItemResult] = {}
        for chunk in _chunks(list(changes), TOPICS_PER_REQUEST):
            results.update(
                await self._changes.alter_topics(
                    {topic: changes[topic] for topic in chunk},
                    validate_only=validate_only,
                    timeout_s=timeout_s,
                )
            )
        written = {topic: changes[topic] for topic, result in results.items() if result.ok}
        if not validate_only:
            await self.topics_show(written, timeout_s=timeout_s)
        return results

    async def topics_show(self, changes: Mapping[str, Changes], *, timeout_s: float) -> None:
        """Wait until the brokers show these topics' configurations; see `wait_until_in_force`."""
        await wait_until_in_force(
            self._clock, changes, lambda names: self.read_topics(names, timeout_s=timeout_s)
        )

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """AlterPartitionReassignments (KIP-455); None cancels."""
        if not targets:
            return {}
        answer = await self.ask_controller(
            lambda: requests.reassignment_request(targets, timeout_s),
            timeout_s=timeout_s,
            lane="write",
        )
        return requests.reassigned(answer, targets)

    async def alter_log_dirs(
        self, broker: int, paths: Mapping[TopicPartition, str], *, timeout_s: float
    ) -> PartitionResults:
        """AlterReplicaLogDirs (KIP-113)."""
        request = requests.log_dirs_request(paths)
        answer = await self.call(broker, request, timeout_s=timeout_s, lane="write")
        return requests.log_dirs_altered(answer, paths)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """ElectLeaders (KIP-460), for preferred leaders."""
        return await elections.elect(self, partitions, timeout_s=timeout_s)

    async def highest_version(
        self, api_key: int, broker: int | None = None, *, timeout_s: float
    ) -> int:
        """The highest version of an API that a broker, or the controller, advertises, or -1.

        It is -1 too for a broker that cannot be reached: what is asked of it then says so.
        """
        try:
            if self._controller not in self._links.known:
                await self.describe(_NO_TOPICS, timeout_s=timeout_s)
            asked = self._controller if broker is None else broker
            return await self._links.highest_version(asked, api_key, timeout_s=timeout_s)
        except ClusterError:
            return -1

    async def call(
        self, broker: int, request: RawRequest, *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """One broker's answer; where to find it is asked for first if it is not known."""
        if broker not in self._links.known:
            await self.describe(_NO_TOPICS, timeout_s=timeout_s)
        return await self._links.call(broker, request, timeout_s=timeout_s, lane=lane)

    async def ask_any(self, request: Callable[[], RawRequest], *, timeout_s: float) -> RawAnswer:
        """The answer of whichever broker gives it first; see `first_answer`."""
        # The one that answered last comes first: what it has said once, it does not unsay.
        known = random.sample(sorted(self._links.known), len(self._links.known))
        order = [self._responsive, *known[:ASK_BROKERS_MAX], *self._servers]
        targets: list[BrokerName] = list(dict.fromkeys(order))

        def attempt(target: BrokerName) -> Callable[[], Awaitable[tuple[BrokerName, RawAnswer]]]:
            async def ask() -> tuple[BrokerName, RawAnswer]:
                return target, await self._links.call(target, request(), timeout_s=timeout_s)

            return ask

        self._responsive, answer = await first_answer(
            [attempt(target) for target in targets],
            hedge_s=min(HEDGE_S, timeout_s / 4),
            asked=self.bootstrap_servers,
        )
        return answer

    async def ask_controller(
        self, request: Callable[[], RawRequest], *, timeout_s: float, lane: Lane = "read"
    ) -> RawAnswer:
        """The controller's answer, looking for the controller again if it is not where it was.

        A change is sent a second time only if the first was surely not carried out.
        """
        deadline = self._clock.monotonic_s() + timeout_s
        if self._controller not in self._links.known:
            await self.describe(_NO_TOPICS, timeout_s=timeout_s)
        try:
            answer = await self._links.call(
                self._controller, request(), timeout_s=timeout_s, lane=lane
            )
            if not requests.is_for_another_controller(answer):
                return answer
        except BrokerUnreachable as error:
            if lane == "write" and not isinstance(error, BrokerDown):
                raise
        remaining_s = max(deadline - self._clock.monotonic_s(), RETRY_TIMEOUT_S_MIN)
        await self.describe(_NO_TOPICS, timeout_s=remaining_s)
        return await self._links.call(self._controller, request(), timeout_s=remaining_s, lane=lane)

    def _ask_guard(self) -> None:
        self.guard()

    async def _decoded(self, answer: RawAnswer, decode: Callable[[], T]) -> T:
        if len(answer.body) <= DECODE_INLINE_BYTES_MAX:
            return decode()
        return await asyncio.to_thread(decode)


def _chunks(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


def _parts(answer: RawAnswer) -> tuple[bytes, int]:
    return answer.body, answer.version


def _sample(
    bootstrap_servers: str,
    config: ClientConfig,
    topic: str,
    ends: Mapping[int, tuple[int, int]],
    timeout_s: float,
) -> RecordSample:
    # librdkafka is loaded where records are read: most tools never do.
    from kshunt.backend.admin.kafka import record_sample

    return record_sample.sample(bootstrap_servers, config, topic, ends, timeout_s=timeout_s)
