"""Recordings as one course of time: any moment of it as a scene, and the places to jump to.

Goals
    Any moment is found in the time that a few changes take, also in hours of a large cluster, and
    also in a recording that is still being written.
Algorithm
    The headers are the index. The reader builds a scene from the last whole one before the moment
    and the records after it. If the next moment is later and no whole scene lies between, the
    reader continues from the scene that it has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.domain.replicas.snapshot import HistoryPoint
from kshunt.tui.facts.cockpit.marks import Mark
from kshunt.tui.feed.messages import ActionTaken
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder import recording_file
from kshunt.tui.recorder.event_markers import read_marker
from kshunt.tui.recorder.json_values import UnreadableRecordedValue
from kshunt.tui.recorder.message_json import decode_fact, decode_scene, parsed
from kshunt.tui.recorder.recording_file import RecordHead, RecordingError, RecordingFile
from kshunt.tui.recorder.snapshot_columns import Canvas, points

if TYPE_CHECKING:
    from collections.abc import Callable

    from kshunt.backend.domain.replicas.snapshot import Snapshot

SNAPSHOTS: Final = (recording_file.WHOLE, recording_file.CHANGE)
_Place = tuple[RecordingFile, RecordHead]


@dataclass(frozen=True, slots=True)
class Stop:
    """A place to jump to."""

    time_ms: int
    wall_ms: int
    mark: Mark


class _PlaybackState:
    """What the records up to one place lead to."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.canvas = Canvas()
        self.broken = False
        """A change could not be read: those after it mean nothing until a whole snapshot."""
        self.drawn = 0
        """How often the canvas was changed."""

    def take(self, tape_: RecordingFile, entry: RecordHead) -> None:
        """Apply one record.

        Raises:
            RecordingError, UnreadableValue: it cannot be read; the scene is as before it.
        """
        match entry.kind:
            case recording_file.SCENE:
                self.scene = decode_scene(tape_.payload(entry))
            case recording_file.WHOLE | recording_file.CHANGE:
                self._draw(tape_, entry)
            case recording_file.FACT:
                message = decode_fact(self.scene, tape_.payload(entry))
                self.scene = self.scene.after(message, entry.time_ms / 1000)
            case _:
                return

    def _draw(self, tape_: RecordingFile, entry: RecordHead) -> None:
        if self.broken and entry.kind == recording_file.CHANGE:
            return
        self.broken = True
        self.canvas.take(tape_.payload(entry))
        self.broken = False
        self.drawn += 1
        self.scene = replace(self.scene, received_s=entry.time_ms / 1000)


