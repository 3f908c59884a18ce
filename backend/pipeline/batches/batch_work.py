"""What one batch of new samples becomes; see `kshunt.backend.pipeline.jobs.stream` for how.

The samples are worked elsewhere: by workers of Spark, or in this thread. All else is here: which
ticks are closed, what is counted and set aside, and what is remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from kshunt.backend.clock import Clock
from kshunt.backend.delivered_files.result_files import hour_folders, read_manifest
from kshunt.backend.domain.pipeline.result_columns import (
    GAP_S,
    QUALITY,
    QUARANTINE,
    QUARANTINE_FILES,
    RATES,
    STALL_S,
    STALLS,
    TICK_S,
    UNKNOWN_CAUSE,
    Manifest,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.batches.arrivals import BUCKETS, Arrived, S, made_ms
from kshunt.backend.pipeline.kernels import quality, rate_step, stream_step
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA, arrow_of
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.kernels.replica_runs import millis
from kshunt.backend.pipeline.kernels.stalls import StallSettings
from kshunt.backend.pipeline.results.stream_state import (
    STATE_VERSION,
    Meta,
    StreamBatch,
    parts_between,
    state_folder,
)
from kshunt.backend.pipeline.samples.expectations import (
    FILES,
    READABLE,
    REPLICA_EXPECTATIONS,
    RowOutcome,
    TimeBounds,
)
from kshunt.backend.pipeline.samples.file_sieve import (
    FileAside,
    FileSieve,
    Sifted,
    rows_of_aside,
)

R = TypeVar("R")

TICK_MS: Final = TICK_S * 1000
CLOSE_MS: Final = 2_000
"""A tick is closed when the newest sample is this long after its end."""
LATE_MS: Final = 60_000
"""A row of a replica that rests may be older by so much than the newest."""
IN_TIME: Final = "in_time"
THERE: Final = "there"
_BY_BATCH: Final = (
    (THERE, RowOutcome.DROPPED, "its topic still has it when it is read"),
    (IN_TIME, RowOutcome.QUARANTINED, "it comes before its replica's rates of that time are made"),
)
"""What only a stream expects."""
_COUNTED: Final = (
    "rows",
    THERE,
    IN_TIME,
    FILES,
    READABLE.name,
    *(e.name for e in REPLICA_EXPECTATIONS),
)
FORGET_MS: Final = 3_600_000
"""A replica that was not seen for this time is new when it comes back."""


@dataclass(frozen=True, slots=True)
class Piece(Generic[R]):
    """Rates that tables are made of."""

    rates: R
    start_ms: int
    """No rate is older, but for what `DerivedTable.before_s` asks for."""
    end_ms: int
    """Each rate is older."""
    sieve: FileSieve | None = None
    """Of the recording; None where samples come from a topic."""
    files: list[Sifted] = field(default_factory=list)
    """Put here: other files of samples that a table was made of."""


@dataclass(frozen=True, slots=True)
class DerivedTable(Generic[R]):
    """A table that is made of rates."""

    table: ResultTable
    of: Callable[[Piece[R]], Any]
    """Its rows, as an Arrow table."""
    every_s: int = 0
    """0: of each batch's rates. Else of whole intervals of this length, which divides an hour."""
    before_s: int = 0
    """So much before an interval is read as well."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where batches go to, and what they are looked at by."""

    results: Path
    clock: Clock
    sieve: FileSieve | None = None
    """Of the recording; None where samples come from a topic."""


@dataclass(frozen=True, slots=True)
class WorkerFindings:
    """What the workers found."""

    sums: Mapping[str, int]
    times: Mapping[str, int]
    rows: Mapping[str, Any]
    """Rows that were set aside, as Arrow tables."""

    @classmethod
    def of(cls, found: Any) -> WorkerFindings:
        """Out of what they said; see `stream_step.FOUND`."""
        sums = Counter[str]()
        times: dict[str, int] = {}
        cells: dict[str, list[Any]] = {stream_step.LATE: [], stream_step.BAD: []}
        for row in found.to_pylist():
            name, number = row["name"], row["number"]
            if row["rows"] is not None:
                cells[name].append(pa.ipc.read_record_batch(row["rows"], SAMPLES_SCHEMA))
            elif name.startswith(stream_step.OLDEST):
                times[name] = min(number, times.get(name, number))
            elif name.startswith(stream_step.NEWEST):
                times[name] = max(number, times.get(name, number))
            else:
                sums[name] += number
        rows = {name: pa.Table.from_batches(some, SAMPLES_SCHEMA) for name, some in cells.items()}
        return cls(sums, times, rows)


