"""The thread of `kshunt serve` that makes results of the samples that the same process records.

Goals
    Forecasts, stalls and reports out of the box, on clusters of which one thread can make them.
Constraints
    The backend's event loop shares this interpreter: a batch costs tens of milliseconds, and a
    cluster that needs more is left to Spark. What happens here ends no backend.
Algorithm
    Batches are those of `kshunt pipeline run`, one each few seconds, with the same kernels, files
    and state (`kshunt.backend.pipeline.batches`). Either job continues from what the other has
    left, and the lock on the results says whose turn it is. Where another job holds them, this one
    waits and looks again. Whatever goes wrong gives the lock back, and what a batch has left half
    done is removed when the next turn takes it: as after a kill.
    When an hour is settled, hours are compacted and old ones deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from kshunt.backend.clock import Clock
from kshunt.backend.domain.pipeline.delivered import PipelineProcess, RunsAs
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.errors import KshuntError
from kshunt.backend.pipeline.batches.arrivals import Arrived, FolderFiles
from kshunt.backend.pipeline.batches.batch_work import BatchPlace
from kshunt.backend.pipeline.batches.holding import begun, held
from kshunt.backend.pipeline.batches.owed import hours_to_make
from kshunt.backend.pipeline.kernels.packed_rows import RowGroups
from kshunt.backend.pipeline.light.light_batches import LightBatch, Memory
from kshunt.backend.pipeline.process.console import for_a_flag
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain, maintained_lines
from kshunt.backend.pipeline.results.result_runs import ResultsBusy
from kshunt.backend.pipeline.results.stream_state import Meta, StreamBatch
from kshunt.backend.pipeline.samples.file_sieve import FileSieve

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
"""As often as samples are written."""
ASIDE_S: Final = 60.0
"""So often it is seen whether another job still holds the results, or the cluster is too large."""
PAUSE_MOST_S: Final = 60.0
"""After what went wrong the pause doubles up to this."""
FILES_MOST_HERE: Final = 60
ROWS_MOST_HERE: Final = 200_000
"""A backlog is taken in small pieces: the backend's memory and interpreter are shared."""
REPLICAS_MOST: Final = 20_000
"""Clusters with more are left to Spark."""


@dataclass(eq=False)
class LightJob:
    """See the module's text; every method but `stop` is called by one thread at a time."""

    samples: Path
    results: Path
    kept: KeptDays
    clock: Clock
    files_most: int = FILES_MOST_HERE
    """Of a batch."""
    stopping: threading.Event = field(default_factory=threading.Event)
    meta: Meta | None = None
    """What is remembered; None while it does not hold the results."""
    _files: FolderFiles | None = None
    """Those of the recording; None before it held the results."""
    _memory: Memory = field(default_factory=Memory)
    _hold: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _maintained_ms: int | None = None

    def turn(self) -> None:
        """Make results of what has come since the last turn.

        Raises:
            ResultsBusy: another job makes them.
            KshuntError, OSError: samples cannot be read, or results not written.
        """
        if self.meta is None and not self.samples.is_dir():
            # The recorder makes the folder, once it knows the cluster.
            return
        try:
            meta = self._begun() if self.meta is None else self.meta
            self.meta = meta
            while not self._is_taken():
                pass
            self._maintain()
        except BaseException:
            # What is half done is removed as if it had never begun, when results are taken again.
            self.release()
            raise

    def release(self) -> None:
        """Release the results, so that another job can make them."""
        self.meta = None
        self._hold.close()

    def _begun(self) -> Meta:
        self._hold.enter_context(held(self.results))
        self._files = FolderFiles(self.samples, self.clock, self.files_most, ROWS_MOST_HERE)
        self._tell_missed()
        return begun(self.results)

    def _tell_missed(self) -> None:
        """Name the hours that it will not make: nobody has seen their samples in time."""
        found = hours_to_make(self.samples, self.results, self.kept, self.clock.now_ms())
        for hours in (found.earlier, found.missed):
            if hours:
                log.warning(
                    "%d hours of samples are not in the results. To make them: kshunt pipeline "
                    "backfill --samples %s --from %s --to %s",
                    *(len(hours), self.samples),
                    *(for_a_flag(hours[0]), for_a_flag(hours[-1] + HOUR_MS)),
                )

    def _is_taken(self) -> bool:
        """Take what has come; False where a file is torn, and the rest has to come again."""
        assert self.meta is not None
        assert self._files is not None
        for arrived in self._files.arrivals(self.meta, list):
            try:
                self._take(arrived, self._files.sieve)
            except (pa.ArrowException, OSError):
                if not self._files.sieve.is_any_torn():
                    raise
                return False
            if self.stopping.is_set():
                break
        return True

    def _take(self, arrived: Arrived[list[RowGroups]], sieve: FileSieve) -> None:
        """Make a batch of it that counts."""
        assert self.meta is not None
        place = BatchPlace(self.results, self.clock, sieve)
        batch = StreamBatch.begun(self.results, self.meta.batch + 1)
        try:
            work = LightBatch(place, self.meta, arrived, batch, memory=self._memory)
            self.meta = batch.publish(work.made(), self.meta)
        finally:
            shutil.rmtree(batch.aside, ignore_errors=True)
        if work.late:
            log.warning("%d samples arrived too late: they are in `quarantine`.", work.late)
        for file in work.aside:
            log.warning("A file of samples was set aside: %s", file.detail)

    def _maintain(self) -> None:
        """Once an hour is settled, compact hours and delete old ones."""
        assert self.meta is not None
        if self.meta.final_ms == self._maintained_ms:
            return
        self._maintained_ms = self.meta.final_ms
        try:
            done = maintain(
                self.results, self.kept, self.clock.now_ms, is_stopped=self.stopping.is_set
            )
        except (KshuntError, OSError) as error:
            log.warning("Results are not compacted this hour: %s", error)
            return
        for line in maintained_lines(done):
            log.info("%s", line)


