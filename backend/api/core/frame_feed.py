"""The frames of a backend's snapshots, each encoded once, however many streams send it.

Goals
    Fifty dashboards cost hardly more than one. A reader that is slow gets a newer state later, and
    memory does not grow with how slow it is.
Constraints
    A stream is Arrow IPC: a schema first, then batches, whose dictionary of topics holds until
    another one comes. A frame depends on what its reader has, and on nothing else.
Algorithm
    1. A frame is known by the version that its reader has and the one that it is about to have,
       and by whether its header is whole. Readers that keep up all have the same, so the frame is
       encoded for the first of them, in a thread, and handed to the others. The last `FRAMES_KEPT`
       are kept.
    2. Its bytes come from a writer of its own, which was made to write all that the reader has
       already: the schema, and the dictionary if it still holds.
    3. A stream sends a frame in pieces, each when the connection has taken the one before. So what
       waits for a slow reader is one piece, and the frame, which it shares with others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from kshunt.backend.api.schema.frames.snapshot_writer import SCHEMA, Frame, encode_frame
from kshunt.backend.domain.replicas.snapshot import Snapshot

FRAMES_KEPT: Final = 8
"""A whole frame of 200,000 replicas is some 20 MB, and readers that keep up need two, or
three where some take headers whole."""
PIECE_BYTES: Final = 1 << 16


class FrameFeed:
    """See the module's text; for one event loop."""

    def __init__(self) -> None:
        self._frames: OrderedDict[tuple[int, int, bool], asyncio.Task[bytes]] = OrderedDict()

    async def frame(
        self, snapshot: Snapshot, previous: Snapshot | None, *, header_changes: bool = False
    ) -> bytes:
        """What a reader needs that has `previous`; all that a new one needs if that is None.

        `header_changes` as in `encode_frame`.
        """
        # The first frame of a stream is the same to all.
        changes = header_changes and previous is not None
        key = (0 if previous is None else previous.version, snapshot.version, changes)
        task = self._frames.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(
                asyncio.to_thread(frame_bytes, snapshot, previous, header_changes=changes)
            )
            self._frames[key] = task
            while len(self._frames) > FRAMES_KEPT:
                self._frames.popitem(last=False)
        self._frames.move_to_end(key)
        # One reader that goes away must not take the frame from the others.
        return await asyncio.shield(task)


def pieces(frame: bytes) -> Iterator[bytes]:
    """A frame in the pieces in which it is sent."""
    view = memoryview(frame)
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])


def frame_bytes(
    snapshot: Snapshot, previous: Snapshot | None, *, header_changes: bool = False
) -> bytes:
    """The bytes that bring a reader from `previous` to `snapshot` in its stream.

    `header_changes` as in `encode_frame`.
    """
    frame = encode_frame(snapshot, previous, header_changes=header_changes)
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, SCHEMA)
    if previous is None:
        return _written(writer, sink, frame)
    # Of no topics where they are others now: then the dictionary is written anew.
    topics = snapshot.topics if previous.topics == snapshot.topics else ()
    nothing = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array(topics, pa.utf8()))
    empty = [pa.array([], field.type) for field in list(SCHEMA)[1:]]
    writer.write_batch(pa.record_batch([nothing, *empty], schema=SCHEMA))
    return _written(writer, sink, frame)


def _written(writer: Any, sink: Any, frame: Frame) -> bytes:
    known = sink.tell()
    writer.write_batch(frame.batch, custom_metadata=frame.metadata)
    # What the writer would write at its end does not belong in a stream that continues.
    end = sink.tell()
    data: bytes = sink.getvalue().slice(known, end - known).to_pybytes()
    return data
