"""What the data pipeline has delivered, read from its files for the API.

Goals
    Each question is answered within milliseconds, with the age of the answer and its source.
Constraints
    Arrow alone reads: no Spark, pandas or database. A pipeline writes meanwhile, and files may be
    torn, foreign, or of an older version: they are said, and the others count.
Algorithm
    Which files hold is said by `kshunt.backend.delivered_files.result_files`; hours are reduced to
    what is asked and kept by `kshunt.backend.telemetry.results.hours_cache`. How far a table is
    stands in the footers of its newest files. Any thread may ask.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.clock import Clock
from kshunt.backend.delivered_files.columns import read_columns
from kshunt.backend.delivered_files.minutes import (
    bounds_by_minute,
    bounds_together,
    copies_by_minute,
    copies_together,
)
from kshunt.backend.delivered_files.result_files import (
    HourFolder,
    files_in,
    hour_folders,
    newness,
    parts_of,
    read_manifest,
)
from kshunt.backend.domain.pipeline import result_columns
from kshunt.backend.domain.pipeline.delivered import (
    BACKFILL,
    STREAM,
    BottleneckRow,
    CauseRow,
    EffectRow,
    EtaRow,
    FileAsideRow,
    LoadRow,
    PairRow,
    QualityRow,
    Rows,
    StallRow,
    TableStatus,
    TransferHistory,
)
from kshunt.backend.domain.pipeline.result_columns import GAP_S, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import BOTTLENECKS, COPIES, RollUp
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.telemetry.results.bottlenecks import (
    bottlenecks_of,
    bounds_in,
    rolled_bounds,
)
from kshunt.backend.telemetry.results.hours_cache import UNREADABLE, CachedHours, HoursCache
from kshunt.backend.telemetry.results.lag_history import transfer_history
from kshunt.backend.telemetry.results.result_columns import last_of, rows_of
from kshunt.backend.telemetry.results.rolled_up import LONG_MS, RolledUp, read_rolled_up

T = TypeVar("T")

OPERATION: Final = ("operation_id",)
COPY: Final = ("operation_id", "rid")
ETA_SPAN_MS: Final = 60_000
"""Of an operation the newest forecast counts, unless others are newer by more than this."""
EFFECT_SPAN_MS: Final = 1_800_000
"""The same of a throttle."""
ETA_BATCHES: Final = 64
"""The newest forecasts are in this many of the newest batches."""
FOOTERS_MOST: Final = 20_000
NEWEST_FILES: Final = 8
"""This many of a table's newest files may have the newest row: rows come late, not by much."""

SHOWN: Final = (
    result_columns.RATES,
    result_columns.ETA,
    result_columns.STALLS,
    result_columns.THROTTLE_EFFECT,
    result_columns.BROKER_LOAD,
    result_columns.MOVE_PAIRS,
    result_columns.QUALITY,
    result_columns.QUARANTINE_FILES,
)
"""The tables that questions are answered from."""


@dataclass(frozen=True, slots=True)
class _Footer:
    rows: int
    newest_ms: int | None
    made_ms: int
    problem: str = ""


