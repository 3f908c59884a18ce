"""What a client makes of a stream that is not as a backend writes it: what it can use, or an error.

Bytes that are changed, cut, put in twice or made up; headers whose JSON is of another shape; events
that never end. Nothing but `ValueError` may come of it, and nothing that breaks later.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.api.client.events import Event, read_events
from kshunt.backend.api.schema.frames.snapshot_writer import (
    HEADER_KEY,
    SCHEMA,
    Frame,
    FrameWriter,
    encode_frame,
    read_snapshots,
)
from kshunt.backend.domain.replicas.snapshot import COLUMNS, DTYPES, Snapshot
from kshunt.backend.errors import KshuntError
from tests.support.frames.stream_states import states
from tests.support.runs.examples import many
from tests.support.tui.cluster import incident

EXAMPLES = 250


@cache
def written(*, header_changes: bool) -> bytes:
    """Two frames: everything, then what changed."""
    cluster, writer = incident(), FrameWriter(header_changes=header_changes)
    return b"".join(writer.write(cluster.step()) for _ in range(2))


HEADER: dict[str, Any] = json.loads(encode_frame(incident().step()).metadata[HEADER_KEY])
EVENTS = b": kshunt events\n\n" + b"".join(
    b'id: %d\nevent: operation\ndata: {"id":"op-%d","summary":"move"}\n\n' % (n, n)
    for n in range(1, 4)
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with up to four things done to them."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        span = draw(st.integers(1, 64))
        match draw(st.sampled_from(["flip", "number", "cut", "drop", "twice", "noise"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "number":
                value = draw(st.sampled_from([0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1]))
                data[at : at + 4] = value.to_bytes(4, "little")
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + span]
            case "twice":
                data[at:at] = data[at : at + span]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=64))
    return bytes(data)


def usable(snapshot: Snapshot) -> None:
    """What code that shows a snapshot relies on."""
    rows = snapshot.replicas
    for name in COLUMNS:
        column = getattr(rows, name)
        assert (len(column), column.dtype) == (len(rows), DTYPES[name])
    if len(rows):
        assert rows.topic_index.min() >= 0
        assert rows.topic_index.max() < len(snapshot.topics)
    assert all(isinstance(topic, str) for topic in snapshot.topics)
    assert all(status.broker.id == key for key, status in snapshot.brokers.items())
    assert np.isfinite(snapshot.version)
    assert np.isfinite(snapshot.taken_ms)
    said = [one.message for one in snapshot.failed_requests]
    assert "".join((snapshot.cluster_id, *said, *snapshot.log_dir_paths)) is not None


def read(data: bytes) -> int:
    """How many snapshots there are; each is looked at."""
    count = 0
    try:
        for snapshot in read_snapshots(io.BytesIO(data)):
            usable(snapshot)
            count += 1
    except ValueError:
        return count
    return count


@settings(max_examples=many(EXAMPLES))
@given(st.booleans().flatmap(lambda changes: damaged(written(header_changes=changes))))
def test_damaged_frames_are_used_or_refused(data: bytes) -> None:
    assert read(data) >= 0


@settings(max_examples=many(EXAMPLES))
@given(st.binary(max_size=400))
def test_bytes_that_are_no_stream_hold_no_snapshot(data: bytes) -> None:
    assert read(data) == 0


@pytest.mark.parametrize("share", range(0, 100, 5))
def test_a_stream_that_ends_early_gives_whole_snapshots_only(share: int) -> None:
    stream = written(header_changes=True)
    cut = stream[: len(stream) * share // 100]
    assert read(cut) <= 1


def test_the_undamaged_ones_are_read() -> None:
    assert read(written(header_changes=True)) == read(written(header_changes=False)) == 2
    assert [event.id for event in read_events([EVENTS])] == [1, 2, 3]


# Headers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a JSON document."""
    if path:
        yield path
    entries = dict(enumerate(value[:2])) if isinstance(value, list) else value
    for key, inner in entries.items() if isinstance(entries, dict) else ():
        yield from places(inner, (*path, key))


PLACES = list(places(HEADER))


CHANGED, LATER, *_ = states()
CHANGES: dict[str, Any] = json.loads(
    encode_frame(LATER, CHANGED, header_changes=True).metadata[HEADER_KEY]
)
CHANGES["gone"] |= {"brokers": [1], "rates": [1], "replicas": ["a"], "log_dirs": [[7, "/d"]]}
CHANGES["gone"] |= {"explained": [["a", 0, 7]]}


def with_value(
    path: tuple[Any, ...], value: Any, *, gone: bool, of: dict[str, Any] = HEADER
) -> dict[str, Any]:
    """The header with something else at one place, or with nothing there."""
    header: dict[str, Any] = json.loads(json.dumps(of))
    inner: Any = header
    for key in path[:-1]:
        inner = inner[key]
    if gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return header


def framed(header: Any) -> bytes:
    """A stream of one whole frame with this header."""
    sink = pa.BufferOutputStream()
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(encode_frame(incident().step()).batch, {HEADER_KEY: text})
    data: bytes = sink.getvalue().to_pybytes()
    return data


