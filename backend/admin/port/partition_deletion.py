"""Partitions that a cluster deletes by itself (KIP-694)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)


class PartitionDeletionAdmin(Protocol):
    """See the module's text."""

    async def support(self, *, timeout_s: float) -> ShrinkSupport:
        """Whether the cluster can delete partitions, and whether it is switched on.

        Raises:
            ClusterUnreachable, BrokerUnreachable: it did not answer in time.
        """
        ...

    async def delete(
        self, topics: Mapping[str, DeletePartitions], *, validate_only: bool, timeout_s: float
    ) -> Mapping[TopicPartition, DeletedPartition]:
        """KIP-694, deletePartitions: topics keep their first ones, the others go after a delay.

        A success says that the deletion has begun: the partition is ReadOnly until its delay is
        over, then None until its brokers have deleted it. A partition that was to go and that the
        count keeps is in the answer as ReadWrite: its deletion is cancelled. Each topic is
        answered for itself; one that is refused as a whole is there as `NO_PARTITION`. Its codes:
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION for an internal topic,
        INVALID_PARTITIONS for a count under 1 or one that removes nothing, INVALID_REQUEST for
        a negative delay. REASSIGNMENT_IN_PROGRESS names the partition that moves.

        Raises:
            NotSupported: the cluster has no such request; nothing was changed.
            Conflict: it is switched off there; nothing was changed.
            ClusterUnreachable, BrokerUnreachable: it did not answer before anything was sent.
        """
        ...
