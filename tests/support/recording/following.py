"""A recorder that follows snapshots which a test publishes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.settings import RecordingSettings
from kshunt.backend.telemetry.recording.folder_sink import FolderSink, Sink
from kshunt.backend.telemetry.recording.recorder import SampleRecorder
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.recording.samples import later, many
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0


class Followed:
    """A recorder that follows a hub of its own."""

    def __init__(self, sink: Sink, settings: RecordingSettings) -> None:
        self.hub = SnapshotHub()
        self.block: Callable[[], object] = dict
        """Called for each snapshot, in the thread that makes rows."""
        self.ended: dict[str, Kept] = {}
        """Forecasts of operations that ended, by id."""
        self.recorder = SampleRecorder(
            *(self.hub, self._operations, lambda: self.ended),
            clock=SystemClock(),
            settings=settings,
            sink=sink,
        )
        self.last = many(3)

    def _operations(self) -> Mapping[TopicPartition, str]:
        self.block()
        return {}

    async def publish(self, moments: int = 1) -> None:
        """Snapshots of a second each, one after the other."""
        for _ in range(moments):
            self.last = later(self.last, 1)
            await self.hub.publish(self.last)

    async def all_written(self) -> None:
        """Wait until all that was published is written."""

        def done() -> bool:
            status = self.recorder.status
            return status.rows_written >= 6 * (self.last.version - 1) + 2

        await wait_until_async(done, DEADLINE_S, "everything is written")


@asynccontextmanager
async def following(
    folder: Path | None, sink: Sink | None = None, **settings: Any
) -> AsyncIterator[Followed]:
    """A recorder until the end of the block, which is a clean one.

    Its moments are of a fixed day, and it tidies up by the clock: it keeps them for a century.
    """
    forever = {"folder": folder, "flush_s": 0.02, "keep_days": 36_500}
    retention = RecordingSettings(**{**forever, **settings})
    followed = Followed(sink or FolderSink(folder or Path()), retention)
    task = asyncio.create_task(followed.recorder.run())
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def recorded_moments(followed: Followed, count: int) -> None:
    """Publish one after the other, each once the one before was taken."""
    for _ in range(count):
        rows = followed.recorder.status
        before = rows.rows_written + rows.rows_waiting + rows.rows_dropped
        await followed.publish()

        def is_recorded(before: int = before) -> bool:
            now = followed.recorder.status
            return now.rows_written + now.rows_waiting + now.rows_dropped >= before + 6

        await wait_until_async(is_recorded, DEADLINE_S, "the moment is taken")
