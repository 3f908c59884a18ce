"""Results of a period, made anew from its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kshunt.backend.clock import Clock
from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    GAP_S,
    MOVE_PAIRS,
    QUALITY,
    QUARANTINE,
    QUARANTINE_BROKERS,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
    ResultTable,
    RunTable,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA, arrow_of
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.kernels.stalls import RATES as RATES_OF_STALLS
from kshunt.backend.pipeline.results.result_runs import Run, new_run
from kshunt.backend.pipeline.samples.broker_expectations import BROKER_EXPECTATIONS
from kshunt.backend.pipeline.samples.broker_fitness import BrokerSplit
from kshunt.backend.pipeline.samples.broker_samples import broker_samples
from kshunt.backend.pipeline.samples.expectations import (
    FILES,
    READABLE,
    REPLICA_EXPECTATIONS,
    Expectation,
    RowOutcome,
    TimeBounds,
)
from kshunt.backend.pipeline.samples.file_sieve import (
    FileAside,
    FileSieve,
    Sifted,
    rows_of_aside,
)
from kshunt.backend.pipeline.samples.recording_folder import NoSamples
from kshunt.backend.pipeline.samples.replica_samples import (
    find_recording,
    period_of,
    read_samples,
)
from kshunt.backend.pipeline.samples.row_fitness import quarantined
from kshunt.backend.pipeline.spark.column_types import moment, select_as, struct_of, with_hour
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.spark.row_packing import of_files
from kshunt.backend.pipeline.spark.session import SparkFailed, first_line
from kshunt.backend.pipeline.tables.broker_load import broker_load
from kshunt.backend.pipeline.tables.eta import eta
from kshunt.backend.pipeline.tables.move_pairs import move_pairs
from kshunt.backend.pipeline.tables.rates import counted, rows_of, unlooked
from kshunt.backend.pipeline.tables.stalls import islands_of
from kshunt.backend.pipeline.tables.stalls import rows_of as stalls_of
from kshunt.backend.pipeline.tables.throttle_effect import throttle_effect
from kshunt.backend.telemetry.recording.schema import UnreadableSamples

LOOKBACK_MS: Final = 15 * 60_000
"""So much before the period is read too: longer than the longest window, its step and a gap. Rates
are then those of a run over everything; a segment or a stall may have begun even earlier."""
_HOURS_AT_ONCE: Final = 26
"""A day, and what is read before it."""
_ROW_GROUP_BYTES: Final = 16 << 20
"""Of each of those hours, a task holds so much."""


@dataclass(frozen=True, slots=True)
class Period:
    """Whole hours, in milliseconds since the epoch."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table that was made."""

    table: str
    rows: int
    seconds: float
    newest_ms: int | None
    """Newest value of its `hour_of`; None where there are no rows."""


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """What a backfill did."""

    period: Period
    tables: tuple[MadeTable, ...]
    counts: Mapping[str, int]
    """Samples that broke each expectation, and `rows`: all of the period."""
    brokers: Mapping[str, int] = field(default_factory=dict)
    """The same of the samples of brokers; empty where there are none."""
    files_aside: tuple[FileAside, ...] = ()
    """Files that could not be read, or are not of this recording."""


_CANCEL_AGAIN_S: Final = 0.5
"""Work that had not begun when others were cancelled is cancelled so much later."""

Say = Callable[[MadeTable], None]
Working = Callable[[str], AbstractContextManager[object]]
"""What surrounds the making of some tables, by their names."""
GONE: Final = NoSamples(
    "The files of that time were removed before they were read. Nothing was changed.",
    advice="Run it again; that is enough if samples were merged in the meantime.",
)


OF_RATES: Final = (STALLS, MOVE_PAIRS, THROTTLE_EFFECT, ETA)
"""The tables that are made of the rates."""
Planned = Callable[[], DataFrame]
"""Plans the rows of a table; that takes seconds of some."""


def written_rates(session: SparkSession, folder: Path) -> DataFrame:
    """The rates of a folder of the table, those of the lookback included."""
    return session.read.schema(struct_of(RATES.columns)).parquet(literal(folder))


