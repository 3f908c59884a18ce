"""Reassignments: what moves, and moves with their throttle (KIP-455, KIP-179)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult, PartitionResults
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition


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
    """What `ReassignmentAdmin.reassign` did, in the order in which it did it."""

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


class ReassignmentAdmin(Protocol):
    """See the module's text."""

    async def ongoing(self, *, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        """Every partition that moves now (KIP-455).

        Raises:
            ClusterUnreachable: the controller did not answer in time.
        """
        ...

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """Why no move could be asked for at this moment; empty where one can.

        Raises:
            ClusterUnreachable: it did not answer in time.
        """
        ...

    async def reassign(
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

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """Move without a throttle (KIP-455); None returns a partition to its original replicas.

        A partition that is to return and does not move says so in its result.

        Raises:
            ClusterUnreachable, BrokerUnreachable: whether it was done is not known.
            NotAuthorized, ClusterError: the whole request was refused.
        """
        ...
