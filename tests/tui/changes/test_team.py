"""Several people at dashboards: who is here, who steers what, and what waits for a second one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pytest
from textual.widgets import Input

from kshunt.backend.domain.operations.approval import ProposalEffect, ProposalState, ShownProposal
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.operations.team import Claim, ConnectedSession, Note, Presence
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.tui.changes.intents.proposals import rehearsed, warnings_of
from kshunt.tui.changes.wizard.answer_table import headline
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from kshunt.tui.data.team import (
    left_text,
    my_name,
    presence_facts,
    presence_forms,
    proposal_lines,
    selected_words,
)
from kshunt.tui.dialogs.presence import PresenceScreen
from kshunt.tui.dialogs.proposals import ProposalsScreen
from kshunt.tui.dialogs.text_prompt import TextPromptScreen
from kshunt.tui.feed.polled_facts import PRESENCE, PROPOSALS
from tests.support.tui.app import SIZES, Shown, check_frame, dashboard, named
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import START_MS, incident, running_move

BOB: Final = ConnectedSession("bob-session", "bob@laptop", "partitions", "orders-0-3", START_MS)
EVE: Final = ConnectedSession("eve-session", "eve", "", "", START_MS)
GO: Final = tuple(
    Result(f"orders-{number}", 0, "NONE", "is deleted immediately, with its records")
    for number in (2, 3)
)
GOING: Final = tuple(f"{one.item}: {one.message}" for one in GO)
PROPOSAL: Final = ShownProposal(
    id="1a2b3c4d",
    action="delete_partitions",
    subject="",
    summary="shrink orders to 2 partitions: deletes the last partitions with their records",
    state=ProposalState.WAITING,
    who="bob",
    reason="too many",
    proposed_ms=START_MS,
    expires_ms=START_MS + 900_000,
    foreseen=GOING,
    actions=("approve", "reject"),
)
FORESEEN: Final = {
    "lines": list(GOING),
    "results": [asdict(one) for one in GO],
    "notes": ["What they hold is lost."],
    "fingerprint": "a-1",
    "changed": False,
}


class Proposed(Problem):
    """An answer that it takes two people."""

    def __init__(self) -> None:
        super().__init__(202, "")
        self.document = asdict(PROPOSAL)


@pytest.fixture(autouse=True)
def named_ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard's user is ada@bastion-1, on any machine that runs the tests."""
    monkeypatch.setenv("KSHUNT_USER", "ada@bastion-1")


