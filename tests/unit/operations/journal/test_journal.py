"""The journal's entries, and what a log of them amounts to: laws and damage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.access.cluster_keys import Purpose
from kshunt.backend.domain.audit.lines import audit_key
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.journal import records as codec
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    BODY_BYTES_MAX,
    Entry,
    EntryHeader,
    EntryKind,
    Heartbeat,
    JournalState,
    Record,
    Unreadable,
    broker_throttle_key,
    operation_key,
    topic_throttle_key,
)
from kshunt.backend.operations.journal.port import check_append, retired
from kshunt.backend.operations.journal.replay import JournalReplay
from tests.support.access.keys import KEYS
from tests.support.runs.examples import many

CLUSTER = "zQcs2L5vn2KsTAnCggbn4w"
HEADER = EntryHeader(CLUSTER, "b1", 1_700_000_000_000)

keys = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).map(operation_key),
    st.integers(0, 2**31 - 1).map(broker_throttle_key),
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).map(topic_throttle_key),
    st.builds(audit_key, st.integers(10**12, 10**13 - 1), st.integers(0, 99_999)),
    st.just(BACKEND_KEY),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
bodies = st.dictionaries(st.text(), values, max_size=5)


def fold_of(records: list[Record], cluster_id: str = CLUSTER) -> JournalState:
    fold = JournalReplay(cluster_id, KEYS)
    for key, value in records:
        fold.take(key, value)
    return fold.state()


def written(
    key: str,
    body: Mapping[str, Any] | None,
    header: EntryHeader = HEADER,
    fold: JournalReplay | None = None,
) -> list[Record]:
    """The records of one append, the manifest's last."""
    return (fold or JournalReplay(header.cluster_id, KEYS)).records({key: body}, header)


def only(state: JournalState, key: str) -> Unreadable:
    """The one thing that a log holds, and that cannot be read or is not believed."""
    assert state.entries == {}
    found = {**state.unreadable, **state.aside}
    assert list(found) == [key]
    return found[key]


def large(seed: int, size_bytes: int) -> dict[str, Any]:
    """A body that zlib makes about half as long."""
    return {"plan": Random(seed).randbytes(size_bytes // 2).hex()}


# --- one entry


@given(keys, bodies)
def test_an_entry_is_read_as_it_was_written(key: str, body: dict[str, Any]) -> None:
    records = written(key, body)
    state = fold_of(records)
    assert state == JournalState({key: Entry(key, body, HEADER)})
    assert json.loads(records[0][1] or b"")["body"] == body


@given(bodies, values, st.integers(0, 3 * codec.PIECE), st.integers(0, 4))
def test_a_body_in_pieces_is_the_text_that_one_call_writes(
    body: dict[str, Any], entry: Any, entries: int, depth: int
) -> None:
    long: Any = [entry, (("a", 1), None)] * (entries // 2)
    for _ in range(depth):
        long = {"long": long, **body}
    for whole in ({"body": body, "long": long}, {**body, "of": {1: long}}):
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
        assert codec._canonical_body(operation_key("x"), whole) == text.encode()


@given(bodies, st.data())
def test_a_changed_entry_is_never_taken_for_another(body: dict[str, Any], data: Any) -> None:
    key = operation_key("x")
    (raw, value), manifest = written(key, body)
    assert value is not None
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                value[:at],
                value[:at] + value[at + 1 :],
                value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :],
                value + value[at:],
                value[:at] + data.draw(st.binary(min_size=1, max_size=8)) + value[at:],
            ]
        )
    )
    state = fold_of([(raw, damaged), manifest])
    assert state.entries in ({}, {key: Entry(key, body, HEADER)})
    assert len(state.entries) + len(state.aside) == 1
    after = fold_of([(raw, value), manifest, (raw, damaged)])
    assert after.entries == {key: Entry(key, body, HEADER)}


@given(st.binary() | values.map(lambda one: json.dumps(one).encode()), st.binary(max_size=20))
def test_anything_at_all_can_be_in_the_topic(value: bytes, key: bytes) -> None:
    state = fold_of([(key, value)])
    assert not state.entries
    assert not state.unreadable
    assert len(state.aside) == 1


def head(scope: str = "operation/x", **changes: Any) -> bytes:
    """The value of a proper entry `operation/x`, changed and signed anew."""
    envelope = {
        "format": 2,
        "key": "operation/x",
        "cluster_id": CLUSTER,
        "writer": "b1",
        "time_ms": 5,
        "body": {},
        **changes,
    }
    text = codec._canonical({name: one for name, one in envelope.items() if one is not ...})
    text = text[:-1] + b',"number":7'
    made = KEYS.sign(Purpose.JOURNAL, codec._scope(CLUSTER, scope) + text)
    return text + f',"signature":{{"key":"{made.key_id}","mac":"{made.mac}"}}}}'.encode()


