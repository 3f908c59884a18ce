"""Snapshots as an Arrow IPC stream: first everything, then the rows that changed.

Owns the schema of `GET /v1/replicas` and `GET /v1/replicas/stream`; the service writes it and
the client reads it. Any Arrow reader can do the same: each record batch carries its header as
JSON under the `kshunt` key of its custom metadata.

A row with `present` false has gone; only its key (topic, partition, broker) means anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from backend.api import documents
from backend.api.stuck_json import explained_json, read_explained
from backend.domain.snapshot import (
    COLUMNS,
    DTYPES,
    BrokerStatus,
    HistoryPoint,
    Replicas,
    Snapshot,
    apply_rows,
    changed_rows,
    gone_rows,
    take,
)
from backend.domain.stuck import Cause

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
HEADER_KEY: Final = b"kshunt"
_UNITS: Final = {
    "lag_messages": "messages, -1 unknown",
    "lag_bytes": "bytes, -1 unknown",
    "size_bytes": "bytes, -1 unknown",
    "log_end_offset": "offset, -1 unknown",
    "catch_up_messages_per_s": "messages/s, NaN unknown",
    "catch_up_bytes_per_s": "bytes/s, NaN unknown",
    "fetched_bytes_per_s": "bytes/s, NaN unknown",
    "eta_s": "seconds, inf never, NaN unknown",
    "sampled_ms": "milliseconds since the epoch, -1 never",
    "status": "0 in sync, 1 behind, 2 lag unknown, 3 offline",
    "cause": "why it does not advance: "
    + ", ".join(f"{cause.value} {cause.key}" for cause in Cause),
}


def _field(name: str) -> Any:
    unit = _UNITS.get(name)
    metadata = {"unit": unit} if unit else None
    return pa.field(name, pa.from_numpy_dtype(DTYPES[name]), nullable=False, metadata=metadata)


SCHEMA: Final = pa.schema(
    [pa.field("topic", pa.dictionary(pa.int32(), pa.utf8()), nullable=False)]
    + [_field(name) for name in COLUMNS if name != "topic_index"]
    + [pa.field("present", pa.bool_(), nullable=False)]
)


@dataclass(frozen=True, eq=False)
class Frame:
    """One record batch and its header."""

    batch: Any
    header: dict[str, Any]

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The header as the batch's custom metadata."""
        return {HEADER_KEY: json.dumps(self.header, separators=(",", ":")).encode()}


def encode_frame(snapshot: Snapshot, previous: Snapshot | None = None) -> Frame:
    """What a reader that has `previous` needs to have `snapshot`; everything if None."""
    if previous is None or previous.topics != snapshot.topics:
        rows, gone = snapshot.replicas, 0
        previous = None
    else:
        leaving = take(previous.replicas, gone_rows(previous.replicas, snapshot.replicas))
        changed = changed_rows(previous.replicas, snapshot.replicas)
        rows, gone = _stack(leaving, take(snapshot.replicas, changed)), len(leaving)
    return Frame(_batch(snapshot.topics, rows, gone), _header(snapshot, previous))


def _stack(first: Replicas, second: Replicas) -> Replicas:
    return Replicas(
        **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in COLUMNS}
    )


def _batch(topics: tuple[str, ...], rows: Replicas, gone: int) -> Any:
    topic = pa.DictionaryArray.from_arrays(pa.array(rows.topic_index), pa.array(topics, pa.utf8()))
    present = np.ones(len(rows), np.bool_)
    present[:gone] = False
    columns = [pa.array(getattr(rows, name)) for name in COLUMNS if name != "topic_index"]
    return pa.record_batch([topic, *columns, pa.array(present)], schema=SCHEMA)


def _header(snapshot: Snapshot, previous: Snapshot | None) -> dict[str, Any]:
    since = previous.history[-1].at_ms if previous is not None and previous.history else -1
    return {
        "full": previous is None,
        "version": snapshot.version,
        "taken_ms": snapshot.taken_ms,
        "sweep_ms": snapshot.sweep_ms,
        "cluster_id": snapshot.cluster_id,
        "controller": snapshot.controller,
        "brokers": [broker_status_json(status) for status in snapshot.brokers.values()],
        "throttles": documents.throttles_json(snapshot.throttles),
        "log_dirs": [documents.log_dir_json(directory) for directory in snapshot.log_dirs],
        "log_dir_paths": list(snapshot.log_dir_paths),
        "problems": list(snapshot.problems),
        "explained": explained_json(snapshot.explained.values()),
        "history": [
            [point.at_ms, point.remaining_bytes, point.moving_replicas]
            for point in snapshot.history
            if point.at_ms > since
        ],
        "history_from_ms": snapshot.history[0].at_ms if snapshot.history else 0,
    }


