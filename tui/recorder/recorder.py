"""Writes what a feed tells to a recording, in a thread of its own.

Goals
    Everything that the screens are made of is on file as soon as it has come; the event loop and
    the feed never wait for a disk.
Constraints
    A disk that is full, or a folder that cannot be written to, ends the recording and nothing
    else. Where the disk is slower than the feed, snapshots are left out and nothing else is.
Algorithm
    Messages are queued with the time at which they came. The thread keeps the scene that they add
    up to, and each record holds what is new against it. Every so often the thread writes the whole
    scene, so that reading can begin there. A file is begun when the first snapshot names the
    cluster.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.tui.facts.cockpit.marks import INCIDENT, MarkerCounts, counted
from kshunt.tui.feed.messages import ActionTaken, SnapshotArrived
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder import recording_file
from kshunt.tui.recorder.event_markers import marker_json, marks
from kshunt.tui.recorder.message_json import encode_fact, encode_scene
from kshunt.tui.recorder.retention import BOUNDS, RetentionBounds, clean, create, recording_name

if TYPE_CHECKING:
    from textual.message import Message

    from kshunt.backend.domain.replicas.snapshot import Snapshot

WHOLE_EVERY_S: Final = 600.0
CHANGES_PER_WHOLE: Final = 8
"""Another whole snapshot is due once the changes take this many times the bytes of the last."""
WHOLE_LEAST_BYTES: Final = 100_000
"""Of changes, before another whole snapshot is worth its place."""
WAITING_SNAPSHOTS: Final = 3
WAITING_MOST: Final = 20_000
EARLY_MOST: Final = 200
"""Messages that are kept while there is no snapshot yet, the newest ones."""
STOP_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class _TimedMessage:
    message: Message
    now_s: float
    wall_s: float

    @property
    def is_snapshot(self) -> bool:
        return isinstance(self.message, SnapshotArrived)


class Recorder:
    """One dashboard's recording: one file, or several that follow each other."""

    def __init__(
        self,
        folder: Path,
        *,
        path: Path | None = None,
        bounds: RetentionBounds = BOUNDS,
        about: Mapping[str, Any] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """Write later, once there is something to write.

        Args:
            folder: where recordings are kept. It is made if it is not there.
            path: the first file, where the operator names one. It must not be there yet.
            bounds: how much is kept.
            about: more of the heading: the operator's name, whether read-only.
            now_s: a clock in seconds. It never goes back.
            wall_s: seconds since the epoch.
        """
        self.stopped = ""
        """Why nothing is recorded any more, or empty."""
        self.paths: tuple[Path, ...] = ()
        """The files so far, the present one last."""
        self.failed: Callable[[str], object] = lambda reason: None
        """Called from the thread once, with the reason, when recording has to stop."""
        self._folder, self._path, self._bounds = folder, path, bounds
        self._about = dict(about or {})
        self._now_s, self._wall_s = now_s, wall_s
        self._began_s, self._began_wall_s = now_s(), wall_s()
        self._waiting: deque[_TimedMessage] = deque()
        self._wake = threading.Condition()
        self._busy = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="kshunt-record", daemon=True)
        # Only the thread looks at what follows.
        self._descriptor = -1
        self._written_bytes = 0
        self._scene = Scene()
        self._counts = MarkerCounts()
        self._early: list[_TimedMessage] = []
        self._time_ms = 0
        self._whole_ms = 0
        self._whole_bytes = 0
        self._change_bytes = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, close the file and end the thread; may block for a moment."""
        with self._wake:
            self._ending = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def take(self, message: Message) -> None:
        """Record a message; any thread may call this, and it returns immediately."""
        timed = _TimedMessage(message, self._now_s(), self._wall_s())
        with self._wake:
            if self._ending or self.stopped:
                return
            full = sum(one.is_snapshot for one in self._waiting) >= WAITING_SNAPSHOTS
            if full and timed.is_snapshot and self._waiting[-1].is_snapshot:
                self._waiting.pop()
            self._waiting.append(timed)
            self._wake.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything that was taken is on file; False if it takes longer."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def time_ms(self, now_s: float) -> int:
        """A moment of `now_s` as records have it: the wall's time, but never going back."""
        return round((self._began_wall_s + now_s - self._began_s) * 1000)

    # In the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._ending or self._waiting)
                if not self._waiting:
                    break
                timed = self._waiting.popleft()
                self._busy = True
            self._record_safely(timed)
        self._close()

    def _record_safely(self, timed: _TimedMessage) -> None:
        """Nothing that cannot be written ends more than the recording."""
        if self.stopped:
            return
        try:
            self._record(timed)
        except OSError as error:
            self._give_up(f"{error.strerror or error} ({error.filename or self._where()})")
        # The edge between what comes and a file: the dashboard continues, whatever it was.
        except Exception as error:  # noqa: BLE001
            self._give_up(f"it failed: {error!r}")
        if len(self._waiting) > WAITING_MOST:
            self._give_up("the disk is too slow")

    def _where(self) -> str:
        return str(self.paths[-1] if self.paths else self._path or self._folder)

    def _give_up(self, reason: str) -> None:
        if self._descriptor >= 0:
            # What was written of the last record is of no use.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._written_bytes)
        self._close()
        with self._wake:
            self.stopped = reason
            self._waiting.clear()
        self.failed(f"Recording has stopped: {reason}. The dashboard continues.")

    def _record(self, timed: _TimedMessage) -> None:
        if self._descriptor < 0:
            self._early = [*self._early[1 - EARLY_MOST :], timed]
            if not timed.is_snapshot:
                return
            message = timed.message
            assert isinstance(message, SnapshotArrived)
            self._open(message.snapshot.cluster_id)
            early, self._early = self._early, []
            for one in early:
                self._append(one)
            return
        if self._written_bytes > self._bounds.file_bytes and timed.is_snapshot:
            self._follow()
        self._append(timed)

    def _append(self, timed: _TimedMessage) -> None:
        message = timed.message
        counts = self._counts
        if isinstance(message, SnapshotArrived):
            counts = counted(message.snapshot, counts)
        found = tuple(marks(self._scene, message, self._counts, counts))
        if isinstance(message, SnapshotArrived):
            self._append_snapshot(timed, message.snapshot)
        else:
            payload = encode_fact(self._scene, message)
            if payload is not None:
                acted = isinstance(message, ActionTaken)
                self._write(timed, recording_file.ACTION if acted else recording_file.FACT, payload)
        self._scene = self._scene.after(message, timed.now_s)
        self._counts = counts
        for mark in found:
            flags = recording_file.INCIDENT if mark.kind == INCIDENT else recording_file.CHANGED
            self._write(timed, recording_file.MARK, _json(marker_json(mark)), flags)

    def _append_snapshot(self, timed: _TimedMessage, snapshot: Snapshot) -> None:
        from kshunt.tui.recorder.snapshot_columns import encode_change, encode_whole

        before = self._scene.snapshot
        change = None
        if before is not None and self._whole_bytes and not self._whole_is_due(timed):
            change = encode_change(before, snapshot)
        if change is not None:
            self._change_bytes += self._write(timed, recording_file.CHANGE, change)
            return
        self._write(timed, recording_file.SCENE, encode_scene(self._scene))
        self._whole_bytes = self._write(timed, recording_file.WHOLE, encode_whole(snapshot))
        self._whole_ms, self._change_bytes = self._time_ms, 0

    def _whole_is_due(self, timed: _TimedMessage) -> bool:
        late = self.time_ms(timed.now_s) - self._whole_ms >= WHOLE_EVERY_S * 1000
        return late or self._change_bytes >= max(
            CHANGES_PER_WHOLE * self._whole_bytes, WHOLE_LEAST_BYTES
        )

    def _write(
        self, timed: _TimedMessage, kind: int, content: bytes | Iterable[bytes], flags: int = 0
    ) -> int:
        """Append a record; how many bytes it takes."""
        self._time_ms = max(self.time_ms(timed.now_s), self._time_ms)
        data = recording_file.record(
            kind,
            content,
            time_ms=self._time_ms,
            wall_ms=round(timed.wall_s * 1000),
            backend_ms=self._backend_ms(timed),
            flags=flags,
        )
        _write_all(self._descriptor, data)
        self._written_bytes += len(data)
        return len(data)

    def _backend_ms(self, timed: _TimedMessage) -> int:
        if isinstance(timed.message, SnapshotArrived):
            return timed.message.snapshot.taken_ms
        snapshot = self._scene.snapshot
        if snapshot is None:
            return 0
        return snapshot.taken_ms + round((timed.now_s - self._scene.received_s) * 1000)

    # Files

    def _open(self, cluster_id: str) -> None:
        wall_s = self._wall_s()
        if self._path is not None and not self.paths:
            path, self._descriptor = create(self._path.expanduser(), another=False)
        else:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            clean(self._folder, wall_s, self._bounds)
            folder = self._path.parent if self._path is not None else self._folder
            name = folder / recording_name(cluster_id, wall_s)
            path, self._descriptor = create(name, another=True)
        heading = recording_file.heading(
            {
                **self._about,
                "cluster_id": cluster_id,
                "began_ms": self.time_ms(self._began_s),
                "follows": self.paths[-1].name if self.paths else "",
            }
        )
        _write_all(self._descriptor, heading)
        self._written_bytes, self._whole_bytes = len(heading), 0
        self.paths = (*self.paths, path)

    def _follow(self) -> None:
        """Continue in a new file, which begins with everything."""
        self._close()
        snapshot = self._scene.snapshot
        self._open(snapshot.cluster_id if snapshot is not None else "")

    def _close(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()
