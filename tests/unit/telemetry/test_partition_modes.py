"""The mode of a partition (KIP-694) on its way from a broker to a reader."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kshunt.backend.api.core.replica_rows import RowFilter, matching_rows, replica_row
from kshunt.backend.api.schema.frames.snapshot_writer import (
    SCHEMA,
    FrameWriter,
    encode_frame,
    read_snapshots,
)
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.telemetry.recording.json_rows import json_rows
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.schema import SCHEMAS, UnreadableSamples, read
from kshunt.tui.recorder.snapshot_columns import Canvas, encode_change, encode_whole
from tests.support.embedded.listeners import ListeningCluster
from tests.support.native import T1, TIMEOUT_S, administered, enable, look
from tests.support.recording.files import older, one_file
from tests.support.recording.samples import plain, table_of, with_modes
from tests.support.snapshots import assert_equal

RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE
MINUTE_MS = 60_000
A1 = TopicPartition("a", 1)


def modes_of(seen: Snapshot) -> list[PartitionMode]:
    """By row."""
    return [seen.mode_of(row) for row in range(len(seen.replicas))]


@pytest.mark.conforms("kip-694:mode-none")
@pytest.mark.conforms("kip-694:metadata-shown")
async def test_a_snapshot_has_the_mode_and_the_time_of_deletion() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        assert modes_of(await look(admin)) == [RW] * 4
        later = {"t": DeletePartitions(1, 10 * MINUTE_MS)}
        await admin.partition_deletions.delete(later, validate_only=False, timeout_s=TIMEOUT_S)
        seen = await look(admin)
        assert modes_of(seen) == [RW, RW, RO, RO]
        assert seen.leaving() == {T1: RO}
        assert seen.deletes_ms == {T1: goes_ms(cluster)}
        cluster.pass_s(10 * 60)
        await admin.partition_deletions.delete(
            {"t": DeletePartitions(1)}, validate_only=False, timeout_s=TIMEOUT_S
        )
        cluster.core.stop_broker(2)
        cluster.pass_s(1)
        seen = await look(admin)
        assert seen.leaving() in ({T1: NONE}, {})


def goes_ms(cluster: ListeningCluster) -> int:
    deletion = cluster.at("t", 1).deletion
    assert deletion is not None
    return deletion.created_ms + deletion.delay_ms


async def test_the_time_of_deletion_is_when_the_controller_looks_next() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        later = {"t": DeletePartitions(1, 10 * MINUTE_MS)}
        await admin.partition_deletions.delete(later, validate_only=False, timeout_s=TIMEOUT_S)
        first = (await look(admin)).deletes_ms[T1]
        cluster.set(
            ResourceType.BROKER, "", delete_topic_partition_interval_delay_ms=str(7 * MINUTE_MS)
        )
        assert (await look(admin)).deletes_ms[T1] == first + 4 * MINUTE_MS


def test_a_stream_tells_modes_and_when_they_end() -> None:
    before = plain()
    after = replace(with_modes(before, p1=RO), version=2, deletes_ms={A1: 5})
    last = replace(with_modes(before, p1=NONE), version=3)
    assert encode_frame(after, before).batch.num_rows == 2
    writer = FrameWriter()
    stream = b"".join(writer.write(one) for one in (before, after, last))
    read = list(read_snapshots(io.BytesIO(stream)))
    for sent, got in zip((before, after, last), read, strict=True):
        assert_equal(got.replicas, sent.replicas)
        assert got.deletes_ms == sent.deletes_ms


def test_a_stream_of_a_backend_that_knows_no_modes_is_read() -> None:
    sent = plain()
    frame = encode_frame(sent)
    names = [name for name in SCHEMA.names if name != "mode"]
    batch = frame.batch.select(names)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata=frame.metadata)
    (got,) = read_snapshots(io.BytesIO(sink.getvalue()))
    assert_equal(got.replicas, sent.replicas)


def test_rows_tell_their_mode_and_are_found_by_it() -> None:
    seen = replace(with_modes(plain(), p1=RO, p2=NONE), deletes_ms={A1: 5}, log_dir_paths=("/d",))
    assert matching_rows(seen, RowFilter(mode=RO)).tolist() == [2, 3]
    assert matching_rows(seen, RowFilter(mode=NONE)).tolist() == [4, 5]
    assert matching_rows(seen, RowFilter(mode=RW)).tolist() == [0, 1]
    told = [replica_row(seen, row) for row in (0, 2, 4)]
    assert [one.mode for one in told] == ["readwrite", "readonly", "none"]
    assert [one.deletes_ms for one in told] == [None, 5, None]


def test_a_recording_keeps_modes_and_one_from_before_them_is_readable() -> None:
    before = plain()
    after = replace(with_modes(before, p1=RO), deletes_ms={A1: 5})
    canvas = Canvas()
    canvas.take(b"".join(encode_whole(before)))
    change = encode_change(before, after)
    assert change is not None
    canvas.take(change)
    read = canvas.snapshot()
    assert read is not None
    assert_equal(read.replicas, after.replicas)
    assert read.deletes_ms == {A1: 5}


def test_a_column_that_was_not_recorded_means_read_write(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("topic_index", "partition", "broker", "position", "leader")
    sent = plain()
    with monkeypatch.context() as old:
        old.setattr("kshunt.tui.recorder.snapshot_columns.COLUMNS", names)
        payload = b"".join(encode_whole(sent))
    canvas = Canvas()
    canvas.take(payload)
    read = canvas.snapshot()
    assert read is not None
    assert read.replicas.mode.tolist() == [0] * 6


def test_samples_keep_the_mode_and_older_ones_are_readable(tmp_path: Path) -> None:
    seen = with_modes(plain(), p1=RO, p2=NONE)
    words = [None, None, "ReadOnly", "ReadOnly", "None", "None"]
    rows = table_of(seen)
    assert rows["mode"].to_pylist() == words
    sent = [json.loads(line).get("mode") for line in json_rows(rows)]
    assert sent == words, "what is ReadWrite costs nothing"
    path = one_file(tmp_path)
    older(path, "mode", 1)
    read_back = read([path], SampleTable.REPLICAS)
    assert read_back.schema == SCHEMAS[SampleTable.REPLICAS]
    assert read_back["mode"].null_count == len(read_back) > 0
    older(path, "cause", 2)
    with pytest.raises(UnreadableSamples, match="lacks the column cause"):
        read([path], SampleTable.REPLICAS)
