"""A stranger who can write the journal's topic makes no backend act, and harms no other entry.

Every field of every kind of entry is changed; entries are forged, unsigned, written again, copied,
cut short. What is believed stays what our backends wrote, and the next append goes well.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.api.schema.audit import AuditEntries
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.operations.approval import Person, ShownProposal
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.core.known_operations import (
    KnownOperations,
    has_unfinished,
    known_operations,
)
from kshunt.backend.operations.journal import replay as journal_fold
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    MANIFEST_KEY,
    EntryKind,
    Heartbeat,
    JournalState,
    Provenance,
    Record,
    Unreadable,
    kind_of,
    operation_key,
)
from kshunt.backend.operations.journal.port import check_append
from kshunt.backend.operations.journal.records import encode, part_digest, part_key, signed
from kshunt.backend.operations.journal.replay import JournalReplay, Unproven
from kshunt.backend.operations.operation_control import actions_of
from kshunt.backend.operations.shrink.progress import shrink_progress
from tests.support.access.keys import KEYS
from tests.support.access.keys import rotated as with_new_key
from tests.support.faults.hostile_journal import (
    BEAT,
    BODIES,
    CLUSTER,
    FORGER,
    HEADER,
    STRANGER,
    forged,
    journal_of,
    mutated,
    unsigned,
)

OURS: Final = journal_of()
MARK: Final = operation_key("after")
NEXT: Final = {MARK: {"any": "thing"}}


def fold_of(records: list[Record], keys: ClusterKeys = KEYS) -> JournalReplay:
    fold = JournalReplay(CLUSTER, keys)
    for record in records:
        fold.take(*record)
    return fold


OUR_FOLD: Final = fold_of(OURS)
BEFORE: Final = OUR_FOLD.state()
KNOWN: Final = known_operations(BEFORE)


def served(state: JournalState) -> KnownOperations:
    """What a backend answers of a journal, all of it as bytes."""
    known = known_operations(state)
    has_unfinished(state)
    for operation in known.operations.values():
        work, shrink = known.works.get(operation.id), known.shrinks.get(operation.id)
        actions_of(operation, work, shrink)
        _bytes(to_document(operation))
        if shrink is not None:
            _bytes(to_document(shrink_progress(operation, shrink, None)))
    for proposal in known.proposals.values():
        _bytes(to_document(ShownProposal.of(proposal, Person("eve", "eve"), 1_700_000_000_000)))
    _bytes(to_document(AuditEntries.of(read_audit(state), CLUSTER)))
    for one in (*state.unreadable.values(), *state.aside.values(), *known.unreadable.values()):
        _bytes([one.key, one.detail])
    _bytes(list(state.remarks))
    return known


def _bytes(document: Any) -> None:
    json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")


def with_body(key: str, body: Any) -> list[Record]:
    """Our journal, to which a backend of ours wrote one more body."""
    return [*OURS, *OUR_FOLD.records({key: body}, HEADER)]


def statements() -> Iterator[Record]:
    """Every changed body, as somebody without our keys can write it."""
    for key, body in BODIES.items():
        for changed in mutated(body):
            yield from forged(key, changed)


def test_what_is_forged_changes_nothing_of_what_is_believed() -> None:
    count, fold = 0, fold_of(OURS)
    for key, value in statements():
        fold.take(key, value)
        state = fold.state()
        assert state.entries == BEFORE.entries
        assert state.heartbeat == BEAT
        assert (state.unreadable, state.missing) == ({}, ())
        assert list(state.aside) == [key.decode()]
        fold.take(*next(record for record in OURS if record[0] == key))
        count += 1
    assert count > 10_000
    check_append(fold.state(), NEXT)
    for record in fold.records(NEXT, HEADER):
        fold.take(*record)
    assert fold.state().entries.keys() == {*BODIES, MARK}


@pytest.mark.slow
def test_a_body_that_is_signed_and_wrong_harms_no_other() -> None:
    """As of a backend with a defect, or of another version: worse than anybody without a key."""
    count = 0
    for key, body in BODIES.items():
        if kind_of(key) is EntryKind.BACKEND:
            continue
        for changed in mutated(body):
            if not isinstance(changed, dict):
                continue
            state = fold_of(with_body(key, changed)).state()
            known = served(state)
            others = {id for id in KNOWN.operations if operation_key(id) != key}
            assert others <= known.operations.keys()
            if kind_of(key) is EntryKind.OPERATION:
                name = key.removeprefix("operation/")
                assert all(one.id == id for id, one in known.operations.items())
                assert name in known.operations or key in known.unreadable
            count += 1
    assert count > 3_000


def test_a_heartbeat_that_is_signed_and_wrong_is_blocked_not_believed() -> None:
    for changed in mutated(BODIES[BACKEND_KEY]):
        if isinstance(changed, dict):
            state = fold_of(with_body(BACKEND_KEY, changed)).state()
            assert isinstance(state.heartbeat, Heartbeat | Unreadable)


def raw_harms() -> Iterator[list[Record]]:
    """Records that are no entries, or entries out of place."""
    random = Random(7)
    for key, value in OURS:
        assert value is not None
        for _ in range(60):
            at = random.randrange(len(value))
            yield [(key, value[:at])]
            yield [
                (key, value[:at] + bytes([value[at] ^ 1 + random.randrange(255)]) + value[at + 1 :])
            ]
            yield [(key, value[:at] + random.randbytes(9) + value[at:])]
        for other, _ in OURS:
            if other != key:
                yield [(other, value)]
        yield [(key, b"")]
        yield [(key + b"#0000", value)]
        yield [(key + b"#0000", None)]
        yield [(key + b"x", value)]
    yield [(b"\xff\xfe", b"?"), (b"", b"?"), (b"operation/" + b"a" * 100_000, b"?")]
    yield [(b"operation/aa11", b"[" * 100_000)]
    yield [(b"operation/aa11", b"9" * 10_000)]


@pytest.mark.slow
def test_records_that_are_no_entries_harm_none() -> None:
    for harm in raw_harms():
        state = fold_of([*OURS, *harm]).state()
        assert state.entries == BEFORE.entries
        assert state.unreadable == {}
        served(state)


# --- written again


def test_an_entry_that_was_replaced_does_not_come_back() -> None:
    fold, key = fold_of(OURS), operation_key("aa11")
    old = next(record for record in OURS if record[0] == key.encode())
    ended = {**BODIES[key], "state": "done", "ended_ms": 1_700_000_000_001}
    newer = fold.records({key: ended}, HEADER)
    log = [*OURS, *newer]
    for after in ([*log, old], [*log, old, OURS[-1]], [*log[1:], old]):
        state = fold_of(after).state()
        assert state.entries[key].body["state"] == "done"
        assert state.aside[key].why is UnreadableReason.REPLAYED
    # Compaction has left the old one only.
    compacted = [record for record in log if record[0] != key.encode()]
    state = fold_of([*compacted, old]).state()
    assert key not in state.entries
    assert state.aside[key].why is UnreadableReason.REPLAYED
    assert state.missing == (key,)


def test_an_entry_that_was_removed_does_not_come_back() -> None:
    fold, key = fold_of(OURS), operation_key("bb22")
    gone = fold.records({key: None}, HEADER)
    old = next(record for record in OURS if record[0] == key.encode())
    for log in ([*OURS, *gone, old], [*(r for r in OURS if r[0] != key.encode()), *gone, old]):
        state = fold_of(log).state()
        assert key not in state.entries
        assert state.aside[key].why is UnreadableReason.REPLAYED
        assert state.missing == ()


def test_an_old_manifest_does_not_come_back() -> None:
    fold = fold_of(OURS)
    newer = fold.records({MARK: {}}, HEADER)
    old = next(record for record in OURS if record[0] == MANIFEST_KEY.encode())
    state = fold_of([*OURS, *newer, old, (MANIFEST_KEY.encode(), None)]).state()
    assert state.entries.keys() == {*BODIES, MARK}


def test_what_somebody_removed_is_named() -> None:
    state = fold_of([*OURS, (b"operation/aa11", None), (b"throttle/broker/1", None)]).state()
    assert state.missing == ("operation/aa11", "throttle/broker/1")
    assert "operation/aa11" in " ".join(state.remarks)


# --- whose journal it is


@pytest.mark.parametrize(
    ("records", "provenance", "words"),
    [
        ([], Provenance.OURS, ""),
        ([(b"operation/aa11", b"junk")], Provenance.OURS, ""),
        (journal_of(keys=STRANGER), Provenance.UNKNOWN, "Copy the key file"),
        ([unsigned(k, b) for k, b in BODIES.items()], Provenance.UNSIGNED, "--adopt-unsigned"),
        ([(b"backend", b'{"format":3}')], Provenance.NEWER, "Upgrade"),
        (OURS[:-1], Provenance.UNLISTED, "manifest"),
        ([*OURS, *journal_of(keys=STRANGER)], Provenance.OURS, ""),
        ([*OURS, *journal_of(keys=FORGER)], Provenance.OURS, ""),
    ],
)
def test_nobody_acts_on_a_journal_of_somebody_else(
    records: list[Record], provenance: Provenance, words: str
) -> None:
    state = fold_of(records).state()
    assert state.provenance is provenance
    if provenance is Provenance.OURS:
        assert state.heartbeat in (None, BEAT)
    else:
        assert isinstance(state.heartbeat, Unreadable)
        assert words in state.heartbeat.detail
        assert not has_unfinished(state)
        assert any(words in remark for remark in state.remarks)


@pytest.mark.parametrize(
    "records", [journal_of(keys=STRANGER), [unsigned(*b) for b in BODIES.items()]]
)
def test_an_operator_can_have_an_unsigned_journal_believed_and_signed(
    records: list[Record],
) -> None:
    fold = JournalReplay(CLUSTER, KEYS, Unproven.ADOPT)
    for record in records:
        fold.take(*record)
    state = fold.state()
    assert state.entries.keys() == BODIES.keys()
    assert state.adopted
    assert state.heartbeat == BEAT
    waiting = {key: state.entries[key].body for key in fold.unsigned()}
    assert waiting.keys() == BODIES.keys() - {BACKEND_KEY}
    for record in fold.records(waiting, HEADER):
        fold.take(*record)
    assert not fold.state().adopted
    # From here on the flag means nothing.
    fold.take(*unsigned(operation_key("zz99"), BODIES[operation_key("aa11")]))
    assert operation_key("zz99") not in fold.state().entries
    assert not fold.unsigned()


def test_an_operator_can_begin_beside_an_unsigned_journal() -> None:
    fold = JournalReplay(CLUSTER, KEYS, Unproven.IGNORE)
    for key, body in BODIES.items():
        fold.take(*unsigned(key, body))
    assert (fold.state().entries, fold.state().provenance) == ({}, Provenance.OURS)


def test_keys_that_were_rotated_still_count_and_are_replaced() -> None:
    rotated = with_new_key(KEYS)
    fold = fold_of(OURS, rotated)
    assert fold.state().entries == BEFORE.entries
    waiting = {key: BEFORE.entries[key].body for key in fold.unsigned()}
    assert waiting.keys() == BODIES.keys() - {BACKEND_KEY}
    log = [*OURS, *fold.records(waiting, HEADER)]
    last = fold_of(log, ClusterKeys(rotated.keys[:1])).state()
    assert last.entries.keys() == BODIES.keys() - {BACKEND_KEY}
    assert last.missing == ()


# --- sizes


@pytest.mark.slow
def test_what_is_packed_small_and_large_inside_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*arguments: Any) -> Any:
        raise AssertionError("it is decompressed")

    packed = zlib.compress(b'{"x":"' + b"a" * 300_000_000 + b'"}')
    size = 300_000_000 + 8
    about = {"parts": [part_digest(packed)], "bytes": size}
    head = encode(operation_key("aa11"), {}, HEADER, 1, KEYS)[0]
    monkeypatch.setattr(zlib, "decompressobj", never)
    for keys in (KEYS, STRANGER):
        value = _packed_head(operation_key("aa11"), about, keys)
        state = fold_of(
            [(head[0], value), (part_key("operation/aa11", 0).encode(), packed)]
        ).state()
        assert state.entries == {}


def _packed_head(key: str, about: dict[str, Any], keys: ClusterKeys) -> bytes:
    envelope = {"format": 2, "key": key, "cluster_id": CLUSTER, "writer": "x", "time_ms": 1}
    return signed({**envelope, "packed": about}, 9, keys)


def test_what_nobody_believes_takes_a_bounded_room() -> None:
    fold, junk = fold_of(OURS), b"j" * 900_000
    for number in range(200):
        fold.take(f"operation/j{number}".encode(), junk)
    held = sum(claim.size_bytes for claim in fold._claims.values())
    assert held <= LIMITS.journal_aside_bytes
    assert fold.state().claims_dropped > 100
    for number in range(LIMITS.journal_aside + 1_000):
        fold.take(f"operation/k{number}".encode(), b"?")
    assert len(fold._claims) <= LIMITS.journal_aside
    assert fold.state().entries == BEFORE.entries


def test_a_journal_that_is_too_large_loses_its_largest_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies = {operation_key(f"o{n}"): {"x": "y" * (n * 1_000)} for n in range(1, 60)}
    records = journal_of(bodies)
    monkeypatch.setattr(journal_fold, "LIMITS", LIMITS._replace(journal_bytes=1_000_000))
    state = fold_of(records).state()
    assert next(iter(state.unreadable)) == operation_key("o59")
    assert {one.why for one in state.unreadable.values()} == {UnreadableReason.TOO_LARGE}
    assert operation_key("o1") in state.entries
