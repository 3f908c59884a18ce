"""One classic consumer group: who is in it, and which generation it has come to.

Goals: every generation has one leader, which is a member; assignments go to members only; the
generation never goes back; every caller that waits for an answer gets one.

Constraints: no clock and no I/O. Every call says what time it is, in seconds of a clock that never
goes back; who has to wait gets a `Ticket`, which a later call or `tick` answers.

Algorithm (Kafka's `GroupMetadataManager`, classic protocol): a member that comes, goes or wants
something else makes the group prepare a rebalance. Each member has to join again before the
longest of their rebalance time-outs ends. Then a generation begins without those that did not,
its leader assigns, and each member fetches its part by SyncGroup. Static members (KIP-345) keep
their place while they are away, until their session ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.members import (
    NEW_MEMBER_JOIN_TIMEOUT_S,
    Committer,
    GroupDescription,
    GroupState,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    Member,
    MemberDescription,
    SyncAnswer,
    SyncRequest,
    Ticket,
    common_protocols,
    elected_protocol,
)

_IN_GENERATION: Final = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a broker for its groups; all but the first are Kafka's defaults."""

    initial_rebalance_delay_s: float = 0.0
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for further members.
    Kafka's default is 3 s."""
    session_timeout_min_s: float = 6.0
    """`group.min.session.timeout.ms`."""
    session_timeout_max_s: float = 1_800.0
    """`group.max.session.timeout.ms`."""
    metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`."""


class Group:
    """See the module."""

    def __init__(self, group_id: str, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        """`new_id` gives what makes a member's id unique."""
        self.group_id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        """By member id, the oldest first."""
        self._new_id = new_id
        self._static: dict[str, str] = {}
        self._expected: dict[str, float] = {}
        self._unsynced: set[str] = set()
        self._not_before_s = 0.0
        self._join_deadline_s = 0.0
        self._sync_deadline_s = 0.0

    # --- joining

    def join(self, request: JoinRequest, now_s: float) -> Ticket[JoinAnswer]:
        """Come in, or stay in; answered when the next generation begins, or immediately."""
        ticket: Ticket[JoinAnswer] = Ticket()
        try:
            self._check_protocols(request)
            if request.member_id:
                self._join_again(request, ticket, now_s)
            else:
                self._join_first(request, ticket, now_s)
        except CoordinatorError as refused:
            ticket.give(JoinAnswer(refused.code, request.member_id))
        return ticket

    def _check_protocols(self, request: JoinRequest) -> None:
        names = {name for name, _ in request.protocols}
        fits = bool(names) and request.protocol_type != ""
        if self.members:
            others = common_protocols(self.members.values())
            fits = fits and request.protocol_type == self.protocol_type and bool(names & others)
        if not fits:
            raise CoordinatorError(CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _join_first(self, request: JoinRequest, ticket: Ticket[JoinAnswer], now_s: float) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        if request.instance_id in self._static:
            self._replace(member_id, request, ticket, now_s)
        elif request.instance_id is None and request.needs_known_id:
            self._expected[member_id] = now_s + request.session_timeout_s
            ticket.give(JoinAnswer(CoordinatorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(member_id, request, ticket, now_s)

    def _join_again(self, request: JoinRequest, ticket: Ticket[JoinAnswer], now_s: float) -> None:
        if request.instance_id is None and request.member_id in self._expected:
            del self._expected[request.member_id]
            self._add(request.member_id, request, ticket, now_s)
            return
        member = self._member(request.member_id, request.instance_id)
        same = member.request.protocols == request.protocols
        stays = self.state is GroupState.COMPLETING_REBALANCE or member.member_id != self.leader
        if self.state in _IN_GENERATION and same and stays:
            member.renew(now_s)
            ticket.give(self._join_answer(member))
            return
        member.request = request
        if member.joining is not None:
            member.joining.give(JoinAnswer(CoordinatorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joining = ticket
        self._rebalance(now_s)

    def _add(
        self, member_id: str, request: JoinRequest, ticket: Ticket[JoinAnswer], now_s: float
    ) -> None:
        deadline_s = now_s + NEW_MEMBER_JOIN_TIMEOUT_S
        if not self.members:
            self.protocol_type = request.protocol_type
            self.leader = member_id
        self.members[member_id] = Member(member_id, request, deadline_s, joining=ticket)
        if request.instance_id is not None:
            self._static[request.instance_id] = member_id
        if self.state is GroupState.PREPARING_REBALANCE and now_s < self._not_before_s:
            wanted_s = now_s + self.settings.initial_rebalance_delay_s
            self._not_before_s = min(wanted_s, self._join_deadline_s)
        self._rebalance(now_s)

    def _replace(
        self, member_id: str, request: JoinRequest, ticket: Ticket[JoinAnswer], now_s: float
    ) -> None:
        """A static member came back under a new id; the old one is fenced."""
        former_leader = self.leader
        old = self.members.pop(self._static[request.instance_id or ""])
        self._dismiss(old, CoordinatorCode.FENCED_INSTANCE_ID)
        member = Member(member_id, request, 0.0, is_new=False, assignment=old.assignment)
        member.renew(now_s)
        self.members[member_id] = member
        self._static[request.instance_id or ""] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        same = elected_protocol(self.members.values()) == self.protocol
        if self.state is not GroupState.STABLE or not same:
            member.joining = ticket
            self._rebalance(now_s)
            return
        if old.member_id in self._unsynced:
            self._unsynced.symmetric_difference_update((old.member_id, member_id))
        ticket.give(self._unchanged_answer(member, former_leader))

    def _unchanged_answer(self, member: Member, former_leader: str | None) -> JoinAnswer:
        """What a static member that came back is told when nothing else changed (KIP-814).

        A leader whose client cannot skip the assignment is not told that it leads.
        """
        leads = member.member_id == self.leader and member.request.can_skip_assignment
        leader = self.leader if member.request.can_skip_assignment else former_leader
        return JoinAnswer(
            CoordinatorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            leader or "",
            self._joined() if leads else (),
            skip_assignment=leads,
        )

    # --- rebalancing

    def _rebalance(self, now_s: float) -> None:
        """Prepare a rebalance, unless one is prepared already; end it if nobody is missing."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            initial = self.state is GroupState.EMPTY
            self._end_syncs()
            self.state = GroupState.PREPARING_REBALANCE
            self._join_deadline_s = now_s + self._rebalance_timeout_s()
            delay_s = self.settings.initial_rebalance_delay_s if initial else 0.0
            self._not_before_s = now_s + min(delay_s, self._rebalance_timeout_s())
        self._begin_if_complete(now_s)

    def _end_syncs(self) -> None:
        self._unsynced.clear()
        for member in self.members.values():
            if self.state is GroupState.COMPLETING_REBALANCE:
                member.assignment = b""
            if member.syncing is not None:
                member.syncing.give(SyncAnswer(CoordinatorCode.REBALANCE_IN_PROGRESS))
                member.syncing = None

    def _rebalance_timeout_s(self) -> float:
        return max((m.request.rebalance_timeout_s for m in self.members.values()), default=0.0)

    def _begin_if_complete(self, now_s: float) -> None:
        missing = self._expected or any(m.joining is None for m in self.members.values())
        if now_s >= self._not_before_s and not missing:
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        """Begin the next generation, without the dynamic members that did not join again."""
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._drop(member)
        joined = [member for member in self.members.values() if member.joining is not None]
        if self.members and not joined:
            self._join_deadline_s = now_s + self._rebalance_timeout_s()
            return
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            self.protocol = self.leader = None
            return
        if self.leader is None or self.members[self.leader].joining is None:
            self.leader = joined[0].member_id
        self.protocol = elected_protocol(self.members.values())
        self.state = GroupState.COMPLETING_REBALANCE
        self._sync_deadline_s = now_s + self._rebalance_timeout_s()
        self._unsynced = set(self.members)
        for member in joined:
            self._answer_join(member, now_s)

    def _answer_join(self, member: Member, now_s: float) -> None:
        ticket, member.joining = member.joining, None
        member.is_new = False
        member.renew(now_s)
        if ticket is not None:
            ticket.give(self._join_answer(member))

    def _join_answer(self, member: Member) -> JoinAnswer:
        leads = member.member_id == self.leader
        return JoinAnswer(
            CoordinatorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            self._joined() if leads else (),
        )

    def _joined(self) -> tuple[JoinedMember, ...]:
        return tuple(member.joined(self.protocol) for member in self.members.values())

    # --- in a generation

    def sync(self, request: SyncRequest, now_s: float) -> Ticket[SyncAnswer]:
        """Ask for one's assignment; answered when the leader has brought it."""
        ticket: Ticket[SyncAnswer] = Ticket()
        try:
            member = self._in_generation(request.member_id, request.instance_id, request.generation)
            self._check_protocol(request)
            if self.state not in _IN_GENERATION:
                raise CoordinatorError(CoordinatorCode.REBALANCE_IN_PROGRESS)
        except CoordinatorError as refused:
            ticket.give(SyncAnswer(refused.code))
            return ticket
        self._unsynced.discard(member.member_id)
        member.renew(now_s)
        if member.syncing is not None:
            member.syncing.give(SyncAnswer(CoordinatorCode.REBALANCE_IN_PROGRESS))
        member.syncing = ticket
        if self.state is GroupState.COMPLETING_REBALANCE and member.member_id == self.leader:
            self._assign(dict(request.assignments))
        if self.state is GroupState.STABLE:
            self._answer_syncs(now_s)
        return ticket

    def _check_protocol(self, request: SyncRequest) -> None:
        said = ((request.protocol_type, self.protocol_type), (request.protocol, self.protocol))
        if any(mine is not None and mine != ours for mine, ours in said):
            raise CoordinatorError(CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _assign(self, assignments: dict[str, bytes]) -> None:
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def _answer_syncs(self, now_s: float) -> None:
        for member in self.members.values():
            ticket, member.syncing = member.syncing, None
            if ticket is not None:
                member.renew(now_s)
                assigned = member.assignment
                ticket.give(
                    SyncAnswer(CoordinatorCode.NONE, assigned, self.protocol_type, self.protocol)
                )

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None, now_s: float
    ) -> CoordinatorCode:
        """A member is alive; the code tells it when it has to join again."""
        try:
            member = self._in_generation(member_id, instance_id, generation)
        except CoordinatorError as refused:
            return refused.code
        member.renew(now_s)
        preparing = self.state is GroupState.PREPARING_REBALANCE
        return CoordinatorCode.REBALANCE_IN_PROGRESS if preparing else CoordinatorCode.NONE

    def check_commit(self, who: Committer, now_s: float, *, transactional: bool = False) -> None:
        """Whether somebody may commit offsets; a member's commit is a heartbeat too.

        Raises:
            CoordinatorError: it may not.
        """
        named = who.generation >= 0 or who.member_id != "" or who.instance_id is not None
        if not named:
            if self.members and not transactional:
                raise CoordinatorError(CoordinatorCode.UNKNOWN_MEMBER_ID)
            return
        if who.generation < 0 and not self.members:
            return
        member = self._in_generation(who.member_id, who.instance_id, who.generation)
        if self.state is GroupState.COMPLETING_REBALANCE and not transactional:
            raise CoordinatorError(CoordinatorCode.REBALANCE_IN_PROGRESS)
        member.renew(now_s)

    # --- leaving

    def leave(self, member_id: str, instance_id: str | None, now_s: float) -> CoordinatorCode:
        """A member goes; a static one may be named by its instance alone."""
        if instance_id is None and self._expected.pop(member_id, None) is not None:
            if self.state is GroupState.PREPARING_REBALANCE:
                self._begin_if_complete(now_s)
            return CoordinatorCode.NONE
        if instance_id is not None and not member_id:
            member_id = self._static.get(instance_id, "")
        try:
            member = self._member(member_id, instance_id)
        except CoordinatorError as refused:
            return refused.code
        self._remove(member, now_s)
        return CoordinatorCode.NONE

    def _remove(self, member: Member, now_s: float) -> None:
        self._drop(member)
        self._rebalance(now_s)

    def _drop(self, member: Member) -> None:
        del self.members[member.member_id]
        self._unsynced.discard(member.member_id)
        if self._static.get(member.instance_id or "") == member.member_id:
            del self._static[member.instance_id or ""]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self._dismiss(member, CoordinatorCode.UNKNOWN_MEMBER_ID)

    def _dismiss(self, member: Member, code: CoordinatorCode) -> None:
        if member.joining is not None:
            member.joining.give(JoinAnswer(code, member.member_id))
        if member.syncing is not None:
            member.syncing.give(SyncAnswer(code))

    # --- time

    def tick(self, now_s: float) -> bool:
        """Do what is due: sessions and rebalances that end; whether anything changed."""
        before = (self.state, self.generation, len(self.members), len(self._expected))
        self._expected = {id: at_s for id, at_s in self._expected.items() if at_s > now_s}
        for member in list(self.members.values()):
            if member.deadline_s <= now_s and (member.is_new or not member.is_waiting):
                self._remove(member, now_s)
        if self._unsynced and self._sync_deadline_s <= now_s and self.state in _IN_GENERATION:
            for member_id in list(self._unsynced):
                self._drop(self.members[member_id])
            self._rebalance(now_s)
        if self.state is GroupState.PREPARING_REBALANCE:
            if self._join_deadline_s <= now_s:
                self._begin(now_s)
            else:
                self._begin_if_complete(now_s)
        return before != (self.state, self.generation, len(self.members), len(self._expected))

    # --- looking

    def described(self) -> GroupDescription:
        """The group as it is; only a stable group shows its metadata and protocol."""
        stable = self.state is GroupState.STABLE
        members = tuple(
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.request.client_id,
                member.request.client_host,
                member.metadata(self.protocol) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in self.members.values()
        )
        protocol = (self.protocol or "") if stable else ""
        return GroupDescription(
            self.group_id, self.state, self.protocol_type or "", protocol, members
        )

    def _member(self, member_id: str, instance_id: str | None) -> Member:
        """A member by its names.

        Raises:
            CoordinatorError: there is none, or another one has taken the instance.
        """
        if instance_id is not None:
            if instance_id not in self._static:
                raise CoordinatorError(CoordinatorCode.UNKNOWN_MEMBER_ID)
            if self._static[instance_id] != member_id:
                raise CoordinatorError(CoordinatorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise CoordinatorError(CoordinatorCode.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def _in_generation(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = self._member(member_id, instance_id)
        if generation != self.generation:
            raise CoordinatorError(CoordinatorCode.ILLEGAL_GENERATION)
        return member
