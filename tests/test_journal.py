"""The journal's entries, and what a log of them amounts to: laws and damage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.errors import BadInput, Conflict
from backend.operations import journal_codec as codec
from backend.operations.journal import check_append, retired
from backend.operations.journal_codec import (
    BACKEND_KEY,
    Entry,
    Fold,
    Header,
    Heartbeat,
    JournalState,
    Kind,
    Record,
    Unreadable,
    Why,
    audit_key,
    broker_throttle_key,
    operation_key,
    topic_throttle_key,
)

CLUSTER = "zQcs2L5vn2KsTAnCggbn4w"
HEADER = Header(CLUSTER, "b1", 1_700_000_000_000)

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
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
bodies = st.dictionaries(st.text(), values, max_size=5)


def fold_of(records: list[Record], cluster_id: str = CLUSTER) -> JournalState:
    fold = Fold(cluster_id)
    for key, value in records:
        fold.take(key, value)
    return fold.state()


def only(state: JournalState, key: str) -> Unreadable:
    """The one thing that a log holds, and that cannot be read."""
    assert state.entries == {}
    assert list(state.unreadable) == [key]
    return state.unreadable[key]


def large(seed: int, size_bytes: int) -> dict[str, Any]:
    """A body that zlib makes about half as long."""
    return {"plan": Random(seed).randbytes(size_bytes // 2).hex()}


# --- one entry


@given(keys, bodies)
def test_an_entry_is_read_as_it_was_written(key: str, body: dict[str, Any]) -> None:
    records = codec.encode(key, body, HEADER)
    state = fold_of(records)
    assert state == JournalState({key: Entry(key, body, HEADER)})
    assert json.loads(records[0][1] or b"")["body"] == body


@given(bodies, st.data())
def test_a_changed_entry_is_never_taken_for_another(body: dict[str, Any], data: Any) -> None:
    key = operation_key("x")
    [(raw, value)] = codec.encode(key, body, HEADER)
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
    state = fold_of([(raw, damaged)])
    assert state.entries in ({}, {key: Entry(key, body, HEADER)})
    assert len(state.entries) + len(state.unreadable) == 1


@given(st.binary() | values.map(lambda one: json.dumps(one).encode()), st.binary(max_size=20))
def test_anything_at_all_can_be_in_the_topic(value: bytes, key: bytes) -> None:
    state = fold_of([(key, value)])
    assert state.entries == {}
    assert len(state.unreadable) == 1


def head(**changes: Any) -> bytes:
    """The value of a proper entry `operation/x`, changed and sealed anew."""
    envelope = {
        "format": 1,
        "key": "operation/x",
        "cluster_id": CLUSTER,
        "writer": "b1",
        "time_ms": 5,
        "body": {},
        **changes,
    }
    return codec._sealed({name: one for name, one in envelope.items() if one is not ...})


@pytest.mark.parametrize(
    ("value", "why", "words"),
    [
        (b"", Why.DAMAGED, "no JSON"),
        (b"[1]", Why.DAMAGED, "no JSON object"),
        (b"\xff\xfe{", Why.DAMAGED, "no JSON"),
        (b"[" * 100_000, Why.DAMAGED, "no JSON"),
        (b'{"format":NaN}', Why.DAMAGED, "no JSON"),
        (b'{"format":1e999}', Why.DAMAGED, "number"),
        (b'{"format":1,"format":1}', Why.DAMAGED, "no JSON"),
        (head()[:-2], Why.DAMAGED, "no JSON"),
        (head().replace(b"b1", b"b2"), Why.DAMAGED, "digest"),
        (head(writer=7), Why.DAMAGED, "lacks"),
        (head(time_ms=True), Why.DAMAGED, "lacks"),
        (head(format=0), Why.DAMAGED, "lacks"),
        (head(body=...), Why.DAMAGED, "lacks"),
        (head(body=[1]), Why.DAMAGED, "lacks"),
        (head(more=1), Why.DAMAGED, "lacks"),
        (head(cluster_id=...), Why.DAMAGED, "lacks"),
        (head(body=..., packed={"parts": 1}), Why.DAMAGED, "parts"),
        (
            head(body=..., packed={"parts": 0, "bytes": 1, "digest": ""}),
            Why.DAMAGED,
            "cannot have 0 parts",
        ),
        (
            head(body=..., packed={"parts": 2, "bytes": 1, "digest": ""}),
            Why.DAMAGED,
            "2 of its 2 parts",
        ),
        (head(format=2), Why.NEWER, "upgrade"),
        (b'{"format":2,"anything":[]}', Why.NEWER, "upgrade"),
        (head(cluster_id="other"), Why.FOREIGN, "cluster other"),
        (head(key="operation/y"), Why.FOREIGN, "operation/y"),
    ],
)
def test_an_entry_that_is_not_ours_says_why(value: bytes, why: Why, words: str) -> None:
    found = only(fold_of([(b"operation/x", value)]), "operation/x")
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
    fold = Fold(CLUSTER)
    fold.take(key, head(key=shown))
    assert only(fold.state(), shown).why is Why.FOREIGN
    if key is not None:
        assert fold.records({shown: None}, HEADER) == [(key, None)]


@pytest.mark.parametrize(
    "body",
    [{"x": float("nan")}, {"x": {1, 2}}, [1], {("a",): 1}, {"x": "y" * 1000}],
)
def test_what_cannot_be_written_is_refused(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "BODY_BYTES_MAX", 1000)
    with pytest.raises(BadInput):
        codec.encode("operation/x", body, HEADER)


def test_keys_of_entries_are_checked() -> None:
    for build in (
        lambda: operation_key("a/b"),
        lambda: broker_throttle_key(-1),
        lambda: topic_throttle_key(""),
        lambda: audit_key(5, -1),
        lambda: codec.encode("lock", {}, HEADER),
    ):
        with pytest.raises(BadInput):
            build()


def test_a_body_with_numbers_for_keys_is_read_as_json_has_it() -> None:
    state = fold_of(codec.encode("operation/x", {1: "a", 10: "b", 2: "c"}, HEADER))  # type: ignore[dict-item]
    assert state.entries["operation/x"].body == {"1": "a", "2": "c", "10": "b"}


# --- large entries


def test_an_operation_of_ten_thousand_partitions_is_one_small_record_or_two() -> None:
    partitions = [
        {"topic": f"orders-{n % 300}", "partition": n, "replicas": [n % 7, n % 5], "bytes": n * 991}
        for n in range(10_000)
    ]
    body = {"partitions": partitions, "prior": [{"broker": n, "rate": None} for n in range(100)]}
    records = codec.encode("operation/x", body, HEADER)
    assert len(records) == 2
    assert fold_of(records).entries["operation/x"].body == body


def test_no_record_is_too_large_for_a_topic_of_default_settings() -> None:
    body = large(1, 8_000_000)
    records = codec.encode("operation/x", body, HEADER)
    assert len(records) > 5
    assert max(len(key) + len(value or b"") for key, value in records) < 600_000
    assert fold_of(records).entries["operation/x"].body == body


def damaged_parts(records: list[Record]) -> Mapping[str, list[Record]]:
    """A large entry's records with something wrong in each."""
    first, part, *rest = records
    other = codec.encode("operation/x", large(2, 3_000_000), HEADER)
    value = part[1] or b""
    return {
        "a part is missing": [first, *rest],
        "a part is a tombstone": [*records, (part[0], None)],
        "a part is cut short": [first, (part[0], value[:-1]), *rest],
        "a bit is wrong": [first, (part[0], bytes([value[0] ^ 1]) + value[1:]), *rest],
        "a part is of another version": [first, other[1], *rest],
        "the head is of another version": [*records, other[0]],
        "there is no head": [part, *rest],
        "the head is removed": [*records, (first[0], None)],
    }