@dataclass(eq=False)
class LightPipeline:
    """A `LightJob` in the process of a backend, on a thread of its own."""

    job: LightJob
    replicas: Callable[[], int]
    """How many replicas the cluster has, as far as it is known."""
    every_s: float = EVERY_S
    _process: PipelineProcess | None = field(init=False)
    _said: str | None = None
    """What was said last of why no results are made: empty while they are, None at first."""
    _pause_s: float = 0.0

    def __post_init__(self) -> None:
        self._process = self._new_process()

    def _new_process(self) -> PipelineProcess:
        now_ms = self.job.clock.now_ms()
        return PipelineProcess(running=True, since_ms=now_ms, runs_as=RunsAs.THREAD)

    def status(self) -> PipelineProcess | None:
        """How it goes; None while it leaves the results to others. Any thread may ask."""
        return self._process

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Make results until the block ends."""
        with ThreadPoolExecutor(1, "results") as thread:
            task = asyncio.create_task(self._run(thread), name="results")
            try:
                yield
            finally:
                self.job.stopping.set()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                # A batch that is under way comes to its end first.
                await asyncio.get_running_loop().run_in_executor(thread, self.job.release)

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pause_s = await loop.run_in_executor(thread, self.turn)
            await self.job.clock.wait_s(pause_s)

    def turn(self) -> float:
        """Do what is to be done now; after how many seconds to come again."""
        if (replicas := self.replicas()) > REPLICAS_MOST:
            self.job.release()
            self._step_aside(
                f"{replicas:,} replicas are more than the {REPLICAS_MOST:,} that the backend makes "
                "results of itself. Start it with --pipeline, and Spark makes them."
            )
            return ASIDE_S
        try:
            self.job.turn()
        except ResultsBusy as error:
            self._step_aside(f"{error.message} The backend makes none until then.")
            return ASIDE_S
        except (KshuntError, OSError) as error:
            return self._failed(error)
        # An edge: whatever is wrong with the results, the backend continues.
        except Exception as error:
            if not self._said:
                log.exception("No results could be made")
            return self._failed(error)
        if self.job.meta is not None:
            if self._said != "":
                log.info("Results of the samples are made in %s.", self.job.results)
            self._said, self._pause_s = "", 0.0
            self._note(running=True, error="")
        return self.every_s

    def _step_aside(self, why: str) -> None:
        self._process = None
        self._say(why)

    def _failed(self, error: Exception) -> float:
        self._pause_s = min(2 * self._pause_s or self.every_s, PAUSE_MOST_S)
        self._note(running=False, error=str(error))
        self._say(f"No results are made of the samples: {error}")
        return self._pause_s

    def _say(self, why: str) -> None:
        if why != self._said:
            log.warning("%s", why)
        self._said = why

    def _note(self, *, running: bool, error: str) -> None:
        now_ms = self.job.clock.now_ms()
        former = self._process or replace(self._new_process(), running=running)
        since_ms = former.since_ms if former.running is running else now_ms
        restarts = former.restarts + (running and not former.running)
        last = error or former.last_error
        self._process = replace(
            former, running=running, since_ms=since_ms, restarts=restarts, last_error=last
        )
