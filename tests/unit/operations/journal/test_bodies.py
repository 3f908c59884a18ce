"""Bodies of journal entries: what version 0.1 wrote is taken over, and written again as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.forecast.scoring.kept_forecasts import VoidReason
from kshunt.backend.domain.operations.approval import ProposedChange
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.operations.team import Team
from kshunt.backend.domain.throttles.configs import Move, ReplicaSet
from kshunt.backend.operations.core.known_operations import known_operations
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    Entry,
    EntryHeader,
    Heartbeat,
    JournalState,
    Unreadable,
    forecasts_key,
    proposal_key,
    team_key,
)
from kshunt.backend.operations.moves.pause_throttles import PauseRecord
from kshunt.backend.operations.moves.schedule import Caps, MoveOrder
from kshunt.backend.operations.state.operation_body import (
    Recorded,
    operation_body,
    read_operation,
    read_operation_body,
)
from kshunt.backend.operations.state.ownership_documents import readable, to_documents
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, UnreadableWork
from kshunt.backend.operations.state.team_bodies import (
    forecasts_body,
    proposal_body,
    read_forecasts,
    read_proposal,
    read_team,
    team_body,
)
from tests.support.faults.hostile_journal import mutated
from tests.support.forecast.kept import kept_forecast
from tests.support.operations.written_bodies import (
    BEATS,
    OWNERSHIP,
    PLAN,
    PROPOSALS,
    RATES,
    RECORDED,
    TEAMS,
    WRITTEN,
    P,
)

HEADER = EntryHeader("here", "one", 0)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def written_by(one: Recorded) -> Mapping[str, Any]:
    body: Mapping[str, Any] = as_json(operation_body(one.operation, one.work, one.shrink))
    return body


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.operation.id)
def test_an_operation_of_version_0_1_is_taken_over(one: Recorded) -> None:
    body = WRITTEN["operations"][one.operation.id]
    assert read_operation(one.operation.id, body) == one
    assert read_operation(one.operation.id, written_by(one)) == one
    if one.operation != RATES:
        assert written_by(one) == body


def test_what_was_requested_has_a_field_of_its_own_now() -> None:
    (one,) = (one for one in RECORDED if one.operation == RATES)
    requested = {"1": "10 MB/s", "2": "no rate"}
    assert written_by(one)["details"] == {"proposal": "pp12", "requested": requested}
    body = {**written_by(one), "details": {"shrink": "to 3", "requested": {"1": "x"}}}
    details = read_operation_body(body).operation.details
    assert details == OperationDetails(requested={"shrink": "to 3", "1": "x"})


def test_how_far_an_operation_is_is_not_written() -> None:
    """Who takes it over finds that out, and would take the words for a call for help."""
    one = RECORDED[0]
    far = replace(one, operation=one.operation.with_outcome("1 of 2", is_progress=True))
    assert written_by(far)["outcome"] == ""
    asks = replace(one, operation=one.operation.with_outcome("no step was taken"))
    assert written_by(asks)["outcome"] == "no step was taken"


@pytest.mark.parametrize(
    "details",
    [
        {"batch_size": 1.5},
        {"batch_size": True},
        {"later": 1},
        {"later": None},
        {"proposal": None},
        {"put_back": [["orders"]]},
        {"returning": [["orders", 0, [1.5]]]},
        {"requested": ["x"]},
        {"requested": [], "1": "x"},
        [],
        None,
    ],
)
def test_details_that_are_not_understood_make_an_operation_unreadable(details: Any) -> None:
    with pytest.raises(UnreadableWork):
        read_operation_body({**WRITTEN["operations"]["cd34"], "details": details})


def test_throttles_of_version_0_1_are_taken_over() -> None:
    assert readable(WRITTEN["throttles"]) == (OWNERSHIP, {})
    assert as_json(to_documents(OWNERSHIP)) == WRITTEN["throttles"]


@pytest.mark.parametrize("one", PROPOSALS, ids=lambda one: one.id)
def test_proposals_of_version_0_1_are_taken_over(one: ProposedChange) -> None:
    body = WRITTEN["proposals"][one.id]
    assert read_proposal(Entry(proposal_key(one.id), body, HEADER)) == one
    assert as_json(proposal_body(one)) == body


@pytest.mark.parametrize(("team", "body"), [*zip(TEAMS, WRITTEN["teams"], strict=True)])
def test_claims_and_notes_of_version_0_1_are_taken_over(team: Team, body: Any) -> None:
    assert read_team(Entry(team_key("ab12"), body, HEADER)) == team
    assert as_json(team_body(team)) == body


def test_forecasts_read_back_and_a_damaged_entry_is_listed_alone() -> None:
    kept = (
        kept_forecast(actual_s=850.0),
        kept_forecast(point=0.5, bottleneck=None, void=VoidReason.PAUSED),
    )
    body = as_json(forecasts_body(kept))
    key = forecasts_key("ab12")
    assert read_forecasts(Entry(key, body, HEADER)) == kept
    (one, *_) = body["kept"]
    for broken in (
        {**body, "kept": [{**one, "p50_s": "soon"}]},
        {**body, "kept": [{**one, "p50_s": -1.0}]},
        {**body, "kept": [{**one, "void": "rained"}]},
        {**body, "kept": [{**one, "more": 1}]},
        {"format": 1},
    ):
        found = read_forecasts(Entry(key, broken, HEADER))
        assert isinstance(found, Unreadable)
        assert found.why is UnreadableReason.DAMAGED
        known = known_operations(JournalState({key: Entry(key, broken, HEADER)}))
        assert (known.forecasts, [*known.unreadable]) == ({}, [key])
    later = read_forecasts(Entry(key, {**body, "format": 2}, HEADER))
    assert isinstance(later, Unreadable)
    assert later.why is UnreadableReason.NEWER


def test_forecasts_that_say_how_their_ends_moved_are_taken_over() -> None:
    kept = (kept_forecast(actual_s=850.0), kept_forecast(point=0.5))
    body = as_json(forecasts_body(kept))
    for one in body["kept"]:
        assert one.pop("writes") == "some"
        one["wander"] = "restless"
    assert read_forecasts(Entry(forecasts_key("ab12"), body, HEADER)) == kept


@pytest.mark.parametrize(("beat", "body"), [*zip(BEATS, WRITTEN["beats"], strict=True)])
def test_heartbeats_of_version_0_1_are_taken_over(beat: Heartbeat, body: Any) -> None:
    assert Heartbeat.of(Entry(BACKEND_KEY, body, HEADER)) == beat
    assert as_json(beat.body()) == body


texts = st.text(max_size=8)
ids = st.integers(0, 2**31 - 1)
numbers = st.none() | st.integers(0, 2**63 - 1)
replicas = st.lists(ids, max_size=3).map(tuple)
members = st.frozensets(st.sampled_from(P))
restored = st.tuples(ids | texts, texts, numbers | texts, st.booleans())
details = st.builds(
    OperationDetails,
    rollback_plan=st.none() | st.just(PLAN),
    proposal=texts,
    requested=st.none() | st.dictionaries(texts, texts, max_size=3),
    returning=st.none()
    | st.lists(st.tuples(texts, ids, st.none() | replicas), max_size=3).map(tuple),
    preserve_throttles=st.none() | st.booleans(),
    put_back=st.none() | st.lists(restored, max_size=3).map(tuple),
    batch_size=numbers,
    pause_s=st.none() | st.floats(0, 1e9),
)
pauses = st.builds(
    PauseRecord,
    st.dictionaries(ids, numbers, max_size=3),
    st.dictionaries(
        texts, st.builds(ReplicaSet, st.frozensets(st.tuples(ids, ids), max_size=3)), max_size=2
    ),
)
moves = {one: st.builds(Move, st.just(one), replicas, replicas) for one in P}
works = st.builds(
    ReassignmentWork,
    moves=st.fixed_dictionaries(
        {one: st.builds(Move, st.just(one), replicas, replicas) for one in P}
    ),
    log_dirs=st.dictionaries(st.tuples(st.sampled_from(P), ids), texts, max_size=3),
    throttle_bytes_per_s=numbers,
    log_dirs_throttle_bytes_per_s=numbers,
    auto_remove=st.booleans(),
    factor_may_change=st.booleans(),
    timeout_s=st.floats(0, 1e6),
    order=st.sampled_from(MoveOrder),
    caps=st.none() | st.builds(Caps, st.integers(1, 10**9), st.integers(1, 10**9)),
    started=members,
    unanswered=members,
    cancelled=members,
    refused=members,
    pause=st.none() | pauses,
    failed=texts,
    adopted=st.booleans(),
)
operations = st.builds(
    Operation,
    id=texts,
    kind=st.sampled_from([kind for kind in OperationKind if kind is not OperationKind.SHRINK]),
    state=st.sampled_from(OperationState),
    started_ms=st.integers(0, 10**13),
    summary=texts,
    partitions=st.just(P),
    throttle_bytes_per_s=numbers,
    auto_remove_throttle=st.booleans(),
    ended_ms=st.none() | st.integers(0, 10**13),
    outcome=texts,
    details=details,
    who=texts,
    reason=texts,
)


@given(operations, st.none() | works)
def test_what_is_written_is_read_again(operation: Operation, work: ReassignmentWork | None) -> None:
    if work is not None:
        operation = replace(operation, partitions=tuple(work.moves))
    one = Recorded(operation, work)
    assert read_operation(operation.id, written_by(one)) == one


@given(operations, works)
def test_another_field_anywhere_makes_a_work_unreadable(
    operation: Operation, work: ReassignmentWork
) -> None:
    body = {**written_by(Recorded(operation, work))}
    for spoilt in (
        {**body, "more": 1},
        {**body, "work": {**body["work"], "more": 1}},
        {**body, "work": {**body["work"], "pause": {"rates": [], "added": {}, "more": 1}}},
        {**body, "work": {**body["work"], "moves": [[*row, 1] for row in body["work"]["moves"]]}},
        {**body, "details": {**body["details"], "more": 1}},
    ):
        with pytest.raises(UnreadableWork):
            read_operation(operation.id, spoilt)


def damaged() -> Iterator[tuple[Any, Any]]:
    for body in WRITTEN["operations"].values():
        for changed in mutated(body):
            yield body, changed


@pytest.mark.slow
def test_what_is_read_of_a_damaged_operation_is_written_as_it_was() -> None:
    """No backend acts upon an entry of which it skipped a part."""
    understood = 0
    for body, changed in damaged():
        try:
            found = read_operation_body(changed)
        except UnreadableWork:
            continue
        understood += 1
        again = written_by(found)
        if set(changed["details"]) <= set(again["details"]):
            assert again.keys() == changed.keys(), body["id"]
            assert again["shrink"] == changed["shrink"] if "shrink" in changed else True
    assert understood