class Results:
    """The results in a folder, which may not be there yet."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._footers: dict[tuple[Path, int, int], _Footer] = {}
        self._hours: dict[str, HoursCache] = {}

    def stop(self) -> None:
        """Read no more in the background."""
        for hours in self._hours.values():
            hours.stop()
        for hours in self._hours.values():
            hours.wait()

    # How far it is

    def tables(self) -> tuple[TableStatus, ...]:
        """How far each table is that has a folder.

        Raises:
            UnreadableResults: the manifest cannot be understood.
            OSError: the folder cannot be read.
        """
        return tuple(
            self.delivered(table) for table in SHOWN if (self.folder / table.name).is_dir()
        )

    def delivered(self, table: ResultTable) -> TableStatus:
        """How far a table is."""
        manifest = read_manifest(self.folder)
        problems: list[str] = []
        for hour in reversed(hour_folders(self.folder / table.name)):
            parts = parts_of(hour, table.name, manifest)
            run = manifest.run_of(table.name, hour.name)
            streamed = run is None or run.streamed
            found = self._newest(hour, parts, table, problems, streamed=streamed)
            if found is not None:
                return replace(found, problem="; ".join(problems[:3]))
        return TableStatus(table.name, problem="; ".join(problems[:3]))

    def _newest(
        self,
        hour: HourFolder,
        parts: Sequence[str],
        table: ResultTable,
        problems: list[str],
        *,
        streamed: bool,
    ) -> TableStatus | None:
        newest: TableStatus | None = None
        looked_at = 0
        newest_first = sorted(parts, key=newness, reverse=True)
        for file in (file for part in newest_first for file in files_in(hour, part)):
            if looked_at >= NEWEST_FILES:
                break
            footer = self._footer(file.path, table)
            if footer is None:
                continue
            problems += [footer.problem] if footer.problem else []
            if footer.newest_ms is not None:
                looked_at += 1
                if newest is None or footer.newest_ms > (newest.newest_ms or 0):
                    source = STREAM if streamed else BACKFILL
                    newest = TableStatus(table.name, footer.newest_ms, source, footer.made_ms)
        return newest

    def _footer(self, path: Path, table: ResultTable) -> _Footer | None:
        """What a file's footer says; None where the file is gone."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        key = (path, status.st_size, status.st_mtime_ns)
        with self._lock:
            known = self._footers.get(key)
            if known is None:
                made_ms = status.st_mtime_ns // 1_000_000
                try:
                    known = _footer(path, table, made_ms)
                except UNREADABLE as error:
                    why = " ".join(str(error).split())[:120]
                    name = path.relative_to(self.folder)
                    known = _Footer(0, None, made_ms, f"{name} is ignored: {why}")
                if len(self._footers) >= FOOTERS_MOST:
                    self._footers.clear()
                self._footers[key] = known
        return known

    # Rows

    def etas(
        self, operation_id: str = "", *, copies: bool = False, most: int = 1_000
    ) -> Rows[EtaRow]:
        """The newest forecasts: of operations, or of their copies; of one operation, or of all."""
        table = result_columns.ETA
        of = self.delivered(table)
        if of.newest_ms is None:
            return Rows(of)
        name, keys = ("copies", COPY) if copies else ("operations", OPERATION)
        reduce = partial(_eta_rows, copies=copies)
        since_ms = of.newest_ms - ETA_SPAN_MS
        found = self._of(table, name, reduce, keys, "at", ETA_BATCHES).since(since_ms)
        rows = _since(found.all(), "at", since_ms)
        if rows is None:
            return Rows(_with(of, found))
        if operation_id:
            rows = rows.filter(pc.equal(rows["operation_id"], operation_id))
        return _rows(_with(of, found), last_of(rows, keys, "at"), EtaRow, most, "at")

    def stalls(
        self,
        since_ms: int,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        most: int = 1_000,
    ) -> Rows[StallRow]:
        """Stalls that ended since a moment or are open; the open ones first, then the newest."""
        table = result_columns.STALLS
        of = self.delivered(table)
        rows, found = self._stalls(since_ms)
        if rows is None:
            return Rows(_with(of, found), since_ms=_reached(found, since_ms))
        for name, wanted in (("topic", topic), ("partition", partition), ("broker", broker)):
            if wanted is not None:
                rows = rows.filter(pc.equal(rows[name], wanted))
        rows = rows.sort_by([("open", "descending"), ("end", "descending"), ("rid", "ascending")])
        return _rows(_with(of, found), rows, StallRow, most, "", _reached(found, since_ms))

    def causes(self, since_ms: int) -> Rows[CauseRow]:
        """Stalls by their cause, the one that took most time first."""
        of = self.delivered(result_columns.STALLS)
        rows, found = self._stalls(since_ms)
        if rows is None:
            return Rows(_with(of, found), since_ms=_reached(found, since_ms))
        summed = (
            rows.append_column("goes_on", rows["open"].cast(pa.int64()))
            .group_by("cause")
            .aggregate(
                [
                    ("start", "count"),
                    ("goes_on", "sum"),
                    ("rid", "count_distinct"),
                    ("seconds", "sum"),
                    ("seconds", "max"),
                ]
            )
            .sort_by([("seconds_sum", "descending"), ("cause", "ascending")])
        )
        names = ("cause", "start_count", "goes_on_sum", "rid_count_distinct", "seconds_sum")
        columns = [summed[name].to_pylist() for name in (*names, "seconds_max")]
        causes = tuple(CauseRow(*row) for row in zip(*columns, strict=True))
        return Rows(_with(of, found), causes, since_ms=_reached(found, since_ms))

    def _stalls(self, since_ms: int) -> tuple[Any, CachedHours]:
        """Each stall once, by how it was seen last; one that is long over is not open."""
        table = result_columns.STALLS
        hours = self._of(table, "all", partial(_all, table), ("rid", "start"), "end")
        found = hours.since(since_ms)
        rows = _since(found.all(), "end", since_ms)
        if rows is None:
            return None, found
        rows = last_of(rows, ("rid", "start"), "end")
        newest = self.delivered(result_columns.RATES).newest_ms or pc.max(rows["end"])
        if not isinstance(newest, int):
            newest = newest.cast(pa.int64()).as_py()
        limit = pa.scalar(newest - GAP_S * 1000, pa.timestamp("ms", "UTC"))
        goes_on = pc.and_(rows["open"], pc.greater_equal(rows["end"], limit))
        return rows.set_column(rows.column_names.index("open"), "open", goes_on), found

    def bottlenecks(self, since_ms: int, until_ms: float = math.inf) -> Rows[BottleneckRow]:
        """What held operations up between two moments, or since one; the longest first.

        A time of whole hours, or a long one, is answered from roll-ups, which are kept longer.
        """
        table = result_columns.ETA
        of = self.delivered(table)
        length_ms = min(until_ms, self._clock.now_ms()) - since_ms
        is_rolled = since_ms % HOUR_MS == 0 or length_ms > LONG_MS
        rolled = RolledUp()
        if is_rolled:
            since_ms -= since_ms % HOUR_MS
            rolled = self._rolled_up(BOTTLENECKS, since_ms, until_ms)
        hours = self._hours_of(table, "bottlenecks", bounds_by_minute, bounds_together)
        raw_ms = max(since_ms, rolled.until_ms)
        found = hours.since(raw_ms, until_ms=until_ms) if raw_ms < until_ms else CachedHours()
        parts = bounds_in(found.all(), raw_ms, until_ms) + rolled_bounds(rolled.rows)
        of, reached = _with(of, found, rolled), _reached(found, since_ms, rolled)
        if not parts:
            return Rows(of, since_ms=reached)
        summed = bottlenecks_of(pa.concat_tables(parts))
        return _rows(of, summed, BottleneckRow, 10_000, "", reached)

    def loads(self) -> Rows[LoadRow]:
        """Each broker in the newest hour that there is of it, within a day."""
        table = result_columns.BROKER_LOAD
        of = self.delivered(table)
        if of.newest_ms is None:
            return Rows(of)
        hours = self._of(table, "all", partial(_all, table), ("broker", "start"), "newest")
        found = hours.since(of.newest_ms - DAY_MS)
        rows = found.all()
        if rows is None:
            return Rows(_with(of, found))
        rows = last_of(rows, ("broker",), "start")
        newest = max(rows["newest"].cast(pa.int64()).to_pylist())
        return _rows(replace(_with(of, found), newest_ms=newest), rows, LoadRow, 100_000)

    def effects(self) -> Rows[EffectRow]:
        """What each throttle did last, of those that did anything within half an hour."""
        table = result_columns.THROTTLE_EFFECT
        of = self.delivered(table)
        if of.newest_ms is None:
            return Rows(of)
        since_ms = of.newest_ms - EFFECT_SPAN_MS
        hours = self._of(table, "all", partial(_all, table), ("broker", "direction"), "end")
        found = hours.since(since_ms)
        rows = _since(found.all(), "start", since_ms)
        if rows is None:
            return Rows(_with(of, found))
        rows = last_of(rows, ("broker", "direction"), "end")
        newest = max(rows["end"].cast(pa.int64()).to_pylist())
        return _rows(replace(_with(of, found), newest_ms=newest), rows, EffectRow, 100_000)

    def pairs(self, since_ms: int) -> Rows[PairRow]:
        """How fast copies went from broker to broker, the pair that carried most first."""
        table = result_columns.MOVE_PAIRS
        of = self.delivered(table)
        found = self._of(table, "all", partial(_all, table)).since(since_ms)
        rows = _since(found.all(), "start", since_ms)
        if rows is None:
            return Rows(_with(of, found), since_ms=_reached(found, since_ms))
        pairs = _pairs(rows)
        return _rows(_with(of, found), pairs, PairRow, 10_000, "", _reached(found, since_ms))

    def quality(self, since_ms: int) -> Rows[QualityRow]:
        """Samples that broke an expectation; an expectation that none broke is there too."""
        table = result_columns.QUALITY
        of = self.delivered(table)
        found = self._of(table, "all", partial(_all, table)).since(since_ms)
        rows = _since(found.all(), "period_end", since_ms)
        if rows is None:
            return Rows(_with(of, found), since_ms=_reached(found, since_ms))
        keys = ["of", "expectation", "outcome", "meaning"]
        summed = rows.group_by(keys).aggregate([("violations", "sum"), ("rows", "sum")])
        summed = summed.rename_columns(
            [name.removesuffix("_sum") for name in summed.column_names]
        ).sort_by([("violations", "descending"), ("of", "ascending"), ("expectation", "ascending")])
        # A period is whole hours, of which the last may not have ended.
        ended = max(rows["period_end"].cast(pa.int64()).to_pylist())
        of = replace(of, newest_ms=ended if of.made_ms is None else min(ended, of.made_ms))
        return _rows(_with(of, found), summed, QualityRow, 1_000, "", _reached(found, since_ms))

    def files_aside(self, since_ms: int) -> Rows[FileAsideRow]:
        """Files of samples that were set aside, of hours since a moment, the last found first."""
        table = result_columns.QUARANTINE_FILES
        of = self.delivered(table)
        hours = self._of(table, "all", partial(_all, table), ("of", "file"), "found")
        found = hours.since(since_ms)
        rows = _since(found.all(), "start", since_ms - since_ms % HOUR_MS)
        if rows is None:
            return Rows(_with(of, found), since_ms=_reached(found, since_ms))
        reached = _reached(found, since_ms)
        return _rows(_with(of, found), rows, FileAsideRow, 1_000, "found", reached)

    def transfer_history(self, since_ms: int, most: int) -> tuple[TableStatus, TransferHistory]:
        """Lag and throughput since a moment, in at most `most` points.

        A long time is answered from roll-ups, which are kept longer.
        """
        table = result_columns.RATES
        of = self.delivered(table)
        rolled = RolledUp()
        if self._clock.now_ms() - since_ms > LONG_MS:
            since_ms -= since_ms % HOUR_MS
            rolled = self._rolled_up(COPIES, since_ms)
        raw_ms = max(since_ms, rolled.until_ms)
        found = self._hours_of(table, "course", copies_by_minute, copies_together).since(raw_ms)
        unread = (found.since_ms, rolled.since_ms)
        reached_ms = max((at for at in unread if at is not None), default=None)
        shown = (rolled.rows, rolled.longest_ms) if rolled.rows is not None else ()
        history = transfer_history(found.all(), raw_ms, most, reached_ms, *shown)
        return _with(of, found, rolled), history

    def _rolled_up(self, one: RollUp, since_ms: int, until_ms: float = math.inf) -> RolledUp:
        def cache(table: ResultTable) -> HoursCache:
            return self._of(table, "all", partial(_all, table))

        return read_rolled_up(self.folder, one, cache, since_ms, until_ms)

    def _of(
        self,
        table: ResultTable,
        name: str,
        reduce: Callable[[Path], Any],
        keys: Sequence[str] = (),
        by: str = "",
        batches: int | None = None,
    ) -> HoursCache:
        """The rows of a table; of those with the same keys the one that is the last by a column.

        `batches` is how many of the newest of an hour tell enough.
        """
        if not keys:
            return self._hours_of(table, name, reduce, lambda rows: rows.combine_chunks())
        return self._hours_of(table, name, reduce, lambda rows: last_of(rows, keys, by), batches)

    def _hours_of(
        self,
        table: ResultTable,
        name: str,
        reduce: Callable[[Path], Any],
        combine: Callable[[Any], Any],
        batches: int | None = None,
    ) -> HoursCache:
        key = f"{table.name} {name}"
        with self._lock:
            if key not in self._hours:
                hours = HoursCache(self.folder, table, reduce, combine, self._clock)
                hours.batches = batches
                self._hours[key] = hours
            return self._hours[key]


