"""The one way to a cluster: reads, the verbs of the seeds, and the results of both.

A call raises only when the whole call failed. What happened to one partition, broker or topic
inside a call is an `ItemResult` with Kafka's error code, name and message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kshunt.backend.admin.port.effects import ClusterEffects
from kshunt.backend.admin.port.item_result import OK as OK
from kshunt.backend.admin.port.item_result import ItemResult as ItemResult
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)
from kshunt.backend.domain.throttles.configs import (
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import TopicsDescribed
from kshunt.backend.domain.topics.groups import GroupsRead, OffsetsRead, ProducersRead, RecordSample

PartitionResults: TypeAlias = Mapping[TopicPartition, ItemResult]


@dataclass(frozen=True, slots=True)
class ReassignOptions:
    """KIP-179, ReassignPartitionsOptions."""

    throttle_bytes_per_s: int | None = None
    """None or KIP-179's `UNTHROTTLED`: no throttle."""
    log_dirs_throttle_bytes_per_s: int | None = None
    """Rate for moves between a broker's own log directories, or None."""
    validate_only: bool = False
    allow_replication_factor_change: bool = True
    all_or_nothing: bool = False
    """True: as in Kafka's own tool, one partition that cannot be moved holds up the others."""
    auto_remove_throttle: bool = True
    """False: a cluster that can take the throttle off at the end of the move must not."""
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ReassignOutcome:
    """What `reassign_partitions` did, in the order in which it did it."""

    results: PartitionResults
    throttled_topics: Mapping[str, ItemResult]
    """By topic: writing its throttled replicas."""
    throttled_brokers: Mapping[int, ItemResult]
    """By broker: writing its throttled rates."""
    log_dir_results: Mapping[tuple[TopicPartition, int], ItemResult]
    """By replica: starting its move between directories."""
    undone: bool = False
    """True where the cluster refused every partition and the throttles were taken back."""
    unknown: bool = False
    """True where the answer was lost and the cluster could not be asked: it may move, and its
    throttle was left on."""


@dataclass(frozen=True, slots=True)
class ReplicaLag:
    """KIP-179 draft, ReplicaStatus: how far one replica is behind.

    The draft's answer also lists IsrTime, FollowerTime and MaxLag, and explains none of them; no
    Kafka tells an administrator when a follower was last level with its leader. What can be known
    is whether it is in the ISR, that is, level within `replica.lag.time.max.ms`.
    """

    partition: TopicPartition
    broker: int
    status_ms: int
    """When the status was current, milliseconds since the epoch; -1 where the lag is unknown.

    Where leaders tell the lags, it is by their clock. Where log end offsets are compared, it is by
    ours: when the replica's broker answered, or its leader's, whichever was first.
    """
    lag_messages: int
    """-1 where unknown."""
    in_isr: bool
    result: ItemResult = OK
    """The draft's error for a replica that cannot be described."""


