"""A cluster on which no durable operation does anything to topics or groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshunt.backend.admin.port.capabilities import NotOffered
from kshunt.backend.admin.port.effects import KnownTopic, WriteBlock
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.errors import NotSupported


class NoEffects:
    """Every call of `ClusterEffects` is refused."""

    @property
    def not_offered(self) -> NotOffered:
        return {}

    async def accepts_moves(self, *, timeout_s: float) -> str:
        return ""

    async def create_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> ItemResult:
        raise NotSupported("Topics stay as they are here.")

    async def delete_topic(self, name: str, *, topic_id: str = "", timeout_s: float) -> ItemResult:
        raise NotSupported("Topics stay as they are here.")

    async def topic_known(self, topic: str, *, timeout_s: float) -> Mapping[int, KnownTopic | None]:
        raise NotSupported("Nobody asks for topics here.")

    async def topic_overrides(self, topic: str, *, timeout_s: float) -> Mapping[str, str] | None:
        raise NotSupported("Nobody asks for topics here.")

    async def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
    ) -> ItemResult:
        raise NotSupported("Topics stay as they are here.")

    async def topic_configs_in_force(
        self, topic: str, names: Sequence[str], brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        raise NotSupported("Nobody asks for topics here.")

    async def alter_group_offsets(
        self, group: str, topic: str, positions: Mapping[int, int], *, timeout_s: float
    ) -> ItemResult:
        raise NotSupported("There are no groups here.")

    async def delete_groups(
        self, names: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        raise NotSupported("There are no groups here.")

    async def write_block(self, topic: str, *, timeout_s: float) -> WriteBlock:
        raise NotSupported("There are no ACLs here.")

    async def block_writes(self, topic: str, *, timeout_s: float) -> ItemResult:
        raise NotSupported("There are no ACLs here.")

    async def unblock_writes(self, topic: str, *, timeout_s: float) -> ItemResult:
        raise NotSupported("There are no ACLs here.")