def of_rates(
    session: SparkSession, folder: Path, start_ms: int, newest_ms: int
) -> dict[ResultTable, Planned]:
    """The tables `OF_RATES` from `start_ms` on, of the rates in a folder, in that order."""
    written, start = written_rates(session, folder), moment(F.lit(start_ms))

    def stalls() -> DataFrame:
        files = sorted(folder.glob("*/*/[!._]*.parquet"))
        found = islands_of(of_files(session, files, RATES_OF_STALLS), newest_ms)
        return stalls_of(found).filter(F.col("end") >= start)

    return {
        STALLS: stalls,
        MOVE_PAIRS: lambda: move_pairs(written.filter(F.col("at") >= start)),
        THROTTLE_EFFECT: lambda: throttle_effect(written).filter(F.col("start") >= start),
        ETA: lambda: eta(written.filter(F.col("at") >= start), Calibration.read()),
    }


def of_brokers(brokers: DataFrame, rates: DataFrame, start_ms: int) -> DataFrame:
    """The table `broker_load` from `start_ms` on, of clean samples of brokers, and of rates."""
    start = F.col("start") >= moment(F.lit(start_ms))
    return broker_load(brokers, rates).filter(start)


def check(samples: Path, from_ms: int | None, to_ms: int | None) -> Period:
    """The period of a backfill, before Spark is started for it.

    Raises:
        NoSamples: there is no recording, or nothing was recorded then.
        UnreadableSamples: no file of that time can be opened.
    """
    recording = find_recording(samples)
    period = Period(*period_of(recording, from_ms, to_ms))
    recording.sifted(FileSieve(samples), period.start_ms, period.end_ms)
    return period


def backfill(
    session: SparkSession,
    samples: Path,
    results: Path,
    period: Period,
    clock: Clock,
    say: Say,
    working: Working = nullcontext,
) -> BackfillReport:
    """Make all tables of a period anew, and replace the former ones with them at one moment.

    This calls `say` for each table when it has been written, from one of several threads.
    `working` surrounds the making of a table, or of those that are made together.

    Raises:
        ResultsBusy: another process makes results there.
        UnreadableSamples: every file of that time was set aside; the former results hold.
        SparkFailed: Spark has ended before its work was done; the former results hold.
    """
    sieve = FileSieve(samples)
    with new_run(results, period.start_ms, period.end_ms, clock.now_ms()) as run:
        while True:
            try:
                return _Backfill(session, period, clock, say, working, run, sieve).made()
            except PySparkException as error:
                if sieve.is_any_torn():
                    # What a footer did not tell: begin again, without the files that are torn.
                    run.begin_again()
                    continue
                raise SparkFailed(
                    f"Spark failed: {first_line(error)}. The former results of that time stay "
                    "valid.",
                    advice="Run it again; that is enough if samples were merged in the meantime.",
                ) from error


