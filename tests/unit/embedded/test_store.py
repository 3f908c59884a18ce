"""The data folder: a cluster that was killed comes back with everything it had said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kshunt.backend.domain.throttles.configs import LEADER_RATE
from kshunt.backend.embedded.core.store import ClusterStore
from kshunt.backend.embedded.logs.batch import read_header
from kshunt.backend.embedded.metadata.record_log import RecordLogError
from kshunt.backend.embedded.metadata.records import Record, ResourceType
from kshunt.backend.errors import Conflict
from tests.support.embedded.core import MB, SmallCluster, check_plane

T, B = ResourceType.TOPIC, ResourceType.BROKER


class Stored:
    """A small cluster with a data folder; `killed` leaves everything as it lies on disk."""

    def __init__(self, folder: Path) -> None:
        self.store = ClusterStore(folder)
        self.cluster = SmallCluster(store=self.store, sink=self.store)
        self.coordinated: list[Record] = []
        self.id = self.store.restore(self.cluster.core, "first", self.coordinated.append)
        self.cluster.start()
        _open.append(self)

    def killed(self) -> None:
        self.store.let_go()


_open: list[Stored] = []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    for stored in _open:
        stored.killed()
    _open.clear()


def test_topics_throttles_moves_and_records_come_back(folder: Path) -> None:
    first = Stored(folder)
    cluster = first.cluster
    cluster.create("t", [1, 2], [2, 3], retention_ms="1000000")
    cluster.fill("t", 100 * MB, rate_bytes_per_s=10_000)
    cluster.move("t", 0, 2, 4, throttle_bytes_per_s=10 * MB)
    cluster.pass_s(5)
    for _ in range(20):
        cluster.write("t", 10, number=1)
    first.store.save(cluster.core)
    before = {b: cluster.end("t", b) for b in (1, 2, 4)}
    batches = list(cluster.plane.log(cluster.held("t", 1)).stored_batches())
    first.killed()

    again = Stored(folder)
    back = again.cluster
    assert again.id == "first"
    assert back.image.reassignments() == cluster.image.reassignments()
    assert back.image.dynamic_configs(B, "4")[LEADER_RATE] == str(10 * MB)
    assert back.image.rates_removal == cluster.image.rates_removal
    assert {b: back.end("t", b) for b in (1, 2, 4)} == before
    assert list(back.plane.log(back.held("t", 1)).stored_batches()) == batches
    check_plane(back)
    assert set(back.at("t", 1).isr) == {2, 3}, "nobody noticed that the others were gone"
    back.pass_s(10)
    assert not back.image.is_moving
    assert not back.image.dynamic_configs(B, "4")


def test_what_was_written_after_the_columns_were_saved_is_there_too(folder: Path) -> None:
    first = Stored(folder)
    first.cluster.create("t", [1, 2])
    first.store.save(first.cluster.core)
    for _ in range(5):
        first.cluster.write("t", 3)
    first.killed()

    again = Stored(folder)
    assert {again.cluster.end("t", broker) for broker in (1, 2)} == {15}
    assert again.cluster.write("t") == 15


def test_real_records_and_counters_keep_their_offsets(folder: Path) -> None:
    first = Stored(folder)
    cluster = first.cluster
    cluster.create("t", [1, 2])
    cluster.fill("t", 0, rate_bytes_per_s=10_000)
    cluster.pass_s(10)
    assert cluster.write("t", 2) == 100
    cluster.pass_s(10)
    assert cluster.write("t", 2) == 202
    first.store.save(cluster.core)
    first.killed()

    again = Stored(folder)
    log = again.cluster.plane.log(again.cluster.held("t"))
    found = [read_header(batch).base_offset for batch in log.stored_batches()]
    assert found == [100, 202]
    assert log.end_offset == 204


def test_deleted_records_stay_deleted_and_a_dropped_topic_leaves_no_file(folder: Path) -> None:
    first = Stored(folder)
    cluster = first.cluster
    cluster.create("t", [1])
    cluster.create("gone", [1])
    for topic in ("t", "gone"):
        for _ in range(4):
            cluster.write(topic, 5)
    cluster.plane.delete_records(cluster.held("t"), 10)
    cluster.drop("gone")
    first.store.checkpoint(cluster.core)
    first.killed()
    assert len(list((folder / "batches").iterdir())) == 1

    again = Stored(folder)
    log = again.cluster.plane.log(again.cluster.held("t"))
    assert (log.start_offset, log.end_offset) == (10, 20)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_batch_is_cut(folder: Path, cut: int) -> None:
    first = Stored(folder)
    first.cluster.create("t", [1])
    first.cluster.write("t", 1)
    first.cluster.write("t", 1)
    first.killed()
    [path] = (folder / "batches").iterdir()
    path.write_bytes(path.read_bytes()[:-cut])

    again = Stored(folder)
    assert again.cluster.plane.log(again.cluster.held("t")).end_offset == 1
    assert again.cluster.write("t", 1) == 1
    again.killed()
    third = Stored(folder)
    assert third.cluster.plane.log(third.cluster.held("t")).end_offset == 2


def test_a_folder_in_use_is_refused(folder: Path) -> None:
    first = Stored(folder)
    with pytest.raises(Conflict):
        Stored(folder)
    first.killed()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("records.log", b"something else entirely"),
        ("replicas.npz", b"not an archive"),
        ("cluster.json", b"{"),
        ("cluster.json", b'{"format": 99, "cluster_id": "x"}'),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, content: bytes) -> None:
    first = Stored(folder)
    first.cluster.create("t", [1])
    first.store.save(first.cluster.core)
    first.killed()
    (folder / name).write_bytes(content)
    with pytest.raises(RecordLogError, match=name):
        Stored(folder)


def test_copies_between_directories_go_on(folder: Path) -> None:
    first = Stored(folder)
    cluster = first.cluster
    cluster.create("t", [1])
    cluster.fill("t", 100 * MB)
    old = cluster.at("t").log_dir(1)
    [new] = {"/d1", "/d2"} - {old}
    cluster.set(B, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(10 * MB))
    cluster.plane.move_log_dir(cluster.held("t"), 1, new)
    cluster.pass_s(5)
    first.store.save(cluster.core)
    first.killed()

    again = Stored(folder)
    again.cluster.pass_s(4)
    assert again.cluster.at("t").log_dir(1) == old
    again.cluster.pass_s(2)
    assert again.cluster.at("t").log_dir(1) == new


def test_a_long_log_is_shortened_and_says_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshunt.backend.embedded.core.store.SHORTEN_BYTES", 10_000)
    first = Stored(folder)
    cluster = first.cluster
    cluster.create("t", [1, 2], [2, 3])
    for _ in range(60):
        cluster.core.stop_broker(2)
        cluster.restart(2)
        cluster.pass_s(1)
    long = (folder / "records.log").stat().st_size
    image, first_controller = cluster.image, cluster.image.controller
    first.killed()

    again = Stored(folder)
    assert (folder / "records.log").stat().st_size < long / 5
    assert again.cluster.at("t").leader_epoch == image.partition("t", 0).leader_epoch  # type: ignore[union-attr]
    assert again.cluster.image.controller == first_controller
    again.cluster.set(T, "t", retention_ms="77")
    again.killed()
    third = Stored(folder)
    assert third.cluster.image.dynamic_configs(T, "t") == {"retention.ms": "77"}
    assert third.cluster.image.offset > image.offset
