"""`kshunt pipeline run`: its command line, and its end."""

from __future__ import annotations

import os
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.pipeline.process.console import say
from kshunt.backend.pipeline.process.ending import (
    end_anyway,
    ended_by_signals,
    ended_with_its_parent,
)
from kshunt.backend.pipeline.results.maintenance import KeptDays
from kshunt.backend.pipeline.samples.recording_folder import require_folder
from kshunt.backend.pipeline.spark.kafka_connector import chosen_connector, client_settings
from kshunt.backend.pipeline.spark.session import PipelineSettings, kill_java, session_until

if TYPE_CHECKING:
    from kshunt.backend.pipeline.batches.holding import CountedBatch
    from kshunt.backend.pipeline.jobs.stream_sources import Source

SAY_S: Final = 60.0
"""A line this often, of what was done."""


def run(options: Namespace) -> int:
    """Run until told to end.

    Raises:
        KshuntError: whatever was wrong with the samples, the results, Java or Spark.
    """
    _check(options)
    from kshunt.backend.pipeline.batches.holding import begun, held
    from kshunt.backend.pipeline.jobs.stream import Streaming, make_owed, stream
    from kshunt.backend.pipeline.jobs.stream_batches import BatchContext
    from kshunt.backend.pipeline.jobs.stream_sources import FolderSource

    stopping = threading.Event()

    def stop() -> None:
        stopping.set()
        end_anyway(kill_java)

    clock = SystemClock()
    results = options.results or options.samples / RESULTS
    kept = KeptDays(options.keep_rates, options.keep_results)
    with (
        ended_with_its_parent(options.until_end_of_input, stop),
        ended_by_signals(stop),
        session_until(_settings(options), stopping) as session,
    ):
        source = _source(options, results, clock)
        if isinstance(source, FolderSource):
            make_owed(session, source, results, clock, say, kept)
        with held(results):
            said = _ProgressLines(clock.monotonic_s)
            sieve = source.sieve if isinstance(source, FolderSource) else None
            shop = BatchContext(session, results, clock, sieve=sieve)
            job = Streaming(shop, source, begun(results), said, say, stopping, kept)
            say(f"Results go to {results}.")
            stream(job, results, _every_s(options), once=options.once)
    return ExitCode.DONE


def _check(options: Namespace) -> None:
    """See that it is said where samples come from, and where results go.

    Raises:
        UsageError: it is not.
        NoSamples: there is no such folder.
    """
    if (options.samples is None) == (options.samples_topic is None):
        raise UsageError("Name either a recording (--samples) or a topic (--samples-topic).")
    if options.samples is not None:
        require_folder(options.samples)
    if options.samples_topic is not None:
        if options.bootstrap_server is None:
            raise UsageError("A topic is read from brokers: name them by --bootstrap-server.")
        if options.results is None:
            raise UsageError("Name a folder for the results of a topic by --results.")


def _settings(options: Namespace) -> PipelineSettings:
    connector = {}
    if options.samples_topic is not None:
        connector = chosen_connector(options.kafka_jars)
    return PipelineSettings(
        # A Connect server would do a batch's work in a process of its own, without our state.
        master=options.master or "local[*]",
        memory=options.memory,
        shuffle_partitions=min(8, os.cpu_count() or 1),
        others={**connector, **_STREAMING},
    )


_STREAMING: Final = {
    # Spark reads its notes of files as a whole once in this many batches.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    # Plans are small, and a few seconds old: to plan them again while they run takes longer.
    "spark.sql.adaptive.enabled": "false",
}


def _source(options: Namespace, results: Path, clock: SystemClock) -> Source:
    from kshunt.backend.pipeline.jobs.stream_sources import FolderSource, TopicSource
    from kshunt.backend.pipeline.results.stream_state import checkpoint

    if options.samples is not None:
        return FolderSource(options.samples, clock)
    return TopicSource(
        options.bootstrap_server,
        options.samples_topic,
        checkpoint(results),
        clock,
        client_settings(options.command_config),
    )


def _every_s(options: Namespace) -> float:
    every_s: float | None = options.every
    if every_s is None:
        return 1.0 if options.samples is not None else 5.0
    return every_s


@dataclass(slots=True)
class _ProgressLines:
    """Says now and then what was done, and immediately what was odd."""

    monotonic_s: Callable[[], float]
    due_s: float = 0.0
    batches: int = 0
    rates: int = 0

    def __call__(self, done: CountedBatch) -> None:
        self.batches += 1
        self.rates += done.rows.get("rates", 0)
        if done.late:
            say(f"{done.late:,} samples arrived too late: they are in `quarantine`.")
        if done.lacking:
            say(
                f"{done.lacking:,} samples were deleted from the topic before they were read, and "
                "are in no result: the topic keeps them for less time than the stream was "
                "stopped."
            )
        for file in done.aside:
            say(f"A file was set aside: {file.detail}")
        if self.monotonic_s() >= self.due_s:
            self.due_s = self.monotonic_s() + SAY_S
            say(
                f"{self.batches:,} batches, {self.rates:,} rates; the last took "
                f"{done.seconds:.1f} s; newest sample "
                f"{'none' if done.newest_ms is None else moment_text(done.newest_ms)}"
            )