@dataclass(frozen=True, slots=True)
class _Backfill:
    """One backfill at work."""

    session: SparkSession
    period: Period
    clock: Clock
    say: Say
    working: Working
    run: Run
    sieve: FileSieve

    def made(self) -> BackfillReport:
        # Spark would sort all rows by hour first, unless a task may write all hours together.
        self.session.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(_HOURS_AT_ONCE))
        recording = find_recording(self.sieve.folder)
        start, end = self.period.start_ms, self.period.end_ms
        hours = recording.hours(start, end)
        found = recording.sifted(self.sieve, start - LOOKBACK_MS, end)
        own = found.within(start, end)
        if not own.good:
            raise self._nothing(own, hours) if own.aside else GONE
        # Hours of which no file can be read keep their former results.
        start, end = min(own.good), max(own.good) + HOUR_MS
        return replace(self, period=Period(start, end))._of_files(found, own, hours)

    def _nothing(self, own: Sifted, hours: Sequence[int]) -> UnreadableSamples:
        """Say what is wrong with the files, and leave all other tables alone."""
        self._write_aside(own.aside)
        self.run.publish((), self.clock.now_ms(), None, {QUARANTINE_FILES.name: hours})
        count = f"All {len(own.aside)} files" if len(own.aside) > 1 else "The only file"
        return UnreadableSamples(
            f"{count} of that time cannot be used: {own.aside[0].detail} The former results of "
            "that time stay valid.",
            advice="The table quarantine_files names them.",
            fault=own.aside[0].fault,
        )

    def _of_files(self, found: Sifted, own: Sifted, hours: Sequence[int]) -> BackfillReport:
        """The tables, of all samples that can be read; of `own`, those of the period count."""
        start, end = self.period.start_ms, self.period.end_ms
        files = found.paths
        bounds = TimeBounds.of(start, self.clock.now_ms())
        made = counted(self._stepped(files, bounds))
        tables = [self._write(RATES, rows_of(made.step))]
        tables += self._of_rates(tables[0].newest_ms)
        now_ms = self.clock.now_ms()
        of_brokers = broker_samples(self.session, self.sieve, start, end, now_ms)
        brokers = of_brokers.split
        tables += self._of_brokers(brokers, tables[0].newest_ms)
        counts, broker_counts = made.counts(), {} if brokers is None else brokers.counts()
        aside = (*own.aside, *of_brokers.files.aside)
        looked_at = own.looked_at + of_brokers.files.looked_at
        file_counts = {"rows": looked_at, READABLE.name: len(aside)}
        quality = self._quality(counts, broker_counts, file_counts)
        tables += [self._write(QUALITY, quality)]
        if _are_bad(REPLICA_EXPECTATIONS, counts):
            rows = quarantined(read_samples(self.session, files), bounds, start)
            tables += [self._write(QUARANTINE, self._with_period(rows, QUARANTINE))]
        else:
            self.run.tables[QUARANTINE.name] = RunTable(0, None)
        if brokers is not None and _are_bad(BROKER_EXPECTATIONS, broker_counts):
            rows = self._with_period(brokers.quarantined, QUARANTINE_BROKERS)
            tables += [self._write(QUARANTINE_BROKERS, rows)]
        else:
            self.run.tables[QUARANTINE_BROKERS.name] = RunTable(0, None)
        tables += self._write_aside(aside)
        # Of an hour brokers may be known where no replica is: that hides none of its other tables.
        apart = {QUARANTINE_FILES.name: hours, BROKER_LOAD.name: tuple(own.good)}
        self.run.publish(tuple(own.good), self.clock.now_ms(), tables[0].newest_ms, apart)
        return BackfillReport(self.period, tuple(tables), counts, broker_counts, aside)

    def _write_aside(self, aside: Sequence[FileAside]) -> list[MadeTable]:
        """Name the files that were set aside."""
        rows = rows_of_aside(aside, self.sieve.folder, self.clock.now_ms())
        schema = pa.schema(arrow_of(QUARANTINE_FILES.columns))
        written = self.run.write(QUARANTINE_FILES, pa.Table.from_pylist(rows, schema))
        if not aside:
            return []
        made = MadeTable(QUARANTINE_FILES.name, written.rows, 0.0, written.newest_ms)
        self.say(made)
        return [made]

    def _stepped(self, files: Sequence[Path], bounds: TimeBounds) -> DataFrame:
        """What rates and counts are taken from."""
        start = self.period.start_ms
        needed = start - LOOKBACK_MS
        needless = range(bounds.earliest_ms, needed)
        checks = Checks(bounds.earliest_ms, bounds.latest_ms, needed, start, GAP_S * 1000)
        return unlooked(of_files(self.session, files, SAMPLES_SCHEMA, needless), checks)

    def _of_rates(self, newest_ms: int | None) -> list[MadeTable]:
        """The tables that are made of the rates just written, those of the lookback included."""
        if newest_ms is None:
            self.run.tables |= {table.name: RunTable(0, None) for table in OF_RATES}
            return []
        folder = self.run.path(RATES)
        return self._write_together(of_rates(self.session, folder, self.period.start_ms, newest_ms))

    def _of_brokers(self, brokers: BrokerSplit | None, newest_ms: int | None) -> list[MadeTable]:
        """The table that is made of samples of brokers, and of the rates just written."""
        if brokers is None:
            self.run.tables[BROKER_LOAD.name] = RunTable(0, None)
            return []
        if newest_ms is None:
            rates = self.session.createDataFrame([], struct_of(RATES.columns))
        else:
            rates = written_rates(self.session, self.run.path(RATES))
        rows = of_brokers(brokers.good, rates, self.period.start_ms)
        return [self._write(BROKER_LOAD, rows)]

    def _quality(
        self,
        counts: Mapping[str, int],
        of_brokers: Mapping[str, int],
        of_files: Mapping[str, int],
    ) -> DataFrame:
        rows = _counted("replicas", REPLICA_EXPECTATIONS, counts)
        rows += _counted("brokers", BROKER_EXPECTATIONS, of_brokers) if of_brokers else []
        rows += _counted(FILES, (READABLE,), of_files)
        names = ("of", "expectation", "outcome", "violations", "rows", "meaning")
        schema = struct_of([c for c in QUALITY.columns if c.name in names])
        return self._with_period(self.session.createDataFrame(rows, schema), QUALITY)

    def _with_period(self, rows: DataFrame, table: ResultTable) -> DataFrame:
        start, end = self.period.start_ms, self.period.end_ms
        period = {"period_start": moment(F.lit(start)), "period_end": moment(F.lit(end))}
        return select_as(rows.withColumns(period), table)

    def _write(self, table: ResultTable, rows: DataFrame) -> MadeTable:
        (made,) = self._write_together({table: lambda: rows})
        return made

    def _write_together(self, planned: Mapping[ResultTable, Planned]) -> list[MadeTable]:
        """Write tables that do not need each other.

        Where one has fewer tasks than there are cores, the others use the rest. If one fails, the
        others are cancelled. This thread only waits, so that Ctrl-C interrupts no call of Java.
        """
        names = ", ".join(table.name for table in planned)
        with ThreadPoolExecutor(len(planned), "table") as pool, self.working(names):
            writing = [pool.submit(self._written, table, plan) for table, plan in planned.items()]
            try:
                for one in as_completed(writing):
                    one.result()
            except BaseException:
                while wait(writing, _CANCEL_AGAIN_S).not_done:
                    self.session.interruptAll()
                raise
        return [one.result() for one in writing]

    def _written(self, table: ResultTable, plan: Planned) -> MadeTable:
        began_s = self.clock.monotonic_s()
        rows = with_hour(plan(), table)
        path = str(self.run.path(table))
        writer = rows.write.option("parquet.block.size", _ROW_GROUP_BYTES)
        writer.partitionBy("date", "hour").parquet(path)
        written = self.run.written(table)
        seconds = self.clock.monotonic_s() - began_s
        made = MadeTable(table.name, written.rows, seconds, written.newest_ms)
        self.say(made)
        return made


