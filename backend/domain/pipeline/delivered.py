"""What the data pipeline has delivered: how it stands, and its results, each with age and source.

Fields of a row bear the names of the columns in `results`; a time has `_ms` behind it, and is in
milliseconds since the epoch. None is what is not known, or what the pipeline did not say.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STREAM: Final = "stream"
BACKFILL: Final = "backfill"
"""Where results are from: as samples came (`kshunt serve`, or `kshunt pipeline run`), or
`kshunt pipeline backfill`."""

ETA_FRESH_MS: Final = 30_000
"""An older forecast is not shown for what runs."""
STALE_MS: Final = 300_000
"""Results that are further behind the samples are late, unless their process has just begun."""


class PipelineState(enum.StrEnum):
    """The state of the pipeline."""

    ABSENT = "absent"
    """There are no results."""
    UNATTENDED = "standing"
    """There are results, and nothing that keeps them up."""
    RUNNING = "running"
    """Results keep up with the samples."""
    RESTARTING = "restarting"
    """What this backend runs for it has failed, and begins again."""
    LATE = "late"
    """The process that makes results has fallen behind, or has stopped."""
    FAILED = "failed"
    """There are files, and they cannot be read."""


class RunsAs(enum.StrEnum):
    """What of this backend makes the results."""

    PROCESS = "process"
    """`kshunt pipeline run` with Spark: it ends when something is wrong, and is started again."""
    THREAD = "thread"
    """A thread of the backend: it continues when something is wrong, and tries again."""


@dataclass(frozen=True, slots=True)
class PipelineProcess:
    """What this backend runs to make results: a thread, or `kshunt pipeline run`."""

    running: bool
    since_ms: int
    """When it was started, or ended, last."""
    restarts: int = 0
    last_error: str = ""
    """Its last line when it ended; empty if it never ended."""
    runs_as: RunsAs = RunsAs.PROCESS


@dataclass(frozen=True, slots=True)
class SampleGap:
    """A time without samples, or perhaps without some."""

    from_ms: int
    to_ms: int
    text: str
    """Why, and how many."""


@dataclass(frozen=True, slots=True)
class SamplesStatus:
    """The state of the recording of samples."""

    written_ms: int | None = None
    """Every sample until then is written, or was missed."""
    problem: str = ""
    """Why nothing is written; empty without a problem."""
    rows_missed: int = 0
    """Dropped or lost since this backend started."""
    moments_skipped: int = 0
    missed: tuple[SampleGap, ...] = ()
    """The last ones."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The state of a table of results."""

    table: str
    newest_ms: int | None = None
    """Of the newest row; None where there are none."""
    source: str = ""
    """`stream` or `backfill`, of the newest row; empty where there are none."""
    made_ms: int | None = None
    """When the newest row was written."""
    problem: str = ""
    """Files that could not be read, in words; their rows are missing."""


@dataclass(frozen=True, slots=True)
class FileAsideRow:
    """A file of samples that was set aside; the others of its hour count."""

    start_ms: int
    """When the hour of its folder begins."""
    of: str
    """The recorded table whose folder it is in."""
    file: str
    """Its path in the recording."""
    fault: str
    """A `FileFault`."""
    detail: str = ""
    """The same in a sentence."""
    size_bytes: int = 0
    found_ms: int | None = None
    """When it was set aside."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Whether there are results, how old they are, and what keeps them up to date."""

    state: PipelineState = PipelineState.ABSENT
    reason: str = ""
    """Why there are no results, or no new ones; empty without a problem."""
    command: str = ""
    """The command to run; empty if none is needed."""
    folder: str = ""
    """Of the results; empty where none was named."""
    newest_ms: int | None = None
    """Of the newest result, of all tables."""
    behind_s: float | None = None
    """By how much the newest result is older than the newest sample; None: not known."""
    process: PipelineProcess | None = None
    """None where this backend runs none."""
    samples: SamplesStatus | None = None
    """None where this backend records none."""
    tables: tuple[TableStatus, ...] = ()
    files_aside: int = 0
    """Files of samples of a day that were set aside: no result has their rows."""
    aside: tuple[FileAsideRow, ...] = ()
    """The last of those files."""

    def of(self, table: str) -> TableStatus:
        """How far a table is."""
        return next((one for one in self.tables if one.table == table), TableStatus(table))


ABSENT: Final = PipelineStatus(
    PipelineState.ABSENT,
    "This backend records no samples and has no results.",
    "kshunt serve --samples DIR",
)
"""The status of a backend without a folder of samples or results."""


# Rows of results


@dataclass(frozen=True, slots=True)
class TransferPoint:
    """What was copied within a time, from `rates`; means over it."""

    at_ms: int
    """When that time began."""
    lag_bytes: float
    """What replicas that are added, or out of the ISR, lacked together."""
    copied_bytes_per_s: float
    """What they advanced together."""
    copies: float
    """How many there were."""


@dataclass(frozen=True, slots=True)
class TransferHistory:
    """Lag and throughput over days."""

    points: tuple[TransferPoint, ...] = ()
    bucket_s: float = 0.0
    """The length of the time of each point."""
    since_ms: int | None = None
    """Results before it are not all read yet; None where all of what was asked for are."""