@pytest.fixture(params=list(SIZES))
async def sized(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The operations view in each size, with a move of ada's."""
    async with operations(tmp_path, SIZES[request.param]) as running:
        yield running


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    async with operations(tmp_path, SIZES["80x24"]) as running:
        yield running


def operations(folder: Path, size: tuple[int, int]) -> Any:
    cluster = incident()
    running_move(cluster)
    return dashboard(folder / "s", cluster, size=size, start_view="operations")


async def look_again(shown: Shown) -> None:
    """Let the time come for every question."""
    shown.time.now += 10
    await shown.publish()


async def announced(shown: Shown, **changes: Any) -> None:
    """The operation with something said about it."""
    operation = replace(shown.backend.cluster.operations["op-1"], **changes)
    shown.backend.cluster.operations["op-1"] = operation
    shown.backend.announce(operation)
    await shown.until(lambda: operation in shown.app.store.scene.operations, "it has arrived")


# Who is here


async def test_the_head_says_who_else_is_here_and_nothing_when_alone(sized: Shown) -> None:
    await sized.until(
        lambda: sized.app.store.scene.answer(PRESENCE), "the backend has said who is here"
    )
    assert " here" not in sized.lines()[0]
    sized.backend.team.present = [BOB, EVE]
    await look_again(sized)
    await sized.until(lambda: "3 here: you, bob, eve" in sized.lines()[0], "the others are named")
    await check_frame(named("here", sized), sized)
    await sized.press("H")
    await sized.dialog(PresenceScreen)
    await check_frame(named("here-list", sized), sized)
    await sized.press("escape")
    sized.backend.team.present = []
    await look_again(sized)
    await sized.until(lambda: " here" not in sized.lines()[0], "they have gone")


async def test_others_are_told_what_is_looked_at(shown: Shown) -> None:
    heard = shown.backend.team.heard
    await shown.until(lambda: heard, "it has said that it is here")
    session = shown.app.store.session
    assert len(session) == 16
    # The rows may have come after it said so first.
    shown.time.now += 3
    await shown.publish()
    await shown.until(lambda: heard[-1]["selected"] == "operation op-1", "and what it looks at")
    assert heard[-1]["screen"] == "operations"
    await shown.press("2", "g")
    shown.time.now += 3
    await shown.publish()
    await shown.until(lambda: heard[-1]["screen"] == "partitions", "it looks elsewhere")
    assert heard[-1]["selected"].startswith("audit-log-0")
    assert {one["session"] for one in heard} == {session}
    assert shown.backend.changes == []


async def test_who_leaves_says_so(tmp_path: Path) -> None:
    async with operations(tmp_path, SIZES["80x24"]) as shown:
        heard = shown.backend.team.heard
        await shown.until(lambda: heard, "it has said that it is here")
        assert not heard[-1]["leaves"]
    assert heard[-1]["leaves"]


async def test_a_backend_that_is_full_still_says_by_what_name_it_knows_one(shown: Shown) -> None:
    shown.backend.team.you = "token-ada"
    shown.backend.team.full = Problem(409, "200 sessions are listed, which is the maximum.")
    await look_again(shown)
    await shown.until(lambda: my_name(shown.app.store) == "token-ada", "it knows its name")
    await announced(shown, claim=Claim("token-ada", START_MS))
    await shown.until(lambda: "Claimed" in shown.frame(), "it is claimed")
    await shown.press("p")
    await shown.dialog(ConfirmScreen)


def test_names_are_shortened_and_counted() -> None:
    many = tuple(replace(EVE, session=f"s-{n}", who=f"p{n}@host") for n in range(6))
    assert presence_forms(Presence(many, session="s-0")) == (
        "6 here: you, p1, p2, 3 more",
        "6 here",
    )
    assert presence_forms(Presence(many[:1], session="s-0")) == presence_forms(None) == ()
    hostile = replace(EVE, who="\x1b[31m\u202eevil")
    assert (
        presence_forms(Presence((BOB, hostile), session="bob-session"))[0]
        == "2 here: you, ?[31m?evil"
    )
    facts = presence_facts(Presence((EVE, BOB), session="bob-session"))
    assert facts == [
        ("bob@laptop (you)", "Partitions: orders-0-3 (here since 08:53 UTC)"),
        ("eve", "does not report its view (here since 08:53 UTC)"),
    ]


def test_what_is_selected_fits_what_a_backend_takes() -> None:
    assert selected_words(None) == ""
    assert selected_words(("orders", 0, 3)) == "orders-0-3"
    assert selected_words("a\nb\x1b") == "a b "
    assert len(selected_words("x" * 500)) == 300


# Claims and notes


async def test_an_operation_is_claimed_shown_and_released(sized: Shown) -> None:
    sent = sized.backend.team.sent
    await sized.press("K")
    dialog = await sized.dialog(TextPromptScreen)
    dialog.query_one(Input).value = "watching the disks"
    await sized.press("enter")
    await sized.closed()
    await sized.until(lambda: "Claimed" in sized.frame(), "the pane says who has claimed it")
    assert sent[-1][0] == "/v1/operations/op-1/claim"
    assert sent[-1][1]["reason"] == "watching the disks"
    assert not sent[-1][1]["take_over"]
    assert "watching the disks" in sized.frame()
    await sized.press("K")
    await sized.until(lambda: sent[-1][0].endswith("/release"), "it is released")
    await sized.until(lambda: "Claimed" not in sized.frame(), "nobody has claimed it")
    assert sized.backend.changes == []


async def test_what_another_steers_is_taken_over_before_it_is_steered(sized: Shown) -> None:
    await announced(sized, claim=Claim("bob@laptop", START_MS, "the disks are slow"))
    await sized.until(lambda: "Claimed" in sized.frame(), "the pane says who has claimed it")
    await check_frame(named("claimed", sized), sized)
    for key in ("p", "c"):
        await sized.press(key)
        assert "bob@laptop has claimed it since 08:53:20 UTC: the disks are slow." in sized.said
        assert "K takes over" in sized.said
    assert sized.backend.asked == []
    await sized.press("K")
    dialog = await sized.dialog(TextPromptScreen)
    assert "bob@laptop has claimed it since 08:53:20 UTC: the disks are slow;" in sized.frame()
    await sized.press("enter")
    assert "Say why." in sized.frame()
    dialog.query_one(Input).value = "bob is at lunch"
    await sized.press("enter")
    await sized.closed()
    path, body = sized.backend.team.sent[-1]
    assert (path, body["take_over"]) == ("/v1/operations/op-1/claim", True)
    assert body["reason"] == "bob is at lunch"
    await sized.until(lambda: "bob is at lunch" in sized.frame(), "it is taken over")
    await sized.press("p")
    await sized.dialog(ConfirmScreen)


async def test_a_note_is_written_and_seen(sized: Shown) -> None:
    await announced(
        sized,
        notes=(
            Note("eve", START_MS, "first"),
            Note("bob", START_MS + 60_000, "[red]broker 3[/red] has a slow disk"),
        ),
    )
    await sized.press("N")
    dialog = await sized.dialog(TextPromptScreen)
    await sized.press("enter")
    assert "A note needs text" in sized.frame()
    dialog.query_one(Input).value = "it was the controller"
    await sized.press("enter")
    await sized.closed()
    await sized.until(lambda: "it was the controller" in sized.frame(), "the pane shows it")
    assert "[red]broker 3[/red] has a slow disk" in sized.frame()
    assert "and 1 before" in sized.frame()
    await check_frame(named("notes", sized), sized)


async def test_nothing_is_said_of_what_has_ended_or_when_read_only(tmp_path: Path) -> None:
    cluster = incident()
    running_move(cluster)
    cluster.operations["op-1"] = replace(
        cluster.operations["op-1"], state=OperationState.DONE, ended_ms=START_MS
    )
    async with dashboard(tmp_path / "s", cluster, start_view="operations", read_only=True) as shown:
        await shown.press("K")
        assert "it cannot be claimed" in shown.said
        await shown.press("N")
        assert "READ-ONLY" in shown.said
        assert shown.backend.team.sent == []


# Proposals


async def with_proposals(shown: Shown, *proposals: ShownProposal) -> None:
    shown.backend.team.proposals = list(proposals)
    shown.backend.team.foreseen = dict(FORESEEN)
    await look_again(shown)
    await shown.until(
        lambda: len(shown.app.store.scene.answer(PROPOSALS)) == len(proposals),
        "the proposals have arrived",
    )


async def test_the_overview_names_what_waits_for_you(sized: Shown) -> None:
    await sized.press("1")
    mine = replace(PROPOSAL, id="mine", who="ada", actions=("withdraw",))
    await with_proposals(sized, mine, PROPOSAL)
    await sized.until(
        lambda: "bob proposes: shrink orders to 2 partitions" in sized.frame(), "it is named"
    )
    assert "ada proposes" not in sized.frame()
    assert "Y proposals" in sized.lines()[-1]
    await check_frame(named("overview-proposal", sized), sized)


async def test_a_proposal_is_approved_by_typing_its_id(sized: Shown) -> None:
    await with_proposals(sized, PROPOSAL)
    answer = {
        "proposal": asdict(
            replace(PROPOSAL, state=ProposalState.DONE, operation_id="op-9", actions=())
        ),
        "answer": {
            "validate_only": False,
            "operation_id": "op-9",
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 2,
                    "mode": -1,
                    "mode_name": "NONE",
                    "error_code": 0,
                    "error_name": "NONE",
                    "message": "",
                }
            ],
            "notes": [],
        },
    }
    sized.backend.scripted["/v1/proposals/1a2b3c4d/approve"] = lambda body: answer
    await sized.press("Y")
    await sized.dialog(ProposalsScreen)
    await sized.until(lambda: "1a2b3c4d, by bob" in sized.frame(), "it is listed")
    await check_frame(named("proposals", sized), sized)
    await sized.pilot.press("a")
    await sized.dialog(ConfirmScreen)
    await check_frame(named("proposal-approve", sized), sized)
    # What cannot be seen while it is typed agrees to nothing.
    name = sized.app.screen.query_one("#typed", Input)
    await sized.pilot.resize_terminal(40, 10)
    await sized.until(lambda: name.disabled, "its line is out of sight")
    assert "Too small to confirm" in sized.frame()
    await sized.press("1", "a", "y")
    assert isinstance(sized.app.screen, ConfirmScreen)
    await sized.pilot.resize_terminal(80, 24)
    await sized.until(lambda: not name.disabled and name.has_focus, "there is room again")
    assert name.value == ""
    assert "Too small" not in sized.frame()
    await sized.press("y", "enter")
    assert sized.backend.changes == []
    await sized.press("backspace")
    await sized.write("1a2b3c4d")
    await sized.pilot.press("enter")
    await sized.dialog(ResultScreen)
    ((path, body),) = sized.backend.changes
    assert (path, body["preview"]) == ("/v1/proposals/1a2b3c4d/approve", "a-1")
    assert body["cluster_id"] == sized.backend.cluster.cluster_id


