"""Files of a recording that cannot be used are set aside; the others are not touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshunt.backend.domain.pipeline.file_faults import FileFault
from kshunt.backend.pipeline.samples.file_sieve import (
    FileAside,
    FileSieve,
    Footer,
    Sifted,
    fail_without_access,
    rows_of_aside,
)
from kshunt.backend.telemetry.recording.layout import CLUSTER, SampleTable, counted
from kshunt.backend.telemetry.recording.schema import UnreadableSamples
from tests.support.pipeline.poisoned import path_of, poison, torn, whole
from tests.support.pipeline.recorded import START_MS, sample, write

REPLICAS = SampleTable.REPLICAS


def sifted(sieve: FileSieve) -> Sifted:
    return sieve.sifted(REPLICAS, counted(sieve.folder, REPLICAS))


def test_each_kind_of_file_that_cannot_be_used_is_set_aside(tmp_path: Path) -> None:
    good = write(tmp_path, [sample(0, 0), sample(3600, 1)])
    made = poison(tmp_path, 2)
    sieve = FileSieve(tmp_path)
    first = sifted(sieve)
    assert sieve.is_any_torn()
    assert not sieve.is_any_torn()
    found = sifted(sieve)
    # Pages are read only when they turn out to be torn.
    assert len(found.aside) == len(first.aside) + 1
    assert {str(one.path.relative_to(tmp_path)): one.fault for one in found.aside} == made
    assert found.paths == tuple(good)
    assert found.looked_at == len(good) + len(made)
    assert {*made.values()} == {*FileFault} - {FileFault.INACCESSIBLE}
    for one in found.aside:
        assert str(one.path) in one.detail
        assert one.size_bytes == one.path.stat().st_size


def test_a_line_names_the_file_and_its_fault(tmp_path: Path) -> None:
    path = path_of(tmp_path, 7)
    path.write_bytes(b"")
    (line,) = rows_of_aside(sifted(FileSieve(tmp_path)).aside, tmp_path, START_MS + 5)
    assert (line["of"], line["file"]) == ("replicas", str(path.relative_to(tmp_path)))
    assert (line["fault"], line["size_bytes"]) == ("empty", 0)
    assert line["start"].timestamp() * 1000 == START_MS
    assert round(line["found"].timestamp() * 1000) == START_MS + 5


def test_a_file_without_rows_is_as_good_as_any(tmp_path: Path) -> None:
    path_of(tmp_path, 1).write_bytes(whole(()))
    assert sifted(FileSieve(tmp_path)).aside == ()


def test_a_recording_is_of_the_cluster_that_it_says(tmp_path: Path) -> None:
    path_of(tmp_path, 1).write_bytes(whole(cluster="c2"))
    path_of(tmp_path, 2).write_bytes(whole(cluster="c1"))
    assert [one.path.name for one in sifted(FileSieve(tmp_path)).aside] == [
        path_of(tmp_path, 2).name
    ]
    (tmp_path / CLUSTER).write_text(json.dumps({"cluster_id": "c1"}))
    assert [one.path.name for one in sifted(FileSieve(tmp_path)).aside] == [
        path_of(tmp_path, 1).name
    ]
    # What a stream remembers holds where the recording does not say.
    (tmp_path / CLUSTER).unlink()
    assert FileSieve(tmp_path, "c3").looked_at(REPLICAS, path_of(tmp_path, 1), 0) != Footer(2, 1, 0)


def test_what_passed_and_was_read_is_not_looked_at_closely(tmp_path: Path) -> None:
    path_of(tmp_path, 1).write_bytes(torn())
    sieve = FileSieve(tmp_path)
    assert sifted(sieve).looked_at == 1
    sieve.forget_passed()
    assert not sieve.is_any_torn()
    assert sifted(sieve).paths
    assert sieve.is_any_torn()
    assert not sifted(sieve).paths


def test_a_file_system_at_fault_sets_nothing_aside(tmp_path: Path) -> None:
    refused = FileAside(REPLICAS, tmp_path / "a", 0, FileFault.INACCESSIBLE, "No.", 1)
    with pytest.raises(UnreadableSamples, match=r"No\."):
        fail_without_access(Sifted({}, (refused,)))
    # One among others is.
    fail_without_access(Sifted({0: (tmp_path / "b",)}, (refused,)))
    fail_without_access(Sifted({}, ()))
