"""A recording that is read in threads, one look at a time, while it may still be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from kshunt.backend.errors import Conflict

if TYPE_CHECKING:
    from kshunt.tui.recorder.reader import RecordingReader
    from kshunt.tui.recorder.recorder import Recorder

T = TypeVar("T")
FLUSH_S: Final = 2.0


class OpenRecording:
    """What a recorder has written so far, or a recording of another session. On the event loop."""

    def __init__(self, recorder: Recorder | None, reader: RecordingReader | None) -> None:
        """Closed until `open`, unless there is a `reader` already."""
        self._recorder = recorder
        self._reader = reader
        self._free = asyncio.Lock()

    @property
    def exists(self) -> bool:
        """Whether there is anything to open."""
        written = self._recorder is not None and bool(self._recorder.paths)
        return self._reader is not None or written

    async def open(self) -> None:
        """Open what the recorder has written, unless that is open.

        Raises:
            RecordingError: a file cannot be read.
        """
        async with self._free:
            if self._reader is None:
                assert self._recorder is not None
                self._reader = await _open_or_close(self._recorder)

    async def read(self, look: Callable[[RecordingReader], T]) -> T:
        """What `look` finds, with all that was recorded by now.

        Raises:
            Conflict: it is closed.
            RecordingError: a file cannot be read.
        """
        async with self._free:
            if self._reader is None:
                raise Conflict("Playback was closed.")
            return await asyncio.to_thread(_look, self._reader, self._recorder, look)

    async def read_once(self, look: Callable[[RecordingReader], T]) -> T:
        """The same without leaving it open, where it was not."""
        if self._reader is not None:
            return await self.read(look)
        assert self._recorder is not None
        return await asyncio.to_thread(_read_once, self._recorder, look)

    async def close(self, wanted: Callable[[], bool]) -> None:
        """Close the files, unless they are `wanted` again once nothing reads from them."""
        async with self._free:
            if self._reader is not None and not wanted():
                reader, self._reader = self._reader, None
                await asyncio.to_thread(reader.close)

    def wall_ms(self, time_ms: int) -> int:
        """What the clock on the wall said at a moment of the recording."""
        return self._reader.wall_ms(time_ms) if self._reader is not None else time_ms


async def _open_or_close(recorder: Recorder) -> RecordingReader:
    """Open the recording; a cancelled caller leaves no file open."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open, recorder))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise


def _open(recorder: Recorder) -> RecordingReader:
    from kshunt.tui.recorder.reader import RecordingReader

    recorder.flush(FLUSH_S)
    return RecordingReader(recorder.paths)


def _look(
    reader: RecordingReader, recorder: Recorder | None, look: Callable[[RecordingReader], T]
) -> T:
    if recorder is not None:
        reader.follow(recorder.paths)
    return look(reader)


def _read_once(recorder: Recorder, look: Callable[[RecordingReader], T]) -> T:
    reader = _open(recorder)
    try:
        return look(reader)
    finally:
        reader.close()