@settings(max_examples=many(EXAMPLES))
@given(st.sampled_from(PLACES), JSON, st.booleans())
def test_headers_of_another_shape_are_used_or_refused(
    path: tuple[Any, ...], value: Any, gone: bool
) -> None:
    assert read(framed(with_value(path, value, gone=gone))) <= 1


@settings(max_examples=many(EXAMPLES))
@given(st.sampled_from(list(places(CHANGES))), JSON, st.booleans())
def test_changes_of_another_shape_are_used_or_refused(
    path: tuple[Any, ...], value: Any, gone: bool
) -> None:
    header = with_value(path, value, gone=gone, of=CHANGES)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for frame in (encode_frame(CHANGED), Frame(encode_frame(LATER, CHANGED).batch, header)):
            writer.write_batch(frame.batch, custom_metadata=frame.metadata)
    assert read(sink.getvalue().to_pybytes()) in (1, 2)


@pytest.mark.parametrize("name", ["version", "taken_ms"])
def test_an_integer_of_more_than_64_bits_is_refused(name: str) -> None:
    assert read(framed(HEADER | {name: 1 << 63})) == 0
    assert read(framed(HEADER | {name: (1 << 63) - 1})) == 1


@pytest.mark.parametrize("key", sorted({path[0] for path in PLACES if path[0] in HEADER}))
def test_a_header_without_one_of_its_parts_is_refused(key: str) -> None:
    header = {name: value for name, value in HEADER.items() if name != key}
    optional = key in (
        "history_rates",
        "history_marks",
        "min_isr",
        "failed_requests",
        "expected_ends",
    )
    assert read(framed(header)) == int(optional)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000], ids=lambda text: text[:4]
)
def test_what_is_no_header_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(read_snapshots(io.BytesIO(framed(text))))


def test_a_row_of_no_topic_is_refused() -> None:
    snapshot = incident().step()
    writer = FrameWriter()
    first = writer.write(snapshot)
    rows = snapshot.replicas
    beyond = replace(rows, topic_index=rows.topic_index + np.int32(len(snapshot.topics)))
    sink = pa.BufferOutputStream()
    batch = encode_frame(snapshot).batch
    indices = pa.array(beyond.topic_index)
    topic = pa.DictionaryArray.from_arrays(indices, batch.column(0).dictionary, safe=False)
    columns = [topic, *batch.columns[1:]]
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(pa.record_batch(columns, schema=SCHEMA), encode_frame(snapshot).metadata)
    assert read(first) == 1
    with pytest.raises(ValueError, match="a row has no topic"):
        list(read_snapshots(io.BytesIO(sink.getvalue().to_pybytes())))


# Events


def events(data: bytes, size: int) -> list[Event]:
    """The events of bytes that come in pieces of a size, as far as they can be read."""
    found: list[Event] = []
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    try:
        for event in read_events(chunks, bytes_max=4_096):
            found.append(event)
    except ValueError:
        return found
    return found


@settings(max_examples=many(EXAMPLES))
@given(damaged(EVENTS), st.integers(1, 64))
def test_damaged_events_are_used_or_refused(data: bytes, size: int) -> None:
    for event in events(data, size):
        assert isinstance(event.id, int)
        assert isinstance(event.document, dict)
        try:
            assert event.operation.id
        except (KshuntError, KeyError, TypeError, ValueError):
            # An operation that lacks a part: `kshunt.tui.feed.backend_link` says that it may be out
            # of date.
            continue


@settings(max_examples=many(EXAMPLES))
@given(st.binary(max_size=400), st.integers(1, 64))
def test_bytes_that_are_no_events_are_used_or_refused(data: bytes, size: int) -> None:
    assert all(isinstance(event.document, dict) for event in events(data, size))


@given(st.integers(1, 64))
def test_it_does_not_matter_how_events_are_cut_into_pieces(size: int) -> None:
    assert events(EVENTS, size) == events(EVENTS, len(EVENTS))
    crlf = EVENTS.replace(b"\n", b"\r\n")
    assert events(crlf, size) == events(EVENTS, len(EVENTS))


@pytest.mark.parametrize(
    "data",
    [b"x" * 5_000, b"data: 1\n" * 1_000, b"id: 1\ndata: {}" + b" " * 5_000],
    ids=["a line", "an event of many lines", "a long document"],
)
def test_an_event_without_end_is_not_kept_for_ever(data: bytes) -> None:
    with pytest.raises(ValueError, match="more than 4096 bytes"):
        list(read_events([data[at : at + 100] for at in range(0, len(data), 100)], bytes_max=4_096))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"id: 1\ndata: [1]\n\n", "not a JSON object"),
        (b"id: 1\ndata: {\n\n", "Expecting"),
        (b"data: {}\n\n", "no number"),
        (b"id: -1\ndata: {}\n\n", "no number"),
        (b"id: " + b"9" * 30 + b"\ndata: {}\n\n", "no number"),
        (b"id: \xc2\xb2\ndata: {}\n\n", "no number"),
        (b"id: 1\ndata: " + b"[" * 100_000 + b"\n\n", "nested too deeply"),
    ],
    ids=["list", "cut", "no id", "negative", "huge", "superscript", "deep"],
)
def test_what_is_no_event_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(read_events([data]))
