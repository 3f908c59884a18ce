"""Claims and notes on operations, in a journal in memory; and who is here."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kshunt.backend.access.roles import LOCAL, Caller, Role
from kshunt.backend.api.core.presence import SILENCE_S, PresenceBoard
from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.operations.team import NOTE_MAX, ConnectedSession, Team, note_text
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.review.claims import Claims
from tests.support.clocks import StoppedClock
from tests.support.operations.approvals import Side, side

ADA, BOB = Requester("ada", "watching the disks"), Requester("bob")


async def begun(here: Side) -> tuple[Claims, Operation]:
    operation = await here.registry.begin(OperationKind.REASSIGN, "move orders", requester=ADA)
    return Claims(here.registry, here.clock), operation


async def test_another_one_has_to_take_it_over_with_a_reason() -> None:
    here = side()
    claims, operation = await begun(here)
    claims.require((operation.id,), BOB)
    await claims.claim(operation.id, ADA, take_over=False)
    claims.require((operation.id,), ADA)
    with pytest.raises(Conflict) as held:
        claims.require((operation.id,), BOB)
    said = str(held.value)
    assert f"ada has claimed operation {operation.id} since 2023-11-14" in said
    assert "watching the disks" in said
    assert "take it over with a reason" in said
    with pytest.raises(Conflict, match="ada has claimed"):
        await claims.claim(operation.id, BOB, take_over=False)
    with pytest.raises(Conflict, match="ada has claimed"):
        await claims.release(operation.id, BOB)
    with pytest.raises(BadInput, match="reason"):
        await claims.claim(operation.id, BOB, take_over=True)
    await claims.claim(operation.id, Requester("bob", "ada is asleep"), take_over=True)
    claims.require((operation.id,), BOB)
    with pytest.raises(Conflict, match="bob has claimed"):
        claims.require((operation.id,), ADA)
    await claims.release(operation.id, BOB)
    claims.require((operation.id,), ADA)
    with pytest.raises(Conflict, match="Nobody has claimed"):
        await claims.release(operation.id, BOB)
    said_so = [(line.event.value, line.who, line.outcome) for line in here.audit()]
    assert said_so[1:] == [
        ("claimed", "ada", "ada has claimed it"),
        ("claim_taken", "bob", "taken over from ada"),
        ("released", "bob", "nobody has claimed it"),
    ]


async def test_both_who_agreed_are_behind_what_they_agreed_on() -> None:
    here = side()
    claims, operation = await begun(here)
    await claims.claim(operation.id, Requester("bob"), take_over=False)
    claims.require((operation.id,), Requester("ada, approved by bob", people=("ada", "bob")))
    with pytest.raises(Conflict):
        claims.require((operation.id,), Requester("ada, approved by eve", people=("ada", "eve")))
    with pytest.raises(Conflict):
        claims.require((operation.id,), Requester(""))


async def test_a_claim_ends_with_its_operation_and_notes_stay() -> None:
    here = side()
    claims, operation = await begun(here)
    await claims.claim(operation.id, ADA, take_over=False)
    await claims.note(operation.id, "broker 3 has a slow disk", BOB)
    await here.registry.move(operation.id, OperationState.DONE, "done")
    team = here.registry.team(operation.id)
    assert team.claim is None
    assert [note.text for note in team.notes] == ["broker 3 has a slow disk"]
    with pytest.raises(Conflict, match="it cannot be claimed"):
        await claims.claim(operation.id, ADA, take_over=False)
    await claims.note(operation.id, "it was the controller", ADA)
    again = Side(here.book, here.clock, here.effects)
    assert again.registry.team(operation.id) == here.registry.team(operation.id)
    assert len(again.registry.team(operation.id).notes) == 2


async def test_what_is_said_at_once_is_all_kept() -> None:
    here = side()
    claims, operation = await begun(here)
    await asyncio.gather(
        claims.claim(operation.id, ADA, take_over=False),
        *(claims.note(operation.id, f"note {number}", BOB) for number in range(5)),
    )
    team = here.registry.team(operation.id)
    assert team.claim is not None
    assert sorted(note.text for note in team.notes) == [f"note {n}" for n in range(5)]


async def test_what_the_engine_writes_meanwhile_takes_nothing_away() -> None:
    here = side()
    claims, operation = await begun(here)
    await claims.note(operation.id, "check this", BOB)
    # The engine holds the operation from before the note.
    await here.registry.put(operation.to(OperationState.RUNNING, at_ms=1))
    assert len(here.registry.team(operation.id).notes) == 1


async def test_what_cannot_be_meant_is_refused() -> None:
    here = side()
    claims, operation = await begun(here)
    for name in ("", "  "):
        with pytest.raises(BadInput, match="give a name"):
            await claims.claim(operation.id, Requester(name), take_over=False)
    for attempt in (
        claims.claim("none", ADA, take_over=False),
        claims.release("none", ADA),
        claims.note("none", "x", ADA),
    ):
        with pytest.raises(BadInput, match="There is no operation none"):
            await attempt
    for _ in range(LIMITS.notes_per_operation):
        await claims.note(operation.id, "x", ADA)
    with pytest.raises(Conflict, match="is the maximum"):
        await claims.note(operation.id, "x", ADA)


@pytest.mark.parametrize(
    "text", ["", "  ", "a\nb", "a\x1b[2Jb", "\x07", "a\x7fb", "a\x85b", "\ud800", "x" * 2_001]
)
def test_a_note_is_one_line_of_plain_text(text: str) -> None:
    with pytest.raises(BadInput):
        note_text(text)


def test_a_note_may_say_anything_else() -> None:
    for text in ("x" * NOTE_MAX, "größer als [red]x[/red] | <b> 東京", " spaced "):
        assert note_text(text) == text.strip()


async def test_nothing_is_said_of_what_was_forgotten_meanwhile() -> None:
    here = side()
    _, operation = await begun(here)
    line = here.audit()[0]
    gone = replace(operation, id="gone")
    with pytest.raises(Conflict, match="Operation gone is forgotten"):
        await here.registry.put_team(gone, Team(), line)
    assert "team/gone" not in here.book.state.entries


async def test_operations_that_are_forgotten_take_what_was_said_along() -> None:
    here = side()
    claims, operation = await begun(here)
    await claims.note(operation.id, "the first one", ADA)
    await here.registry.move(operation.id, OperationState.DONE, "done")
    for _ in range(LIMITS.operations_kept + 1):
        await here.clock.wait_s(1)
        other = await here.registry.begin(OperationKind.ELECTION, "another")
        await here.registry.move(other.id, OperationState.DONE, "done")
    assert here.registry.team(operation.id) == Team()
    assert f"team/{operation.id}" not in here.book.state.entries


# Who is here


def board(clock: StoppedClock) -> tuple[PresenceBoard, list[tuple[ConnectedSession, ...]]]:
    told: list[tuple[ConnectedSession, ...]] = []
    return PresenceBoard(clock, told.append), told


async def test_who_comes_goes_and_looks_elsewhere_is_told_once_a_second() -> None:
    clock = StoppedClock(1_000_000)
    here, told = board(clock)
    here.seen(LOCAL, "session-a", "ada", "overview", "")
    assert [[one.who for one in all] for all in told] == [["ada"]]
    here.seen(LOCAL, "session-b", "bob", "overview", "")
    here.seen(LOCAL, "session-b", "bob", "partitions", "orders-0")
    assert len(told) == 1
    await clock.wait_s(1)
    here.tell()
    assert [(one.who, one.screen, one.selected) for one in told[1]] == [
        ("ada", "overview", ""),
        ("bob", "partitions", "orders-0"),
    ]
    await clock.wait_s(1)
    here.seen(LOCAL, "session-a", "ada", "overview", "")
    here.tell()
    assert len(told) == 2, "nothing is new"
    here.left(LOCAL, "session-b")
    assert [one.who for one in told[2]] == ["ada"]
    await clock.wait_s(SILENCE_S)
    here.tell()
    assert told[3] == () == here.listed()


async def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    clock = StoppedClock(1_000_000)
    here, _ = board(clock)
    here.seen(LOCAL, "session-a", "ada", "", "")
    for _ in range(3):
        await clock.wait_s(SILENCE_S - 1)
        here.seen(LOCAL, "session-a", "ada", "", "")
    (one,) = here.listed()
    assert one.since_ms == 1_000_000


def test_nobody_speaks_for_another_and_nobody_fills_the_room() -> None:
    here, _ = board(StoppedClock())
    ada, eve = Caller("ada", Role.VIEWER, "token-1"), Caller("eve", Role.VIEWER, "token-2")
    here.seen(ada, "session-1", "somebody", "overview", "")
    here.seen(eve, "session-1", "ada", "brokers", "")
    here.left(eve, "session-none")
    assert [(one.who, one.screen) for one in here.listed()] == [
        ("ada", "overview"),
        ("eve", "brokers"),
    ]
    for number in range(1, LIMITS.present_per_caller):
        here.seen(eve, f"more-{number}", "", "", "")
    with pytest.raises(Conflict, match="is the maximum"):
        here.seen(eve, "one-too-many", "", "", "")
    here.seen(eve, "session-1", "", "topics", "")
    for number in range(LIMITS.present - len(here.listed())):
        here.seen(LOCAL, f"local-{number}", "x", "", "")
    with pytest.raises(Conflict, match="is the maximum"):
        here.seen(ada, "session-2", "", "", "")
    assert len(here.listed()) == LIMITS.present