@dataclass(slots=True)
class BatchWork(ABC, Generic[S, R]):
    """One batch at work; a class that derives from it names what does the work.

    `S` is the form in which samples come, and `R` that in which rates are read.
    """

    place: BatchPlace
    former: Meta
    arrived: Arrived[S]
    batch: StreamBatch
    newest_ms: int | None = None
    """Newest sample so far, of those that were not ahead of the clock."""
    closed_ms: int = 0
    """Ticks that end by then are closed."""
    checks: Checks = field(init=False)
    found: WorkerFindings = field(init=False)
    aside: list[FileAside] = field(init=False)
    """Files of samples that were set aside."""
    files: int = field(init=False)
    """How many were looked at."""

    @property
    @abstractmethod
    def derived(self) -> Sequence[DerivedTable[R]]:
        """The tables that are made in addition to rates and stalls."""
        ...

    @property
    def _is_whole(self) -> bool:
        """Whether all buckets are worked together; see `stream_step.WorkerBatch.whole`."""
        return False

    @abstractmethod
    def _worked(self, step: stream_step.WorkerBatch) -> WorkerFindings:
        """Let the samples that have arrived be worked; see `kernels.stream_step`."""
        ...

    @abstractmethod
    def _read(self, paths: Sequence[Path], since_ms: int, until_ms: int) -> R:
        """The rates of some folders, of [since_ms, until_ms)."""
        ...

    @property
    def late(self) -> int:
        """Rows that came too late."""
        return len(self.found.rows[stream_step.LATE])

    def made(self) -> Meta:
        """Write everything of the batch aside; what is to be remembered after it."""
        former, arrived = self.former, self.arrived
        known = [at for at in (former.newest_ms, arrived.newest_ms) if at is not None]
        self.newest_ms = max(known, default=None)
        self.closed_ms = _closed(self.newest_ms, former.closed_ms)
        now_ms = self.place.clock.now_ms()
        hour_ms = _floor(now_ms if self.newest_ms is None else self.newest_ms, HOUR_MS)
        # Rows of open ticks wait for this batch, however long it was not made.
        waited_ms = hour_ms if former.newest_ms is None else _floor(former.newest_ms, HOUR_MS)
        bounds = TimeBounds.of(min(hour_ms, waited_ms), now_ms)
        self.checks = Checks(bounds.earliest_ms, bounds.latest_ms, 0, 0, GAP_S * 1000)
        self.found = self._worked(self._step())
        self.aside, self.files = list(arrived.aside), arrived.looked_at
        for table in (RATES, STALLS):
            self._open_part(table)
        made_ms = self._derive()
        self._write_aside(now_ms)
        meta = replace(
            former,
            batch=self.batch.number,
            closed_ms=self.closed_ms or None,
            newest_ms=self.newest_ms,
            rows=former.rows + self.found.sums["rows"],
            files_to=max(former.files_to, arrived.files_to),
            position=arrived.position or former.position,
            counts=self._count(hour_ms),
            made_ms=made_ms,
            owed=self._owed(now_ms),
            files_aside=arrived.waiting,
            cluster_id=arrived.cluster_id or former.cluster_id,
            version=STATE_VERSION,
        )
        return replace(meta, open_hours=self.batch.open_hours(former))

    # Rates

    def _step(self) -> stream_step.WorkerBatch:
        """How rates are made, and what is to be remembered of them."""
        return stream_step.WorkerBatch(
            rate_step.SETTINGS,
            self.checks,
            SAMPLES_SCHEMA,
            pa.schema(arrow_of(RATES.columns)),
            pa.schema(arrow_of(STALLS.columns)),
            BUCKETS,
            str(state_folder(self.place.results, self.former.batch)),
            str(self.batch.state),
            str(self.batch.aside),
            self.former.closed_ms or 0,
            self.closed_ms,
            StallSettings(self.newest_ms or 0, GAP_S * 1000, STALL_S * 1000, UNKNOWN_CAUSE),
            LATE_MS,
            FORGET_MS,
            self._is_whole,
        )

    def _open_part(self, table: ResultTable) -> None:
        """All of it in the hour of its newest row: so it is replaced in one place."""
        newest = self.found.times.get(f"{stream_step.NEWEST}{stream_step.OPEN}{table.name}")
        hour = self.former.open_hours.get(table.name)
        if newest is not None or hour is None:
            hour = hour_folder(newest or self.newest_ms or self.place.clock.now_ms())
        files = self.batch.aside / stream_step.PARTS / table.name
        self.batch.open_parts[table.name] = hour, files

    def _closed_rates(self) -> R:
        """The rates of this batch that are written."""
        hours = hour_folders(self.batch.table(RATES.name))
        return self._read([hour.path for hour in hours], 0, self.closed_ms)

    # What is made of it

    def _derive(self) -> dict[str, int]:
        """The other tables; how far those are made that are made by intervals."""
        made = dict(self.former.made_ms)
        for derived in self.derived:
            if derived.every_s:
                made |= self._by_interval(derived)
            elif self.found.sums[stream_step.RATES]:
                piece = Piece(self._closed_rates(), 0, self.closed_ms)
                self._write(derived.table, derived.of(piece))
        return made

    def _by_interval(self, derived: DerivedTable[R]) -> dict[str, int]:
        name, every_ms = derived.table.name, derived.every_s * 1000
        until = _floor(self.closed_ms - LATE_MS, every_ms)
        start = self.former.made_ms.get(name)
        if start is None:
            first = self.found.times.get(f"{stream_step.OLDEST}{stream_step.RATES}")
            if first is None:
                return {}
            start = _floor(first, every_ms)
        if start >= until:
            return {name: start}
        since = start - derived.before_s * 1000
        paths = parts_between(self.place.results, RATES.name, since, until, self.batch)
        piece = Piece(self._read(paths, since, until), start, until, self.place.sieve)
        self._write(derived.table, derived.of(piece))
        for files in piece.files:
            self.aside += files.aside
            self.files += files.looked_at
        return {name: until}

    def _write(self, table: ResultTable, rows: Any) -> None:
        self.batch.write(table.name, table.hour_of, rows)

    # What was not as expected

    def _write_aside(self, now_ms: int) -> None:
        """Name the files that were set aside."""
        if self.place.sieve is not None and self.aside:
            rows = rows_of_aside(self.aside, self.place.sieve.folder, now_ms)
            schema = pa.schema(arrow_of(QUARANTINE_FILES.columns))
            self._write(QUARANTINE_FILES, pa.Table.from_pylist(rows, schema))

    def _count(self, hour_ms: int) -> dict[str, Mapping[str, int]]:
        """What was counted in the last hours, with this batch; bad rows are set aside."""
        late, bad = self.found.rows[stream_step.LATE], self.found.rows[stream_step.BAD]
        aside = [
            rows.append_column("reasons", pa.array(reasons, pa.string()))
            for rows, reasons in ((late, [IN_TIME] * len(late)), (bad, self._reasons(bad)))
            if len(rows)
        ]
        if aside:
            rows = [_of_hour(some, QUARANTINE, hour_ms) for some in aside]
            self._write(QUARANTINE, pa.concat_tables(rows))
        counted = {
            **self.found.sums,
            IN_TIME: len(late),
            THERE: self.arrived.lacking,
            FILES: self.files,
            READABLE.name: len(self.aside),
        }
        former = self.former.counts.get(str(hour_ms), {})
        total = {name: former.get(name, 0) + counted[name] for name in _COUNTED}
        self.batch.counted = hour_folder(hour_ms), _quality(total, hour_ms)
        recent = {h: n for h, n in self.former.counts.items() if int(h) >= hour_ms - HOUR_MS}
        return {**recent, str(hour_ms): total}

    def _reasons(self, bad: Any) -> list[str]:
        """Of each row the expectations that it breaks."""
        if not len(bad):
            return []
        rows = bad.combine_chunks().to_batches()[0]
        broken = quality.by_themselves(rows, millis(rows.column("at")), self.checks)
        return [
            ",".join(name for name, rows in broken.items() if rows[row]) for row in range(len(bad))
        ]

    def _owed(self, now_ms: int) -> dict[str, int]:
        """Hours that a backfill has to make again; see `Meta.owed`."""
        manifest = read_manifest(self.place.results)
        hours = hour_folders(self.batch.table(RATES.name))
        runs = manifest.hours.get(RATES.name, {})
        hidden = [h.start_ms for h in hours if h.name in runs]
        owed = {**self.former.owed, **{str(h): now_ms for h in (*hidden, *self.arrived.gone)}}
        return {h: since for h, since in owed.items() if not is_backfilled(manifest, int(h), since)}