# Files


def _footer(path: Path, table: ResultTable, made_ms: int) -> _Footer:
    metadata = pq.read_metadata(path)
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    if table.hour_of not in places:
        raise ValueError(f"it has no column {table.hour_of}: it is not a file of {table.name}")
    if not metadata.num_rows:
        return _Footer(0, None, made_ms)
    place = places[table.hour_of]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    statistics = [group.column(place).statistics for group in groups if group.num_rows]
    if all(one is not None and one.has_min_max for one in statistics):
        newest = max(_ms(one.max, table) for one in statistics)
    else:
        newest = int(max(_ints(read_columns(path, table, (table.hour_of,))[table.hour_of])))
    return _Footer(metadata.num_rows, newest, made_ms)


def _ms(at: object, table: ResultTable) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ValueError(
            f"its column {table.hour_of} is not a time: it is not a file of {table.name}"
        )
    return round(at.timestamp() * 1000)


def _all(table: ResultTable, path: Path) -> Any:
    return read_columns(path, table, table.names)


def _eta_rows(path: Path, *, copies: bool) -> Any:
    """Of each operation, or of each of its copies, the last forecast in a file."""

    def wanted(rows: Any) -> Any:
        return pc.is_valid(rows["rid"]) if copies else pc.is_null(rows["rid"])

    rows = read_columns(path, result_columns.ETA, result_columns.ETA.names, wanted)
    return last_of(rows, COPY if copies else OPERATION, "at")


