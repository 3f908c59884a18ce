"""Clients of one consumer group, as its coordinator sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from kshunt.backend.embedded.coordinator.classic_group import Group, GroupSettings
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.coordinator.members import (
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
    Ticket,
)

T = TypeVar("T")
RANGE, STICKY = ("range", b"r"), ("sticky", b"s")
SESSION_S, REBALANCE_S = 10.0, 60.0


class Clients:
    """Clients of one group, as one sees them from the coordinator."""

    def __init__(self, initial_rebalance_delay_s: float = 0.0) -> None:
        ids = count(1)
        settings = GroupSettings(initial_rebalance_delay_s)
        self.group = Group("g", settings, lambda: str(next(ids)))
        self.now_s = 0.0

    def join(
        self,
        member_id: str = "",
        protocols: Sequence[tuple[str, bytes]] = (RANGE,),
        *,
        instance: str | None = None,
        known: bool = False,
        skip: bool = True,
    ) -> Ticket[JoinAnswer]:
        request = JoinRequest(
            member_id,
            tuple(protocols),
            instance_id=instance,
            client_id="c",
            session_timeout_s=SESSION_S,
            rebalance_timeout_s=REBALANCE_S,
            needs_known_id=known,
            can_skip_assignment=skip,
        )
        return self.group.join(request, self.now_s)

    def sync(
        self,
        answer: JoinAnswer,
        instance: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
    ) -> Ticket[SyncAnswer]:
        request = SyncRequest(answer.member_id, answer.generation, instance)
        request = replace(request, assignments=tuple((assignments or {}).items()))
        return self.group.sync(request, self.now_s)

    def heartbeat(self, answer: JoinAnswer, instance: str | None = None) -> CoordinatorCode:
        return self.group.heartbeat(answer.member_id, answer.generation, instance, self.now_s)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.group.tick(self.now_s)

    def alone(self, instance: str | None = None) -> JoinAnswer:
        """One member, which has its assignment."""
        first = given(self.join(instance=instance))
        assert given(self.sync(first, instance, {first.member_id: b"all"})).assignment == b"all"
        return first

    def pair(self) -> tuple[JoinAnswer, JoinAnswer]:
        """A leader and a follower, both with their assignments."""
        first = self.alone()
        waiting = self.join()
        leader = given(self.join(first.member_id))
        follower = given(waiting)
        both = {leader.member_id: b"l", follower.member_id: b"f"}
        late = self.sync(follower)
        assert late.answer is None
        assert given(self.sync(leader, None, both)).assignment == b"l"
        assert given(late).assignment == b"f"
        return leader, follower


def given(ticket: Ticket[T]) -> T:
    """The answer, which must be there."""
    assert ticket.answer is not None
    return ticket.answer
