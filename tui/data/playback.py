"""Where in time the screens stand: live, or at a moment that was recorded.

The live feed is listened to and recorded all the while. What it tells is kept as a scene, so that
coming back to the present takes no longer than showing it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kshunt.backend.errors import Conflict, KshuntError
from kshunt.tui.actions import key_of
from kshunt.tui.feed.messages import RecordingStopped, Scene

if TYPE_CHECKING:
    from textual.message import Message
    from textual.timer import Timer

    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.data.host import Host
    from kshunt.tui.recorder.reader import RecordingReader
    from kshunt.tui.recorder.recorder import Recorder

    NoteWriter = Callable[[RecordingReader, int, Path], Sequence[Path]]
    """Takes a recording, a moment of it and a folder; gives the files that it wrote there."""

T = TypeVar("T")

SPEEDS: Final = (1, 2, 10, 60)
TICK_S: Final = 0.25
"""While it plays, the screens move on this often."""
FLUSH_S: Final = 2.0
NOT_RECORDED: Final = "not recorded: not looked at while this was recorded"
"""Of what is asked only while somebody looks at it, and nobody did."""
NO_RECORDING: Final = "Nothing is recorded here, so there is no past to go back to."


class Playback:
    """The time that is shown, and how it is moved. Used on the event loop, but for `tell`."""

    def __init__(
        self,
        app: Host,
        write: NoteWriter,
        recorder: Recorder | None = None,
        reel: RecordingReader | None = None,
    ) -> None:
        """Live, unless there is a recording to be replayed instead.

        Args:
            app: whose screens these are.
            write: writes notes about a recording, in a thread.
            recorder: what writes the live feed; None where nothing does.
            reel: a recording; there is no live feed then.
        """
        self.recorder = recorder
        self.replay = reel is not None
        """True where a recording is shown and nothing is live."""
        self.past = self.replay
        """True where the screens do not show the present."""
        self.playing = False
        self.speed = SPEEDS[0]
        self.position_ms = 0
        """The moment that is shown, while that is the past."""
        self.first_ms = 0
        self.last_ms = 0
        self._app = app
        self._write = write
        self.clock = app.store.now_s
        """The live feed's, in seconds."""
        self._reel = reel
        self._reel_free = asyncio.Lock()
        self._live = Scene()
        self._live_lock = threading.Lock()
        self._aim_ms: int | None = None
        """Where the screens are on their way to; None where they have arrived."""
        self._ticker: Timer | None = None
        self._ticked_s = 0.0

    # The live feed

    @property
    def live(self) -> Scene:
        """What the live feed has told, whatever is shown."""
        with self._live_lock:
            return self._live

    def tell(self, message: Message) -> None:
        """Take a message of the live feed: keep, record and post it. From any thread."""
        with self._live_lock:
            self._live = self._live.after(message, self.clock())
            if self.recorder is not None:
                self.recorder.take(message)
        self._app.post_message(message)

    @property
    def name(self) -> str:
        """`PAST` or `REPLAY` while that is what is shown, else empty."""
        return "" if not self.past else "REPLAY" if self.replay else "PAST"

    def refusal(self) -> str:
        """Why nothing can be changed, or empty."""
        if not self.past:
            return ""
        if self.replay:
            return "This is a recording: nothing can be sent."
        return f"This is the past; {key_of(TOGGLE)} returns to live."

    @property
    def unrecorded(self) -> str:
        """Why something is not known at the moment that is shown; empty while that is live."""
        return NOT_RECORDED if self.past else ""

    async def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Refuse: nobody can be asked in the past.

        Raises:
            Conflict: always.
        """
        raise Conflict(self.refusal() or NO_RECORDING, advice="Nothing was sent.")

    # As a feed

    @property
    def address(self) -> str:
        """What the head of the screen calls it."""
        return self._app.address

    def start(self) -> None:
        """Begin: with the backend and its recorder, or with the recording's first moment."""
        if self.replay:
            self._start(self._open())
            return
        if self.recorder is not None:
            self.recorder.failed = self._recording_stopped
            self.recorder.start()
        self._app.live.start()

    def stop(self) -> None:
        """Hold still."""
        self._hold()

    def _recording_stopped(self, reason: str) -> None:
        # The event loop may have been closed meanwhile.
        with suppress(RuntimeError):
            self._app.post_message(RecordingStopped(reason))

    # What keys do

    def toggle(self) -> None:
        """To the present moment, held still; or back to live."""
        if not self.past:
            self._start(self._go_back(0))
        elif self.replay:
            self._app.say(f"This is a recording, nothing is live; {key_of('quit')} leaves.")
        else:
            self.leave()

    def step(self, seconds: int) -> None:
        """So much on, or back."""
        if self.past:
            self._seek(self._aimed_ms + seconds * 1000)
        elif seconds < 0:
            self._start(self._go_back(seconds))
        else:
            self._app.say("This is the present.")

    def edge(self, direction: int) -> None:
        """To the beginning (-1) or the end (1) of what was recorded."""
        if self.past:
            self._seek(self.first_ms if direction < 0 else self.last_ms)
        elif direction < 0:
            self._start(self._go_back(-(10**9)))
        else:
            self._app.say("This is the present.")

    def jump(self, kind: str, direction: int) -> None:
        """To the next (1) or the last (-1) `incident`, or `change` of any kind."""
        if self.past or direction < 0:
            self._start(self._jump(kind, direction))
        else:
            self._app.say("This is the present.")

    def play(self) -> None:
        """Let time go on from here, or hold it."""
        if not self.past:
            self._app.say(f"Live plays by itself; {key_of('time(-10)')} goes back.")
            return
        self.playing = not self.playing
        self._ticked_s = self.clock()
        if self._ticker is None:
            self._ticker = self._app.set_interval(TICK_S, self.tick)
        self._ticker.resume() if self.playing else self._ticker.pause()
        self._app.changed.publish("")

    def faster(self) -> None:
        """The next speed; after the highest, the lowest."""
        self.speed = SPEEDS[(SPEEDS.index(self.speed) + 1) % len(SPEEDS)]
        self._app.changed.publish("")

    def write_note(self) -> None:
        """Write a hand-over note and a timeline, up to the moment that is shown."""
        self._start(self._write_note())

    def leave(self) -> None:
        """Show what is live."""
        self._hold()
        self.past, self._aim_ms = False, None
        self._app.store.now_s = self.clock
        self._start(self._close_reel())
        self._app.show_scene(self.live)
        self._app.say("Live again.", "good")

    def tick(self) -> None:
        """Move on by the time that went by, while it plays."""
        now_s = self.clock()
        passed_s, self._ticked_s = now_s - self._ticked_s, now_s
        if not (self.playing and self.past):
            return
        if self._aimed_ms >= self.last_ms:
            self._hold()
            self._app.say("This is the end of the recording.")
            self._app.changed.publish("")
        elif passed_s > 0:
            self._seek(self._aimed_ms + round(passed_s * self.speed * 1000))

    def ago_s(self) -> float:
        """How far the moment that is shown lies back, by the clock of the live feed."""
        if self.recorder is None:
            return 0.0
        return max(self.recorder.time_ms(self.clock()) - self.position_ms, 0) / 1000

    @property
    def wall_ms(self) -> int:
        """What the clock on the wall said at the moment that is shown."""
        return self._reel.wall_ms(self.position_ms) if self._reel is not None else self.position_ms

    # Moving

    @property
    def _aimed_ms(self) -> int:
        return self.position_ms if self._aim_ms is None else self._aim_ms

    def _hold(self) -> None:
        self.playing = False
        if self._ticker is not None:
            self._ticker.pause()

    def _start(self, flow: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._said(flow), group="travel")

    async def _said(self, flow: Coroutine[Any, Any, None]) -> None:
        """A recording that cannot be read is said, and ends nothing."""
        try:
            await flow
        except KshuntError as error:
            self._app.say(str(error), "bad")

    async def _open(self) -> None:
        await self._measure()
        assert self._reel is not None
        for text in self._reel.trouble:
            self._app.say(text, "warn")
        await self._arrive(self.first_ms)

    async def _go_back(self, seconds: int) -> None:
        """From live to some moment before it."""
        await self._enter()
        if self.past and self.recorder is not None:
            self._seek(self.recorder.time_ms(self.clock()) + seconds * 1000)

    async def _enter(self) -> None:
        """Leave the present, if there is a past."""
        app, recorder = self._app, self.recorder
        if self.past:
            return
        if app.changing:
            app.say("A change is under way; time stands still once it is answered.", "warn")
            return
        if recorder is None or not recorder.paths:
            app.say(recorder.stopped if recorder and recorder.stopped else NO_RECORDING, "warn")
            return
        async with self._reel_free:
            await self._open_once(recorder)
        self.speed = SPEEDS[0]
        await self._measure()
        await self._arrive(self.last_ms)

    async def _open_once(self, recorder: Recorder) -> None:
        """Open the recording, unless another key led here while this one waited."""
        if not self.past:
            self._reel, self.past = await _open_or_close(recorder), True

    async def _measure(self) -> None:
        """Learn how far the recording reaches by this time."""
        self.first_ms, self.last_ms = await self._read(lambda reel: (reel.first_ms, reel.last_ms))

    def _seek(self, time_ms: int) -> None:
        """Go to a moment; of many wishes, the newest counts."""
        if not self.replay and self.recorder is not None:
            self.last_ms = max(self.last_ms, self.recorder.time_ms(self.clock()))
        wanted = min(max(time_ms, self.first_ms), self.last_ms)
        on_its_way, self._aim_ms = self._aim_ms is not None, wanted
        if not on_its_way:
            self._start(self._travel())

    async def _travel(self) -> None:
        try:
            while self.past and self._aim_ms is not None:
                wanted = self._aim_ms
                await self._arrive(wanted)
                if self._aim_ms == wanted:
                    return
        finally:
            self._aim_ms = None

    async def _arrive(self, time_ms: int) -> None:
        scene = await self._read(lambda reel: reel.scene_at(time_ms))
        if self.past:
            self.position_ms = time_ms
            self._app.store.now_s = self._now_s
            self._app.show_scene(scene)

    def _now_s(self) -> float:
        return self.position_ms / 1000

    async def _jump(self, kind: str, direction: int) -> None:
        from kshunt.tui.recorder.recording_file import CHANGED, INCIDENT

        flag = INCIDENT if kind == "incident" else CHANGED | INCIDENT
        await self._enter()
        if not self.past:
            return
        here = self._aimed_ms
        stops = await self._read(lambda reel: reel.stops_beside(here, direction, flag))
        if not stops:
            self._app.say("There is none " + ("after" if direction > 0 else "before") + " this.")
            return
        self._hold()
        self._aim_ms = None
        await self._arrive(stops[0].time_ms)
        tone = "bad" if any(stop.mark.kind == "incident" for stop in stops) else ""
        self._app.say(" ".join(stop.mark.text for stop in stops), tone)

    async def _write_note(self) -> None:
        app, recorder = self._app, self.recorder
        if app.downloads is not None:
            app.say("A dashboard in a browser writes no files.", "warn")
            return
        if self._reel is None and (recorder is None or not recorder.paths):
            app.say(NO_RECORDING, "warn")
            return
        app.say("Writing; this may take a moment.")
        if self.past:
            here = self._aimed_ms
            paths = await self._read(lambda reel: _noted(reel, here, self._write))
        else:
            assert recorder is not None
            paths = await asyncio.to_thread(_noted_live, recorder, self._write)
        app.say(f"Written: {' and '.join(path.name for path in paths)}", "good")

    async def _read(self, look: Callable[[RecordingReader], T]) -> T:
        """Look into the recording in a thread, one look at a time."""
        async with self._reel_free:
            reel = self._reel
            if reel is None:
                raise Conflict("The past was left meanwhile.")
            return await asyncio.to_thread(_looked, reel, self.recorder, look)

    async def _close_reel(self) -> None:
        async with self._reel_free:
            if self._reel is not None and not self.past:
                reel, self._reel = self._reel, None
                await asyncio.to_thread(reel.close)

    async def close(self) -> None:
        """Let go of files and of the recorder's thread."""
        self._hold()
        if self.recorder is not None:
            await asyncio.to_thread(self.recorder.stop)
        async with self._reel_free:
            if self._reel is not None:
                self._reel.close()


TOGGLE: Final = "time_toggle"


async def _open_or_close(recorder: Recorder) -> RecordingReader:
    """Open the recording; who is cancelled meanwhile leaves no file open."""
    opening = asyncio.ensure_future(asyncio.to_thread(_opened, recorder))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        (await opening).close()
        raise


def _opened(recorder: Recorder) -> RecordingReader:
    from kshunt.tui.recorder.reader import RecordingReader

    recorder.flush(FLUSH_S)
    return RecordingReader(recorder.paths)


def _noted(reel: RecordingReader, time_ms: int, write: NoteWriter) -> Sequence[Path]:
    return write(reel, time_ms, Path.cwd())


def _noted_live(recorder: Recorder, write: NoteWriter) -> Sequence[Path]:
    reel = _opened(recorder)
    try:
        return _noted(reel, reel.last_ms, write)
    finally:
        reel.close()


def _looked(
    reel: RecordingReader, recorder: Recorder | None, look: Callable[[RecordingReader], T]
) -> T:
    if recorder is not None:
        reel.follow(recorder.paths)
    return look(reel)
