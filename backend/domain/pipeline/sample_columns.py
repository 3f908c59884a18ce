"""What is recorded of a cluster over time: every column of it, with its unit, in one place.

The recorder writes these columns, the pipeline reads them. Versions only add columns, and a column
never changes its type or its meaning: a file of an older version reads as one whose columns of
later versions are null.

Layout of a recording, under a folder that belongs to one cluster:

    replicas/date=2026-11-22/hour=03/TIME-NUMBER.parquet
    brokers/date=2026-11-22/hour=03/TIME-NUMBER.parquet
    forecasts/date=2026-11-22/hour=03/TIME-NUMBER.parquet
    hours/replicas/date=2026-11-22/hour=03/TIME-NUMBER.parquet    one file instead of many

    gaps.jsonl           from when to when something was not recorded, and why
    recording.json       how far the last recording came, and whether it ended in order
    cluster.json         whose samples these are

Day and hour are UTC, of the rows' `at`. A file is complete or is not there: it is written under a
name that begins with a dot, then renamed. `kshunt.backend.telemetry.recording.layout` tells which
files count.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SAMPLES_VERSION: Final = 2
"""Of the columns below; kept in each file's metadata under `VERSION_KEY`."""
VERSION_KEY: Final = "kshunt.samples.version"
CLUSTER_KEY: Final = "kshunt.cluster"
"""Key of a file's metadata: the id of the cluster that it is of."""
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class Type(enum.StrEnum):
    """How a column's values are kept."""

    TIME = "timestamp"
    """Milliseconds since the epoch, UTC."""
    STRING = "string"
    INT = "int32"
    LONG = "int64"
    DOUBLE = "float64"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """One column of a table."""

    name: str
    type: Type
    meaning: str
    unit: str = ""
    """`B`, `B/s`, `messages`; empty where there is none."""
    nullable: bool = True
    """Null is what is not known, or does not apply; never 0."""
    since: int = 1
    """The version that brought it."""


def _column(name: str, type: Type, meaning: str, unit: str = "") -> SampleColumn:
    return SampleColumn(name, type, meaning, unit)


def _always(name: str, type: Type, meaning: str) -> SampleColumn:
    return SampleColumn(name, type, meaning, nullable=False)


def _seconds(name: str, meaning: str) -> SampleColumn:
    return SampleColumn(name, Type.DOUBLE, meaning, "s", nullable=False)


REPLICA_SAMPLES: Final = (
    _always("at", Type.TIME, "when the replica's broker reported it"),
    _always("rid", Type.LONG, "number of the topic, partition and broker: see `replica_ids`"),
    _always("topic", Type.STRING, "the topic's name"),
    _always("partition", Type.INT, "the partition's number"),
    _always("broker", Type.INT, "the broker that hosts the replica"),
    _column("leader", Type.INT, "the broker that led the partition"),
    _column("leader_at", Type.TIME, "when the leader reported the next columns"),
    _column("leader_log_end_offset", Type.LONG, "where the leader's log ended", "messages"),
    _column("leader_size_bytes", Type.LONG, "size of the leader's log", "B"),
    _column("log_end_offset", Type.LONG, "where the replica's log ended", "messages"),
    _column("size_bytes", Type.LONG, "size of the replica's log", "B"),
    _column("lag_messages", Type.LONG, "how far it is behind its leader", "messages"),
    _column("lag_bytes", Type.LONG, "the leader's size less its own, at least 0", "B"),
    _always("in_isr", Type.BOOL, "among the in-sync replicas"),
    _always("adding", Type.BOOL, "a running reassignment adds it"),
    _always("removing", Type.BOOL, "a running reassignment removes it"),
    _column(
        "leader_throttle_bytes_per_s",
        Type.LONG,
        "the rate in force at its leader for this copy; null: not throttled",
        "B/s",
    ),
    _column(
        "follower_throttle_bytes_per_s",
        Type.LONG,
        "the rate in force at its own broker for this copy; null: not throttled",
        "B/s",
    ),
    _column(
        "cause", Type.STRING, "why it did not advance, as diagnosed at that time: a `Cause` by name"
    ),
    _column("operation_id", Type.STRING, "the operation of kshunt that moved its partition"),
    SampleColumn(
        "mode",
        Type.STRING,
        "ReadOnly or None, of a partition about to be deleted (KIP-694); null: ReadWrite",
        since=2,
    ),
)
"""One row a replica and moment; `at` and `rid` are its key."""

