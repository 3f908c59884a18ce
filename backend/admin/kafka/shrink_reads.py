"""What `KafkaAdmin` reads of a topic that shall lose partitions: who reads it, who writes it.

What does the reading is imported when it is first needed: most tools never do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from backend.admin.rpc.broker_calls import BrokerCalls
from backend.admin.security.client_properties import ClientConfig
from backend.domain.topics.groups import GroupsRead, OffsetsRead, ProducersRead, RecordSample


class Cluster(BrokerCalls, Protocol):
    """What `KafkaAdmin` has for it."""

    _config: ClientConfig

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port`."""
        ...


class ShrinkReads:
    """A part of `KafkaAdmin`."""

    async def topic_groups(self: Cluster, topic: str, *, timeout_s: float) -> GroupsRead:
        """See `ClusterAdmin.topic_groups`."""
        from backend.admin.kafka import consumer_groups

        return await consumer_groups.consumer_groups(self, topic, timeout_s=timeout_s)

    async def topic_offsets(self: Cluster, topic: str, *, timeout_s: float) -> OffsetsRead:
        """See `ClusterAdmin.topic_offsets`."""
        from backend.admin.kafka import offsets_and_producers

        return await offsets_and_producers.topic_offsets(self, topic, timeout_s=timeout_s)

    async def topic_producers(self: Cluster, topic: str, *, timeout_s: float) -> ProducersRead:
        """See `ClusterAdmin.topic_producers`."""
        from backend.admin.kafka import offsets_and_producers

        return await offsets_and_producers.topic_producers(self, topic, timeout_s=timeout_s)

    async def record_sample(
        self: Cluster, topic: str, ends: Mapping[int, tuple[int, int]], *, timeout_s: float
    ) -> RecordSample:
        """See `ClusterAdmin.record_sample`."""
        return await asyncio.to_thread(
            _sample, self.bootstrap_servers, self._config, topic, ends, timeout_s
        )


def _sample(
    bootstrap_servers: str,
    config: ClientConfig,
    topic: str,
    ends: Mapping[int, tuple[int, int]],
    timeout_s: float,
) -> RecordSample:
    from backend.admin.kafka import record_sample

    return record_sample.sample(bootstrap_servers, config, topic, ends, timeout_s=timeout_s)