async def test_a_proposal_is_rejected_with_a_reason(shown: Shown) -> None:
    await with_proposals(shown, PROPOSAL)
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.pilot.press("r")
    dialog = await shown.dialog(TextPromptScreen)
    await shown.press("enter")
    assert "Say why." in shown.frame()
    dialog.query_one(Input).value = "the wrong topic"
    await shown.press("enter")
    await shown.closed()
    assert shown.backend.team.sent == [
        (
            "/v1/proposals/1a2b3c4d/reject",
            {"cluster_id": shown.backend.cluster.cluster_id, "reason": "the wrong topic"},
        )
    ]
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "rejected" in shown.frame(), "it is settled")
    await shown.press("a")
    assert "It is rejected; it cannot be changed any more." in shown.frame()


async def test_ones_own_is_withdrawn_and_not_approved(shown: Shown) -> None:
    await with_proposals(shown, replace(PROPOSAL, actions=("withdraw",)))
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "1a2b3c4d" in shown.frame(), "it is listed")
    await shown.press("a")
    assert "You proposed it: another person must approve it." in shown.frame()
    await shown.pilot.press("w")
    await shown.closed()
    await shown.until(lambda: shown.backend.team.sent, "it is sent")
    assert shown.backend.team.sent[0][0] == "/v1/proposals/1a2b3c4d/withdraw"


