"""What the data pipeline makes of recorded samples: every table and column, with its unit.

The pipeline writes these columns, readers of the results read them, and the manual's table is
made from here. Versions only add columns, as they do in `samples`.

Layout of the results, in the folder `results` of a recording:

    rates/date=2026-11-22/hour=03/run=ID/part-….parquet          a backfill's
    rates/date=2026-11-22/hour=03/batch_id=17/part-….parquet     the streaming job's
    manifest.json                                                which of them hold

Day and hour are UTC, of the table's `hour_of` column. An hour that the manifest names belongs to
the run that it names, and to nothing else; an hour that it does not name is all of its batches. So
a reader that reads the manifest once sees a run as a whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from kshunt.backend.domain.pipeline.sample_columns import (
    BROKER_SAMPLES,
    HOUR_MS,
    REPLICA_SAMPLES,
    SampleColumn,
    Type,
)

RESULTS_VERSION: Final = 1
"""Of the columns below."""
MANIFEST: Final = "manifest.json"
RESULTS: Final = "results"
"""The folder of the results, in that of a recording."""

TICK_S: Final = 5
"""The grid of time: of each replica, the last sample in a tick stands for the tick."""
GAP_S: Final = 150
"""Without a sample for longer than this, nothing is concluded across the gap. Replicas that rest
are recorded each minute, and two of those may be missing."""
STALL_S: Final = 10
"""A replica that wants to advance and did not for this long has stalled."""
PAIR_S: Final = 300
"""Length of an interval of `move_pairs`."""
EFFECT_S: Final = 300
"""Length of the longest interval of `throttle_effect`."""
GROWTH_S: Final = 24 * 3600
"""A disk's growth is that of this time before the end of an hour, in seconds."""
UNKNOWN_CAUSE: Final = "unknown"


@dataclass(frozen=True, slots=True)
class RateWindow:
    """How far back a rate looks.

    It starts at the last sample of a step of time that had ended `seconds` ago. So a reader has to
    remember one sample a step of each replica. It is shorter where nothing is known before.
    """

    name: str
    seconds: int
    step_s: int


WINDOWS: Final = (RateWindow("30s", 30, 10), RateWindow("5m", 300, 100))


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One table of results."""

    name: str
    row: str
    """What one row stands for."""
    hour_of: str
    """The column whose day and hour a row lies under."""
    columns: tuple[SampleColumn, ...]
    by_tick: bool = False
    """It has a row a tick, or a recorded row: it grows by far the fastest."""
    folder_ms: int = HOUR_MS
    """The time whose rows a folder has, in milliseconds."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)


def _column(name: str, type: Type, meaning: str, unit: str = "") -> SampleColumn:
    return SampleColumn(name, type, meaning, unit)


def _always(name: str, type: Type, meaning: str, unit: str = "") -> SampleColumn:
    return SampleColumn(name, type, meaning, unit, nullable=False)


def _sampled(*names: str) -> tuple[SampleColumn, ...]:
    """Columns that are handed on as they were recorded."""
    by_name = {column.name: column for column in REPLICA_SAMPLES}
    return tuple(by_name[name] for name in names)


def _window_columns(window: RateWindow) -> tuple[SampleColumn, ...]:
    name, over = window.name, f"over {window.name}"
    return (
        _column(f"span_{name}_s", Type.DOUBLE, f"the true span of the rates {over}", "s"),
        _column(
            f"catch_up_{name}_messages_per_s",
            Type.DOUBLE,
            f"how fast the replica's log end advanced, {over}",
            "messages/s",
        ),
        _column(f"catch_up_{name}_bytes_per_s", Type.DOUBLE, f"the same in bytes, {over}", "B/s"),
        _column(
            f"produced_{name}_messages_per_s",
            Type.DOUBLE,
            f"how fast the leader's log end advanced, {over}",
            "messages/s",
        ),
        _column(f"produced_{name}_bytes_per_s", Type.DOUBLE, f"the same in bytes, {over}", "B/s"),
    )