def _counted(
    of: str, expectations: Sequence[Expectation], counts: Mapping[str, int]
) -> list[tuple[str, str, str, int, int, str]]:
    """Rows of `quality`, without their period."""
    return [
        (of, e.name, e.outcome.value, counts[e.name], counts["rows"], e.meaning)
        for e in expectations
    ]


def _are_bad(expectations: Sequence[Expectation], counts: Mapping[str, int]) -> bool:
    """Whether a row has to be set aside."""
    return any(counts.get(e.name, 0) for e in expectations if e.outcome is RowOutcome.QUARANTINED)


def as_text(made: MadeTable) -> str:
    """A line for an operator."""
    rows = f"{made.rows:,} row{'s' if made.rows != 1 else ''}"
    newest = "nothing" if made.newest_ms is None else f"newest {moment_text(made.newest_ms)}"
    return f"{made.table:<18} {rows:>18} {made.seconds:8.1f} s   {newest}"


def quality_lines(report: BackfillReport) -> list[str]:
    """What broke an expectation, for an operator; one line where nothing did."""
    counts, brokers = report.counts, report.brokers
    kinds = ((REPLICA_EXPECTATIONS, counts, ""), (BROKER_EXPECTATIONS, brokers, ", of brokers"))
    lines = [
        f"  {counts[e.name]:,} {e.outcome.value}: {e.name} ({e.meaning}{of})"
        for expectations, counts, of in kinds
        for e in expectations
        if counts.get(e.name)
    ]
    lines += [f"  a file was set aside: {one.detail}" for one in report.files_aside]
    head = f"{counts['rows'] + brokers.get('rows', 0):,} samples were checked"
    return [f"{head}; not as expected:", *lines] if lines else [f"{head}, all as expected."]
