"""`kshunt pipeline run`: its command line, and its end."""

from __future__ import annotations

import argparse
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.process.console import absolute, say
from kshunt.backend.pipeline.process.ending import (
    end_anyway,
    ended_by_signals,
    ended_with_its_parent,
)
from kshunt.backend.pipeline.samples.recording_folder import require_folder
from kshunt.backend.pipeline.spark.kafka_connector import chosen_connector, client_settings
from kshunt.backend.pipeline.spark.session import PipelineSettings, kill_java, session_until

if TYPE_CHECKING:
    from kshunt.backend.pipeline.jobs.stream import CountedBatch
    from kshunt.backend.pipeline.jobs.stream_sources import Source

SAY_S: Final = 60.0
"""A line this often, of what was done."""
_SECONDS: Final = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)s?")

_RUN: Final = """\
Make results of new samples: rates, stalls and the tables made from them, until you stop it.

After a stop or a crash it continues from the same place; each sample counts once. It can run next
to a dashboard and a backend. It reads only samples from brokers, and changes only its folder of
results.
"""

_EPILOG: Final = """\
Samples are the files that `kshunt serve --samples DIR` writes, or the rows of
`kshunt serve --samples-topic TOPIC`. To read a topic, Spark needs its Kafka connector. Its jars are
in the folder of --kafka-jars or KSHUNT_KAFKA_JARS; without one, Spark downloads them.

A backfill can make only the hours before those that this command still writes.

exit codes:
  0   it was told to stop, or had read everything (--once)
  1   an error; the results end with the last batch
  64  wrong usage
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.description, parser.epilog = _RUN, _EPILOG
    parser.add_argument("--samples", metavar="DIR", type=absolute, help="a cluster's recording")
    parser.add_argument(
        "--samples-topic", metavar="TOPIC", help="or the topic that holds the samples"
    )
    parser.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT,…", help="brokers of the cluster with that topic"
    )
    parser.add_argument(
        "--command-config", metavar="FILE", type=Path, help="Kafka client properties (security)"
    )
    parser.add_argument("--kafka-jars", metavar="DIR", type=absolute, help="Spark's connector")
    parser.add_argument(
        "--results", metavar="DIR", type=absolute, help="(default: results, in --samples)"
    )
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=_seconds,
        help="look for samples at this interval (default 1s; for a topic 5s)",
    )
    parser.add_argument("--once", action="store_true", help="end when everything is read")
    parser.add_argument(
        "--master", metavar="URL", default="", help="the Spark master (default local[*])"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", default="2g", help="memory of a local Spark (default 2g)"
    )
    # Of whoever supervises it: it ends when standard input does.
    parser.add_argument("--until-end-of-input", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Run until told to end.

    Raises:
        KshuntError: whatever was wrong with the samples, the results, Java or Spark.
    """
    _check(options)
    from kshunt.backend.pipeline.jobs.stream import Streaming, begun, held, make_owed, stream
    from kshunt.backend.pipeline.jobs.stream_batches import BatchContext
    from kshunt.backend.pipeline.jobs.stream_sources import FolderSource

    stopping = threading.Event()

    def stop() -> None:
        stopping.set()
        end_anyway(kill_java)

    clock = SystemClock()
    results = options.results or options.samples / RESULTS
    with (
        ended_with_its_parent(options.until_end_of_input, stop),
        ended_by_signals(stop),
        session_until(_settings(options), stopping) as session,
    ):
        source = _source(options, results, clock)
        if isinstance(source, FolderSource):
            make_owed(session, source, results, clock, say)
        with held(results):
            said = _ProgressLines(clock.monotonic_s)
            sieve = source.sieve if isinstance(source, FolderSource) else None
            shop = BatchContext(session, results, clock, sieve=sieve)
            job = Streaming(shop, source, begun(results), said, stopping)
            say(f"Results go to {results}.")
            stream(job, results, _every_s(options), once=options.once)
    return 0


def _check(options: argparse.Namespace) -> None:
    """See that it is said where samples come from, and where results go.

    Raises:
        ConfigError: it is not.
        NoSamples: there is no such folder.
    """
    if (options.samples is None) == (options.samples_topic is None):
        raise ConfigError("Name either a recording (--samples) or a topic (--samples-topic).")
    if options.samples is not None:
        require_folder(options.samples)
    if options.samples_topic is not None:
        if options.bootstrap_servers is None:
            raise ConfigError("A topic is read from brokers: name them by --bootstrap-servers.")
        if options.results is None:
            raise ConfigError("Name a folder for the results of a topic by --results.")


def _settings(options: argparse.Namespace) -> PipelineSettings:
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
    # What Spark notes of files is read as a whole each so many batches.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    # Plans are small, and a few seconds old: to plan them again while they run takes longer.
    "spark.sql.adaptive.enabled": "false",
}


def _source(options: argparse.Namespace, results: Path, clock: SystemClock) -> Source:
    from kshunt.backend.pipeline.jobs.stream_sources import FolderSource, TopicSource
    from kshunt.backend.pipeline.results.stream_state import checkpoint

    if options.samples is not None:
        return FolderSource(options.samples, clock)
    return TopicSource(
        options.bootstrap_servers,
        options.samples_topic,
        checkpoint(results),
        clock,
        client_settings(options.command_config),
    )


def _every_s(options: argparse.Namespace) -> float:
    every_s: float | None = options.every
    if every_s is None:
        return 1.0 if options.samples is not None else 5.0
    return every_s


@dataclass(slots=True)
class _ProgressLines:
    """Says now and then what was done, and at once what was odd."""

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


def _seconds(text: str) -> float:
    match = _SECONDS.fullmatch(text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is not a time: 5s or 0.5s")
    return float(match[1])
