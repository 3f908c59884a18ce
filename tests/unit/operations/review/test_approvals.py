"""Changes that take two people: proposed, approved once, and what is left when a backend ends."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.audit.requester_limits import WHO_MAX
from kshunt.backend.domain.operations.approval import (
    NAME_MAX,
    TRANSITIONS,
    Person,
    ProposalState,
    requester_and_approver,
)
from kshunt.backend.errors import BadInput, Conflict, JournalUnavailable, KshuntError, NotActive
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.core.known_operations import has_unfinished
from kshunt.backend.operations.review.approvals import Approvals
from kshunt.backend.two_person import TwoPersonKind, TwoPersonRule
from tests.support.operations.approvals import (
    ADA,
    BOB,
    EVE,
    EXPIRY_S,
    PEOPLE,
    Crash,
    Effects,
    Side,
    side,
)

State = ProposalState


async def test_one_proposes_and_another_approves() -> None:
    here = side()
    proposed = await here.propose()
    assert (proposed.state, proposed.proposer, here.effects.done) == (State.WAITING, ADA, [])
    assert proposed.expires_ms == proposed.proposed_ms + EXPIRY_S * 1000
    done = await here.approve(proposed.id)
    assert (done.state, done.settled_by, done.settled_reason) == (State.DONE, "bob", "seen")
    operation = here.registry.get(done.operation_id)
    assert operation is not None
    assert operation.who == "ada, approved by bob"
    assert operation.reason == "disks died; approved: seen"
    assert operation.details.proposal == proposed.id
    ((_, _, requester),) = here.effects.done
    assert requester.names == ("ada", "bob")
    assert [one.state for one in here.announced] == [State.WAITING, State.APPROVED, State.DONE]


async def test_every_step_is_in_the_audit() -> None:
    here = side()
    first, second, third, fourth = [await here.propose() for _ in range(4)]
    await here.approve(first.id)
    await here.approvals.reject(second.id, BOB, "wrong topic")
    await here.approvals.withdraw(third.id, ADA, "")
    await here.clock.wait_s(EXPIRY_S)
    await here.approvals.tidy()
    lines = {(line.event.value, line.who, line.reason) for line in here.audit()}
    assert {
        ("proposed", "ada", "disks died"),
        ("approved", "bob", "seen"),
        ("requested", "ada, approved by bob", "disks died; approved: seen"),
        ("carried_out", "ada, approved by bob", ""),
        ("rejected", "bob", "wrong topic"),
        ("withdrawn", "ada", ""),
        ("expired", "ada", ""),
    } <= lines
    (died,) = [line for line in here.audit() if line.event is AuditEvent.EXPIRED]
    assert fourth.id in died.outcome
    assert {line.backend for line in here.audit()} == {"one"}


@pytest.mark.parametrize(
    "by",
    [ADA, Person("ada", "claims-ada"), Person("Ada", "token-2"), Person("bob", "token-ada")],
    ids=["the same", "of another credential", "in another spelling", "under another name"],
)
async def test_who_proposes_does_not_approve(by: Person) -> None:
    here = side()
    proposed = await here.propose()
    for attempt in (
        here.approve(proposed.id, by),
        here.approvals.reject(proposed.id, by, "no"),
    ):
        with pytest.raises(Conflict, match="another person"):
            await attempt
    assert here.approvals.get(proposed.id).can_be(by, here.clock.now_ms()) == ("withdraw",)
    assert here.effects.done == []
    with pytest.raises(Conflict, match="only they can withdraw"):
        await here.approvals.withdraw(proposed.id, BOB, "")
    assert (await here.approvals.withdraw(proposed.id, by, "")).state is State.WITHDRAWN


async def test_who_has_no_name_proposes_nothing() -> None:
    here = side()
    with pytest.raises(Conflict, match="cannot tell who you are"):
        await here.propose(Person("", "local"))
    assert here.approvals.listed() == ()
    assert here.audit() == []


async def test_who_has_no_name_settles_nothing() -> None:
    here = side()
    proposed = await here.propose()
    nobody = Person("", "local")
    assert proposed.can_be(nobody, here.clock.now_ms()) == ()
    for attempt in (
        here.approve(proposed.id, nobody),
        here.approvals.reject(proposed.id, nobody, "no"),
        here.approvals.withdraw(proposed.id, nobody, ""),
    ):
        with pytest.raises(Conflict, match="cannot tell who you are"):
            await attempt
    assert here.effects.done == []
    assert here.approvals.get(proposed.id).state is State.WAITING


async def test_it_dies_after_its_time_also_over_a_restart() -> None:
    here = side()
    proposed = await here.propose()
    await here.clock.wait_s(EXPIRY_S - 0.001)
    again = Side(here.book, here.clock, here.effects)
    assert again.approvals.get(proposed.id).state is State.WAITING
    await here.clock.wait_s(0.001)
    for one in (here, again):
        assert one.approvals.get(proposed.id).state is State.EXPIRED
        with pytest.raises(Conflict, match="nobody approved it in time"):
            await one.approve(proposed.id)
    assert here.effects.done == []


async def test_it_may_die_while_it_is_found_out_what_it_would_do() -> None:
    here = side()
    proposed = await here.propose()
    change = here.change

    class Slow:
        carry_out = change.carry_out

        async def foresee(self) -> object:
            await here.clock.wait_s(EXPIRY_S)
            return await change.foresee()

    with pytest.raises(Conflict, match="expired"):
        await here.approvals.approve(proposed.id, BOB, "", "", Slow())  # type: ignore[arg-type]
    assert here.effects.done == []


async def test_what_would_do_something_else_is_refused_and_waits_on() -> None:
    here = side()
    proposed = await here.propose()
    here.effects.fingerprint = "other"
    with pytest.raises(Conflict, match="The cluster has changed") as refused:
        await here.approve(proposed.id)
    assert "orders-0: lost" in str(refused.value)
    with pytest.raises(Conflict, match="looked at"):
        await here.approve(proposed.id, agreed="f")
    assert (await here.approvals.foresee(proposed.id, here.change)).changed
    assert here.approvals.get(proposed.id).state is State.WAITING
    # Who has looked at what it would do meanwhile may let that happen.
    assert (await here.approve(proposed.id, agreed="other")).state is State.DONE


async def test_two_who_approve_at_once_let_it_happen_once() -> None:
    here = side()
    proposed = await here.propose()
    outcomes = await asyncio.gather(
        here.approve(proposed.id, BOB), here.approve(proposed.id, EVE), return_exceptions=True
    )
    (refused,) = [one for one in outcomes if isinstance(one, Conflict)]
    assert "A proposal can be used once" in str(refused)
    assert len(here.effects.done) == 1


async def test_what_is_refused_when_it_is_carried_out_is_used_all_the_same() -> None:
    here = side()
    proposed = await here.propose()
    here.effects.fault = "refused"
    with pytest.raises(Conflict, match="Broker 1 leads"):
        await here.approve(proposed.id)
    failed = here.approvals.get(proposed.id)
    assert (failed.state, failed.operation_id) == (State.FAILED, "")
    assert "Broker 1 leads" in failed.outcome
    with pytest.raises(Conflict, match="used once"):
        await here.approve(proposed.id, EVE)


# The backend ends


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_killed_between_approving_and_acting(fault: str) -> None:
    here = side()
    proposed = await here.propose()
    here.effects.fault = fault
    with pytest.raises(Crash):
        await here.approve(proposed.id)
    assert has_unfinished(here.book.state)
    other = Side(here.book, here.clock, here.effects)
    assert other.approvals.get(proposed.id).state is State.APPROVED
    with pytest.raises(Conflict, match="used once"):
        await other.approve(proposed.id, EVE)
    await other.approvals.tidy()
    closed = other.approvals.get(proposed.id)
    if fault == "before":
        assert closed.state is State.FAILED
        assert "nothing was changed" in closed.outcome
        assert here.effects.done == []
        assert not has_unfinished(here.book.state)
    else:
        assert closed.state is State.DONE
        assert other.registry.get(closed.operation_id) is not None
        assert len(here.effects.done) == 1


@pytest.mark.parametrize(
    ("fault", "state"), [("before", State.WAITING), ("after", State.FAILED)], ids=str
)
async def test_killed_around_the_mark_that_it_is_used(fault: str, state: State) -> None:
    here = side()
    proposed = await here.propose()
    here.book.fault = fault
    with pytest.raises(Crash):
        await here.approve(proposed.id)
    other = Side(here.book, here.clock, here.effects)
    await other.approvals.tidy()
    assert other.approvals.get(proposed.id).state is state
    assert here.effects.done == []


@pytest.mark.parametrize(
    ("fault", "state"), [("refused", State.WAITING), ("doubt", State.FAILED)], ids=str
)
async def test_a_mark_that_may_not_be_written_lets_nothing_happen(fault: str, state: State) -> None:
    here = side()
    proposed = await here.propose()
    here.book.fault = fault
    with pytest.raises(JournalUnavailable):
        await here.approve(proposed.id)
    await here.approvals.tidy()
    assert here.approvals.get(proposed.id).state is state
    assert here.effects.done == []


async def test_what_may_have_been_begun_is_not_said_to_have_failed() -> None:
    here = side()
    proposed = await here.propose()
    change = here.change

    class Doubtful:
        foresee = change.foresee

        async def carry_out(self, agreed: object) -> object:
            here.book.fault = "doubt"
            return await change.carry_out(agreed)  # type: ignore[arg-type]

    with pytest.raises(JournalUnavailable):
        await here.approvals.approve(proposed.id, BOB, "", "", Doubtful())  # type: ignore[arg-type]
    assert here.approvals.get(proposed.id).state is State.APPROVED
    await here.approvals.tidy()
    closed = here.approvals.get(proposed.id)
    (operation,) = here.registry
    assert (closed.state, closed.operation_id) == (State.DONE, operation.id)


async def test_one_that_does_not_act_changes_nothing() -> None:
    here = side()
    proposed = await here.propose()
    here.book.active = False
    for attempt in (
        here.approve(proposed.id),
        here.propose(),
        here.approvals.reject(proposed.id, BOB, "no"),
        here.approvals.withdraw(proposed.id, ADA, ""),
    ):
        with pytest.raises(NotActive):
            await attempt
    assert here.approvals.get(proposed.id).state is State.WAITING


async def test_tidy_leaves_alone_what_is_being_carried_out() -> None:
    here = side()
    proposed = await here.propose()
    change, seen = here.change, []

    class Watched:
        foresee = change.foresee

        async def carry_out(self, agreed: object) -> object:
            await here.approvals.tidy()
            seen.append(here.approvals.get(proposed.id).state)
            return await change.carry_out(agreed)  # type: ignore[arg-type]

    await here.approvals.approve(proposed.id, BOB, "", "", Watched())  # type: ignore[arg-type]
    assert seen == [State.APPROVED]
    assert here.approvals.get(proposed.id).state is State.DONE


# What is bad


async def test_what_is_not_there_or_lacks_a_reason_is_said() -> None:
    here = side()
    for attempt in (here.approve("nothing"), here.approvals.withdraw("nothing", ADA, "")):
        with pytest.raises(BadInput, match="There is no proposal nothing"):
            await attempt
    proposed = await here.propose()
    with pytest.raises(BadInput, match="Give the reason"):
        await here.approvals.reject(proposed.id, BOB, " ")


async def test_so_many_wait_and_so_many_are_remembered() -> None:
    here = side()
    for _ in range(LIMITS.proposals_waiting):
        last = await here.propose()
    with pytest.raises(Conflict, match="50 proposals are already"):
        await here.propose()
    for _ in range(LIMITS.proposals_kept + 5):
        await here.approvals.withdraw(last.id, ADA, "")
        await here.clock.wait_s(0.001)
        last = await here.propose()
    ended = [one for one in here.approvals.listed() if one.state.ended]
    assert len(ended) == LIMITS.proposals_kept
    again = Side(here.book, here.clock, here.effects).approvals.listed()
    assert set(map(str, again)) == set(map(str, here.approvals.listed()))


async def test_one_that_waited_for_long_is_remembered_when_it_ends() -> None:
    here = side()
    oldest = await here.propose()
    for _ in range(LIMITS.proposals_kept):
        await here.clock.wait_s(0.001)
        newer = await here.propose()
        await here.approvals.withdraw(newer.id, ADA, "")
    await here.clock.wait_s(0.001)
    await here.approve(oldest.id)
    for one in (here, Side(here.book, here.clock, here.effects)):
        assert one.approvals.get(oldest.id).state is State.DONE
        assert len(one.approvals.listed()) == LIMITS.proposals_kept


def test_the_rule_says_what_takes_two() -> None:
    here = side()
    rule = TwoPersonRule(frozenset({TwoPersonKind.UNCLEAN}))
    approvals = Approvals(here.registry, here.clock, rule)
    assert approvals.takes_two(TwoPersonKind.UNCLEAN)
    assert not approvals.takes_two(TwoPersonKind.SHRINK)
    assert not Approvals(here.registry, here.clock, TwoPersonRule()).takes_two(
        TwoPersonKind.UNCLEAN
    )


def test_the_audit_has_room_for_both_names() -> None:
    long = requester_and_approver("a" * 200, "b" * 200)
    assert len(long) <= WHO_MAX
    assert long == f"{'a' * NAME_MAX}, approved by {'b' * NAME_MAX}"


def test_what_has_ended_has_no_way_on() -> None:
    assert {state for state in State if state.ended} == set(State) - {State.WAITING, State.APPROVED}
    assert TRANSITIONS[State.APPROVED] == {State.DONE, State.FAILED}


# The law: whatever people do, and wherever a backend ends, it happens at most once, by two people,
# and in time.

names = st.sampled_from(sorted(PEOPLE))
steps = st.one_of(
    st.tuples(st.just("propose"), names),
    st.tuples(st.just("approve"), names, st.sampled_from(["", "", "refused", "before", "after"])),
    st.tuples(st.just("book"), st.sampled_from(["refused", "doubt", "before", "after"])),
    st.tuples(st.just("reject"), names),
    st.tuples(st.just("withdraw"), names),
    st.tuples(st.just("wait"), st.sampled_from([1, 200, 700])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("tidy")),
)


async def walk(plan: list[tuple[str, ...]]) -> Side:
    here = side()
    for step in plan:
        try:
            await _take(here, step)
        except KshuntError:
            continue
        except Crash:
            here = Side(here.book, here.clock, here.effects)
        if step[0] == "restart":
            here = Side(here.book, here.clock, here.effects)
    return here


async def _take(here: Side, step: tuple[str, ...]) -> None:
    listed = here.approvals.listed()
    newest = listed[0].id if listed else "none"
    match step:
        case ("propose", who):
            await here.propose(PEOPLE[who])
        case ("approve", who, fault):
            here.effects.fault = fault
            await here.approve(newest, PEOPLE[who])
        case ("book", fault):
            here.book.fault = fault
        case ("reject", who):
            await here.approvals.reject(newest, PEOPLE[who], "no")
        case ("withdraw", who):
            await here.approvals.withdraw(newest, PEOPLE[who], "")
        case ("wait", seconds):
            await here.clock.wait_s(float(seconds))
        case ("tidy",):
            await here.approvals.tidy()
        case _:
            pass


@given(st.lists(steps, max_size=25))
def test_it_happens_at_most_once_by_two_and_in_time(plan: list[tuple[str, ...]]) -> None:
    here = asyncio.run(walk(plan))
    ids = [id for id, _, _ in here.effects.done]
    assert len(ids) == len(set(ids))
    known = Side(here.book, here.clock, Effects()).approvals
    for id, at_ms, requester in here.effects.done:
        proposal = known.get(id)
        assert at_ms < proposal.expires_ms
        assert len(set(requester.names)) == 2
        assert proposal.proposer.name == requester.names[0]
        assert proposal.settled_by == requester.names[1]
        assert proposal.state not in (State.WAITING, State.REJECTED, State.WITHDRAWN, State.EXPIRED)


@given(st.lists(steps, max_size=25))
def test_what_is_left_is_closed_by_whoever_comes_after(plan: list[tuple[str, ...]]) -> None:
    async def closed() -> Side:
        ended = await walk(plan)
        ended.book.fault = ""
        other = Side(ended.book, ended.clock, ended.effects)
        await other.clock.wait_s(EXPIRY_S)
        await other.approvals.tidy()
        return other

    here = asyncio.run(closed())
    happened = {id for id, _, _ in here.effects.done}
    for proposal in here.approvals.listed():
        assert proposal.state.ended
        assert (proposal.id in happened) <= (proposal.state in (State.DONE, State.FAILED))
        if proposal.state is State.DONE:
            assert proposal.id in happened
