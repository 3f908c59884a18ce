"""The client's reader of Arrow streams, and what snapshots of one stream share."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.schema.frames.arrow_columns import read_batches
from kshunt.backend.api.schema.frames.snapshot_writer import FrameWriter, read_snapshots
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import COLUMNS, Snapshot
from kshunt.tui.facts.snapshot_facts import Facts
from tests.support.tui.cluster import ScriptedCluster, incident

WORDS = st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)
NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)


@given(WORDS, st.lists(NUMBERS, min_size=1, max_size=3))
def test_it_reads_what_arrow_writes(words: list[str], batches: list[list[int]]) -> None:
    sink = io.BytesIO()
    schema = pa.schema(
        [
            pa.field("word", pa.dictionary(pa.int32(), pa.utf8())),
            pa.field("whole", pa.int64()),
            pa.field("small", pa.int16()),
            pa.field("real", pa.float32()),
            pa.field("flag", pa.bool_()),
        ]
    )
    with pa.ipc.new_stream(sink, schema) as writer:
        for numbers in batches:
            writer.write_batch(_batch(words, numbers, schema), custom_metadata={b"k": b"v"})
    read = list(read_batches(io.BytesIO(sink.getvalue())))
    assert len(read) == len(batches)
    for batch, numbers in zip(read, batches, strict=True):
        assert batch.metadata == {b"k": b"v"}
        assert [batch.words["word"][place] for place in batch.columns["word"]] == [
            words[number % len(words)] for number in numbers
        ]
        assert batch.columns["whole"].tolist() == numbers
        assert batch.columns["small"].tolist() == [number % 100 for number in numbers]
        assert batch.columns["flag"].tolist() == [number % 2 == 0 for number in numbers]
        assert batch.columns["real"].tolist() == np.array(numbers, np.float32).tolist()


def _batch(words: list[str], numbers: list[int], schema: pa.Schema) -> pa.RecordBatch:
    places = np.array([number % len(words) for number in numbers], np.int32)
    word = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(words, pa.utf8()))
    columns = [
        word,
        pa.array(numbers, pa.int64()),
        pa.array([number % 100 for number in numbers], pa.int16()),
        pa.array(np.array(numbers, np.float32)),
        pa.array([number % 2 == 0 for number in numbers], pa.bool_()),
    ]
    return pa.record_batch(columns, schema=schema)


def test_it_refuses_what_it_cannot_read() -> None:
    for column in (pa.array(["a"]), pa.array([None], pa.int32()), pa.array([[1]])):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, pa.schema([pa.field("odd", column.type)])) as writer:
            writer.write_batch(pa.record_batch([column], names=["odd"]))
        with pytest.raises(ValueError, match=r"odd|nulls"):
            list(read_batches(io.BytesIO(sink.getvalue())))


def history(cluster: ScriptedCluster, steps: int) -> list[Snapshot]:
    """Snapshots as a client has them."""
    writer = FrameWriter()
    sent = b"".join(writer.write(cluster.step()) for _ in range(steps))
    return list(read_snapshots(io.BytesIO(sent)))


def test_snapshots_share_the_columns_in_which_nothing_changed() -> None:
    first, second = history(incident(), 2)
    shared = {
        name for name in COLUMNS if getattr(first.replicas, name) is getattr(second.replicas, name)
    }
    assert {"topic_index", "partition", "broker", "adding", "leader"} <= shared
    assert "lag_bytes" not in shared


def test_an_older_snapshot_stays_what_it_was() -> None:
    cluster = incident()
    before = cluster.snapshot().replicas.lag_bytes
    first = history(cluster, 1)[0].replicas.lag_bytes.copy()
    kept, *_ = history(incident(), 3)
    assert kept.replicas.lag_bytes.tolist() == first.tolist()
    assert kept.replicas.lag_bytes.tolist() != before.tolist()


def test_facts_that_are_taken_over_are_those_that_would_be_computed() -> None:
    cluster, writer = incident(), FrameWriter()
    sent = b""
    for number in range(4):
        if number == 2:
            cluster.cancel(next(iter(cluster.partitions)))
            cluster.move(TopicPartition("audit-log", 1), (5, 3, 4))
        sent += writer.write(cluster.step())
    facts: Facts | None = None
    for snapshot in read_snapshots(io.BytesIO(sent)):
        facts = Facts(snapshot, facts)
        fresh = Facts(snapshot)
        for name in ("starts", "moving", "behind", "stuck", "stale"):
            assert getattr(facts, name).tolist() == getattr(fresh, name).tolist(), name
        assert facts.moving_partitions == fresh.moving_partitions
        assert facts.topic_places == fresh.topic_places
        assert repr(facts.summary) == repr(fresh.summary)
