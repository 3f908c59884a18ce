"""Logs on the disks of one broker: their end offsets, and the directories that they are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import TopicPartition


class LogAdmin(Protocol):
    """See the module's text."""

    async def end_offsets(
        self, broker: int, partitions: PartitionColumns, *, timeout_s: float
    ) -> OffsetColumns:
        """The broker's own log end offset of each partition, leader or not.

        Raises:
            BrokerUnreachable: the broker did not answer in time.
        """
        ...

    async def dirs(
        self, broker: int, partitions: PartitionColumns | None = None, *, timeout_s: float
    ) -> LogDirColumns:
        """The broker's log directories and the replicas in them (KIP-113).

        Raises:
            BrokerUnreachable: the broker did not answer in time.
        """
        ...

    async def alter_dirs(
        self, broker: int, paths: Mapping[TopicPartition, str], *, timeout_s: float
    ) -> PartitionResults:
        """Move replicas of the broker to these of its directories (KIP-113).

        Raises:
            BrokerUnreachable: the broker did not answer in time.
        """
        ...