RATES: Final = ResultTable(
    "rates",
    "a replica and tick of 5 s; of replicas at rest, a replica and hour once it is compacted",
    "at",
    (
        _always("at", Type.TIME, "time of the last sample in the tick"),
        _always("tick", Type.TIME, "when the tick began"),
        *_sampled("rid", "topic", "partition", "broker", "leader"),
        _always("samples", Type.LONG, "how many there were in the tick"),
        _always(
            "segment_start",
            Type.TIME,
            "start of the segment without a break of the counters: no change of leader, no log "
            "that got shorter, no gap; no rate reaches back beyond it",
        ),
        *_sampled("log_end_offset", "leader_log_end_offset", "lag_messages", "lag_bytes"),
        _column(
            "remaining_messages",
            Type.LONG,
            "how many messages it lacks to the end of the leader's log at that time",
            "messages",
        ),
        _column(
            "remaining_bytes",
            Type.LONG,
            "the recorded lag in bytes, or else those messages by their size",
            "B",
        ),
        _column("elapsed_s", Type.DOUBLE, "since the replica's previous row in the segment", "s"),
        _column("advanced_messages", Type.LONG, "what it copied in that time", "messages"),
        _column("advanced_bytes", Type.LONG, "the same in bytes", "B"),
        _column(
            "copied_from",
            Type.INT,
            "the broker that it was copied from since its previous row, also if it came into the "
            "ISR in that time; null: it is no copy",
        ),
        _column(
            "copied_bytes",
            Type.LONG,
            "what the copy advanced in that time; or what it had lacked, where it came into the "
            "ISR and its advance is not known",
            "B",
        ),
        _column("copied_s", Type.DOUBLE, "how long it took for that", "s"),
        *(column for window in WINDOWS for column in _window_columns(window)),
        _column(
            "bytes_per_message",
            Type.DOUBLE,
            "average of the messages copied within 5m, or else of those that its leader wrote",
            "B",
        ),
        *_sampled(
            "in_isr",
            "adding",
            "removing",
            "leader_throttle_bytes_per_s",
            "follower_throttle_bytes_per_s",
            "cause",
            "operation_id",
        ),
    ),
    by_tick=True,
)

STALLS: Final = ResultTable(
    "stalls",
    "an interval of at least 10 s in which a replica that wants to advance did not",
    "end",
    (
        _always("start", Type.TIME, "the first sample with the log end offset that then stayed"),
        _always("end", Type.TIME, "the last sample with it"),
        _always("seconds", Type.DOUBLE, "from start to end", "s"),
        _always("open", Type.BOOL, "it had not ended when the samples ended"),
        *_sampled("rid", "topic", "partition", "broker"),
        _column("leader", Type.INT, "who led the partition at its start"),
        _column("lag_start_messages", Type.LONG, "how far it was behind at its start", "messages"),
        _column("lag_end_messages", Type.LONG, "and at its end", "messages"),
        _column("lag_start_bytes", Type.LONG, "how far it was behind at its start", "B"),
        _column("lag_end_bytes", Type.LONG, "and at its end", "B"),
        _always(
            "cause",
            Type.STRING,
            "the cause that was diagnosed most often in the interval, by its key; of several the "
            "one that was diagnosed last; `unknown` without a diagnosis",
        ),
        _column("operation_id", Type.STRING, "the operation of kshunt that moved it at its start"),
    ),
)

MOVE_PAIRS: Final = ResultTable(
    "move_pairs",
    "5 minutes of copying from one broker to another, throttled or not",
    "start",
    (
        _always("start", Type.TIME, "when the 5 minutes began"),
        _always("source", Type.INT, "the leader's broker"),
        _always("destination", Type.INT, "the replica's broker"),
        _always("throttled", Type.BOOL, "a rate was in force at either end"),
        _always("n", Type.LONG, "number of rates in the quantiles: one for each replica and tick"),
        _always("bytes", Type.LONG, "the copied bytes", "B"),
        _column(
            "p10_bytes_per_s",
            Type.DOUBLE,
            "of the catch-up rates over 30s of one replica: 10 % are below this rate",
            "B/s",
        ),
        _column("p50_bytes_per_s", Type.DOUBLE, "half are below this rate", "B/s"),
        _column("p90_bytes_per_s", Type.DOUBLE, "90 % are below this rate", "B/s"),
    ),
)