def broker_status_json(status: BrokerStatus) -> dict[str, Any]:
    """A broker as `GET /v1/brokers` lists it."""
    return {
        **documents.broker_json(status.broker),
        "answered_ms": status.answered_ms,
        "stale": status.stale,
        "problem": status.problem,
    }


def decode_frame(batch: Any, header: dict[str, Any], previous: Snapshot | None) -> Snapshot:
    """The snapshot that a frame leads to.

    Raises:
        ValueError: the frame holds changes and there is no snapshot to change.
    """
    rows = _rows(batch)
    topics = tuple(batch.column(0).dictionary.to_pylist())
    if not header["full"]:
        if previous is None:
            raise ValueError("the stream began with a frame of changes")
        present = batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)
        topics = previous.topics
        rows = apply_rows(previous.replicas, take(rows, ~present), take(rows, present))
    return _snapshot(rows, topics, header, previous)


def _rows(batch: Any) -> Replicas:
    columns = {"topic_index": batch.column(0).indices.to_numpy(zero_copy_only=False)}
    for position, name in enumerate(name for name in COLUMNS if name != "topic_index"):
        columns[name] = batch.column(position + 1).to_numpy(zero_copy_only=False)
    return Replicas(**columns)


def _snapshot(
    rows: Replicas, topics: tuple[str, ...], header: dict[str, Any], previous: Snapshot | None
) -> Snapshot:
    fresh = tuple(HistoryPoint(*point) for point in header["history"])
    kept = () if header["full"] or previous is None else previous.history
    history = tuple(p for p in kept if p.at_ms >= header["history_from_ms"]) + fresh
    statuses = [_broker_status(entry) for entry in header["brokers"]]
    return Snapshot(
        version=header["version"],
        taken_ms=header["taken_ms"],
        sweep_ms=header["sweep_ms"],
        cluster_id=header["cluster_id"],
        controller=header["controller"],
        topics=topics,
        replicas=rows,
        brokers={status.broker.id: status for status in statuses},
        throttles=documents.read_throttles(header["throttles"]),
        log_dirs=tuple(documents.read_log_dir(entry) for entry in header["log_dirs"]),
        log_dir_paths=tuple(header["log_dir_paths"]),
        history=history,
        problems=tuple(header["problems"]),
        explained=read_explained(header["explained"]),
    )


def _broker_status(document: dict[str, Any]) -> BrokerStatus:
    return BrokerStatus(
        documents.read_broker(document),
        document["answered_ms"],
        document["stale"],
        document["problem"],
    )


class FrameWriter:
    """Turns snapshots into the bytes of one Arrow IPC stream."""

    def __init__(self) -> None:
        self._sink = _Chunks()
        self._writer = pa.ipc.new_stream(self._sink, SCHEMA)
        self._previous: Snapshot | None = None

    def write(self, snapshot: Snapshot) -> bytes:
        """The next bytes of the stream: the schema too, on the first call."""
        frame = encode_frame(snapshot, self._previous)
        self._writer.write_batch(frame.batch, custom_metadata=frame.metadata)
        # The reader's rows keep the old sampled_ms where nothing else changed; what was sent is
        # what the next difference is taken against.
        self._previous = snapshot
        return self._sink.drain()


class _Chunks:
    """A file that gathers what is written until somebody takes it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Nothing is held back."""

    def drain(self) -> bytes:
        gathered = b"".join(self._parts)
        self._parts.clear()
        return gathered


def read_snapshots(stream: BinaryIO) -> Iterator[Snapshot]:
    """Snapshots from the bytes of an Arrow IPC stream, until it ends.

    Raises:
        ValueError: the bytes are no such stream, or it was cut off within a frame.
    """
    snapshot: Snapshot | None = None
    for batch, metadata in _batches(stream):
        if metadata is None or HEADER_KEY not in metadata:
            raise ValueError("a record batch has no kshunt header")
        snapshot = decode_frame(batch, json.loads(metadata[HEADER_KEY]), snapshot)
        yield snapshot


def _batches(stream: BinaryIO) -> Iterator[tuple[Any, Any]]:
    """Record batches and their metadata; Arrow's own errors as one kind."""
    reader = None
    while True:
        try:
            reader = reader or pa.ipc.open_stream(stream)
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"not an Arrow IPC stream: {error}") from error
        yield batch, metadata


def with_rows(snapshot: Snapshot, rows: Any) -> Snapshot:
    """The snapshot with only some of its rows, for a filtered answer."""
    return replace(snapshot, replicas=take(snapshot.replicas, rows))
