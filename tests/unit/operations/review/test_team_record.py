"""Proposals, claims and notes in the journal: written, read, and what is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.operations.approval import (
    Person,
    ProposalState,
    ProposedChange,
    ShownProposal,
)
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.operations.team import Claim, Note, Team
from kshunt.backend.domain.untrusted.json_codec import from_document, to_document
from kshunt.backend.operations.core.known_operations import has_unfinished, known_operations
from kshunt.backend.operations.journal.entries import (
    Entry,
    EntryHeader,
    JournalState,
    Unreadable,
    proposal_key,
    team_key,
)
from kshunt.backend.operations.journal.port import check_append
from kshunt.backend.operations.journal.records import signed
from kshunt.backend.operations.journal.replay import JournalReplay
from kshunt.backend.operations.state import team_bodies
from kshunt.backend.operations.state.operation_body import operation_body
from tests.support.access.keys import KEYS
from tests.support.operations.approvals import Effects, Side, side

HEADER = EntryHeader("here", "one", 0)
PROPOSAL = ProposedChange(
    id="1a2b3c4d",
    action="shrink",
    subject="orders",
    summary="shrink orders to 2 partitions",
    proposer=Person("ada", "token-1"),
    reason="too many",
    proposed_ms=1_000,
    expires_ms=901_000,
    body={"total_count": 2, "insisted": ["groups-active"]},
    foreseen=("orders: 4 partitions become 2",),
    fingerprint="ab",
)
OPERATION = Operation("op1", OperationKind.ELECTION, OperationState.RUNNING, 5, "an election")

texts = st.text(max_size=30)
people = st.builds(Person, texts, texts)
times = st.integers(0, 2**45)
proposals = st.builds(
    ProposedChange,
    id=st.from_regex(r"\A[a-f0-9]{8}\Z"),
    action=texts,
    subject=texts,
    summary=texts,
    proposer=people,
    reason=texts,
    proposed_ms=times,
    expires_ms=times,
    body=st.dictionaries(texts, st.none() | st.booleans() | texts | st.lists(times, max_size=3)),
    foreseen=st.lists(texts, max_size=3).map(tuple),
    fingerprint=texts,
    state=st.sampled_from(list(ProposalState)),
    settled_by=texts,
    settled_reason=texts,
    settled_ms=st.none() | times,
    operation_id=texts,
    outcome=texts,
)
claims = st.builds(Claim, texts, times, texts)
notes = st.builds(Note, texts, times, texts)
teams = st.builds(Team, st.none() | claims, st.lists(notes, max_size=3).map(tuple))


def entry_of(body: Any, id: str = PROPOSAL.id) -> Entry:
    return Entry(proposal_key(id), body, HEADER)


@given(proposals)
def test_a_proposal_comes_back_as_it_was_written(proposal: ProposedChange) -> None:
    body = json.loads(json.dumps(team_bodies.proposal_body(proposal)))
    assert team_bodies.read_proposal(entry_of(body, proposal.id)) == proposal


@given(teams)
def test_what_people_said_comes_back_as_it_was_written(team: Team) -> None:
    body = json.loads(json.dumps(team_bodies.team_body(team)))
    assert team_bodies.read_team(Entry(team_key("op1"), body, HEADER)) == team


def damaged() -> list[tuple[str, dict[str, Any]]]:
    good = team_bodies.proposal_body(PROPOSAL)
    wrong: dict[str, Any] = {
        "id": "ffffffff",
        "action": None,
        "proposer": {"name": "ada"},
        "reason": 3,
        "expires_ms": "901000",
        "proposed_ms": True,
        "body": [],
        "foreseen": [1],
        "state": "perhaps",
        "settled_ms": 1.5,
        "format": 0,
    }
    cases = [(name, {**good, name: value}) for name, value in wrong.items()]
    cases += [(f"without {name}", {k: v for k, v in good.items() if k != name}) for name in good]
    return [*cases, ("with more", {**good, "approved": True})]


@pytest.mark.parametrize(("what", "body"), damaged(), ids=[what for what, _ in damaged()])
def test_a_damaged_proposal_is_listed_and_not_acted_upon(what: str, body: dict[str, Any]) -> None:
    found = team_bodies.read_proposal(entry_of(body))
    assert isinstance(found, Unreadable), what
    assert found.why is UnreadableReason.DAMAGED
    state = JournalState({proposal_key(PROPOSAL.id): entry_of(body)})
    known = known_operations(state)
    assert known.proposals == {}
    assert proposal_key(PROPOSAL.id) in known.unreadable
    assert not has_unfinished(state)


def test_one_of_a_later_version_is_left_alone() -> None:
    body = {**team_bodies.proposal_body(PROPOSAL), "format": 2, "witnesses": 2}
    found = team_bodies.read_proposal(entry_of(body))
    assert isinstance(found, Unreadable)
    assert found.why is UnreadableReason.NEWER


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"format": 1, "claim": None},
        {"format": 1, "claim": {"who": "ada"}, "notes": []},
        {"format": 1, "claim": None, "notes": {}},
        {"format": 1, "claim": None, "notes": [{"who": "ada", "at_ms": "1", "text": "x"}]},
        {"format": 1, "claim": "ada", "notes": []},
    ],
    ids=str,
)
def test_a_damaged_claim_is_listed_and_its_operation_goes_on(body: dict[str, Any]) -> None:
    entries = {
        "operation/op1": Entry("operation/op1", operation_body(OPERATION, None), HEADER),
        team_key("op1"): Entry(team_key("op1"), body, HEADER),
    }
    known = known_operations(JournalState(entries))
    assert set(known.operations) == {"op1"}
    assert known.teams == {}
    assert team_key("op1") in known.unreadable


def test_an_entry_that_the_log_cannot_read_is_not_written_over() -> None:
    fold = JournalReplay("here", KEYS)
    for key, value in fold.records(
        {proposal_key("x1"): team_bodies.proposal_body(PROPOSAL)}, HEADER
    ):
        fold.take(key, value)
    newer = {"format": 3, "cluster_id": "here", "key": proposal_key("x1")}
    fold.take(proposal_key("x1").encode(), signed(newer, HEADER.time_ms + 9, KEYS))
    state = fold.state()
    assert state.unreadable[proposal_key("x1")].why is UnreadableReason.NEWER
    with pytest.raises(Exception, match="Nothing was written"):
        check_append(state, {proposal_key("x1"): {}})


async def test_entries_of_before_there_were_claims_are_read() -> None:
    here = side()
    here.book.commit({"operation/op1": operation_body(OPERATION, None)})
    other = Side(here.book, here.clock, Effects())
    assert other.registry.get("op1") == OPERATION
    assert other.registry.team("op1") == Team()
    document = to_document(OPERATION)
    del document["claim"], document["notes"]
    assert from_document(Operation, document) == OPERATION


def json_and_back(shown: ShownProposal) -> ShownProposal:
    return from_document(ShownProposal, json.loads(json.dumps(to_document(shown))))


def test_what_is_shown_of_a_proposal_depends_on_who_looks() -> None:
    ada, bob = PROPOSAL.proposer, Person("bob", "token-2")
    for person, actions in ((ada, ("withdraw",)), (bob, ("approve", "reject"))):
        shown = json_and_back(ShownProposal.of(PROPOSAL, person, 2_000))
        assert (shown.actions, shown.who, shown.waiting) == (actions, "ada", True)
    late = json_and_back(ShownProposal.of(PROPOSAL, bob, 901_000))
    assert (late.actions, late.state) == ((), "expired")
    assert "token-1" not in json.dumps(to_document(ShownProposal.of(PROPOSAL, bob, 2_000)))
