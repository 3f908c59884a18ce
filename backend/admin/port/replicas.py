"""How far replicas are behind (KIP-179's early draft, replicaStatus)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.domain.cluster.metadata import TopicPartition


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


class ReplicaAdmin(Protocol):
    """See the module's text."""

    async def status(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> Sequence[ReplicaLag]:
        """The exact lag of every replica of the partitions.

        In place of a partition that does not exist stands one entry with `NO_BROKER`:
        INVALID_TOPIC_EXCEPTION where there is no such topic, else INVALID_PARTITIONS.
        """
        ...