def unsigned(key: str, body: Any = None, cluster_id: str = CLUSTER) -> bytes:
    """The value of an entry as an earlier kshunt wrote it."""
    envelope = {"format": 1, "key": key, "cluster_id": cluster_id, "writer": "b0", "time_ms": 5}
    text = codec._canonical({**envelope, "body": body or {}})
    return text[:-1] + f',"digest":"{codec._digest(text)}"}}'.encode()


def manifest_of(key: str, number: int = 7) -> Record:
    """A manifest that names one entry."""
    [record] = codec.encode("manifest", {"entries": {key: number}}, HEADER, number, KEYS)
    return record


@pytest.mark.parametrize(
    ("value", "why", "words"),
    [
        (b"", UnreadableReason.DAMAGED, "not JSON"),
        (b"[1]", UnreadableReason.DAMAGED, "not a JSON object"),
        (b"\xff\xfe{", UnreadableReason.DAMAGED, "not JSON"),
        (b"[" * 100_000, UnreadableReason.DAMAGED, "not JSON"),
        (b'{"format":NaN}', UnreadableReason.DAMAGED, "not JSON"),
        (b'{"format":1e999}', UnreadableReason.DAMAGED, "number"),
        (b'{"format":1,"format":1}', UnreadableReason.DAMAGED, "not JSON"),
        (head()[:-2], UnreadableReason.DAMAGED, "not JSON"),
        (head().replace(b"b1", b"b2"), UnreadableReason.FORGED, "is not valid"),
        (head(scope="operation/y"), UnreadableReason.FORGED, "is not valid"),
        (head(writer=7), UnreadableReason.DAMAGED, "lacks"),
        (head(time_ms=True), UnreadableReason.DAMAGED, "lacks"),
        (head(format=0), UnreadableReason.DAMAGED, "lacks"),
        (head(body=...), UnreadableReason.DAMAGED, "lacks"),
        (head(body=[1]), UnreadableReason.DAMAGED, "lacks"),
        (head(more=1), UnreadableReason.DAMAGED, "lacks"),
        (head(cluster_id=...), UnreadableReason.DAMAGED, "lacks"),
        (head(body=..., packed={"parts": 1}), UnreadableReason.DAMAGED, "parts"),
        (
            head(body=..., packed={"parts": [], "bytes": 1}),
            UnreadableReason.DAMAGED,
            "cannot have 0 parts",
        ),
        (
            head(body=..., packed={"parts": ["", ""], "bytes": 1}),
            UnreadableReason.DAMAGED,
            "2 of its 2 parts",
        ),
        (head(format=3), UnreadableReason.NEWER, "upgrade"),
        (b'{"format":3,"anything":[]}', UnreadableReason.NEWER, "upgrade"),
        (head(cluster_id="other"), UnreadableReason.FOREIGN, "cluster other"),
        (head(key="operation/y"), UnreadableReason.FOREIGN, "operation/y"),
    ],
)
def test_an_entry_that_is_not_ours_says_why(
    value: bytes, why: UnreadableReason, words: str
) -> None:
    found = only(fold_of([manifest_of("operation/x"), (b"operation/x", value)]), "operation/x")
    assert found.why is why
    assert words in found.detail


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"lock/x", "lock/x"),
        (b"operation/", "operation/"),
        (b"operation/a b", "operation/a b"),
        (b"throttle/broker/01", "throttle/broker/01"),
        (b"operation/\xff", "operation/\\xff"),
        (None, ""),
    ],
)
def test_an_unknown_kind_is_foreign(key: bytes | None, shown: str) -> None:
    fold = JournalReplay(CLUSTER, KEYS)
    fold.take(key, unsigned(shown))
    assert only(fold.state(), shown).why is UnreadableReason.FOREIGN
    if key is not None:
        assert fold.records({shown: None}, HEADER)[0] == (key, None)


@pytest.mark.parametrize(
    "body",
    [{"x": float("nan")}, {"x": {1, 2}}, [1], {("a",): 1}, {"x": "y" * 1000}],
)
def test_what_cannot_be_written_is_refused(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "BODY_BYTES_MAX", {EntryKind.OPERATION: 1000})
    with pytest.raises(BadInput):
        written("operation/x", body)


def test_keys_of_entries_are_checked() -> None:
    for build in (
        lambda: operation_key("a/b"),
        lambda: broker_throttle_key(-1),
        lambda: topic_throttle_key(""),
        lambda: audit_key(5, -1),
        lambda: written("lock", {}),
    ):
        with pytest.raises(BadInput):
            build()


