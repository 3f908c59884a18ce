"""Consumer groups: who reads a topic, and groups without members changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.topics.groups import GroupsRead


class GroupAdmin(Protocol):
    """See the module's text; `ClusterAdmin` says what a lost answer comes to."""

    async def of_topic(self, topic: str, *, timeout_s: float) -> GroupsRead:
        """The consumer groups that committed offsets of a topic, or have members that read it.

        What a broker or a group does not say is in `unread`; the others are there.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def alter_offsets(
        self, group: str, topic: str, positions: Mapping[int, int], *, timeout_s: float
    ) -> ItemResult:
        """Commit offsets for a group without members; its other partitions stay as they are.

        UNKNOWN_MEMBER_ID where the group has members. Where partitions differ, the result is that
        of the first one that was refused.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def delete(self, names: Sequence[str], *, timeout_s: float) -> Mapping[str, ItemResult]:
        """Delete consumer groups with all of their offsets; never raises for one of them.

        NON_EMPTY_GROUP where it has members, GROUP_ID_NOT_FOUND where there is none (any more).
        """
        ...
