"""The client's side of the replica stream: frames into snapshots, without pyarrow.

A snapshot shares with the one before it every column in which no row changed, and every part of
the header of which the frame told no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.api.schema.frames.arrow_columns import FrameBatch, read_batches
from kshunt.backend.api.schema.frames.header import read_header
from kshunt.backend.api.schema.frames.header_parts import read_changed_parts, read_parts
from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.replicas.history import thinned
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    UNKNOWN,
    HistoryPoint,
    Replicas,
    Snapshot,
    apply_rows,
    take,
)
from kshunt.backend.errors import KshuntError

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
HEADER_KEY: Final = b"kshunt"
COPIES_MAX: Final = 64
"""A partition with more replicas than this is put in place the slow way."""


def read_snapshots(stream: BinaryIO) -> Iterator[Snapshot]:
    """Snapshots from the bytes of an Arrow IPC stream, until it ends.

    Raises:
        ValueError: the bytes are no such stream, or it was cut off within a frame.
    """
    snapshot: Snapshot | None = None
    for batch in read_batches(stream):
        if HEADER_KEY not in batch.metadata:
            raise ValueError("a record batch has no kshunt header")
        header = read_header(batch.metadata[HEADER_KEY])
        try:
            snapshot = decode_frame(batch, header, snapshot)
        except (KshuntError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"a frame cannot be read: {error!r}") from error
        yield snapshot


def decode_frame(batch: FrameBatch, header: dict[str, Any], previous: Snapshot | None) -> Snapshot:
    """The snapshot that a frame leads to.

    Raises:
        ValueError: the frame holds changes, and `previous` is not the snapshot to change.
    """
    columns, present = _columns(batch), batch.columns["present"]
    if header["full"]:
        return _snapshot(Replicas(**columns), batch.words["topic"], header, previous)
    if previous is None:
        raise ValueError("the stream began with a frame of changes")
    # Columns leave these as they are put in place: at no time is all of it there twice.
    batch.columns.clear()
    rows = _changed(previous.replicas, columns, present)
    return _snapshot(rows, previous.topics, header, previous)


def _columns(batch: FrameBatch) -> dict[str, NDArray[Any]]:
    """The columns of a batch by their names in a snapshot."""
    found: dict[str, NDArray[Any]] = {}
    for name, dtype in DTYPES.items():
        column = batch.columns.get("topic" if name == "topic_index" else name)
        if column is None and name == "mode":
            # A backend that knows no modes.
            column = np.zeros(len(batch.columns["present"]), dtype)
        if column is None or column.dtype != dtype:
            raise ValueError(f"the stream has no column {name!r} of {dtype}")
        found[name] = column
    places, topics = found["topic_index"], len(batch.words["topic"])
    if len(places) and not (places.min() >= 0 and places.max() < topics):
        raise ValueError("a row has no topic")
    return found


def _changed(
    old: Replicas, columns: dict[str, NDArray[Any]], present: NDArray[np.bool_]
) -> Replicas:
    """`old` with these rows put in, in their place, or out; leaves no `columns`."""
    if not len(present):
        return old
    places = _places(old, columns) if present.all() else None
    if places is None:
        rows = Replicas(**columns)
        return apply_rows(old, take(rows, ~present), take(rows, present))
    return Replicas(
        **{name: _put(getattr(old, name), places, columns.pop(name)) for name in COLUMNS}
    )


def _put(column: NDArray[Any], places: NDArray[np.intp], values: NDArray[Any]) -> NDArray[Any]:
    """The column with other values at some places; itself where they are the same."""
    before = column[places]
    # Byte for byte, so that NaN is what it was.
    if np.array_equal(before.view(np.uint8), values.view(np.uint8)):
        return column
    changed = column.copy()
    changed[places] = values
    return changed


def _places(old: Replicas, columns: dict[str, NDArray[Any]]) -> NDArray[np.intp] | None:
    """Where each of the rows stands in `old`; None if one stands nowhere, or elsewhere."""
    if not len(old):
        return None
    broker, last = columns["broker"], len(old) - 1
    keys = partition_keys(old.topic_index, old.partition)
    wanted = partition_keys(columns["topic_index"], columns["partition"])
    places = np.minimum(np.searchsorted(keys, wanted), last)
    for _ in range(COPIES_MAX):
        missing = old.broker[places] != broker
        if not missing.any():
            break
        # The rows of one partition stand together, in the order of its replica list.
        places = np.minimum(places + missing, last)
    found = (keys[places] == wanted) & (old.broker[places] == broker)
    same = found & (old.position[places] == columns["position"])
    return places if same.all() else None


def _snapshot(
    rows: Replicas, topics: tuple[str, ...], header: dict[str, Any], previous: Snapshot | None
) -> Snapshot:
    fresh = tuple(_read_history(header))
    history = () if header["full"] or previous is None else previous.history
    # Each of both thins its history by the same rule, whatever of it was sent.
    history = thinned(history + fresh)
    return Snapshot(
        version=header["version"],
        taken_ms=header["taken_ms"],
        sweep_ms=header["sweep_ms"],
        cluster_id=header["cluster_id"],
        controller=header["controller"],
        topics=topics,
        replicas=rows,
        history=history,
        **_read_parts(header, previous),
    )


def _read_parts(header: dict[str, Any], previous: Snapshot | None) -> dict[str, Any]:
    """The large parts of a snapshot, by the names of its fields."""
    if header["full"] or previous is None:
        return read_parts(header)
    if "since" not in header:
        # A backend that sends headers whole leaves out min.insync.replicas that are not news.
        return {"min_isr": previous.min_isr} | read_parts(header)
    if header["since"] != previous.version:
        raise ValueError(
            f"a frame is missing: one holds changes since version {header['since']}, but the one "
            f"before it has version {previous.version}"
        )
    return read_changed_parts(header, previous)


def _read_history(header: dict[str, Any]) -> Iterator[HistoryPoint]:
    """The points of a header; an older writer says nothing of rates."""
    rates = header.get("history_rates") or [[None, None, UNKNOWN]] * len(header["history"])
    marks = frozenset(header.get("history_marks", ()))
    for (at_ms, left, moving), (rate, *more) in zip(header["history"], rates, strict=True):
        known_rate = math.nan if rate is None else float(rate)
        point = HistoryPoint(at_ms, left, moving, known_rate, *more)
        yield replace(point, rates_changed=True) if at_ms in marks else point
