"""A dashboard that is recorded, and a recording that is replayed; both driven by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.message import Message
from textual.pilot import Pilot

from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.feed.polled_facts import DRIFT
from kshunt.tui.feed.scene import Scene
from kshunt.tui.film.filming import is_shown
from kshunt.tui.recorder.reader import RecordingReader
from kshunt.tui.recorder.recorder import Recorder
from kshunt.tui.recorder.retention import RetentionBounds
from tests.support.tui.app import DEADLINE_S, ManualTime, Shown, frame
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.pilot import SparingApp, driven
from tests.support.waiting import wait_until_async

WALL_S = 1_760_000_000.0
"""What the clock on the wall says when the manual clock says 0."""


@dataclass
class Recorded(Shown):
    """A running dashboard with a recorder."""

    @property
    def recorder(self) -> Recorder:
        """What records it."""
        assert self.app.live_scene.recorder is not None
        return self.app.live_scene.recorder

    async def quiet(self) -> None:
        """Wait until every question was answered, and the answers are shown and on file."""
        await self.until(lambda: not self.app.polling._open, "every question is answered")
        await self.until_shown()
        assert self.recorder.flush(DEADLINE_S)

    async def later(self, seconds: float, *, publish: bool = True) -> None:
        """Let the clock advance, and the cluster with it."""
        self.time.now += seconds
        if publish:
            await self.publish()
        await self.quiet()

    async def arrived(self) -> None:
        """Wait until the screens are where they were sent in time."""
        await arrived(self.app, self.pilot)

    async def go(self, *keys: str) -> None:
        """Press keys that move in time, and wait until they have."""
        await go(self.app, self.pilot, *keys)


@asynccontextmanager
async def recorded(
    folder: Path,
    cluster: ScriptedCluster,
    *,
    size: tuple[int, int] = (80, 24),
    recorder: Callable[[ManualTime], Recorder] | None = None,
    **options: Any,
) -> AsyncIterator[Recorded]:
    """The dashboard on a scripted backend, recorded, once its first table is shown."""
    time = ManualTime()
    if recorder is not None:
        records = recorder(time)
    else:
        records = Recorder(folder / "recordings", now_s=time, wall_s=lambda: WALL_S + time.now)
    options = {"start_view": PARTITIONS, "retry_s": (0.02,), **options}
    async with ScriptedBackend(folder / "s", cluster) as backend:
        app = SparingApp(backend.address, now_s=time, recorder=records, **options)
        async with driven(app, size) as pilot:
            shown = Recorded(app, pilot, backend, time, size)
            await shown.until(lambda: bool(app.store.jobs), "the first table is shown")
            await shown.until(lambda: app.store.scene.live, "live")
            await shown.quiet()
            yield shown


@dataclass
class Replayed:
    """A recording on the screen."""

    app: KshuntApp
    pilot: Pilot[None]

    async def go(self, *keys: str) -> None:
        """Press keys, and wait until their effect is on the screen."""
        await go(self.app, self.pilot, *keys)

    def lines(self) -> list[str]:
        """What is on the screen, line by line."""
        return frame(self.app).splitlines()

    def frame(self) -> str:
        """What is on the screen."""
        return frame(self.app)

    @property
    def said(self) -> str:
        """The message on the last line."""
        return self.app.view.key_bar.message


@asynccontextmanager
async def replayed(
    paths: Sequence[Path], *, size: tuple[int, int] = (80, 25), **options: Any
) -> AsyncIterator[Replayed]:
    """The dashboard of a recording, at its first moment."""
    options = {"start_view": PARTITIONS, "now_s": ManualTime(), **options}
    app = SparingApp(str(paths[0]), reel=RecordingReader(paths), **options)
    async with driven(app, size) as pilot:
        await wait_until_async(lambda: bool(app.store.jobs), DEADLINE_S, "the first table is shown")
        await arrived(app, pilot)
        yield Replayed(app, pilot)


async def go(app: KshuntApp, pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait until their effect is on the screen."""
    for key in keys:
        await pilot.press(key)
        await arrived(app, pilot)
    await arrived(app, pilot)


async def arrived(app: KshuntApp, pilot: Pilot[None]) -> None:
    """Wait until the screens are where they were sent in time."""
    await pilot.pause()
    await wait_until_async(lambda: _is_arrived(app), DEADLINE_S, "the moment is shown")
    await pilot.pause()


def _is_arrived(app: KshuntApp) -> bool:
    job = app.store.jobs.get(app.current_mode)
    return is_shown(app) and job is not None and job.drift == app.store.scene.answer(DRIFT)


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def record(
    folder: Path, messages: Sequence[Message], bounds: RetentionBounds | None = None
) -> tuple[tuple[Path, ...], list[Scene]]:
    """Record messages, a second apart; the files, and the scene after each message."""
    clock = Clock()
    recorder = Recorder(
        folder,
        bounds=bounds or RetentionBounds(),
        now_s=clock,
        wall_s=lambda: 1_760_000_000 + clock.now,
    )
    recorder.start()
    scenes, scene = [], Scene()
    try:
        for message in messages:
            clock.now += 1
            recorder.take(message)
            assert recorder.flush(10)
            scene = scene.after(message, clock.now)
            scenes.append(scene)
    finally:
        recorder.stop()
    assert recorder.stopped == ""
    return recorder.paths, scenes


def scripted() -> ScriptedCluster:
    """An incident with an operation that somebody asked for."""
    cluster = incident()
    running_move(cluster)
    return cluster
