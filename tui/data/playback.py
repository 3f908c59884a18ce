"""The past on the screens: which moment of a recording is shown, and how that is moved.

While nothing of the past is shown, none of this is at work. While the past is shown, the live feed
continues (`kshunt.tui.data.live_scene`). So coming back takes no longer than showing its scene.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kshunt.backend.errors import Conflict, KshuntError
from kshunt.tui.actions import key_of
from kshunt.tui.data.open_recording import OpenRecording

if TYPE_CHECKING:
    from textual.timer import Timer

    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.tui.data.host import Host
    from kshunt.tui.data.live_scene import LiveScene
    from kshunt.tui.feed.messages import ActionTaken
    from kshunt.tui.feed.scene import Scene
    from kshunt.tui.recorder.reader import RecordingReader, Stop

    NoteWriter = Callable[[RecordingReader, int, Path], Sequence[Path]]
    """Takes a recording, a moment of it and a folder; gives the files that it wrote there."""

T = TypeVar("T")

SPEEDS: Final = (1.0, 2.0, 10.0, 60.0)
TICK_S: Final = 0.25
"""While it plays, the screens move on this often."""
TOGGLE: Final = "time_toggle"
NOT_RECORDED: Final = "not recorded: this was not shown during the recording"
"""Said of facts that are asked for only while they are shown, and were not shown."""
NO_RECORDING: Final = "Nothing is recorded here, so you cannot go back."
NOTHING_YET: Final = (
    "Nothing is recorded yet, so you cannot go back. The recording begins with the first snapshot."
)


class Playback:
    """The moment of the past that is shown, if any. Used on the event loop.

    As a feed it refuses: in the past nobody can be asked.
    """

    def __init__(
        self,
        app: Host,
        live: LiveScene,
        write: NoteWriter,
        reel: RecordingReader | None = None,
    ) -> None:
        """The present is shown, unless there is a recording to be replayed instead.

        Args:
            app: whose screens these are.
            live: what is live. Its recorder writes what can be played back.
            write: writes notes about a recording, in a thread.
            reel: a recording; there is no live feed then.
        """
        self.replay = reel is not None
        """True where a recording is shown and nothing is live."""
        self.past = self.replay
        """True where the screens do not show the present."""
        self.playing = False
        self.speed: float = SPEEDS[0]
        self.position_ms = 0
        """The moment that is shown, while that is the past."""
        self.first_ms = 0
        self.last_ms = 0
        self.stops: tuple[Stop, ...] = ()
        """What happened in the recording, for the time bar."""
        self._app = app
        self._live = live
        self._write = write
        self._recording = OpenRecording(live.recorder, reel)
        self._entering = asyncio.Lock()
        self._wanted = self.past
        """True from the key that leaves the present to the one that returns to it."""
        self._visit = 0
        """How often the present was returned to: what began before that has no say any more."""
        self._aim_ms: int | None = None
        """Where the screens are on their way to; None where they have arrived."""
        self._ticker: Timer | None = None
        self._ticked_s = 0.0

    # What is said of it

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

    def ago_s(self) -> float:
        """How far the moment that is shown lies back, by the clock of the live feed."""
        return max(self._present_ms() - self.position_ms, 0) / 1000

    @property
    def wall_ms(self) -> int:
        """What the clock on the wall said at the moment that is shown."""
        return self._recording.wall_ms(self.position_ms)

    # As a feed

    async def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Refuse: nobody can be asked in the past.

        Raises:
            Conflict: always.
        """
        raise Conflict(self.refusal() or NO_RECORDING, advice="Nothing was sent.")

    async def change(self, asked: ActionTaken, send: Callable[[BackendClient], T]) -> T:
        """Refuse, as `ask` does.

        Raises:
            Conflict: always.
        """
        return await self.ask(send)

    # What keys do

    def toggle(self) -> None:
        """To the present moment, held still; or back to live."""
        if not self._wanted:
            self._leave_present(self._go_back(self._visit, 0))
        elif self.replay:
            self._app.say(f"This is a recording without live data; {key_of('quit')} leaves.")
        else:
            self.leave()

    def step(self, seconds: int) -> None:
        """Move by these seconds, forward or back."""
        if self.past:
            self._seek(self._aimed_ms + seconds * 1000)
        elif self._is_back(seconds):
            self._leave_present(self._go_back(self._visit, seconds))

    def scrub(self, seconds: int) -> None:
        """Move by these seconds in the past: an arrow alone does not leave the present."""
        if self._wanted:
            self.step(seconds)
        else:
            self._app.say(f"{key_of('time(-10)')} goes back in time; then the arrows move there.")

    def edge(self, direction: int) -> None:
        """To the beginning (-1) or the end (1) of what was recorded."""
        if self.past:
            self._seek(self.first_ms if direction < 0 else self.last_ms)
        elif self._is_back(direction):
            self._leave_present(self._go_back(self._visit, direction * 10**9))

    def jump(self, kind: str, direction: int) -> None:
        """To the next (1) or the last (-1) `incident`, or `change` of any kind."""
        if self.past or self._is_back(direction):
            self._leave_present(self._jump(self._visit, kind, direction))

    def _is_back(self, direction: int) -> bool:
        """Whether there is anything in that direction; says so if not.

        While the past is being opened, there is in both.
        """
        if direction >= 0 and not self._wanted:
            self._app.say("This is the present.")
            return False
        return True

    def play(self) -> None:
        """Let time run from here, or hold it."""
        if not self._wanted:
            self._app.say(f"Live data plays anyway; {key_of('time(-10)')} goes back.")
        elif self.past:
            self._play()
        else:
            self._leave_present(self._play_once_there(self._visit))

    def _play(self) -> None:
        self.playing = not self.playing
        self._ticked_s = self._live.now_s()
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

    @property
    def measured(self) -> bool:
        """Whether a moment of the recording is shown: a replay begins with none."""
        return self.past and self.position_ms > 0

    # What a film does

    @property
    def arrived(self) -> bool:
        """Whether the screens are on their way to no other moment."""
        return self._aim_ms is None

    async def show(self, time_ms: int, speed: float = 0.0) -> None:
        """Show a moment of the recording; returns once it was read.

        `speed` is that of the film to which the moment belongs; 0: it is held.

        Raises:
            RecordingError: it cannot be read.
        """
        self._hold()
        self.playing, self.speed = speed > 0, speed or SPEEDS[0]
        self._aim_ms = None
        await self._arrive(min(max(time_ms, self.first_ms), self.last_ms))

    # Beginning and end

    def begin_replay(self) -> None:
        """Show the first moment of the recording that is replayed."""
        self._start(self._begin_replay())

    def leave(self) -> None:
        """Show what is live."""
        self._hold()
        self._visit += 1
        self._wanted = self.past = False
        self._aim_ms = None
        self._start(self._recording.close(wanted=lambda: self._wanted))
        self._app.show_scene(self._live.scene, self._live.now_s)
        self._app.say("Live again.", "good")

    async def close(self) -> None:
        """Let go of files."""
        self._hold()
        await self._recording.close(wanted=lambda: False)

    # Moving

    def tick(self) -> None:
        """Move on by the time that went by, while it plays."""
        now_s = self._live.now_s()
        passed_s, self._ticked_s = now_s - self._ticked_s, now_s
        if not (self.playing and self.past):
            return
        if self._aimed_ms >= self.last_ms:
            self._hold()
            self._app.say("This is the end of the recording.")
            self._app.changed.publish("")
        elif passed_s > 0:
            self._seek(self._aimed_ms + round(passed_s * self.speed * 1000))

    @property
    def _aimed_ms(self) -> int:
        return self.position_ms if self._aim_ms is None else self._aim_ms

    def _present_ms(self) -> int:
        """The present as records have it; 0 where nothing is recorded."""
        recorder = self._live.recorder
        return 0 if recorder is None else recorder.time_ms(self._live.now_s())

    def _hold(self) -> None:
        self.playing = False
        if self._ticker is not None:
            self._ticker.pause()

    def _start(self, flow: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._said(flow, self._visit), group="playback")

    async def _said(self, flow: Coroutine[Any, Any, None], visit: int) -> None:
        """A recording that cannot be read is said, and ends nothing."""
        try:
            await flow
        except KshuntError as error:
            # The recording closes when somebody returns to the present.
            if visit == self._visit or not isinstance(error, Conflict):
                self._app.say(str(error), "bad")

    async def _begin_replay(self) -> None:
        await self._measure()
        for text in await self._recording.read(lambda reel: reel.trouble):
            self._app.say(text, "warn")
        await self._arrive(self.first_ms)

    def _leave_present(self, flow: Coroutine[Any, Any, None]) -> None:
        """Begin something that shows the past."""
        self._wanted = True
        self._start(flow)

    async def _go_back(self, visit: int, seconds: int) -> None:
        """From live to some moment before it."""
        if await self._enter(visit) and seconds:
            # Of several keys while the recording was being opened, each counts.
            self._seek(self._aimed_ms + seconds * 1000)

    async def _play_once_there(self, visit: int) -> None:
        if await self._enter(visit):
            self._play()

    async def _enter(self, visit: int) -> bool:
        """Leave the present, if there is a past; the screens stay live until that is read.

        False where the present is still shown, or somebody has returned to it meanwhile.
        """
        async with self._entering:
            if self.past or visit != self._visit:
                return visit == self._visit
            self._wanted = True
            why = self._refusal_to_enter()
            try:
                why = why or await self._open_past(visit)
            finally:
                if visit == self._visit:
                    self._wanted = self.past
                await self._recording.close(wanted=lambda: self._wanted)
            if why:
                self._app.say(why, "warn")
            return visit == self._visit and self.past

    def _refusal_to_enter(self) -> str:
        """Why the present cannot be left, or empty."""
        if self._app.changing:
            return "A change is running; time can be held when its answer is there."
        return "" if self._recording.exists else self._why_nothing()

    def _why_nothing(self) -> str:
        """Why there is nothing to go back to."""
        recorder = self._live.recorder
        if recorder is None:
            return NO_RECORDING
        stopped = f"Recording has stopped: {recorder.stopped}. You cannot go back."
        return stopped if recorder.stopped else NOTHING_YET

    async def _open_past(self, visit: int) -> str:
        """Show the present moment from the recording; or why that cannot be, and nothing is shown.

        Raises:
            RecordingError: it cannot be read.
        """
        await self._recording.open()
        await self._measure()
        if not self.first_ms:
            return self._why_nothing()
        here_ms = self.last_ms = max(self.last_ms, self._present_ms())
        scene = await self._recording.read(lambda reel: reel.scene_at(here_ms))
        if why := self._refusal_to_enter():
            return why
        if visit != self._visit:
            return ""
        self.past, self.position_ms, self.speed = True, here_ms, SPEEDS[0]
        self._show(scene)
        return ""

    async def _measure(self) -> None:
        """Learn how far the recording reaches by this time."""
        self.first_ms, self.last_ms, self.stops = await self._recording.read(
            lambda reel: (reel.first_ms, reel.last_ms, reel.stops())
        )

    def _seek(self, time_ms: int) -> None:
        """Go to a moment; of many wishes, the newest counts."""
        self.last_ms = max(self.last_ms, self._present_ms())
        wanted = min(max(time_ms, self.first_ms), self.last_ms)
        on_its_way, self._aim_ms = self._aim_ms is not None, wanted
        if not on_its_way:
            self._start(self._reach_aim())

    async def _reach_aim(self) -> None:
        try:
            while self.past and self._aim_ms is not None:
                wanted = self._aim_ms
                await self._arrive(wanted)
                if self._aim_ms == wanted:
                    return
        finally:
            self._aim_ms = None

    async def _arrive(self, time_ms: int) -> None:
        scene = await self._recording.read(lambda reel: reel.scene_at(time_ms))
        if self.past:
            self.position_ms = time_ms
            self._show(scene)

    def _show(self, scene: Scene) -> None:
        self._app.show_scene(scene, lambda: self.position_ms / 1000)

    async def _jump(self, visit: int, kind: str, direction: int) -> None:
        from kshunt.tui.recorder.recording_file import CHANGED, INCIDENT

        flag = INCIDENT if kind == "incident" else CHANGED | INCIDENT
        came = not self.past
        if not await self._enter(visit):
            return
        here = self._aimed_ms
        stops = await self._recording.read(lambda reel: reel.stops_beside(here, direction, flag))
        if visit != self._visit:
            return
        if not stops:
            if came:
                self.leave()
            self._app.say("There is none " + ("after" if direction > 0 else "before") + " this.")
            return
        self._hold()
        self._aim_ms = None
        await self._arrive(stops[0].time_ms)
        tone = "bad" if any(stop.mark.kind == "incident" for stop in stops) else ""
        self._app.say(" ".join(stop.mark.text for stop in stops), tone)

    async def _write_note(self) -> None:
        app, here = self._app, self._aimed_ms if self.past else None
        if app.downloads is not None:
            app.say("A dashboard in a browser writes no files.", "warn")
            return
        if not self._recording.exists:
            app.say(self._why_nothing(), "warn")
            return
        app.say("Writing; this may take a moment.")
        paths = await self._recording.read_once(lambda reel: self._written(reel, here))
        if not paths:
            app.say(self._why_nothing(), "warn")
            return
        app.say(f"Written: {' and '.join(path.name for path in paths)}", "good")

    def _written(self, reel: RecordingReader, time_ms: int | None) -> Sequence[Path]:
        """The notes up to a moment, or to the end; none where nothing is recorded. In a thread."""
        if not reel.first_ms:
            return ()
        return self._write(reel, reel.last_ms if time_ms is None else time_ms, Path.cwd())
