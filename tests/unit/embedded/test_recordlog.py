"""The controller's log: records come back as written, torn ends are cut, damage is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.embedded.coordinator import records as coordinators
from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.record_log import MAGIC, RecordLog, RecordLogError
from kshunt.backend.errors import Conflict

COMMITS: Sequence[Sequence[r.Record]] = (
    [r.TopicCreated("t", "0" * 32), r.ControllerElected(1, 1)],
    [r.ConfigChanged(2, "t", "retention.ms", "1"), r.BrokerFenced(3)],
    [r.ThrottledRatesRemoval((1, 2))],
)
VALUES = {
    "bool": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "str": st.text(max_size=5),
    "str | None": st.none() | st.text(max_size=5),
    "int | None": st.none() | st.integers(-5, 5),
    "tuple[int, ...]": st.lists(st.integers(0, 9), max_size=3).map(tuple),
    "tuple[str, ...]": st.lists(st.text(max_size=5), max_size=3).map(tuple),
    "tuple[int, ...] | None": st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
    "tuple[str, ...] | None": st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple),
}


def build(kind: type[r.Record]) -> st.SearchStrategy[r.Record]:
    values = {str(field.name): VALUES[str(field.type)] for field in fields(kind)}
    return st.builds(kind, **values)


any_record = st.sampled_from(sorted(r.RECORD_TYPES)).flatmap(lambda n: build(r.RECORD_TYPES[n]))


@given(any_record)
def test_a_record_comes_back_as_written(record: r.Record) -> None:
    data = r.encode(record)
    assert b"\n" not in data
    assert r.decode(data) == record
    assert hash(r.decode(data)) == hash(record)


def test_type_numbers_stay_what_they_are() -> None:
    """A number that changed its meaning would make nonsense of logs on disk."""
    assert {number: kind.__name__ for number, kind in r.RECORD_TYPES.items()} == {
        1: "ControllerElected",
        2: "BrokerRegistered",
        3: "BrokerFenced",
        4: "BrokerUnfenced",
        5: "BrokerRemoved",
        6: "LogDirsFailed",
        7: "TopicCreated",
        8: "TopicDeleted",
        9: "PartitionCreated",
        10: "PartitionChanged",
        11: "PartitionsDeletionScheduled",
        12: "PartitionsDeletionCancelled",
        13: "PartitionModeChanged",
        14: "PartitionStateChanged",
        15: "ReplicaStateChanged",
        16: "PartitionRemoved",
        17: "ConfigChanged",
        18: "ThrottledReplicasRemoval",
        19: "ThrottledRatesRemoval",
        20: "ProducerIdsAllocated",
        21: "SnapshotTaken",
        22: "AclCreated",
        23: "AclRemoved",
        101: "OffsetCommitted",
        102: "OffsetForgotten",
        103: "OffsetPending",
        104: "PendingOffsetsEnded",
        105: "TransactionChanged",
    }
    assert all(get_type_hints(kind) for kind in r.RECORD_TYPES.values())
    assert coordinators.OffsetCommitted in r.RECORD_TYPES.values()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"[1]",
        b"[99,0]",
        b"[1,1,1,1]",
        b'["1",0]',
        b"[1,0,1]",
        b"[3,0,1,2]",
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(r.RecordError):
        r.decode(data)


def test_a_record_of_fewer_fields_takes_their_defaults() -> None:
    assert r.decode(b'[10,0,"x",1]') == r.PartitionChanged("x", 1)


def write(path: Path) -> list[int]:
    """Write all commits; where each ends."""
    ends = []
    with RecordLog(path, lambda _: None, fsync=False) as log:
        for commit in COMMITS:
            log.commit(commit)
            ends.append(path.stat().st_size)
    return ends


def read(path: Path) -> tuple[list[r.Record], int]:
    found: list[r.Record] = []
    with RecordLog(path, found.append, fsync=False) as log:
        return found, log.cut_bytes


def flat(commits: int) -> list[r.Record]:
    return [record for commit in COMMITS[:commits] for record in commit]


def test_a_log_comes_back_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path)
    assert read(path) == (flat(3), 0)
    with RecordLog(path, lambda _: None) as log:
        assert log.sequence == 3
        assert log.commit([r.BrokerFenced(9)]) == 3
    assert read(path) == ([*flat(3), r.BrokerFenced(9)], 0)


def test_a_log_cut_at_any_byte_keeps_the_whole_commits_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = write(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        kept = sum(end <= length for end in ends)
        torn = length - ([len(MAGIC), *ends][kept] if length >= len(MAGIC) else length)
        assert read(path) == (flat(kept), torn)
        with RecordLog(path, lambda _: None, fsync=False) as log:
            log.commit([r.BrokerFenced(9)])
        assert read(path) == ([*flat(kept), r.BrokerFenced(9)], 0)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_cut_at_the_end_and_named_before(tmp_path: Path, flip: int) -> None:
    path = tmp_path / "log"
    ends = write(path)
    whole = path.read_bytes()
    begins = [len(MAGIC), *ends]
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        if at >= begins[2]:
            assert read(path) == (flat(2), ends[2] - ends[1])
            continue
        with pytest.raises(RecordLogError) as caught:
            read(path)
        assert caught.value.offset == max((b for b in begins if b <= at), default=0)
        assert path.stat().st_size == len(whole)


def test_zeros_at_the_end_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path)
    with path.open("ab") as file:
        file.write(bytes(4096))
    assert read(path) == (flat(3), 4096)


def test_a_log_belongs_to_one_and_takes_no_empty_commit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with RecordLog(path, lambda _: None) as log:
        with pytest.raises(Conflict):
            read(path)
        with pytest.raises(RecordLogError):
            log.commit([])
        assert log.commit([r.BrokerFenced(1)]) == 0


def test_after_a_failed_write_nothing_more_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with RecordLog(path, lambda _: None) as log:
        log.close()
        with pytest.raises(ValueError, match="closed"):
            log.commit([r.BrokerFenced(1)])
        with pytest.raises(RecordLogError):
            log.commit([r.BrokerFenced(1)])
    assert read(path) == ([], 0)
