"""What holds of a consumer group whatever clients do in whatever order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.coordinator.members import (
    GroupState,
    JoinAnswer,
    SyncAnswer,
    SyncRequest,
    Ticket,
)
from tests.support.embedded.groups import RANGE, STICKY, Clients
from tests.support.runs.examples import many


class GroupLaws(RuleBasedStateMachine):
    """Whatever clients do in whatever order, a group stays a group."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = Clients(initial_rebalance_delay_s=1.0)
        self.ids: list[str] = []
        self.generation = 0
        self.waiting: list[Ticket[JoinAnswer]] = []
        self.syncing: list[Ticket[SyncAnswer]] = []
        self.leaders: dict[int, str] = {}

    def joins(self, ticket: Ticket[JoinAnswer]) -> None:
        self.waiting.append(ticket)
        if ticket.answer is not None and ticket.answer.code is CoordinatorCode.MEMBER_ID_REQUIRED:
            self.ids.append(ticket.answer.member_id)
        self.ids += [one for one in self.clients.group.members if one not in self.ids]

    @rule(
        known=st.booleans(),
        instance=st.sampled_from([None, "i", "j"]),
        both=st.booleans(),
        skip=st.booleans(),
    )
    def come(self, known: bool, instance: str | None, both: bool, skip: bool) -> None:
        protocols = (STICKY, RANGE) if both else (RANGE,)
        ticket = self.clients.join("", protocols, instance=instance, known=known, skip=skip)
        self.joins(ticket)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), both=st.booleans())
    def come_again(self, data: st.DataObject, both: bool) -> None:
        member_id, instance = self.someone(data)
        protocols = (STICKY, RANGE) if both else (RANGE,)
        self.joins(self.clients.join(member_id, protocols, instance=instance))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), behind=st.integers(0, 1))
    def sync(self, data: st.DataObject, behind: int) -> None:
        member_id, instance = self.someone(data)
        given_to = tuple((one, one.encode()) for one in (*self.clients.group.members, "stranger"))
        generation = self.clients.group.generation - behind
        request = SyncRequest(member_id, generation, instance, assignments=given_to)
        self.syncing.append(self.clients.group.sync(request, self.clients.now_s))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        member_id, instance = self.someone(data)
        group = self.clients.group
        group.heartbeat(member_id, group.generation, instance, self.clients.now_s)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member_id, instance = self.someone(data)
        self.clients.group.leave(member_id, instance, self.clients.now_s)

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0, 61.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.clients.passes(seconds)

    def someone(self, data: st.DataObject) -> tuple[str, str | None]:
        member_id = data.draw(st.sampled_from(self.ids))
        member = self.clients.group.members.get(member_id)
        return member_id, member.instance_id if member else data.draw(st.sampled_from([None, "i"]))

    @invariant()
    def the_generation_never_goes_back(self) -> None:
        assert self.clients.group.generation >= self.generation
        self.generation = self.clients.group.generation

    @invariant()
    def the_leader_is_a_member(self) -> None:
        group = self.clients.group
        assert group.leader is None or group.leader in group.members
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert group.leader is not None
            assert all(group.protocol in one.names() for one in group.members.values())
        if group.state is GroupState.EMPTY:
            assert group.members == {}

    @invariant()
    def one_generation_has_one_leader(self) -> None:
        for answer in [ticket.answer for ticket in self.waiting]:
            if answer is not None and answer.code is CoordinatorCode.NONE and answer.members:
                if answer.skip_assignment:
                    continue
                known = self.leaders.setdefault(answer.generation, answer.member_id)
                assert known == answer.member_id == answer.leader
        self.waiting = [ticket for ticket in self.waiting if ticket.answer is None]

    @invariant()
    def assignments_go_to_their_members_only(self) -> None:
        group = self.clients.group
        for member in group.members.values():
            assert member.syncing is None or group.state is GroupState.COMPLETING_REBALANCE
            assert member.joining is None or group.state is GroupState.PREPARING_REBALANCE
            if member.instance_id is None:
                assert member.assignment in (b"", member.member_id.encode())

    @invariant()
    def nobody_waits_who_is_not_a_member(self) -> None:
        members = self.clients.group.members.values()
        joining = [id(one.joining) for one in members]
        syncing = [id(one.syncing) for one in members]
        assert all(id(one) in joining for one in self.waiting if one.answer is None)
        assert all(id(one) in syncing for one in self.syncing if one.answer is None)
        self.syncing = [ticket for ticket in self.syncing if ticket.answer is None]

    def teardown(self) -> None:
        for _ in range(3):
            self.clients.passes(301.0)
        assert self.clients.group.members == {}
        assert all(ticket.answer is not None for ticket in self.waiting)
        assert all(ticket.answer is not None for ticket in self.syncing)


GroupLaws.TestCase.settings = settings(
    max_examples=many(150),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGroupLaws = GroupLaws.TestCase