@dataclass(frozen=True, slots=True)
class EtaRow:
    """When a copy, or all of an operation, will be done."""

    at_ms: int
    """Of the newest sample that it was made from; the times below count from here."""
    operation_id: str | None = None
    """None for a copy that no operation of ours makes."""
    rid: int | None = None
    """None for all of an operation."""
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    copies: int = 1
    """Replicas that the row stands for."""
    remaining_bytes: int | None = None
    rate_bytes_per_s: float | None = None
    """The rate that is expected at first."""
    stage: float | None = None
    """Progress in time, from 0 to 1."""
    throttled: bool = False
    bound: str | None = None
    """The bottleneck."""
    p10_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    """Nine in ten are done after this time; None: see `why`."""
    why: str | None = None
    """Why no end is expected."""

    @property
    def never(self) -> bool:
        """It is not done before something changes."""
        return self.p50_s is None and (self.why or "").startswith("never")


@dataclass(frozen=True, slots=True)
class StallRow:
    """A time in which a replica that wants to advance did not."""

    start_ms: int
    end_ms: int
    seconds: float
    open: bool
    """It had not ended when the samples ended."""
    topic: str
    partition: int
    broker: int
    leader: int | None = None
    lag_start_bytes: int | None = None
    lag_end_bytes: int | None = None
    cause: str = "unknown"
    """The name of a `Cause`, or `unknown`."""
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Stalls of one cause."""

    cause: str
    stalls: int
    open: int
    replicas: int
    seconds: float
    """All of them together."""
    longest_s: float


@dataclass(frozen=True, slots=True)
class BottleneckRow:
    """What held operations up."""

    bound: str
    """As `EtaRow.bound`."""
    seconds: float
    """For how long: the sum over the operations."""
    operations: int
    first_ms: int
    """The first minute in which it did."""
    last_ms: int
    """The last one."""


@dataclass(frozen=True, slots=True)
class LoadRow:
    """A broker, in the newest hour of it."""

    broker: int
    start_ms: int
    """When the hour began."""
    newest_ms: int
    """Of the last sample in it."""
    in_bytes_per_s: float | None = None
    """What moves brought it."""
    out_bytes_per_s: float | None = None
    """What moves took from it."""
    produced_bytes_per_s: float | None = None
    """Written to the partitions that it led."""
    leader_share: float | None = None
    """Of the partitions that all brokers led, from 0 to 1."""
    disk_total_bytes: int | None = None
    disk_used_bytes: int | None = None
    disk_free_bytes: int | None = None
    growth_bytes_per_s: float | None = None
    """Of what is used, over a day."""
    growth_span_s: float | None = None
    """How much of that day was recorded."""
    full_in_s: float | None = None
    """Counted from `newest_ms`. None: its disk does not grow, or it is not known."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """Rates of copies from one broker to another, over the checked time."""

    source: int
    destination: int
    throttled: bool
    n: int
    bytes: int
    p10_bytes_per_s: float | None = None
    p50_bytes_per_s: float | None = None
    p90_bytes_per_s: float | None = None
    """Means over pieces of 5 minutes, by how many rates each has."""


@dataclass(frozen=True, slots=True)
class EffectRow:
    """The recent effect of a throttle, of one broker and direction, and the recommended rate."""

    broker: int
    direction: str
    """`leader` or `follower`."""
    start_ms: int
    end_ms: int
    permitted_bytes_per_s: int
    copies: int
    """Replicas that were copied under it."""
    advice: str
    """`raise`, `lower`, `keep`, or `no effect`."""
    recommended_bytes_per_s: int
    reason: str
    achieved_bytes_per_s: float | None = None
    """What those replicas copied together."""
    in_sync_bytes_per_s: float | None = None
    """What replicas in the ISR took, that counts too."""
    share_used: float | None = None
    """Of the rate, by both."""
    left_isr: int = 0
    """Steady replicas that left the ISR meanwhile."""
    steady_lag_p95_s: float | None = None
    steady_lag_change_s: float | None = None


@dataclass(frozen=True, slots=True)
class QualityRow:
    """Samples that failed an expectation, over the checked time."""

    of: str
    expectation: str
    outcome: str
    violations: int
    rows: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """Rows of one table, with its age and source."""

    of: TableStatus
    rows: tuple[T, ...] = ()
    more: int = 0
    """How many more rows there are."""
    since_ms: int | None = None
    """From when on all results were looked at; None where only the newest are."""


@dataclass(frozen=True, slots=True)
class TransferAnswer:
    """Lag and throughput, with their age and source."""

    of: TableStatus
    course: TransferHistory


@dataclass(frozen=True, slots=True)
class PipelinePast:
    """What a history shows of the results."""

    course: TransferAnswer
    etas: Rows[EtaRow]
    stalls: Rows[StallRow]
    causes: Rows[CauseRow]
    loads: Rows[LoadRow]
    pairs: Rows[PairRow]
    quality: Rows[QualityRow]
    bottlenecks: Rows[BottleneckRow] = Rows(TableStatus("eta"))
    """An earlier backend does not tell them."""
