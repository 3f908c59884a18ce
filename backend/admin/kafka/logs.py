"""Logs on the disks of a broker, asked of that broker and decoded in columns."""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.admin.rpc import requests
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls, decoded
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.wire import offsets_and_log_dirs
from kshunt.backend.wire.api_keys import DESCRIBE_LOG_DIRS_KEY, LIST_OFFSETS_KEY
from kshunt.backend.wire.raw_request import RawRequest


class KafkaLogs:
    """See `LogAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def end_offsets(
        self, broker: int, partitions: PartitionColumns, *, timeout_s: float
    ) -> OffsetColumns:
        """See `LogAdmin.end_offsets`."""
        request = RawRequest(
            "ListOffsets",
            LIST_OFFSETS_KEY,
            offsets_and_log_dirs.LIST_OFFSETS_VERSIONS,
            offsets_and_log_dirs.LIST_OFFSETS_FLEXIBLE_FROM,
            lambda version: offsets_and_log_dirs.encode_list_offsets(partitions, version),
        )
        answer = await self._calls.call(broker, request, timeout_s=timeout_s)
        return await decoded(
            answer,
            lambda: offsets_and_log_dirs.decode_list_offsets(
                answer.body, answer.version, partitions
            ),
        )

    async def dirs(
        self, broker: int, partitions: PartitionColumns | None = None, *, timeout_s: float
    ) -> LogDirColumns:
        """See `LogAdmin.dirs`."""
        request = RawRequest(
            "DescribeLogDirs",
            DESCRIBE_LOG_DIRS_KEY,
            offsets_and_log_dirs.DESCRIBE_LOG_DIRS_VERSIONS,
            offsets_and_log_dirs.DESCRIBE_LOG_DIRS_FLEXIBLE_FROM,
            lambda version: offsets_and_log_dirs.encode_describe_log_dirs(partitions, version),
        )
        answer = await self._calls.call(broker, request, timeout_s=timeout_s)
        return await decoded(
            answer,
            lambda: offsets_and_log_dirs.decode_describe_log_dirs(
                answer.body, answer.version, broker
            ),
        )

    async def alter_dirs(
        self, broker: int, paths: Mapping[TopicPartition, str], *, timeout_s: float
    ) -> PartitionResults:
        """See `LogAdmin.alter_dirs`."""
        request = requests.log_dirs_request(paths)
        answer = await self._calls.call(broker, request, timeout_s=timeout_s, lane="write")
        return requests.log_dirs_altered(answer, paths)