@pytest.mark.parametrize(
    "what", list(damaged_parts(codec.encode("operation/x", large(1, 3_000_000), HEADER)))
)
def test_a_large_entry_is_whole_or_unreadable(what: str) -> None:
    records = damaged_parts(codec.encode("operation/x", large(1, 3_000_000), HEADER))[what]
    found = only(fold_of(records), "operation/x")
    assert found.why is Why.DAMAGED
    assert "part" in found.detail


@pytest.mark.parametrize("size", [-1, 10, codec.BODY_BYTES_MAX + 1])
def test_a_part_that_says_a_wrong_size_is_not_unpacked(size: int) -> None:
    (_, value), *parts = codec.encode("operation/x", large(1, 300_000), HEADER)
    about = {**json.loads(value or b"")["packed"], "bytes": size}
    found = only(fold_of([(b"operation/x", head(body=..., packed=about)), *parts]), "operation/x")
    assert found.why is Why.DAMAGED


@given(st.lists(st.sampled_from([0, 100, 400_000, 2_500_000]), max_size=3))
@settings(max_examples=8, deadline=None)
def test_an_entry_that_shrinks_or_ends_leaves_nothing_behind(sizes: list[int]) -> None:
    fold, log = Fold(CLUSTER), dict[bytes, bytes]()
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
        assert bool(log) == bool(size)


