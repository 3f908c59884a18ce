"""A shrink in the journal: what is written is read again, and nothing else is acted upon."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.config_names import MAX_MESSAGE_BYTES
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import (
    CutOver,
    ShrinkPhase,
    ShrinkProgress,
    ShrinkRequest,
    after,
    phases_of,
)
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.domain.untrusted.json_codec import read_exactly, to_json
from kshunt.backend.operations.core.known_operations import known_operations
from kshunt.backend.operations.journal.entries import (
    Entry,
    EntryHeader,
    JournalState,
    operation_key,
)
from kshunt.backend.operations.shrink import topic_settings
from kshunt.backend.operations.shrink.progress import shrink_progress
from kshunt.backend.operations.state.operation_body import operation_body, read_operation_body
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, UnreadableWork
from kshunt.backend.operations.state.shrink_work import (
    Compared,
    GroupPlace,
    ShrinkWork,
    document,
    read_shrink,
)
from tests.support.documents.code_tables import phases_table
from tests.support.shrink.phase_table import PHASES

offsets = st.dictionaries(st.integers(0, 20), st.integers(0, 2**60), max_size=4)
texts = st.text(max_size=8)
comparisons = st.builds(Compared, offsets, offsets, st.integers(0, 10**12), st.integers(0, 10**13))
places = st.builds(
    GroupPlace,
    offsets,
    offsets,
    st.integers(0, 10**9),
    st.none() | offsets,
    st.booleans(),
    st.booleans(),
)
requests = st.builds(
    ShrinkRequest,
    texts,
    st.integers(1, 100),
    st.integers(0, 2**53),
    st.sampled_from(CutOver),
    texts,
    st.booleans(),
    st.lists(texts, max_size=3).map(tuple),
    st.sampled_from(("round-robin", "as-source")),
    partitioner=st.none() | st.sampled_from(Partitioner),
)
works = st.builds(
    ShrinkWork,
    request=requests,
    current=st.integers(1, 100),
    copy=texts,
    phase=st.sampled_from(ShrinkPhase),
    source_id=texts,
    copy_id=texts,
    final_id=texts,
    blocked_before=st.none() | st.booleans(),
    overrides=st.none() | st.dictionaries(texts, texts, max_size=3),
    in_force=st.dictionaries(texts, texts, max_size=3),
    assignment=st.lists(st.lists(st.integers(1, 5), max_size=3).map(tuple), max_size=3).map(tuple),
    cuts=st.lists(offsets, max_size=3).map(tuple),
    until=st.none() | offsets,
    rounds=st.integers(0, 5),
    verified=st.none() | comparisons,
    confirmed=texts,
    sealed=st.none() | offsets,
    groups=st.dictionaries(texts, places, max_size=3),
    verified_back=st.none() | comparisons,
    differs=texts,
    accepted=st.booleans(),
    failed=texts,
    cancelled=st.booleans(),
)
WORK = ShrinkWork(ShrinkRequest("orders", 3, 0), 8, "orders.kshunt-1")


def operation(kind: OperationKind = OperationKind.SHRINK) -> Operation:
    return Operation("ab12", kind, OperationState.RUNNING, 1, "shrink orders to 3 partitions")


@given(works)
def test_what_is_written_is_read_again(work: ShrinkWork) -> None:
    assert read_shrink(json.loads(json.dumps(document(work)))) == work


@given(works, st.sampled_from(OperationState))
def test_every_course_travels_as_json(work: ShrinkWork, state: OperationState) -> None:
    if work.phase not in phases_of(work.request.cut_over):
        work = replace(work, phase=ShrinkPhase.COPY)
    progress = shrink_progress(replace(operation(), state=state), work, None)
    assert read_exactly(ShrinkProgress, json.loads(to_json(progress))) == progress


@pytest.mark.parametrize("name", [one.name for one in fields(ShrinkWork)])
def test_a_field_that_is_missing_or_of_another_type_makes_it_unreadable(name: str) -> None:
    written = dict(document(WORK))
    for spoilt in (
        {k: v for k, v in written.items() if k != name},
        {**written, name: object()},
        {**written, name: 1.5},
        {**written, "other": 1},
    ):
        with pytest.raises(UnreadableWork):
            read_shrink(spoilt)


def test_an_entry_with_a_shrink_is_read_whole_or_not_at_all() -> None:
    body = dict(operation_body(operation(), None, WORK))
    found = read_operation_body(body)
    assert (found.operation, found.work, found.shrink) == (operation(), None, WORK)
    entry = {**body, "shrink": {**body["shrink"], "phase": "dreaming"}}
    known = known_operations(journal(entry))
    assert known.operations == {}
    (unreadable,) = known.unreadable.values()
    assert "state of the shrink cannot be read" in unreadable.detail


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: {key: value for key, value in body.items() if key != "shrink"},
        lambda body: {**body, "kind": "reassign"},
        lambda body: {**body, "shrink": None},
        lambda body: {**body, "shrink": []},
    ],
)
def test_a_shrink_and_its_kind_go_together(
    spoil: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    known = known_operations(journal(spoil(operation_body(operation(), None, WORK))))
    assert known.operations == {}
    assert len(known.unreadable) == 1


def test_what_a_kshunt_without_shrinks_wrote_is_still_read() -> None:
    body = operation_body(operation(OperationKind.REASSIGN), ReassignmentWork({}))
    assert "shrink" not in body
    known = known_operations(journal(body))
    assert list(known.operations) == ["ab12"]
    assert known.shrinks == {}


def journal(body: Mapping[str, Any]) -> JournalState:
    key = operation_key("ab12")
    return JournalState({key: Entry(key, body, EntryHeader("here", "one", 0))})


def test_the_table_names_every_phase_once_and_each_leads_to_the_next() -> None:
    assert [one.phase for one in PHASES] == list(ShrinkPhase)
    for cut_over in CutOver:
        phases = phases_of(cut_over)
        assert [after(phase, cut_over) for phase in phases] == [*phases[1:], phases[-1]]
    assert phases_table().count("\n") == len(ShrinkPhase) + 1


@given(
    st.dictionaries(st.sampled_from([*topic_settings.HOLD, MAX_MESSAGE_BYTES, "segment.ms"]), texts)
)
def test_what_was_set_before_is_put_back(before: dict[str, str]) -> None:
    work = replace(WORK, overrides=before)
    now: dict[str, str | None] = {**before, **topic_settings.to_hold(before), **topic_settings.SEAL}
    found = {key: value for key, value in now.items() if value is not None}
    ended = {**found, **topic_settings.to_release(work, found, sealed=False)}
    assert {key: value for key, value in ended.items() if value is not None} == before


@given(
    st.dictionaries(st.sampled_from([*topic_settings.HOLD, MAX_MESSAGE_BYTES, "segment.ms"]), texts)
)
def test_the_final_topic_ends_with_what_the_source_had(before: dict[str, str]) -> None:
    work = replace(WORK, overrides=before, in_force={MAX_MESSAGE_BYTES: "1000"})
    created = topic_settings.final_settings(work)
    assert created[MAX_MESSAGE_BYTES] == "1100"
    ended: dict[str, str | None] = {**created, **topic_settings.to_end_with(work, created)}
    assert {key: value for key, value in ended.items() if value is not None} == before


def test_what_somebody_set_meanwhile_stays() -> None:
    work = replace(WORK, overrides={"retention.ms": "5"})
    found = {**topic_settings.HOLD, **topic_settings.SEAL, "retention.ms": "7"}
    changes = topic_settings.to_release(work, found, sealed=False)
    assert "retention.ms" not in changes
    assert changes[MAX_MESSAGE_BYTES] is None
    kept_closed = topic_settings.to_release(work, found, sealed=True)
    assert MAX_MESSAGE_BYTES not in kept_closed


def test_many_groups_have_fewer_cuts_than_an_entry_of_the_journal_can_hold() -> None:
    ends = dict.fromkeys(range(1_000), 10_000)
    groups = [dict.fromkeys(range(1_000), at) for at in range(100)]
    cuts = topic_settings.cuts_for(groups, ends)
    assert sum(map(len, cuts)) <= topic_settings.CUT_NUMBERS_MAX
    assert topic_settings.cuts_for([{0: 99, 7: 1}], {0: 5}) == ({0: 5},)
