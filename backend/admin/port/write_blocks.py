"""Write blocks: an ACL that keeps everybody but super users from writing to one topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult


@dataclass(frozen=True, slots=True)
class WriteBlock:
    """Whether an ACL keeps everybody from writing to a topic, and what it does to us."""

    present: bool
    """Exactly this entry: DENY WRITE on the topic for User:* from every host."""
    may_write: bool | None
    """Whether the cluster lets us write there: under the block only super users may. None where
    it does not say."""
    alone: bool
    """No other entry is about the topic. Where allow.everyone.if.no.acl.found is on, the block
    would then shut out its readers, too; where it is off, only super users write to it anyway."""


class WriteBlockAdmin(Protocol):
    """See the module's text; `ClusterAdmin` says what a lost answer comes to."""

    async def describe(self, topic: str, *, timeout_s: float) -> WriteBlock:
        """Whether there is one on the topic.

        Raises:
            NotSupported: the cluster has no authorizer, so ACLs mean nothing there.
            NotAuthorized: it does not show its ACLs to us.
            ClusterUnreachable, BrokerUnreachable: it did not answer in time.
        """
        ...

    async def create(self, topic: str, *, timeout_s: float) -> ItemResult:
        """Deny everybody to write to a topic (DENY WRITE, User:*); super users still may.

        It is by name: it stays when the topic is deleted, and holds for one created anew.

        Raises:
            Conflict: no other entry is about the topic; see `WriteBlock.alone`.
            NotSupported: the cluster has no authorizer.
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def delete(self, topic: str, *, timeout_s: float) -> ItemResult:
        """Remove exactly the entry of `create`; a success also where there is none.

        Raises:
            NotSupported: the cluster has no authorizer.
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...
