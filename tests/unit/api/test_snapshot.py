"""Snapshots: differences lead exactly from one to the next, in memory and over Arrow."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.schema.frames.snapshot_writer import (
    SCHEMA,
    FrameWriter,
    encode_frame,
    read_snapshots,
)
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import (
    apply_rows,
    changed_rows,
    gone_rows,
    take,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from tests.support.snapshots import EXPLAINED, assert_equal, replicas_of, snapshot_of, tables


@given(tables, tables)
def test_applying_a_difference_gives_the_newer_snapshot(old: Any, new: Any) -> None:
    before, after = replicas_of(old), replicas_of(new)
    gone = take(before, gone_rows(before, after))
    changed = take(after, changed_rows(before, after))
    assert_equal(apply_rows(before, gone, changed), after)


@given(tables)
def test_nothing_changes_between_equal_snapshots(table: Any) -> None:
    rows = replicas_of(table)
    assert not changed_rows(rows, rows).any()
    assert not gone_rows(rows, rows).any()


def test_a_row_that_was_only_read_again_is_no_change() -> None:
    rows = replicas_of({(0, 0, 1): (1, True, 1.0)})
    later = take(rows, np.array([0]))
    later.sampled_ms[:] = 99
    assert not changed_rows(rows, later).any()


@given(st.lists(tables, min_size=1, max_size=4))
def test_an_arrow_stream_carries_every_snapshot(history: list[Any]) -> None:
    writer = FrameWriter()
    sent = [snapshot_of(replicas_of(table), index + 1) for index, table in enumerate(history)]
    stream = io.BytesIO(b"".join(writer.write(snapshot) for snapshot in sent))
    received = list(read_snapshots(stream))
    assert len(received) == len(sent)
    for one, other in zip(received, sent, strict=True):
        assert_equal(one.replicas, other.replicas)
        for part in (
            "version",
            "topics",
            "brokers",
            "throttles",
            "log_dirs",
            "history",
            "explained",
        ):
            assert getattr(one, part) == getattr(other, part), part


def test_words_that_replicas_share_travel_once() -> None:
    frame = encode_frame(snapshot_of(replicas_of({(0, 0, 7): (2, False, 1.0)})))
    (entry,) = frame.header["explained"]
    assert entry["replicas"] == [["a", number, 7] for number in range(3)]
    assert entry["cause"] == "throttle_too_low"


def test_a_replica_is_explained_in_its_own_words_or_in_those_of_its_cause() -> None:
    table = {(0, 0, 7): (2, False, 1.0), (0, 9, 7): (2, False, 1.0), (0, 9, 8): (0, True, 1.0)}
    snapshot = snapshot_of(replicas_of(table))
    snapshot.replicas.cause[:2] = Cause.THROTTLE_TOO_LOW
    assert snapshot.why(0) == EXPLAINED[0]
    assert snapshot.why(1) == Stuck(TopicPartition("a", 9), 7, Cause.THROTTLE_TOO_LOW)
    assert snapshot.why(2) is None


def test_only_a_change_of_cause_sends_a_row_again() -> None:
    table = {(0, 0, 7): (2, False, 1.0), (0, 1, 7): (2, False, 1.0)}
    before, after = replicas_of(table), replicas_of(table)
    after.cause[1] = Cause.BROKER_DOWN
    assert changed_rows(before, after).tolist() == [False, True]


def test_a_new_topic_starts_the_stream_anew() -> None:
    rows = replicas_of({(0, 0, 1): (1, True, 1.0)})
    before, after = snapshot_of(rows, 1, ("a",)), snapshot_of(rows, 2, ("z",))
    assert encode_frame(after, before).header["full"]
    writer = FrameWriter()
    stream = io.BytesIO(writer.write(before) + writer.write(after))
    assert [snapshot.topics for snapshot in read_snapshots(stream)] == [("a",), ("z",)]


def test_an_unchanged_snapshot_is_a_frame_without_rows() -> None:
    rows = replicas_of({(0, 0, 1): (1, True, float("nan"))})
    frame = encode_frame(snapshot_of(rows, 2), snapshot_of(rows, 1))
    assert frame.batch.num_rows == 0


def test_changes_without_a_beginning_are_refused() -> None:
    rows = replicas_of({(0, 0, 1): (1, True, 1.0)})
    sink, frame = io.BytesIO(), encode_frame(snapshot_of(rows, 2), snapshot_of(rows, 1))
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(frame.batch, custom_metadata=frame.metadata)
    with pytest.raises(ValueError, match="began with a frame of changes"):
        list(read_snapshots(io.BytesIO(sink.getvalue())))


@given(st.integers(0, 2_000), st.binary(max_size=8))
def test_a_broken_stream_is_a_value_error(cut: int, noise: bytes) -> None:
    whole = FrameWriter().write(snapshot_of(replicas_of({(0, 0, 1): (1, True, 1.0)})))
    broken = whole[: min(cut, len(whole) - 1)] + noise
    with contextlib.suppress(ValueError):
        list(read_snapshots(io.BytesIO(broken)))


def test_any_arrow_reader_reads_the_stream() -> None:
    rows = replicas_of({(2, 3, 7): (5, False, 2.5)})
    reader = pa.ipc.open_stream(FrameWriter().write(snapshot_of(rows)))
    assert reader.schema == SCHEMA
    table = reader.read_all().to_pylist()
    assert table[0]["topic"] == "cfg[red]x[/red]"
    assert (table[0]["partition"], table[0]["broker"], table[0]["lag_messages"]) == (3, 7, 5)
