"""The two streams: replicas as Arrow IPC, and events as server-sent events.

Each reader is at its own place. A slow one gets a newer snapshot later; nothing queues for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from kshunt.backend.api.core.event_log import EventLog
from kshunt.backend.api.core.frame_feed import FrameFeed, pieces
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.errors import TooManyStreams
from kshunt.backend.limits import LIMITS
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub

HEARTBEAT_S: Final = 2.0
"""A stream that has nothing to say says so at least this often."""
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Of Arrow IPC: a reader that has it knows that nothing was cut off."""
UNBUFFERED: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Headers of a stream: nobody on its way holds back what it has said."""

T = TypeVar("T")


class StreamPlaces:
    """Counts the open replica streams; there are `Limits.streams` places."""

    def __init__(self) -> None:
        self._open_count = 0

    def take(self) -> None:
        """Take a place.

        Raises:
            TooManyStreams: all are taken.
        """
        if self._open_count >= LIMITS.streams:
            raise TooManyStreams(
                f"{self._open_count} replica streams are open, which is the maximum of this "
                "backend.",
                advice="Close a dashboard, or start another backend.",
            )
        self._open_count += 1

    async def held(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The stream, whose place is free again when it ends or its reader goes away."""
        try:
            async for part in stream:
                yield part
        finally:
            self._open_count -= 1


async def replica_stream(
    hub: SnapshotHub,
    feed: FrameFeed,
    ending: asyncio.Event | None = None,
    *,
    header_changes: bool = False,
) -> AsyncGenerator[bytes, None]:
    """Everything, then what changed, in the bytes of one Arrow IPC stream; until `ending`.

    Of headers, too, what changed with `header_changes`; else they are whole.
    """
    ending = ending or asyncio.Event()
    previous: Snapshot | None = None
    while not ending.is_set():
        version = 0 if previous is None else previous.version
        snapshot = await _unless(ending, hub.newer_than(version))
        if ending.is_set():
            break
        if snapshot is None:
            if hub.latest is None:
                continue
            # A frame without rows: the reader sees that the backend lives and nothing is newer.
            snapshot = hub.latest
        frame = await feed.frame(snapshot, previous, header_changes=header_changes)
        for piece in pieces(frame):
            yield piece
        previous = snapshot
    if previous is not None:
        yield END_OF_STREAM


async def event_stream(
    events: EventLog, last_id: int | None, ending: asyncio.Event | None = None
) -> AsyncIterator[bytes]:
    """Events after `last_id`, or from now on if None; until `ending`."""
    ending = ending or asyncio.Event()
    seen = events.last_id if last_id is None else last_id
    yield b": kshunt events\n\n"
    while not ending.is_set():
        fresh = events.after(seen)
        for event in fresh:
            head = f"id: {event.id}\nevent: {event.kind}\ndata: ".encode()
            yield b"%b%b\n\n" % (head, await event.data())
            seen = event.id
        if not fresh and not await _unless(ending, events.wait(HEARTBEAT_S)):
            yield b": alive\n\n"


async def _unless(ending: asyncio.Event, waiting: Coroutine[Any, Any, T]) -> T | None:
    """What is waited for; None where nothing comes for `HEARTBEAT_S`, or the stream is to end."""
    wanted = asyncio.create_task(waiting)
    end = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait({wanted, end}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        return wanted.result() if wanted.done() else None
    finally:
        for task in (wanted, end):
            task.cancel()
        await asyncio.gather(wanted, end, return_exceptions=True)