THROTTLE_EFFECT: Final = ResultTable(
    "throttle_effect",
    "a broker, side and rate in force, in 5 minutes in which something was copied under it",
    "start",
    (
        _always("start", Type.TIME, "the first sample under the rate within the 5 minutes"),
        _always("end", Type.TIME, "the last one"),
        _always("seconds", Type.DOUBLE, "how long something could be copied under it", "s"),
        _always("broker", Type.INT, "the broker that has the throttle"),
        _always("direction", Type.STRING, "`leader`: what it sends; `follower`: what it fetches"),
        _always("permitted_bytes_per_s", Type.LONG, "the rate in force", "B/s"),
        _always("copies", Type.LONG, "replicas that were copied under it: added or not in the ISR"),
        _column("achieved_bytes_per_s", Type.DOUBLE, "total that they copied", "B/s"),
        _column(
            "in_sync_bytes_per_s",
            Type.DOUBLE,
            "total of the listed replicas in the ISR: it counts, but is not held back",
            "B/s",
        ),
        _column("share_used", Type.DOUBLE, "both totals as a share of the rate; 1 is all of it"),
        _column(
            "written_bytes_per_s", Type.DOUBLE, "written to the logs of all that counts", "B/s"
        ),
        _column(
            "held_elsewhere", Type.DOUBLE, "the share of the copies that the other end held back"
        ),
        _always("steady", Type.LONG, "other followers that it leads (hosts) and that were in sync"),
        _always("left_isr", Type.LONG, "how many of them left the ISR in the interval"),
        _always("joined_isr", Type.LONG, "followers of either kind that came into the ISR"),
        _column("steady_lag_p50_s", Type.DOUBLE, "lag of steady followers: half have less", "s"),
        _column("steady_lag_p95_s", Type.DOUBLE, "95 % of them have less", "s"),
        _column(
            "steady_lag_change_s",
            Type.DOUBLE,
            "how the 95 % value changes from the first half to the second",
            "s",
        ),
        _always("advice", Type.STRING, "`raise`, `lower`, `keep`, or `no effect`"),
        _always("recommended_bytes_per_s", Type.LONG, "the recommended rate", "B/s"),
        _always("reason", Type.STRING, "the reason, in words"),
    ),
)

BROKER_LOAD: Final = ResultTable(
    "broker_load",
    "a broker and hour",
    "start",
    (
        _always("start", Type.TIME, "when the hour began"),
        _always("hour_of_week", Type.INT, "0 is Monday from 00:00 UTC, 167 Sunday from 23:00"),
        _always("broker", Type.INT, "its id"),
        _always("samples", Type.LONG, "of the broker, in that hour"),
        _always("newest", Type.TIME, "the last of the samples"),
        _always("answering", Type.DOUBLE, "the share of samples at which it answered in time"),
        _column(
            "in_bytes_per_s",
            Type.DOUBLE,
            "bytes that the replicas added to it fetched: mean",
            "B/s",
        ),
        _column("out_bytes_per_s", Type.DOUBLE, "bytes fetched from it for moves: mean", "B/s"),
        _column(
            "in_max_bytes_per_s", Type.DOUBLE, "the highest sample of the fetched bytes", "B/s"
        ),
        _column("out_max_bytes_per_s", Type.DOUBLE, "the highest sample of the sent bytes", "B/s"),
        _column("produced_bytes_per_s", Type.DOUBLE, "written to the partitions it led", "B/s"),
        _column("replicated_bytes_per_s", Type.DOUBLE, "written to its other replicas", "B/s"),
        _always("leaders", Type.DOUBLE, "partitions that it led: mean"),
        _column(
            "leader_share", Type.DOUBLE, "share of the partitions that all brokers led; 1 is all"
        ),
        _always("replicas", Type.DOUBLE, "replicas that it hosted: mean"),
        _column("log_bytes", Type.LONG, "size of its logs, by the last sample that has one", "B"),
        _column(
            "disk_total_bytes",
            Type.LONG,
            "capacity of its log directories, by the last sample that has one",
            "B",
        ),
        _column("disk_used_bytes", Type.LONG, "used space in them, by anything", "B"),
        _column("disk_free_bytes", Type.LONG, "free space in them", "B"),
        _column("growth_bytes_per_s", Type.DOUBLE, "slope of the used space, over 24 h", "B/s"),
        _column("growth_span_s", Type.DOUBLE, "how much of the 24 h was recorded", "s"),
        _column("full_in_s", Type.DOUBLE, "until the disk is full; null: it does not grow", "s"),
    ),
)

