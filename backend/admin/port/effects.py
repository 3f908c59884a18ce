"""What a durable operation does to single topics and groups; a part of `ClusterAdmin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.admin.port.capabilities import NotOffered
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


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic as one broker knows it."""

    id: str
    """32 digits; another topic of the same name has another. Empty where the broker tells none
    (before Kafka 2.8), or knows no such topic."""
    partitions: int
    """0 where it knows no such topic."""


class ClusterEffects(Protocol):
    """What a durable operation does to single topics and groups, and how it sees that it is done.

    A change is sent once. Its result is REQUEST_TIMED_OUT, and retriable, where its answer was lost
    or the cluster itself gave up waiting: then it was carried out or not, and may yet be. Whoever
    asks looks, or repeats it: each may be repeated. Any other result but OK is a refusal, and
    nothing was changed.
    """

    @property
    def not_offered(self) -> NotOffered:
        """What this way to the cluster cannot do, and why; see `capabilities`."""
        ...

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """Why no move could be asked for at this moment; empty where one can.

        Raises:
            ClusterUnreachable: it did not answer in time.
        """
        ...

    async def create_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> ItemResult:
        """Create a topic with these replicas of each partition and these overrides.

        TOPIC_ALREADY_EXISTS where there is one, whatever it is like; a repeated call says so too.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def delete_topic(self, name: str, *, topic_id: str = "", timeout_s: float) -> ItemResult:
        """Delete the topic with this id, or of this name. Brokers know it for a moment longer: see
        `topic_known`.

        UNKNOWN_TOPIC_ID where none has the id (any more), also if another has the name;
        UNKNOWN_TOPIC_OR_PARTITION where none has the name; TOPIC_DELETION_DISABLED where
        delete.topic.enable is off.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def topic_known(self, topic: str, *, timeout_s: float) -> Mapping[int, KnownTopic | None]:
        """What each live broker knows of a topic; None where it does not answer in time.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def topic_overrides(self, topic: str, *, timeout_s: float) -> Mapping[str, str] | None:
        """What is set on the topic itself; None if there is no such topic.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show it.
        """
        ...

    async def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
    ) -> ItemResult:
        """Set overrides of a topic, and remove those that are None; the others stay.

        A success says that it is written, and brokers obey it a moment later: see
        `topic_configs_in_force`.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def topic_configs_in_force(
        self, topic: str, names: Sequence[str], brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """What each of these brokers says that these configurations of a topic are.

        A broker that does not answer in time is absent, and so is what it does not know. A broker
        says so a moment before its logs obey it, on a busy machine a second; one that keeps its
        metadata in ZooKeeper says what is written.
        """
        ...

    async def alter_group_offsets(
        self, group: str, topic: str, positions: Mapping[int, int], *, timeout_s: float
    ) -> ItemResult:
        """Commit offsets for a group without members; its other partitions stay as they are.

        UNKNOWN_MEMBER_ID where the group has members. Where partitions differ, the result is that
        of the first one that was refused.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def delete_groups(
        self, names: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """Delete consumer groups with all of their offsets; never raises for one of them.

        NON_EMPTY_GROUP where it has members, GROUP_ID_NOT_FOUND where there is none (any more).
        """
        ...

    async def write_block(self, topic: str, *, timeout_s: float) -> WriteBlock:
        """Whether `block_writes` is in force on the topic.

        Raises:
            NotSupported: the cluster has no authorizer, so ACLs mean nothing there.
            NotAuthorized: it does not show its ACLs to us.
            ClusterUnreachable, BrokerUnreachable: it did not answer in time.
        """
        ...

    async def block_writes(self, topic: str, *, timeout_s: float) -> ItemResult:
        """Deny everybody to write to a topic (DENY WRITE, User:*); super users still may.

        It is by name: it stays when the topic is deleted, and holds for one created anew.

        Raises:
            Conflict: no other entry is about the topic; see `WriteBlock.alone`.
            NotSupported: the cluster has no authorizer.
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def unblock_writes(self, topic: str, *, timeout_s: float) -> ItemResult:
        """Remove exactly the entry of `block_writes`; a success also where there is none.

        Raises:
            NotSupported: the cluster has no authorizer.
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...
