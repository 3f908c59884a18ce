"""Snapshots as an Arrow IPC stream: first everything, then the rows that changed.

Owns the schema of `GET /v1/replicas` and `GET /v1/replicas/stream`; the service writes it and
the client reads it (`kshunt.backend.api.schema.frames.snapshot_reader`). Any Arrow reader can do
the same: each record batch carries its header as JSON under the `kshunt` key of its custom
metadata.

A row with `present` false has gone; only its key (topic, partition, broker) means anything.

A header is whole, unless the reader asked for changes of it: `header_changes` of the stream. Then
a header with `since` has of its large parts only what changed since that version, which is the one
of the frame before (`kshunt.backend.api.schema.frames.header_parts`). The first frame of a stream
is whole, and so is each with `full`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshunt.backend.api.schema.frames.header_parts import changed_parts_json, parts_json
from kshunt.backend.api.schema.frames.snapshot_reader import HEADER_KEY, MEDIA_TYPE, read_snapshots
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    HistoryPoint,
    Replicas,
    Snapshot,
    changed_rows,
    gone_rows,
    take,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause

__all__ = [
    "HEADER_KEY",
    "MEDIA_TYPE",
    "SCHEMA",
    "Frame",
    "FrameWriter",
    "encode_frame",
    "history_rates_json",
    "read_snapshots",
    "with_rows",
]

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
    "mode": "KIP-694: 0 ReadWrite, 1 ReadOnly, -1 None",
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


def encode_frame(
    snapshot: Snapshot, previous: Snapshot | None = None, *, header_changes: bool = False
) -> Frame:
    """What a reader that has `previous` needs to have `snapshot`; everything if None.

    With `header_changes` the header has only what changed, too, and `since`: the version of
    `previous`. The reader has to know that.
    """
    if previous is None or previous.topics != snapshot.topics:
        rows, gone = snapshot.replicas, 0
        previous = None
    else:
        leaving = take(previous.replicas, gone_rows(previous.replicas, snapshot.replicas))
        changed = changed_rows(previous.replicas, snapshot.replicas)
        rows, gone = _stack(leaving, take(snapshot.replicas, changed)), len(leaving)
    header = _header(snapshot, previous, header_changes=header_changes)
    return Frame(_batch(snapshot.topics, rows, gone), header)


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


def _header(
    snapshot: Snapshot, previous: Snapshot | None, *, header_changes: bool
) -> dict[str, Any]:
    since = previous.history[-1].at_ms if previous is not None and previous.history else -1
    fresh = [point for point in snapshot.history if point.at_ms > since]
    header = {
        "full": previous is None,
        "version": snapshot.version,
        "taken_ms": snapshot.taken_ms,
        "sweep_ms": snapshot.sweep_ms,
        "cluster_id": snapshot.cluster_id,
        "controller": snapshot.controller,
        "history": [[point.at_ms, point.remaining_bytes, point.moving_replicas] for point in fresh],
        # Next to `history` and in its order, so that older readers find there what they expect.
        "history_rates": [history_rates_json(point) for point in fresh],
        "history_marks": [point.at_ms for point in fresh if point.rates_changed],
        "history_from_ms": snapshot.history[0].at_ms if snapshot.history else 0,
    }
    if previous is None or not header_changes:
        return header | _whole_parts(snapshot, previous)
    return header | {"since": previous.version} | changed_parts_json(previous, snapshot)


def history_rates_json(point: HistoryPoint) -> list[float | int | None]:
    """Rate, what throttles permit, stuck replicas; null is unknown, or no throttle."""
    rate = None if math.isnan(point.rate_bytes_per_s) else round(point.rate_bytes_per_s)
    return [rate, point.permitted_bytes_per_s, point.stuck_replicas]


def _whole_parts(snapshot: Snapshot, previous: Snapshot | None) -> dict[str, Any]:
    """Each part whole, but for what a reader that knows no `since` takes over or for granted."""
    parts = parts_json(snapshot)
    if previous is not None and previous.min_isr == snapshot.min_isr:
        del parts["min_isr"]
    for name in ("deletes_ms", "expected_ends"):
        if not parts[name]:
            del parts[name]
    return parts


class FrameWriter:
    """Turns snapshots into the bytes of one Arrow IPC stream."""

    def __init__(self, *, header_changes: bool = False) -> None:
        """`header_changes` as in `encode_frame`."""
        self._header_changes = header_changes
        self._sink = _Chunks()
        self._writer = pa.ipc.new_stream(self._sink, SCHEMA)
        self._previous: Snapshot | None = None

    def write(self, snapshot: Snapshot) -> bytes:
        """The next bytes of the stream: the schema too, on the first call."""
        frame = encode_frame(snapshot, self._previous, header_changes=self._header_changes)
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


def with_rows(snapshot: Snapshot, rows: Any) -> Snapshot:
    """The snapshot with only some of its rows, for a filtered answer."""
    return replace(snapshot, replicas=take(snapshot.replicas, rows))