def _pairs(rows: Any) -> Any:
    """Quantiles of a pair: those of its pieces, weighted by how many rates each has."""
    quantiles = ["p10_bytes_per_s", "p50_bytes_per_s", "p90_bytes_per_s"]
    for name in quantiles:
        weighted = pc.multiply(rows[name], rows["n"].cast(pa.float64()))
        rows = rows.set_column(rows.column_names.index(name), name, weighted)
    sums = ["n", "bytes", *quantiles]
    keys = ["source", "destination", "throttled"]
    found = rows.group_by(keys).aggregate([(name, "sum") for name in sums])
    found = found.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns([*keys, *sums])
    for name in quantiles:
        mean = pc.divide(found[name], found["n"].cast(pa.float64()))
        found = found.set_column(found.column_names.index(name), name, mean)
    return found.sort_by([("bytes", "descending"), *((key, "ascending") for key in keys)])


# Rows


def _since(rows: Any, column: str, since_ms: int) -> Any:
    """The rows from a moment on; None where there are none."""
    if rows is None:
        return None
    rows = rows.filter(pc.greater_equal(rows[column], pa.scalar(since_ms, rows[column].type)))
    return rows if len(rows) else None


def _ints(column: Any) -> Any:
    return np.asarray(column.cast(pa.int64()).to_numpy())


def _rows(
    of: TableStatus,
    rows: Any,
    kind: Callable[..., T],
    most: int,
    order: str = "",
    since_ms: int | None = None,
) -> Rows[T]:
    """The first rows; sorted by a column where one is named, the greatest first."""
    if order:
        rows = rows.sort_by([(order, "descending")])
    return Rows(of, rows_of(rows[:most], kind), max(len(rows) - most, 0), since_ms)


def _with(of: TableStatus, *found: CachedHours | RolledUp) -> TableStatus:
    said = [one.problem for one in found if one.problem and one.problem not in of.problem]
    return replace(of, problem=said[0] if said else of.problem)


def _reached(found: CachedHours, since_ms: int, rolled: RolledUp | None = None) -> int:
    """From when on the answer is whole."""
    unread = [found.since_ms, None if rolled is None else rolled.since_ms]
    return max(since_ms, *(at for at in unread if at is not None), since_ms)