BROKER_SAMPLES: Final = (
    _always("at", Type.TIME, "when the snapshot was taken"),
    _always("broker", Type.INT, "the broker's id"),
    _always("answering", Type.BOOL, "it answered in time"),
    _always("leaders", Type.INT, "partitions that it leads"),
    _always("preferred_leaders", Type.INT, "partitions whose preferred replica it is"),
    _always("replicas", Type.INT, "replicas that it hosts"),
    _column("log_bytes", Type.LONG, "size of all logs that it hosts, if known", "B"),
    _column("disk_total_bytes", Type.LONG, "capacity of its log directories", "B"),
    _column("disk_usable_bytes", Type.LONG, "what is free in them", "B"),
    _column("in_bytes_per_s", Type.DOUBLE, "bytes that the replicas added to it fetch", "B/s"),
    _column(
        "out_bytes_per_s", Type.DOUBLE, "bytes fetched from it by replicas that are added", "B/s"
    ),
    _column("lag_in_bytes", Type.LONG, "bytes that its own replicas out of the ISR lack", "B"),
    _column(
        "lag_out_bytes", Type.LONG, "bytes that replicas out of the ISR lack that it leads", "B"
    ),
    _column("leader_throttle_bytes_per_s", Type.LONG, "its leader.replication rate", "B/s"),
    _column("follower_throttle_bytes_per_s", Type.LONG, "its follower.replication rate", "B/s"),
)
"""One row a broker and moment; `at` and `broker` are its key."""


FORECAST_SAMPLES: Final = (
    _always("at", Type.TIME, "when the end of the operation was recorded"),
    _always("operation_id", Type.STRING, "the operation of kshunt"),
    _always("point", Type.DOUBLE, "share of the bytes that were copied, from 0.05 to 0.9"),
    _always("made_at", Type.TIME, "when the forecast was made"),
    _seconds("p10_s", "the end of the operation, from `made_at` on: 1 in 10 is earlier"),
    _seconds("p50_s", "half are earlier"),
    _seconds("p90_s", "9 in 10 are earlier"),
    _seconds("model_s", "the end as the model computed it, before the calibration moved it"),
    _always("stage", Type.INT, "the fifth of the way in time, by the forecast, from 0 on"),
    _always("held_by", Type.STRING, "what the range was made for: throttle, turn or other"),
    _always("writes", Type.STRING, "what was written, likewise: none, some, much or varying"),
    _column("bottleneck", Type.STRING, "the limit that the last copy waited for at first"),
    _column("left_bytes", Type.LONG, "what was left to copy", "B"),
    _column("of_bytes", Type.LONG, "the most that was left at any time", "B"),
    _column(
        "void",
        Type.STRING,
        "why the forecast does not count: throttle_changed, paused or not_completed; null: it does",
    ),
    _column("actual_s", Type.DOUBLE, "how long it took; null: it was not completed", "s"),
    _column("right", Type.BOOL, "the end was within the range; null: the forecast does not count"),
)
"""One row a forecast that was kept, once its operation has ended; `operation_id` and `point` are
its key."""


def hour_folder(at_ms: int) -> str:
    """The folder of a moment's hour below its table's: `date=2026-11-22/hour=03`."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("date=%Y-%m-%d/hour=%H")


def hour_start_ms(folder: str) -> int:
    """When the hour begins whose folder `hour_folder` names."""
    day, hour = folder.removeprefix("date=").split("/hour=")
    return round(datetime.fromisoformat(f"{day}T{hour}:00:00+00:00").timestamp() * 1000)


def replica_ids(
    topics: Iterable[str], topic_index: NDArray[Any], partition: NDArray[Any], broker: NDArray[Any]
) -> NDArray[np.int64]:
    """A number for each replica that is the same in every process and version. Shape (rows,).

    `topic_index` points into `topics`. 64 bits of a hash: two of a million replicas share one with
    a probability of 3e-8, and a key of one integer makes a join several times as fast.
    """
    digests = [hashlib.blake2b(topic.encode(), digest_size=8).digest() for topic in topics]
    words = np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)
    if not len(words):
        return np.empty(0, np.int64)
    keys = words[topic_index]
    for part in (partition, broker):
        keys = _mixed(keys ^ part.astype(np.int64).view(np.uint64))
    ids: NDArray[np.int64] = keys.view(np.int64)
    return ids


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: each bit of the input turns over half of the output's."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
        return mixed
