"""`kshunt pipeline run`: results that keep up with the samples.

Goals
    At every moment the results are those that a backfill would make of the samples seen so far,
    with two exceptions that are said below; whatever is killed when. A sample that was written can
    be read as a result a few seconds later, with 200,000 replicas every 5 s on two cores.
Constraints
    The transforms are the backfill's. No state of Spark's own: 200,000 keys are too much for it.
Algorithm
    Rates take whole ticks. So there is one watermark, `closed`: the tick that the newest sample
    of all, less 2 s, lies in. (Brokers report at different times, and one that answers slowly is
    that late.) Rows before it go into the tables as parts of this batch, for good. Rows after it
    are kept in the state and also made into rows: those of the part `open`, which the next batch
    replaces. The state of a replica tells whether a row before the watermark is late. It is late
    if its tick, or a later one of the same replica, was closed with rows. A late row is set aside
    (`quarantine`, and counted in `quality`) until a backfill makes the hour anew. That is the
    first exception. The second: tables by intervals of 5 minutes, as `move_pairs`, are written
    once an interval has been over for a minute.
    Duplicates within what is not closed count once, and others are late. A clock that jumps ahead
    moves nothing: rows ahead of this machine's clock wait until it has come there, and do not
    move the watermark. One that jumps back makes late rows until it is where it was.
    How a batch comes to count is in `stream_state`; which samples it is of, in `sources`.
    While it waits for batches, it compacts hours that are settled, and deletes those that are too
    old (`results.maintenance`).
    An hour belongs to the stream until 5 minutes after its last tick was closed. Until then no
    backfill takes it (`runs.new_run`). If samples were put together while a stream
    was down, before it saw them, it makes these hours by a backfill when it begins again.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kshunt.backend.clock import Clock
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.pipeline.batches.arrivals import Arrived
from kshunt.backend.pipeline.batches.holding import CountedBatch
from kshunt.backend.pipeline.batches.owed import hours_to_make
from kshunt.backend.pipeline.jobs.backfill import Period, backfill
from kshunt.backend.pipeline.jobs.stream_batches import BatchContext, SparkBatch
from kshunt.backend.pipeline.jobs.stream_sources import FolderSource, Source
from kshunt.backend.pipeline.process.console import for_a_flag
from kshunt.backend.pipeline.results.maintenance import (
    KeptDays,
    maintain,
    maintained_lines,
)
from kshunt.backend.pipeline.results.stream_state import Meta, StreamBatch, checkpoint
from kshunt.backend.pipeline.spark.session import SparkFailed, first_line

LOOK_S: Final = 0.2
"""How often it is seen whether the job is to stop."""
_ERROR: Final = re.compile(r"[\w.]*(Error|Exception): ")
Say = Callable[[CountedBatch], None]
Tell = Callable[[str], None]


@dataclass(slots=True)
class Streaming:
    """The job; its methods are called by one thread at a time."""

    shop: BatchContext
    source: Source
    meta: Meta
    say: Say
    tell: Tell
    stopping: threading.Event
    kept: KeptDays
    working: threading.Lock = field(default_factory=threading.Lock)
    """Held while samples are worked on."""
    error: Exception | None = None
    """Why a batch gave up: of what is raised in it Spark hands on no more than a trace."""

    def on_batch(self, rows: DataFrame, number: int) -> None:
        """What Spark calls with what has come, and again with what it is not sure was done."""
        with self.working:
            try:
                while not self._is_taken(rows, number):
                    pass
            except Exception as error:
                self.error = error
                raise

    def maintain(self) -> None:
        """Compact hours, and delete old ones. What hinders that does not hinder the batches."""
        clock = self.shop.clock
        try:
            done = maintain(
                self.shop.results, self.kept, clock.now_ms, is_stopped=self.stopping.is_set
            )
        except (KshuntError, OSError) as error:
            self.tell(f"Results are not compacted this hour: {error}")
            return
        for line in maintained_lines(done):
            self.tell(line)

    def _is_taken(self, rows: DataFrame, number: int) -> bool:
        """Take what has come; False where a file is torn, and the rest has to come again."""
        for arrived in self.source.arrivals(self.shop.session, rows, number, self.meta):
            try:
                self._take(arrived)
            except PySparkException:
                if self.stopping.is_set() or not self.source.is_any_torn():
                    raise
                return False
            if self.stopping.is_set():
                return True
        return True

    def _take(self, arrived: Arrived[DataFrame]) -> None:
        """Make a batch of it that counts."""
        began_s = self.shop.clock.monotonic_s()
        batch = StreamBatch.begun(self.shop.results, self.meta.batch + 1)
        try:
            work = SparkBatch(self.shop.place, self.meta, arrived, batch, shop=self.shop)
            self.meta = batch.publish(work.made(), self.meta)
        finally:
            shutil.rmtree(batch.aside, ignore_errors=True)
        if arrived.release is not None:
            arrived.release()
        seconds = self.shop.clock.monotonic_s() - began_s
        self.say(
            CountedBatch(
                batch.number,
                self.meta.newest_ms,
                seconds,
                batch.rows,
                work.late,
                arrived.lacking,
                tuple(work.aside),
            )
        )


def stream(job: Streaming, results: Path, every_s: float, *, once: bool) -> None:
    """Run until there is nothing left (`once`), or until it is told to stop.

    Raises:
        SparkFailed: Spark gave up; results are as the last batch left them.
        KshuntError: samples cannot be read, or results not written.
    """
    writer = job.source.reader(job.shop.session).writeStream.foreachBatch(job.on_batch)
    writer = writer.option("checkpointLocation", str(checkpoint(results)))
    try:
        if once:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=f"{every_s:g} seconds").start()
        _wait(query, job)
        if once:
            job.maintain()
    except (PySparkException, Py4JError, OSError) as error:
        cause = job.error or error
        if isinstance(cause, KshuntError):
            raise cause from error
        raise SparkFailed(
            f"Spark failed: {_why(cause)}. The results end with the last batch.",
            advice="Run it again: it continues from the same place.",
        ) from error


def _why(error: Exception) -> str:
    """What an error says; of a worker's trace the line that says it."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if _ERROR.match(line)]
    return said[-1].rstrip(".")[:300] if said else first_line(error)