async def test_which_one_is_chosen_is_seen(shown: Shown) -> None:
    other = replace(PROPOSAL, id="5e6f7a8b", summary="shrink payments to 1 partition")
    await with_proposals(shown, PROPOSAL, other)
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "> waiting   shrink orders" in shown.frame(), "the first one is")
    assert "  waiting   shrink payments" in shown.frame()
    lit = [line for line in shown.app.screen.query(".item") if line.styles.background.a > 0]
    assert len(lit) == 2
    await shown.press("j")
    await shown.until(lambda: "> waiting   shrink payments" in shown.frame(), "then the other")
    assert "  waiting   shrink orders" in shown.frame()
    await shown.pilot.press("r")
    await shown.dialog(TextPromptScreen)
    assert "Reject proposal 5e6f7a8b" in shown.frame()


async def test_the_chosen_one_stays_chosen_whatever_comes(shown: Shown) -> None:
    done = replace(PROPOSAL, state=ProposalState.DONE, outcome="1 of 1 done", actions=())
    await with_proposals(shown, done)
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "1 of 1 done" in shown.frame(), "it is listed")
    mine = replace(PROPOSAL, who="ada", actions=("withdraw",))
    newer = [replace(mine, id=f"{number:08}") for number in range(40)]
    await with_proposals(shown, *newer, done)
    screen = shown.app.screen
    await shown.until(lambda: len(screen.query(".item")) == 82, "all of them have their lines")
    await shown.press("w")
    assert "It is done; it cannot be changed any more." in shown.frame()
    assert shown.backend.team.sent == []
    await shown.until(lambda: "> done" in shown.frame(), "it is in sight")
    await shown.press("k")
    await shown.until(lambda: "    00000039" in shown.frame(), "all that wait are listed")
    assert "Esc closes" in shown.frame()