class ClusterAdmin(ClusterEffects, Protocol):
    """A cluster, as its administrators see it."""

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """Brokers, and who hosts what: of all topics, or of those named.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def list_reassignments(
        self, *, timeout_s: float
    ) -> Mapping[TopicPartition, OngoingReassignment]:
        """Every partition that moves now (KIP-455).

        Raises:
            ClusterUnreachable: the controller did not answer in time.
        """
        ...

    async def log_end_offsets(
        self, broker: int, partitions: PartitionColumns, *, timeout_s: float
    ) -> OffsetColumns:
        """The broker's own log end offset of each partition, leader or not.

        Raises:
            BrokerUnreachable: the broker did not answer in time.
        """
        ...

    async def log_dirs(
        self, broker: int, partitions: PartitionColumns | None = None, *, timeout_s: float
    ) -> LogDirColumns:
        """The broker's log directories and the replicas in them (KIP-113).

        Raises:
            BrokerUnreachable: the broker did not answer in time.
        """
        ...

    async def throttles(
        self, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
    ) -> Throttles:
        """Rates of the brokers and throttled replicas of the topics, as configured now.

        A broker that does not answer in time is in `unknown_brokers`.

        Raises:
            ClusterUnreachable: the topics' configurations could not be read.
        """
        ...

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """The min.insync.replicas in force, by topic: of all topics, or of those named.

        A topic that does not exist, or whose configuration the cluster does not show, is absent.

        Raises:
            ClusterUnreachable: the configurations could not be read.
        """
        ...

    async def topic_configs(
        self, topic: str, *, timeout_s: float
    ) -> tuple[TopicConfig, ...] | None:
        """Everything a topic is configured with, sorted by name; None if there is no such topic.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show it.
        """
        ...

    async def describe_topics(
        self,
        topics: Sequence[str] | None = None,
        *,
        configs: bool,
        min_isr: bool,
        timeout_s: float,
    ) -> TopicsDescribed:
        """What `kafka-topics --describe` tells, of all topics or of those named.

        A topic that there is not is absent, and so are moves where we may not know of them.
        `configs`: with what is not configured as Kafka ships it. `min_isr`: with the
        min.insync.replicas in force, which costs a request more.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show a configuration.
        """
        ...

    async def topic_groups(self, topic: str, *, timeout_s: float) -> GroupsRead:
        """The consumer groups that committed offsets of a topic, or have members that read it.

        What a broker or a group does not say is in `unread`; the others are there.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def topic_offsets(self, topic: str, *, timeout_s: float) -> OffsetsRead:
        """Where the logs of a topic begin and end, by their leaders; see `PartitionOffsets`.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def topic_producers(self, topic: str, *, timeout_s: float) -> ProducersRead:
        """The producers that the leaders of a topic's partitions remember (KIP-664).

        A leader without that call (before Kafka 2.8, and every embedded one) is in `unread`.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def record_sample(
        self, topic: str, ends: Mapping[int, tuple[int, int]], *, timeout_s: float
    ) -> RecordSample:
        """The last few records of these partitions, given the start and end offset of each.

        What is not there in time is in `unread`. No group is joined, and nothing committed.
        """
        ...

    async def reassign_partitions(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """KIP-179: topic throttles, then broker throttles, then the move; undone when refused.

        Each partition is answered for itself: where the plan names what the cluster does not
        have, the others move. With `all_or_nothing`, nothing is written then, and the others are
        OPERATION_NOT_ATTEMPTED. INVALID_REQUEST refuses a rate under 1 KB/s, and all partitions.

        Raises:
            ClusterUnreachable: the cluster did not answer before anything was written.
        """
        ...

    async def cancel_reassignments(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """Return to the original replicas. A partition that does not move says so in its result."""
        ...

    async def alter_interbroker_throttled_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        log_dir_rates: Mapping[int, int | None] | None = None,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[int, ItemResult]:
        """KIP-179: set the rates of the named brokers; None in a rate removes it.

        `log_dir_rates` sets the rate of moves between log directories likewise. Brokers are
        written in parallel, and one that is down fails alone. INVALID_REQUEST for a rate under
        1 KB/s, but where `as_found` says that it goes back to where it was read.
        """
        ...

    async def alter_interbroker_throttled_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[str, ItemResult]:
        """KIP-179: set the throttled replicas of the named topics; an empty side is removed.

        UNKNOWN_TOPIC_OR_PARTITION and BROKER_NOT_AVAILABLE refuse a partition of a topic: its
        error is the topic's, and the other partitions are written. Nothing is checked where
        `as_found` says that the lists go back to where they were read.

        Raises:
            ClusterUnreachable: the cluster could not be asked what it has.
        """
        ...

    async def alter_topics(
        self, topics: Mapping[str, AlteredTopic], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """KIP-179's early draft: partitions, replication factor and assignment, topic by topic.

        A success says that the alteration has begun; the moves go on without a throttle. The
        draft's errors: INVALID_TOPIC_EXCEPTION for a topic that does not exist,
        INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, UNKNOWN_MEMBER_ID for a broker that does
        not exist, INVALID_REPLICA_ASSIGNMENT, CLUSTER_AUTHORIZATION_FAILED; and
        REASSIGNMENT_IN_PROGRESS. REPLICA_PLACEMENT_FAILED has the words of a placer (KIP-660): the
        cluster's, or ours where the verb is composed. What a broker's policies and quotas refuse
        has their own codes.
        Where the answer was lost and the change not seen, the message says so.

        Raises:
            ClusterUnreachable: the cluster did not answer before anything was written.
        """
        ...

    async def shrink_support(self, *, timeout_s: float) -> ShrinkSupport:
        """Whether the cluster can delete partitions (KIP-694), and whether it is switched on.

        Raises:
            ClusterUnreachable, BrokerUnreachable: it did not answer in time.
        """
        ...

    async def delete_partitions(
        self, topics: Mapping[str, DeletePartitions], *, validate_only: bool, timeout_s: float
    ) -> Mapping[TopicPartition, DeletedPartition]:
        """KIP-694: topics keep their first partitions, and the others go after a delay.

        A success says that the deletion has begun: the partition is ReadOnly until its delay is
        over, then None until its brokers have deleted it. A partition that was to go and that the
        count keeps is in the answer as ReadWrite: its deletion is cancelled. Each topic is
        answered for itself; one that is refused as a whole is there as `NO_PARTITION`:
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION for an internal one,
        INVALID_PARTITIONS for a count under 1 or one that takes nothing away, INVALID_REQUEST for
        a negative delay. REASSIGNMENT_IN_PROGRESS names the partition that moves.

        Raises:
            NotSupported: the cluster has no such request; nothing was changed.
            Conflict: it is switched off there; nothing was changed.
            ClusterUnreachable, BrokerUnreachable: it did not answer before anything was sent.
        """
        ...

    async def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """KIP-183: elect the preferred replica; of every partition if None.

        ELECTION_NOT_NEEDED is the answer for a partition that is led by it already.
        """
        ...

    async def elect_unclean_leaders(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """KIP-460: elect any replica that is up; what it has not copied is lost for good.

        ELECTION_NOT_NEEDED is the answer for a partition that has a leader, and
        ELIGIBLE_LEADERS_NOT_AVAILABLE for one none of whose replicas is up.
        """
        ...

    async def replica_status(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> Sequence[ReplicaLag]:
        """KIP-179 draft: the exact lag of every replica of the partitions.

        In place of a partition that does not exist stands one entry with `NO_BROKER`:
        INVALID_TOPIC_EXCEPTION where there is no such topic, else INVALID_PARTITIONS.
        """
        ...

    async def close(self) -> None:
        """Release the connections; no other call may follow."""
        ...