def _wait(query: StreamingQuery, job: Streaming) -> None:
    maintained_ms = None
    try:
        while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]
            if job.stopping.is_set():
                # A query that is stopped in the middle of a batch breaks its jobs off.
                with job.working:
                    return
            if (final_ms := job.meta.final_ms) != maintained_ms:
                maintained_ms = final_ms
                job.maintain()
    finally:
        if query.isActive:
            query.stop()


def make_owed(
    session: SparkSession,
    source: FolderSource,
    results: Path,
    clock: Clock,
    tell: Tell,
    kept: KeptDays,
) -> None:
    """Make the hours whose samples a former stream did not see, by backfills; before `held`.

    Hours that would be too old to stay are left out.

    Raises:
        SparkFailed: as `backfill` does.
    """
    hours = hours_to_make(source.folder, results, kept, clock.now_ms())
    if hours.earlier:
        tell(
            f"{len(hours.earlier)} hours were recorded earlier; the stream begins after them. To "
            f"make them, too: kshunt pipeline backfill --samples {source.folder} --to "
            f"{for_a_flag(max(hours.earlier) + HOUR_MS)}"
        )
    for hour in hours.missed:
        tell(f"A backfill makes the hour of {for_a_flag(hour)}: not all of it was streamed.")
        period = Period(hour, hour + HOUR_MS)
        try:
            backfill(session, source.folder, results, period, clock, lambda made: None)
        except BadInput as error:
            # What cannot be read is said, and stops no other hour.
            tell(f"That hour was not made: {error}")
