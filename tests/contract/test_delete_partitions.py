"""What a cluster says of its topics, and that it does not delete partitions, on three clusters."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions, ShrinkSupport
from kshunt.backend.errors import Conflict, NotSupported
from tests.support.admin import connected, states_of, topic_with
from tests.support.clusters import ContractCluster, differs
from tests.support.native import (
    TIMEOUT_S,
)


async def test_elsewhere_it_is_refused_and_nothing_changes(cluster: ContractCluster) -> None:
    async with connected(cluster.bootstrap_servers) as admin:
        topic = await topic_with(admin, "whole", [[1], [2], [3]])
        support = await admin.partition_deletions.support(timeout_s=TIMEOUT_S)
        if differs("speaks the seeds", cluster):
            assert support is ShrinkSupport.DISABLED
            raised: type[Exception] = Conflict
        else:
            assert support is ShrinkSupport.UNSUPPORTED
            raised = NotSupported
        for validate_only in (True, False):
            with pytest.raises(raised, match="Nothing was changed"):
                await admin.partition_deletions.delete(
                    {topic: DeletePartitions(1)},
                    validate_only=validate_only,
                    timeout_s=TIMEOUT_S,
                )
        assert sorted(await states_of(admin, topic)) == [0, 1, 2]


async def test_topics_are_described(cluster: ContractCluster) -> None:
    async with connected(cluster.bootstrap_servers) as admin:
        topic = await topic_with(admin, "described", [[1, 2], [3, 1]])
        found = await admin.topics.describe(
            [topic, "no-such-topic"], configs=True, min_isr=True, timeout_s=TIMEOUT_S
        )
        assert found.live == set(cluster.broker_ids)
        (described,) = found.topics
        assert (described.name, len(described.topic_id)) == (topic, 22)
        assert [p.replicas for p in described.partitions] == [(1, 2), (3, 1)]
        assert (described.min_isr, described.replication_factor) == (1, 2)
        assert not described.changing
        whole = await admin.topics.describe(configs=False, min_isr=True, timeout_s=TIMEOUT_S)
        assert {one.name: one.min_isr for one in whole.topics}[topic] == 1
