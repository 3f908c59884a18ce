"""The recorder: follows the sampler's snapshots, and has samples of them written.

Goals
    Every sample that is due reaches the sink, and whatever does not is counted and said.
Constraints
    The sampler never waits for it, and nothing that happens here ends the backend. Memory is
    bounded (`RecordingSettings.rows_waiting`).
Algorithm
    One thread turns snapshots into rows, one writes, one looks after what is kept; none waits for
    another. Rows wait in between. If rows are made more slowly than snapshots come, the newest is
    taken and the ones before it are counted as skipped. What cannot be written is tried again at
    each flush; the same trouble is said once, and so is its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Snapshot
from kshunt.backend.errors import KshuntError, WrongCluster
from kshunt.backend.settings import RecordingSettings
from kshunt.backend.telemetry.recording.due_samples import DueSamples
from kshunt.backend.telemetry.recording.folder_sink import FolderSink, Sink
from kshunt.backend.telemetry.recording.gaps import Gap, GapReason
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.retention import Retention
from kshunt.backend.telemetry.recording.sample_rows import broker_rows, forecast_rows, replica_rows
from kshunt.backend.telemetry.recording.write_buffer import WriteBuffer
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub

log = logging.getLogger(__name__)

END_S: Final = 10.0
"""The end of the backend waits this long for the last rows to be written."""

Operations = Callable[[], Mapping[TopicPartition, str]]
Forecasts = Callable[[], Mapping[str, Kept]]


@dataclass(frozen=True, slots=True)
class RecorderStatus:
    """What was recorded since this backend started, and what was not."""

    rows_written: int = 0
    written_ms: int = UNKNOWN
    """Every sample until then is written, or is in `gaps`."""
    rows_waiting: int = 0
    rows_dropped: int = 0
    """For want of room, while they could not be written."""
    rows_lost: int = 0
    """Not taken by the cluster after all."""
    moments_skipped: int = 0
    problem: str = ""
    """Why nothing is written, in words for an operator; empty while all is well."""
    gaps: tuple[Gap, ...] = ()
    """Of this run and, first, of how the last one ended; the newest `GAPS_KEPT`."""


GAPS_KEPT: Final = 20


class SampleRecorder:
    """See the module's text."""

    def __init__(
        self,
        hub: SnapshotHub,
        operations: Operations,
        forecasts: Forecasts = dict,
        *,
        clock: Clock,
        settings: RecordingSettings,
        sink: Sink,
    ) -> None:
        """Both are asked in a thread.

        Args:
            operations: which operation of ours moves a partition.
            forecasts: those of operations that ended, by id.
        """
        self._hub, self._clock, self._settings, self._sink = hub, clock, settings, sink
        self._operations, self._forecasts = operations, forecasts
        self._forecast: frozenset[str] | None = None
        """Operations that ended and whose forecasts are recorded, or ended before; None: nobody
        has looked."""
        self._due = DueSamples(settings.whole_s)
        self._brokers_due_s = 0.0
        self._pending = WriteBuffer(settings.rows_waiting)
        self._full = asyncio.Event()
        self._cluster_id = ""
        self._open = False
        self._gaps: list[Gap] = []
        """Not in the sink yet; of the writing thread, but for `_skipped`."""
        self._skipped: Gap | None = None
        self._lock = threading.Lock()
        self._status = RecorderStatus()
        self._added_ms = UNKNOWN
        """Of the newest snapshot whose rows wait or are written."""
        self._said: tuple[type[Exception], int | None] | None = None
        """The kind of the trouble that was said last; None while all is well."""
        self._broken = False
        """No rows could be made of the last snapshot."""
        self._ending = threading.Event()
        self._maker, self._writer, self._tidier = (
            ThreadPoolExecutor(1, f"samples-{name}") for name in ("rows", "writer", "keeper")
        )
        self._keeper = self._made_keeper()
        self._keeping_due_s = 0.0
        self._keeping: asyncio.Future[None] | None = None

    @property
    def status(self) -> RecorderStatus:
        """How it goes; any thread may ask."""
        pending = self._pending
        return replace(self._status, rows_waiting=pending.rows, rows_dropped=pending.rows_dropped)

    def _made_keeper(self) -> Retention | None:
        settings = self._settings
        if settings.folder is None:
            return None
        after_s = settings.compact_after_s if settings.compact else None
        return Retention(settings.folder, settings.keep_days, after_s, stopping=self._ending.is_set)

    async def run(self) -> None:
        """Record until cancelled; what waits then is written, which takes `END_S` at most."""
        flushing = asyncio.create_task(self._flush_often(), name="samples")
        try:
            await self._follow()
        finally:
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)
            await self._end()

    async def _follow(self) -> None:
        version, taken_ms = 0, UNKNOWN
        loop = asyncio.get_running_loop()
        while True:
            snapshot = await self._hub.newer_than(version)
            first = not version
            if not first and (missed := snapshot.version - version - 1) > 0:
                self._note_skipped(missed, taken_ms, snapshot.taken_ms)
            version, taken_ms = snapshot.version, snapshot.taken_ms
            await loop.run_in_executor(self._maker, self._take, snapshot)
            if first or self._pending.rows >= self._settings.flush_rows:
                # The first one opens the recording, and immediately reports what the last run left.
                self._full.set()

    async def _flush_often(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.flush_s):
                    await self._full.wait()
            self._full.clear()
            await loop.run_in_executor(self._writer, self._flush)
            self._tidy_now_and_then(loop)

    def _tidy_now_and_then(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = self._clock.monotonic_s()
        busy = self._keeping is not None and not self._keeping.done()
        if self._keeper is not None and self._open and not busy and now_s >= self._keeping_due_s:
            self._keeping_due_s = now_s + self._settings.keeping_s
            apply = partial(self._apply_retention, self._keeper)
            self._keeping = loop.run_in_executor(self._tidier, apply)

    async def _end(self) -> None:
        self._ending.set()
        loop = asyncio.get_running_loop()
        # A snapshot that is being turned into rows is recorded, too.
        await loop.run_in_executor(self._maker, int)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(loop.run_in_executor(self._writer, self._finish), END_S)
        for executor in (self._maker, self._writer, self._tidier):
            executor.shutdown(wait=False)

    # Threads

    def _take(self, snapshot: Snapshot) -> None:
        """Put the rows that are due of a snapshot where they wait."""
        # An edge: what is wrong with one snapshot must not end the recording.
        try:
            self._check_cluster(snapshot.cluster_id)
            self._add(snapshot)
        except Exception as error:
            if not self._broken:
                log.exception("No samples could be made of a snapshot")
            self._broken = True
            self._note_skipped(1, snapshot.taken_ms, snapshot.taken_ms)
            self._note(problem=f"The cluster's answers cannot be made into samples: {error}")
        else:
            if self._broken:
                self._note(problem="")
            self._broken = False

    def _check_cluster(self, cluster_id: str) -> None:
        self._cluster_id = self._cluster_id or cluster_id
        if cluster_id != self._cluster_id:
            raise WrongCluster(
                f"Cluster {self._cluster_id} is recorded, but {cluster_id} answers.",
                advice="The other cluster is not recorded. Restart this backend.",
            )

    def _add(self, snapshot: Snapshot) -> None:
        layout, rows = self._due.of(snapshot)
        if len(rows):
            self._pending.add(
                SampleTable.REPLICAS, replica_rows(snapshot, layout, rows, self._operations())
            )
        now_s = self._clock.monotonic_s()
        if now_s >= self._brokers_due_s:
            self._brokers_due_s = now_s + self._settings.brokers_s
            self._pending.add(SampleTable.BROKERS, broker_rows(snapshot))
        ended = self._forecasts()
        known = ended.keys() if self._forecast is None else self._forecast
        if new := {id: kept for id, kept in ended.items() if id not in known}:
            self._pending.add(SampleTable.FORECASTS, forecast_rows(new, snapshot.taken_ms))
        self._forecast = frozenset(ended)
        self._added_ms = snapshot.taken_ms

    def _flush(self) -> None:
        """Write all that waits. What cannot be written waits again."""
        if self._added_ms == UNKNOWN:
            return
        # What is being turned into rows meanwhile is of later.
        written_ms = self._added_ms
        # An edge as well: whatever hinders the writing is said, and tried again.
        try:
            # Also while nothing can be written: what was handed over before may be lost by now.
            self._found(self._sink.lost())
            self._reopen(self._clock.now_ms())
            self._write_pending()
            self._gather_gaps()
            self._sink.note_written(self._gaps, written_ms)
        except (OSError, KshuntError) as error:
            self._trouble(_words(error), error)
        # An edge, as `_take`: whatever a sink fails with, rows are kept and tried again.
        except Exception as error:
            if self._new_trouble(error):
                log.exception("Samples could not be written")
            self._trouble(f"Samples cannot be written: {error}", error)
        else:
            self._well(written_ms)

    def _reopen(self, now_ms: int) -> None:
        if not self._open:
            found = self._sink.open(self._cluster_id, now_ms)
            self._open = True
            for gap in found:
                log.warning("Recording of samples: %s", gap.text)
            self._note(gaps=(*self._status.gaps, *found)[-GAPS_KEPT:])

    def _write_pending(self) -> None:
        left = self._pending.take()
        try:
            left = [(table, one) for table, rows in left for one in self._sink.pieces(table, rows)]
            while left:
                table, piece = left[0]
                self._sink.write(table, piece)
                left.pop(0)
                self._count(rows_written=len(piece))
        finally:
            self._pending.put_back(left)

    def _gather_gaps(self) -> None:
        """What has come to lack since the last flush."""
        with self._lock:
            skipped, self._skipped = self._skipped, None
        found = [] if skipped is None else [skipped]
        dropped = self._pending.take_dropped()
        if dropped is not None:
            seconds = (dropped.to_ms - dropped.from_ms) / 1000
            text = (
                f"Rows dropped, because they could not be written for too long: {dropped.rows}, "
                f"of {seconds:.0f} s."
            )
            found.append(
                Gap(dropped.from_ms, dropped.to_ms, GapReason.DROPPED, text, rows=dropped.rows)
            )
        self._found(found)

    def _found(self, found: Sequence[Gap]) -> None:
        """Say, count and keep what has come to lack."""
        if not found:
            return
        for gap in found:
            log.warning("Recording of samples: %s", gap.text)
        self._gaps += found
        self._count(rows_lost=sum(gap.rows or 0 for gap in found if gap.why is GapReason.LOST))
        self._note(gaps=(*self._status.gaps, *found)[-GAPS_KEPT:])

    def _well(self, written_ms: int) -> None:
        self._gaps.clear()
        self._said = None
        if self._status.problem and not self._broken:
            log.info("Samples are recorded again.")
        self._note(written_ms=written_ms, **({} if self._broken else {"problem": ""}))

    def _new_trouble(self, error: Exception) -> bool:
        """Whether it is of another kind than what was said last; its file may differ each time."""
        return (type(error), getattr(error, "errno", None)) != self._said

    def _trouble(self, problem: str, error: Exception) -> None:
        self._open = False
        if self._new_trouble(error):
            self._said = type(error), getattr(error, "errno", None)
            log.warning(
                "Samples are not recorded: %s Up to %d rows are kept for another attempt.",
                problem,
                self._settings.rows_waiting,
            )
        self._note(problem=problem)

    def _apply_retention(self, retention: Retention) -> None:
        # An edge: files that cannot be tidied up are no reason to record no more.
        try:
            retention.apply(self._clock.now_ms(), self._clock.monotonic_s())
            if isinstance(self._sink, FolderSink):
                self._sink.forget_gaps(self._clock.now_ms() - self._settings.keep_days * DAY_MS)
        except Exception:
            log.exception("Old samples could not be deleted or merged")

    def _finish(self) -> None:
        """Write the rest; without trouble, this is a clean end."""
        self._flush()
        if self._open and not self._pending.rows:
            with contextlib.suppress(OSError, KshuntError):
                self._sink.end()
        elif self._pending.rows:
            log.warning("%d rows of samples were not written.", self._pending.rows)
        self._sink.close()
        self._found(self._sink.lost())

    # Words and numbers

    def _note_skipped(self, moments: int, from_ms: int, to_ms: int) -> None:
        with self._lock:
            self._skipped = _skipped(self._skipped, moments, from_ms, to_ms)
        self._count(moments_skipped=moments)

    def _note(self, **changes: Any) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)

    def _count(self, **more: int) -> None:
        with self._lock:
            sums = {name: getattr(self._status, name) + count for name, count in more.items()}
            self._status = replace(self._status, **sums)


def _skipped(before: Gap | None, moments: int, from_ms: int, to_ms: int) -> Gap:
    """The moments that were left out since the last flush, in one."""
    if before is not None:
        moments += before.moments or 0
        from_ms, to_ms = min(before.from_ms, from_ms), max(before.to_ms, to_ms)
    text = f"Moments without a sample, because the recorder fell behind: {moments}."
    return Gap(from_ms, to_ms, GapReason.SKIPPED, text, moments=moments)


def _words(error: OSError | KshuntError) -> str:
    """For an operator: what hinders the writing, and where."""
    if isinstance(error, KshuntError):
        return str(error)
    where = "" if error.filename is None else f" ({error.filename})"
    return f"{error.strerror or error}{where}."
