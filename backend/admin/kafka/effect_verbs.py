"""What `KafkaAdmin` does for durable operations; see `ClusterEffects`.

What does it is imported when it is first needed: most tools never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from backend.admin.port.capabilities import NotOffered
from backend.admin.port.effects import KnownTopic, WriteBlock
from backend.admin.port.item_result import ItemResult
from backend.admin.rpc.broker_calls import BrokerCalls

if TYPE_CHECKING:
    from backend.admin.kafka.topic_changes import Cluster


class EffectVerbs:
    """A part of `KafkaAdmin`."""

    @property
    def not_offered(self) -> NotOffered:
        """See `ClusterEffects.not_offered`: brokers do all."""
        return {}

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """See `ClusterEffects.accepts_moves`: brokers take moves at any time (KIP-455)."""
        return ""

    async def create_topic(
        self: BrokerCalls,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> ItemResult:
        """See `ClusterEffects.create_topic`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.create_topic(
            self, name, assignment, configs, validate_only=validate_only, timeout_s=timeout_s
        )

    async def delete_topic(
        self: BrokerCalls, name: str, *, topic_id: str = "", timeout_s: float
    ) -> ItemResult:
        """See `ClusterEffects.delete_topic`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.delete_topic(self, name, topic_id=topic_id, timeout_s=timeout_s)

    async def topic_known(
        self: BrokerCalls, topic: str, *, timeout_s: float
    ) -> Mapping[int, KnownTopic | None]:
        """See `ClusterEffects.topic_known`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.topic_known(self, topic, timeout_s=timeout_s)

    async def topic_overrides(
        self: Cluster, topic: str, *, timeout_s: float
    ) -> Mapping[str, str] | None:
        """See `ClusterEffects.topic_overrides`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.topic_overrides(self, topic, timeout_s=timeout_s)

    async def alter_topic_configs(
        self: BrokerCalls, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
    ) -> ItemResult:
        """See `ClusterEffects.alter_topic_configs`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.alter_topic_configs(self, topic, changes, timeout_s=timeout_s)

    async def topic_configs_in_force(
        self: BrokerCalls,
        topic: str,
        names: Sequence[str],
        brokers: Sequence[int],
        *,
        timeout_s: float,
    ) -> Mapping[int, Mapping[str, str]]:
        """See `ClusterEffects.topic_configs_in_force`."""
        from backend.admin.kafka import topic_changes

        return await topic_changes.topic_configs_in_force(
            self, topic, names, brokers, timeout_s=timeout_s
        )

    async def alter_group_offsets(
        self: BrokerCalls, group: str, topic: str, positions: Mapping[int, int], *, timeout_s: float
    ) -> ItemResult:
        """See `ClusterEffects.alter_group_offsets`."""
        from backend.admin.kafka import group_changes

        return await group_changes.alter_group_offsets(
            self, group, topic, positions, timeout_s=timeout_s
        )

    async def delete_groups(
        self: BrokerCalls, names: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """See `ClusterEffects.delete_groups`."""
        from backend.admin.kafka import group_changes

        return await group_changes.delete_groups(self, names, timeout_s=timeout_s)

    async def write_block(self: BrokerCalls, topic: str, *, timeout_s: float) -> WriteBlock:
        """See `ClusterEffects.write_block`."""
        from backend.admin.kafka import write_blocks

        return await write_blocks.write_block(self, topic, timeout_s=timeout_s)

    async def block_writes(self: BrokerCalls, topic: str, *, timeout_s: float) -> ItemResult:
        """See `ClusterEffects.block_writes`."""
        from backend.admin.kafka import write_blocks

        return await write_blocks.block_writes(self, topic, timeout_s=timeout_s)

    async def unblock_writes(self: BrokerCalls, topic: str, *, timeout_s: float) -> ItemResult:
        """See `ClusterEffects.unblock_writes`."""
        from backend.admin.kafka import write_blocks

        return await write_blocks.unblock_writes(self, topic, timeout_s=timeout_s)