def is_backfilled(manifest: Manifest, hour_ms: int, since_ms: int) -> bool:
    """Whether a backfill has made an hour after it was over, and after it was owed."""
    return made_ms(manifest, hour_ms) >= max(hour_ms + HOUR_MS, since_ms)


def _closed(newest_ms: int | None, former_ms: int | None) -> int:
    """Ticks that end by then are closed; 0 where nothing was seen."""
    if newest_ms is None:
        return former_ms or 0
    return max(_floor(newest_ms - CLOSE_MS, TICK_MS), former_ms or 0)


def _floor(at_ms: int, step_ms: int) -> int:
    return at_ms - at_ms % step_ms


def _quality(counts: Mapping[str, int], hour_ms: int) -> Any:
    """The rows of `quality` of an hour."""
    of_rows = [(e.name, e.outcome, e.meaning) for e in REPLICA_EXPECTATIONS] + [*_BY_BATCH]
    about = [("replicas", "rows", *each) for each in of_rows]
    about += [(FILES, FILES, READABLE.name, READABLE.outcome, READABLE.meaning)]
    rows = pa.Table.from_pylist(
        [
            {
                "of": of,
                "expectation": name,
                "outcome": outcome.value,
                "violations": counts[name],
                "rows": counts[checked],
                "meaning": meaning,
            }
            for of, checked, name, outcome, meaning in about
        ]
    )
    return _of_hour(rows, QUALITY, hour_ms)


def _of_hour(rows: Any, table: ResultTable, hour_ms: int) -> Any:
    """Rows in a table's columns, with the hour as their period."""
    for name, at_ms in (("period_start", hour_ms), ("period_end", hour_ms + HOUR_MS)):
        if name in table.names:
            at = pa.scalar(at_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
            rows = rows.append_column(name, pa.repeat(at, len(rows)))
    schema = pa.schema(arrow_of(table.columns))
    return pa.table({field.name: rows[field.name].cast(field.type) for field in schema})
