"""Partitions are deleted by `KafkaAdmin`'s connections, where the cluster can (KIP-694)."""

from __future__ import annotations

import pytest

from backend.admin.native_topics import Deletion, delete_partitions
from backend.admin.port import OK
from backend.domain.cluster import TopicPartition
from backend.embedded.metadata.records import ResourceType
from backend.errors import ClusterError, NotSupported
from backend.wire import seeds
from tests.native_support import T0, T1, TIMEOUT_S, administered

UNKNOWN_PARTITION, INVALID_PARTITIONS = 3, 37


async def test_the_last_partition_is_readable_until_it_goes() -> None:
    async with administered() as (cluster, admin):
        cluster.set(ResourceType.BROKER, "", delete_topic_partition_enable="true")
        later = await delete_partitions(admin, [T1, T1], delay_ms=60_000, timeout_s=TIMEOUT_S)
        assert later == {T1: Deletion(seeds.MODE_READ_ONLY, OK)}
        none = TopicPartition("none", 0)
        wrong = await delete_partitions(admin, [T0, none], delay_ms=0, timeout_s=TIMEOUT_S)
        assert {p: d.result.error_code for p, d in wrong.items()} == {
            T0: INVALID_PARTITIONS,
            none: UNKNOWN_PARTITION,
        }
        now = await delete_partitions(admin, [T1], delay_ms=0, timeout_s=TIMEOUT_S)
        assert now == {T1: Deletion(seeds.MODE_NONE, OK)}
        cluster.pass_s(5)
        assert cluster.image.partition(*T1) is None


async def test_a_cluster_that_does_not_delete_partitions_says_so() -> None:
    async with administered() as (_, admin):
        with pytest.raises(ClusterError, match="disabled"):
            await delete_partitions(admin, [T1], delay_ms=0, timeout_s=TIMEOUT_S)
    async with administered(native=False) as (_, admin):
        with pytest.raises(NotSupported, match="KIP-694"):
            await delete_partitions(admin, [T1], delay_ms=0, timeout_s=TIMEOUT_S)
