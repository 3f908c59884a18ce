"""The values of a classic group: who asks to join, who is a member, and what each is answered."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kshunt.backend.embedded.coordinator.codes import CoordinatorCode

Answer = TypeVar("Answer")

Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of each assignor that a member supports, the one it prefers first."""

NEW_MEMBER_JOIN_TIMEOUT_S: Final = 300.0
"""How long a member may wait for its first generation; it has no session until then."""


class GroupState(enum.StrEnum):
    """Kafka's names of the states of a classic group."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Ticket(Generic[Answer]):
    """The place of somebody who waits for an answer, which comes once."""

    answer: Answer | None = None

    def give(self, answer: Answer) -> None:
        """Answer; a second answer is dropped."""
        if self.answer is None:
            self.answer = answer


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader gets to know it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """What a JoinGroup is answered."""

    code: CoordinatorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    """For the leader alone."""
    skip_assignment: bool = False
    """Whether the leader keeps the assignment that there is (KIP-814)."""


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """What a SyncGroup is answered."""

    code: CoordinatorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What a client says when it joins."""

    member_id: str
    protocols: Protocols
    protocol_type: str = "consumer"
    instance_id: str | None = None
    """Of a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_s: float = 45.0
    rebalance_timeout_s: float = 300.0
    needs_known_id: bool = False
    """Whether a new dynamic member is given its id first and joins with it (KIP-394)."""
    can_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """What a client says when it asks for its assignment; the leader brings those of all."""

    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits offsets; a consumer outside of any generation has -1 and no names."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


@dataclass(slots=True)
class Member:
    """A member of a group."""

    member_id: str
    request: JoinRequest
    """What it said last."""
    deadline_s: float
    """When its session ends."""
    is_new: bool = True
    """Whether it waits for its first generation."""
    assignment: bytes = b""
    joining: Ticket[JoinAnswer] | None = None
    syncing: Ticket[SyncAnswer] | None = None

    @property
    def instance_id(self) -> str | None:
        """The name of a static member."""
        return self.request.instance_id

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer, and so cannot send heartbeats."""
        return self.joining is not None or self.syncing is not None

    def names(self) -> set[str]:
        """The protocols that it supports."""
        return {name for name, _ in self.request.protocols}

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; empty if it has none."""
        return dict(self.request.protocols).get(protocol or "", b"")

    def joined(self, protocol: str | None) -> JoinedMember:
        """What the leader learns about this member."""
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol))

    def renew(self, now_s: float) -> None:
        """It was heard of: its session begins again."""
        self.deadline_s = now_s + self.request.session_timeout_s


def common_protocols(members: Collection[Member]) -> set[str]:
    """The protocols that all members support."""
    return set.intersection(*(member.names() for member in members)) if members else set()


def elected_protocol(members: Collection[Member]) -> str:
    """The protocol with most votes; each member votes for the first one that all support.

    Of equal ones that wins which the oldest member voted for.

    Raises:
        ValueError: there is none that all support.
    """
    common = common_protocols(members)
    if not common:
        raise ValueError("no protocol is supported by all members")
    votes = Counter(
        next(name for name, _ in member.request.protocols if name in common) for member in members
    )
    return votes.most_common(1)[0][0]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as DescribeGroups and ListGroups show it."""

    group_id: str
    state: GroupState
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = field(default=())