# --- the log


@given(st.lists(st.tuples(keys, st.none() | bodies), max_size=8), st.data())
@settings(max_examples=40, deadline=None)
def test_the_last_word_on_each_key_counts_and_compaction_changes_nothing(
    written: list[tuple[str, dict[str, Any] | None]], data: Any
) -> None:
    fold, records = Fold(CLUSTER), list[Record]()
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
    fold = Fold(CLUSTER)
    before = fold.state()
    assert fold.state() is before
    fold.take(b"operation/x", head())
    assert before.entries == {}
    assert list(fold.state().of(Kind.OPERATION)) == ["x"]


def test_kinds_are_told_apart() -> None:
    fold = Fold(CLUSTER)
    names = [
        operation_key("1"),
        broker_throttle_key(1),
        topic_throttle_key("1"),
        audit_key(10**12, 1),
    ]
    for name in names:
        for record in fold.records({name: {}}, HEADER):
            fold.take(*record)
    for kind, name in zip(Kind, names, strict=False):
        assert [entry.key for entry in fold.state().of(kind).values()] == [name]


def test_an_entry_that_cannot_be_read_is_not_overwritten_by_accident() -> None:
    state = fold_of([(b"operation/x", b"?"), (b"audit/1700000000000-0001", head())])
    refused: list[dict[str, Any] | None] = [{}, None]
    for body in refused:
        with pytest.raises(Conflict, match="damaged"):
            check_append(state, {"operation/x": body})
        check_append(state, {"operation/x": body, "operation/y": {}}, ["operation/x"])


def test_an_audit_entry_is_written_once() -> None:
    key = audit_key(1_700_000_000_000, 1)
    state = fold_of(codec.encode(key, {}, HEADER))
    with pytest.raises(Conflict, match="written already"):
        check_append(state, {key: {}})
    check_append(state, {key: None, audit_key(1_700_000_000_000, 2): {}})


@given(st.integers(0, 12), st.integers(0, 5), st.integers(0, 5))
def test_the_oldest_ended_operations_and_audit_entries_are_retired(
    count: int, kept: int, audit_kept: int
) -> None:
    records: list[Record] = []
    for n in range(count):
        header = Header(CLUSTER, "b1", 1000 - n)
        records += codec.encode(operation_key(str(n)), {"ended": n % 3 > 0}, header)
        records += codec.encode(audit_key(10**12 + n, n), {}, header)
    state = fold_of([*records, (b"operation/odd", b"?")])
    gone = retired(
        state, lambda entry: bool(entry.body["ended"]), operations_kept=kept, audit_kept=audit_kept
    )
    ended = [operation_key(str(n)) for n in range(count) if n % 3 > 0]
    audit = [audit_key(10**12 + n, n) for n in range(count)]
    newest = ended[:kept] + (audit[-audit_kept:] if audit_kept else [])
    assert set(gone) == set(ended + audit) - set(newest)
    assert set(gone.values()) <= {None}


# --- heartbeats


def beat(backend: str, number: int = 0) -> Heartbeat:
    return Heartbeat(backend, "host", f"unix:/run/{backend}.sock", 1, number)


def test_a_heartbeat_is_read_as_it_was_written() -> None:
    state = fold_of(codec.encode(BACKEND_KEY, beat("a").body(), HEADER))
    assert state.heartbeat == beat("a")
    assert JournalState().heartbeat is None
    wrong: list[dict[str, Any]] = [
        {**beat("a").body(), "host": 1},
        {**beat("a").body(), "beat_ms": ""},
        {},
    ]
    for body in wrong:
        found = fold_of(codec.encode(BACKEND_KEY, body, HEADER)).heartbeat
        assert isinstance(found, Unreadable)
    assert isinstance(fold_of([(b"backend", b"?")]).heartbeat, Unreadable)