ETA_MODEL: Final = 7
"""Version of the model that `eta` is computed with."""

ETA: Final = ResultTable(
    "eta",
    "a tick of 5 s of an operation of kshunt, or of a replica that is added or out of the ISR",
    "at",
    (
        _always("at", Type.TIME, "time of the newest sample that it was made from"),
        _always("tick", Type.TIME, "when the tick began"),
        _column("rid", Type.LONG, "the replica; null: the row is of an operation"),
        _column("topic", Type.STRING, "the topic's name; null for an operation"),
        _column("partition", Type.INT, "the partition's number; null for an operation"),
        _column("broker", Type.INT, "the broker that hosts the replica; null for an operation"),
        _column("leader", Type.INT, "the broker that led the partition; null for an operation"),
        _column("operation_id", Type.STRING, "the operation of kshunt that moves it"),
        _always("copies", Type.LONG, "number of replicas in the row"),
        _column(
            "remaining_bytes",
            Type.LONG,
            "what they lack to their leaders' log ends at that time",
            "B",
        ),
        _column("rate_bytes_per_s", Type.DOUBLE, "the rate expected at first", "B/s"),
        _column(
            "stage",
            Type.DOUBLE,
            "progress in time, from 0 to 1: how long it was watched without a break, over that "
            "and `p50_s` together",
        ),
        _always("throttled", Type.BOOL, "a rate was in force at either end of one of them"),
        _column(
            "bound",
            Type.STRING,
            "the bottleneck: `leader throttle of broker 3`, `follower throttle of broker 4`, "
            "`broker 3 sending`, `broker 4 receiving`, `link 1->4`, `not started`",
        ),
        _column(
            "writes",
            Type.STRING,
            "what is written until the end: `none`, `some`, `much` (more than they lack now) or "
            "`varying` (it changed lately); null: a replica, or no end is expected",
        ),
        _column(
            "p10_s", Type.DOUBLE, "one in ten is in the ISR after this time; null: see `why`", "s"
        ),
        _column("p50_s", Type.DOUBLE, "half are in the ISR after this time; null: see `why`", "s"),
        _column(
            "p90_s", Type.DOUBLE, "nine in ten are in the ISR after this time; null: see `why`", "s"
        ),
        _column(
            "why",
            Type.STRING,
            "why no end is expected: `never` and the reason, the cause that was diagnosed, or "
            "the missing fact",
        ),
        _always("model", Type.INT, "version of the model that computes it"),
    ),
    by_tick=True,
)

QUALITY: Final = ResultTable(
    "quality",
    "an expectation and run",
    "period_start",
    (
        _always("period_start", Type.TIME, "first hour of the checked period"),
        _always("period_end", Type.TIME, "end of its last hour"),
        _always("of", Type.STRING, "the recorded table, or `files`"),
        _always("expectation", Type.STRING, "its name"),
        _always("outcome", Type.STRING, "the action on the rows: quarantined, dropped or kept"),
        _always("violations", Type.LONG, "rows that failed it; of `files`, files", "rows"),
        _always("rows", Type.LONG, "rows that were checked; of `files`, files", "rows"),
        _always("meaning", Type.STRING, "the expected rule"),
    ),
)

QUARANTINE: Final = ResultTable(
    "quarantine",
    "a recorded row that was excluded from all other tables",
    "period_start",
    (
        _always("period_start", Type.TIME, "first hour of the checked period"),
        _always("reasons", Type.STRING, "names of the expectations that it failed, with commas"),
        *(SampleColumn(c.name, c.type, c.meaning, c.unit) for c in REPLICA_SAMPLES),
    ),
    by_tick=True,
)

QUARANTINE_BROKERS: Final = ResultTable(
    "quarantine_brokers",
    "a recorded row of a broker that was excluded from all other tables",
    "period_start",
    (
        *QUARANTINE.columns[:2],
        *(SampleColumn(c.name, c.type, c.meaning, c.unit) for c in BROKER_SAMPLES),
    ),
    by_tick=True,
)