async def test_what_takes_two_people_is_said_where_it_was_asked_for(shown: Shown) -> None:
    # Of every change a client understands the answer that it was proposed.
    def proposed(body: dict[str, Any]) -> dict[str, Any]:
        if body["validate_only"]:
            return to_document(ChangeAnswer(True, "op-1", (Result("op-1", 0, "NONE", ""),)))
        raise Proposed

    shown.backend.scripted["/v1/operations/op-1/pause"] = proposed
    await shown.press("p")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    dialog = await shown.dialog(ErrorScreen)
    assert dialog.error.title == "Awaits approval"
    words = " ".join(shown.frame().replace("│", " ").split())
    assert "Nothing is changed yet" in words
    assert "proposals show 1a2b3c4d" in words


async def test_without_proposals_the_list_says_so(shown: Shown) -> None:
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "There is no proposal" in shown.frame(), "it is said")
    await shown.press("a", "j", "escape")
    await shown.closed()


async def test_whoever_may_only_look_is_told_so(shown: Shown) -> None:
    await with_proposals(shown, replace(PROPOSAL, actions=()))
    await shown.press("1")
    assert "proposes" not in shown.frame()
    await shown.press("Y")
    await shown.dialog(ProposalsScreen)
    await shown.until(lambda: "you may look at it" in shown.frame(), "it is listed")
    await shown.press("a")
    assert "You cannot approve it; you may only look." in shown.frame()


def test_what_would_be_lost_is_a_warning() -> None:
    one = ProposalEffect(("lossy-0: the partition may lose 20 messages",), (), "a", changed=True)
    said = list(warnings_of(replace(PROPOSAL, action="unclean_election"), one))
    assert said[0].startswith("It would have another effect")
    assert "LOST for good" in said[1]
    assert said[2] == one.lines[0]
    assert list(warnings_of(replace(PROPOSAL, action="shrink"), ProposalEffect(GOING))) == []


def test_what_would_be_refused_is_a_failure_of_its_rehearsal() -> None:
    refused = Result("orders-3", 3, "UNKNOWN_TOPIC_OR_PARTITION", "")
    told = rehearsed(ProposalEffect(results=(GO[0], refused)))
    assert headline(told) == ("1 of 2 would succeed, 1 would fail", "bad")
    # An older backend says it in lines alone.
    assert [one.item for one in rehearsed(ProposalEffect(GOING)).results] == list(GOING)


def test_a_proposal_in_two_lines() -> None:
    head, rest = proposal_lines(PROPOSAL, START_MS + 1_000)
    assert head.startswith("waiting   shrink orders to 2 partitions")
    assert rest == "1a2b3c4d, by bob: too many; expires in 15m; you may approve or reject it"
    failed = replace(
        PROPOSAL, state=ProposalState.FAILED, settled_by="ada", outcome="broker 1 leads"
    )
    assert proposal_lines(failed, 0)[1].endswith("failed by ada: broker 1 leads")
    assert left_text(replace(PROPOSAL, expires_ms=START_MS + 7_200_000), START_MS) == "2h00m"
    assert left_text(PROPOSAL, START_MS + 900_000) == "0s"