def test_half_a_character_is_replaced() -> None:
    entry = fold_of(written("operation/x", {"a\udc00": "caf\udce9 \U0001f600"})).entries
    assert entry["operation/x"].body == {"a?": "caf? \U0001f600"}
    found = only(
        fold_of([manifest_of("operation/x"), (b"operation/x", head(body={"a": "\ud800"}))]),
        "operation/x",
    )
    assert found.why is UnreadableReason.DAMAGED


def test_a_body_with_numbers_for_keys_is_read_as_json_has_it() -> None:
    state = fold_of(written("operation/x", {1: "a", 10: "b", 2: "c"}))  # type: ignore[dict-item]
    assert state.entries["operation/x"].body == {"1": "a", "2": "c", "10": "b"}


# --- large entries


def test_an_operation_of_ten_thousand_partitions_is_one_small_record_or_two() -> None:
    partitions = [
        {"topic": f"orders-{n % 300}", "partition": n, "replicas": [n % 7, n % 5], "bytes": n * 991}
        for n in range(10_000)
    ]
    body = {"partitions": partitions, "prior": [{"broker": n, "rate": None} for n in range(100)]}
    records = written("operation/x", body)
    assert len(records) == 3
    assert fold_of(records).entries["operation/x"].body == body


def test_no_record_is_too_large_for_a_topic_of_default_settings() -> None:
    body = large(1, 8_000_000)
    records = written("operation/x", body)
    assert len(records) > 5
    assert max(len(key) + len(value or b"") for key, value in records) < 600_000
    assert fold_of(records).entries["operation/x"].body == body


def damaged_parts(records: list[Record]) -> Mapping[str, list[Record]]:
    """A large entry's records with something wrong in each."""
    first, part, *rest = records
    other = written("operation/x", large(2, 3_000_000))
    value = part[1] or b""
    return {
        "a part is missing": [first, *rest],
        "a part is cut short": [first, (part[0], value[:-1]), *rest],
        "a bit is wrong": [first, (part[0], bytes([value[0] ^ 1]) + value[1:]), *rest],
        "a part is of another version": [first, other[1], *rest],
        "there is no head": [part, *rest],
    }


@pytest.mark.parametrize("what", list(damaged_parts(written("operation/x", large(1, 3_000_000)))))
def test_a_large_entry_is_whole_or_unreadable(what: str) -> None:
    records = damaged_parts(written("operation/x", large(1, 3_000_000)))[what]
    found = only(fold_of(records), "operation/x")
    assert found.why is UnreadableReason.DAMAGED
    assert "part" in found.detail


def test_what_others_do_to_the_parts_of_an_entry_does_not_touch_it() -> None:
    body = large(1, 3_000_000)
    records = written("operation/x", body)
    first, part, *_ = records
    other = written("operation/x", large(2, 3_000_000))
    for harm in ((part[0], None), other[1], other[0], (part[0], b"?"), (b"operation/x#0099", b"?")):
        state = fold_of([*records, harm])
        assert state.entries["operation/x"].body == body
    assert fold_of([*records, (first[0], None)]).missing == ("operation/x",)


@pytest.mark.parametrize("size", [-1, 10, BODY_BYTES_MAX[EntryKind.OPERATION] + 1])
def test_a_part_that_says_a_wrong_size_is_not_unpacked(size: int) -> None:
    (_, value), *parts, _ = written("operation/x", large(1, 300_000))
    about = {**json.loads(value or b"")["packed"], "bytes": size}
    first = (b"operation/x", head(body=..., packed=about))
    found = only(fold_of([first, *parts, manifest_of("operation/x")]), "operation/x")
    assert found.why in (UnreadableReason.DAMAGED, UnreadableReason.TOO_LARGE)


@given(st.lists(st.sampled_from([0, 100, 400_000, 2_500_000]), max_size=3))
@settings(max_examples=many(8), deadline=None)
def test_an_entry_that_shrinks_or_ends_leaves_nothing_behind(sizes: list[int]) -> None:
    fold, log = JournalReplay(CLUSTER, KEYS), dict[bytes, bytes]()
    for size in sizes:
        for key, value in fold.records(
            {"operation/x": large(size, size) if size else None}, HEADER
        ):
            fold.take(key, value)
            log.pop(key, None)
            if value is not None:
                log[key] = value
        assert fold.state() == fold_of([*log.items()])
        assert fold.state().unreadable == {}
        assert set(log) - {b"manifest"} == ({*log} - {b"manifest"} if size else set())


# --- the log