QUARANTINE_FILES: Final = ResultTable(
    "quarantine_files",
    "a file of samples that was set aside; none of its rows is in another table",
    "start",
    (
        _always("start", Type.TIME, "when the hour of its folder begins"),
        _always("of", Type.STRING, "the recorded table whose folder it is in"),
        _always("file", Type.STRING, "its path in the recording"),
        _always(
            "fault",
            Type.STRING,
            "what is wrong: damaged, empty, inaccessible, foreign, newer, other_table, "
            "other_cluster, column_missing or column_changed",
        ),
        _always("detail", Type.STRING, "the same in a sentence"),
        _always("size_bytes", Type.LONG, "its size", "B"),
        _always("found", Type.TIME, "when it was set aside"),
    ),
)

TABLES: Final = (
    RATES,
    STALLS,
    MOVE_PAIRS,
    THROTTLE_EFFECT,
    ETA,
    BROKER_LOAD,
    QUALITY,
    QUARANTINE,
    QUARANTINE_BROKERS,
    QUARANTINE_FILES,
)


# The manifest


@dataclass(frozen=True, slots=True)
class RunTable:
    """What a run delivered of one table."""

    rows: int
    newest_ms: int | None
    """Newest value of its `hour_of`; None where there are no rows."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run whose results hold, for some hours at least."""

    id: str
    made_ms: int
    """When it was published."""
    made_by: str
    """The version of kshunt."""
    results_version: int
    samples_version: int
    samples_newest_ms: int | None
    """Newest sample that went into it."""
    period_start_ms: int
    period_end_ms: int
    tables: Mapping[str, RunTable] = field(default_factory=dict)
    streamed: bool = False
    """Its rows are those of the streaming job, put together."""
    thinned: bool = False
    """Of a replica at rest its `rates` have a row an hour."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which run each hour of a table is taken from."""

    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    hours: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each table: hour folder to run."""

    def with_run(self, run: RunRecord, tables: Iterable[str], hours: Iterable[str]) -> Manifest:
        """The same with these hours taken from `run`; runs that no hour needs are left out."""
        fresh = dict.fromkeys(hours, run.id)
        tables = set(tables)
        runs_by_hour = {
            table: dict(self.hours.get(table, {})) | (fresh if table in tables else {})
            for table in sorted({*self.hours, *tables})
        }
        needed = {id for by_hour in runs_by_hour.values() for id in by_hour.values()}
        runs = {**self.runs, run.id: run}
        return Manifest({id: runs[id] for id in runs if id in needed}, runs_by_hour)

    def without(self, hours: Mapping[str, Collection[str]]) -> Manifest:
        """The same without these hours of each table, and without runs that no hour needs."""
        left = {
            table: {hour: run for hour, run in by_hour.items() if hour not in hours.get(table, ())}
            for table, by_hour in self.hours.items()
        }
        needed = {id for by_hour in left.values() for id in by_hour.values()}
        return Manifest({id: run for id, run in self.runs.items() if id in needed}, left)

    def run_of(self, table: str, hour: str) -> RunRecord | None:
        """The run that an hour of a table is taken from; None: it is all of its batches."""
        return self.runs.get(self.hours.get(table, {}).get(hour, ""))

    def holds(self, table: str, hour: str, part: str) -> bool:
        """Whether a folder of an hour (`run=ID`, `batch_id=N`) is to be read."""
        run = self.hours.get(table, {}).get(hour)
        return part.startswith("batch_id=") if run is None else part == f"run={run}"

    def to_json(self) -> str:
        """As it is kept."""
        runs = [asdict(run) for run in self.runs.values()]
        return json.dumps({"runs": runs, "hours": self.hours}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """What `to_json` wrote.

        Raises:
            ValueError: it is no manifest.
        """
        try:
            content = json.loads(text)
            runs = [_run(run) for run in content["runs"]]
            return cls({run.id: run for run in runs}, content["hours"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no manifest: {error}") from None


def _run(content: dict[str, object]) -> RunRecord:
    tables = content.pop("tables")
    assert isinstance(tables, dict)
    known = {name: content[name] for name in RunRecord.__dataclass_fields__ if name in content}
    return RunRecord(
        **known,  # type: ignore[arg-type]
        tables={name: RunTable(**table) for name, table in tables.items()},
    )