class RecordingReader:
    """One recording, or several of one session. Only one thread at a time may use it."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open them.

        Raises:
            RecordingError: one of them is none, or cannot be read.
        """
        self._tapes: list[RecordingFile] = []
        self._entries: list[_Place] = []
        self._times: list[int] = []
        self._state = _PlaybackState()
        self._reached = 0
        """How many records `_course` has taken."""
        self._troubles: dict[str, None] = {}
        self._shown: tuple[_PlaybackState, int, Snapshot | None] | None = None
        try:
            self.follow(paths)
        except RecordingError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        for one in self._tapes:
            one.close()

    def follow(self, paths: Sequence[Path]) -> None:
        """Take up what was appended, and files that followed.

        Raises:
            RecordingError: a file is none, or cannot be read.
        """
        known = {one.path for one in self._tapes}
        fresh = [RecordingFile(path) for path in paths if path not in known]
        if self._tapes and not fresh:
            last = self._tapes[-1]
            seen = len(last.entries)
            last.scan()
            self._add(last, last.entries[seen:])
            return
        self._tapes += fresh
        for one in self._tapes:
            one.scan()
        self._tapes.sort(key=lambda one: one.entries[0].time_ms if one.entries else 0)
        self._entries, self._times, self._shown = [], [], None
        self._state, self._reached = _PlaybackState(), 0
        for one in self._tapes:
            self._add(one, one.entries)

    def _add(self, one: RecordingFile, entries: Sequence[RecordHead]) -> None:
        self._entries += [(one, entry) for entry in entries]
        for entry in entries:
            # Of two recordings, one may begin before the other ends.
            self._times.append(max(entry.time_ms, self.last_ms))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of time."""
        return tuple(one.path for one in self._tapes)

    @property
    def about(self) -> dict[str, Any]:
        """What the first file says of itself."""
        return self._tapes[0].about

    @property
    def trouble(self) -> tuple[str, ...]:
        """What cannot be read, as far as it was met."""
        return (*(text for one in self._tapes for text in one.trouble()), *self._troubles)

    @property
    def first_ms(self) -> int:
        """When there was the first snapshot; 0 where there is none."""
        found = (entry.time_ms for _, entry in self._entries if entry.kind in SNAPSHOTS)
        return next(found, 0)

    @property
    def last_ms(self) -> int:
        """The time of the last record; 0 where there is none."""
        return self._times[-1] if self._times else 0

    def wall_ms(self, time_ms: int) -> int:
        """What the clock on the wall said at a moment."""
        place = bisect_right(self._times, time_ms) - 1
        if place < 0:
            return time_ms
        entry = self._entries[place][1]
        return entry.wall_ms + time_ms - entry.time_ms

    def scene_at(self, time_ms: int) -> Scene:
        """What was known at a moment; the newest of it if several records have that time."""
        return self._scene(bisect_right(self._times, time_ms))

    def _scene(self, count: int) -> Scene:
        """What the first `count` records lead to."""
        key = self._key(count)
        if self._reached > count or self._reached <= key:
            self._state, self._reached = _PlaybackState(), key
        for place in range(self._reached, count):
            self._take(*self._entries[place])
        self._reached = count
        return self._with_snapshot()

    def _with_snapshot(self) -> Scene:
        state = self._state
        if self._shown is None or self._shown[:2] != (state, state.drawn):
            # Unchanged rows are not copied again, and views see that they are the same.
            try:
                found = state.canvas.snapshot()
            except UnreadableRecordedValue as error:
                self._troubles[f"{self._tapes[0].path.name}: {error}. It is left out."] = None
                found = None
            self._shown = (state, state.drawn, found)
        return replace(state.scene, snapshot=self._shown[2])

    def _take(self, one: RecordingFile, entry: RecordHead) -> None:
        try:
            self._state.take(one, entry)
        except (RecordingError, UnreadableRecordedValue) as error:
            text = error.message if isinstance(error, RecordingError) else str(error)
            where = f"{one.path.name}, byte {entry.place}"
            self._troubles[f"{where}: {text} It is left out."] = None

    def _key(self, count: int) -> int:
        """The last place among the first `count` from which a scene can be built."""
        for place in range(count - 1, -1, -1):
            if self._entries[place][1].kind == recording_file.SCENE and place + 1 < count:
                return place
        return 0

    # Places to jump to

    def stops(
        self, flag: int = recording_file.CHANGED | recording_file.INCIDENT
    ) -> tuple[Stop, ...]:
        """Every place to jump to, in the order of time."""
        found = []
        for one, entry in self._entries:
            if entry.kind == recording_file.MARK and entry.flags & flag:
                mark = self._read(one, entry, lambda payload: read_marker(parsed(payload)))
                if mark is not None:
                    found.append(Stop(entry.time_ms, entry.wall_ms, mark))
        return tuple(found)

    def stops_beside(self, time_ms: int, direction: int, flag: int) -> tuple[Stop, ...]:
        """The stops of the next moment (1) or the last (-1) that has any; none where none has."""
        times = [
            e.time_ms for _, e in self._entries if e.kind == recording_file.MARK and e.flags & flag
        ]
        place = bisect_right(times, time_ms) if direction > 0 else bisect_left(times, time_ms) - 1
        if not 0 <= place < len(times):
            return ()
        return tuple(stop for stop in self.stops(flag) if stop.time_ms == times[place])

    def actions(self) -> Iterator[tuple[int, ActionTaken]]:
        """What was asked of the backend, with the wall's time in ms."""
        for one, entry in self._entries:
            if entry.kind == recording_file.ACTION:
                message = self._read(one, entry, lambda payload: decode_fact(Scene(), payload))
                if isinstance(message, ActionTaken):
                    yield entry.wall_ms, message

    def history(self) -> tuple[HistoryPoint, ...]:
        """The history of moves over the whole of the recording, by the backend's clock."""
        found: dict[int, HistoryPoint] = {}
        for one, entry in self._entries:
            if entry.kind in SNAPSHOTS:
                for point in self._read(one, entry, lambda payload: tuple(points(payload))) or ():
                    found[point.at_ms] = point
        return tuple(found[at] for at in sorted(found))

    def _read(self, one: RecordingFile, entry: RecordHead, read: Callable[[bytes], Any]) -> Any:
        try:
            return read(one.payload(entry))
        except (RecordingError, UnreadableRecordedValue):
            return None