@given(st.lists(st.tuples(keys, st.none() | bodies), max_size=8), st.data())
@settings(max_examples=many(40), deadline=None)
def test_the_last_word_on_each_key_counts_and_compaction_changes_nothing(
    written: list[tuple[str, dict[str, Any] | None]], data: Any
) -> None:
    fold, records = JournalReplay(CLUSTER, KEYS), list[Record]()
    for key, body in written:
        for record in fold.records({key: body}, HEADER):
            fold.take(*record)
            records.append(record)
    expected = {key: body for key, body in dict(written).items() if body is not None}
    assert {key: entry.body for key, entry in fold.state().entries.items()} == expected
    last = {key: n for n, (key, _) in enumerate(records)}
    kept = [r for n, r in enumerate(records) if last[r[0]] == n or data.draw(st.booleans())]
    assert fold_of(kept) == fold.state()


def test_a_state_stays_the_same_object_until_something_changes() -> None:
    fold = JournalReplay(CLUSTER, KEYS)
    before = fold.state()
    assert fold.state() is before
    fold.take(b"operation/x", head())
    fold.take(*manifest_of("operation/x"))
    assert before.entries == {}
    assert list(fold.state().of(EntryKind.OPERATION)) == ["x"]


def test_kinds_are_told_apart() -> None:
    fold = JournalReplay(CLUSTER, KEYS)
    names = [
        operation_key("1"),
        broker_throttle_key(1),
        topic_throttle_key("1"),
        audit_key(10**12, 1),
    ]
    for name in names:
        for record in fold.records({name: {}}, HEADER):
            fold.take(*record)
    for kind, name in zip(EntryKind, names, strict=False):
        assert [entry.key for entry in fold.state().of(kind).values()] == [name]


def test_an_entry_that_cannot_be_read_is_not_overwritten_by_accident() -> None:
    state = fold_of([(b"operation/x", head(format=3)), manifest_of("operation/x")])
    refused: list[dict[str, Any] | None] = [{}, None]
    for body in refused:
        with pytest.raises(Conflict, match="newer"):
            check_append(state, {"operation/x": body})
        check_append(state, {"operation/x": body, "operation/y": {}}, ["operation/x"])


def test_an_audit_entry_is_written_once() -> None:
    key = audit_key(1_700_000_000_000, 1)
    state = fold_of(written(key, {}))
    with pytest.raises(Conflict, match="already written"):
        check_append(state, {key: {}})
    check_append(state, {key: None, audit_key(1_700_000_000_000, 2): {}})


@given(st.integers(0, 12), st.integers(0, 5), st.integers(0, 5))
def test_the_oldest_ended_operations_and_audit_entries_are_retired(
    count: int, operations_kept: int, audit_kept: int
) -> None:
    fold = JournalReplay(CLUSTER, KEYS)
    for n in range(count):
        header = EntryHeader(CLUSTER, "b1", 1000 - n)
        bodies = {operation_key(str(n)): {"ended": n % 3 > 0}, audit_key(10**12 + n, n): {}}
        for record in fold.records(bodies, header):
            fold.take(*record)
    fold.take(b"operation/odd", b"?")
    state = fold.state()
    gone = retired(
        state,
        lambda entry: bool(entry.body["ended"]),
        operations_kept=operations_kept,
        audit_kept=audit_kept,
    )
    ended = [operation_key(str(n)) for n in range(count) if n % 3 > 0]
    audit = [audit_key(10**12 + n, n) for n in range(count)]
    newest = ended[:operations_kept] + (audit[-audit_kept:] if audit_kept else [])
    assert set(gone) == set(ended + audit) - set(newest)
    assert set(gone.values()) <= {None}


# --- heartbeats


def beat(backend: str, number: int = 0) -> Heartbeat:
    return Heartbeat(backend, "host", f"unix:/run/{backend}.sock", 1, number)


def test_a_heartbeat_says_what_a_backend_demands_and_an_older_one_demands_nothing() -> None:
    strict = replace(beat("a"), demands_credentials=True, two_person=("shrink",), key_id="k")
    assert fold_of(written(BACKEND_KEY, strict.body())).heartbeat == strict
    added = ("demands_credentials", "two_person", "key_id")
    older = {name: value for name, value in strict.body().items() if name not in added}
    assert fold_of(written(BACKEND_KEY, older)).heartbeat == beat("a")


def test_a_heartbeat_is_read_as_it_was_written() -> None:
    state = fold_of(written(BACKEND_KEY, beat("a").body()))
    assert state.heartbeat == beat("a")
    assert JournalState().heartbeat is None
    wrong: list[dict[str, Any]] = [
        {**beat("a").body(), "host": 1},
        {**beat("a").body(), "beat_ms": ""},
        {**beat("a").body(), "two_person": "shrink"},
        {**beat("a").body(), "demands_credentials": 1},
        {**beat("a").body(), "more": 1},
        {},
    ]
    for body in wrong:
        found = fold_of(written(BACKEND_KEY, body)).heartbeat
        assert isinstance(found, Unreadable)
    assert fold_of([(b"backend", b"?")]).heartbeat is None
