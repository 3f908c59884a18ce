"""Where results lie, and how a run puts its own in the place of former ones at one moment.

A run writes below a hidden folder, then moves each hour's folder to its place, where nobody looks
at it yet. Then it renames a new manifest over the old: that is the moment. What the manifest no
longer names is removed after it. A run that is killed in between leaves folders that nobody reads;
the next run removes them.

The layout is described in `kshunt.backend.domain.pipeline.result_columns`.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from kshunt import __version__
from kshunt.backend.delivered_files.result_files import (
    RUN,
    HourFolder,
    hour_folders,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import (
    MANIFEST,
    RESULTS_VERSION,
    Manifest,
    ResultTable,
    RunRecord,
    RunTable,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, SAMPLES_VERSION, hour_folder
from kshunt.backend.errors import Conflict, KshuntError
from kshunt.backend.files import locked, replace_file
from kshunt.backend.pipeline.results.stream_state import by_hour, streaming_until

_ASIDE: Final = ".run-"
_LOCK: Final = ".lock"


class ResultsBusy(Conflict):
    """Another process writes results there."""

    title = "Results are being written"


@dataclass(slots=True)
class Run:
    """Results in the making, of the hours that overlap [start_ms, end_ms)."""

    folder: Path
    """Of all results."""
    id: str
    start_ms: int
    end_ms: int
    tables: dict[str, RunTable] = field(default_factory=dict)
    """What was written of each."""

    @property
    def aside(self) -> Path:
        """Where this run writes until it is published."""
        return self.folder / f"{_ASIDE}{self.id}"

    def path(self, table: ResultTable) -> Path:
        """Where a table of this run is to be written, by `date` and `hour`."""
        return self.aside / table.name

    def written(self, table: ResultTable) -> RunTable:
        """Note what was written of a table, of hours of this run."""
        hours = [hour for hour in hour_folders(self.path(table)) if self._covers(hour.name)]
        files = [file for hour in hours for file in hour.path.glob("[!._]*.parquet")]
        parts = [_footer(file, table.hour_of) for file in files]
        newest = max((part.newest_ms for part in parts if part.newest_ms is not None), default=None)
        self.tables[table.name] = RunTable(sum(part.rows for part in parts), newest)
        return self.tables[table.name]

    def begin_again(self) -> None:
        """Forget what was written."""
        shutil.rmtree(self.aside, ignore_errors=True)
        self.tables.clear()

    def write(self, table: ResultTable, rows: Any) -> RunTable:
        """Write a table that is small enough for this process; what was written of it."""
        for hour, some in by_hour(rows, table.hour_of):
            folder = self.path(table) / hour
            folder.mkdir(parents=True)
            pq.write_table(some, folder / "part-0.parquet", compression="zstd")
        return self.written(table)

    def publish(
        self,
        hours: Sequence[int],
        made_ms: int,
        samples_newest_ms: int | None,
        apart: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Let these results hold for `hours` (when each begins), in all tables written.

        Hours that results of this run lie in are among them, given or not. A table that is
        `apart` holds for its own hours, and changes none of the others.
        """
        apart = apart or {}
        together = [table for table in self.tables if table not in apart]
        names = {hour_folder(hour) for hour in hours}
        for table in together:
            names |= self._move(table)
        of = dict.fromkeys(together, names)
        for table, own in apart.items():
            of[table] = {hour_folder(hour) for hour in own} | self._move(table)
        self._hold(self._record(made_ms, samples_newest_ms), of)

    def publish_again(self, origin: RunRecord | None, made_ms: int) -> None:
        """Let these results hold, of the hours that they lie in.

        They are the rows that held before: those of the run `origin`, or without one those of
        the streaming job. Rates of replicas at rest are thinned.
        """
        if origin is None:
            record = replace(self._record(made_ms, None), streamed=True, thinned=True)
        else:
            record = replace(
                origin,
                id=self.id,
                period_start_ms=self.start_ms,
                period_end_ms=self.end_ms,
                tables=dict(self.tables),
                thinned=True,
            )
        self._hold(record, {table: self._move(table) for table in self.tables})

    def _record(self, made_ms: int, samples_newest_ms: int | None) -> RunRecord:
        return RunRecord(
            self.id,
            made_ms,
            __version__,
            RESULTS_VERSION,
            SAMPLES_VERSION,
            samples_newest_ms,
            self.start_ms,
            self.end_ms,
            dict(self.tables),
        )

    def _hold(self, record: RunRecord, of: Mapping[str, set[str]]) -> None:
        """Name the hours of each table in the manifest, and remove what no longer holds."""
        manifest = read_manifest(self.folder)
        for table, hours in of.items():
            manifest = manifest.with_run(record, [table], sorted(hours))
        replace_file(self.folder / MANIFEST, manifest.to_json().encode())
        for table, hours in of.items():
            _clear(self.folder / table, table, manifest, hours)

    def delete(self, hours: Mapping[str, Sequence[HourFolder]]) -> int:
        """Delete these hours of tables, with everything that lies in them; how many were there.

        They disappear one after the other; what holds of the others is not touched.
        """
        deleted = 0
        for table, expired in hours.items():
            for hour in expired:
                place = self.aside / table / hour.name
                place.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    hour.path.rename(place)
                    deleted += 1
        names = {table: {hour.name for hour in expired} for table, expired in hours.items()}
        manifest = read_manifest(self.folder).without(names)
        replace_file(self.folder / MANIFEST, manifest.to_json().encode())
        return deleted

    def _covers(self, hour: str) -> bool:
        return hour_folder(self.start_ms) <= hour <= hour_folder(self.end_ms - 1)

    def _move(self, table: str) -> set[str]:
        """Put the hours of a table to their places; their names."""
        moved = set()
        for hour in hour_folders(self.aside / table):
            if self._covers(hour.name):
                place = self.folder / table / hour.name / f"{RUN}{self.id}"
                place.parent.mkdir(parents=True, exist_ok=True)
                hour.path.replace(place)
                moved.add(hour.name)
        return moved


@contextmanager
def new_run(folder: Path, start_ms: int, end_ms: int, now_ms: int) -> Iterator[Run]:
    """A run that nobody sees before it is published; what is left aside of it is removed.

    Raises:
        ResultsBusy: another process makes results there, or a stream those of these hours.
        KshuntError: the folder cannot be written.
    """
    run = Run(folder, f"{now_ms}-{secrets.token_hex(4)}", start_ms, end_ms)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locked(folder / _LOCK)
    except OSError as error:
        raise KshuntError(
            f"Results cannot be written to {folder}: {error.strerror}. Nothing was changed.",
            advice="Name another folder by --results.",
        ) from None
    if lock is None:
        raise ResultsBusy(
            f"Another process makes results in {folder}. Nothing was changed.",
            advice="Wait for it to end, or name another folder by --results.",
        )
    with lock:
        _leave_to_stream(folder, end_ms)
        _sweep(folder, end_ms)
        try:
            yield run
        finally:
            shutil.rmtree(run.aside, ignore_errors=True)


def _leave_to_stream(folder: Path, end_ms: int) -> None:
    """See that no stream still writes to hours that end by then: a run would hide what it writes.

    Raises:
        ResultsBusy: one does.
    """
    until_ms = streaming_until(folder)
    if until_ms is not None and end_ms > until_ms:
        until = datetime.fromtimestamp(until_ms / 1000, UTC)
        raise ResultsBusy(
            f"A stream still writes to {folder}, from the hour {until:%Y-%m-%d %H:%M} UTC on. "
            "Nothing was changed.",
            advice=f"Make earlier hours: --to {until:%Y-%m-%dT%H:%M}+00:00, or stop the stream: "
            "kshunt pipeline run, or kshunt serve without --record-only.",
        )


def _sweep(folder: Path, end_ms: int) -> None:
    """Remove what a killed run has left: aside, moved before it was published, or not removed
    after that. Batches are removed of hours that end by `end_ms`, which no stream writes."""
    for path in folder.glob(f"{_ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)
    manifest = read_manifest(folder)
    for table in [path for path in folder.iterdir() if path.is_dir()]:
        named = manifest.hours.get(table.name, {})
        for hour in hour_folders(table):
            settled = hour.name in named and hour.start_ms + HOUR_MS <= end_ms
            for part in hour.path.glob("*=*" if settled else f"{RUN}*"):
                if part.name != f"{RUN}{named.get(hour.name)}":
                    shutil.rmtree(part, ignore_errors=True)


def _clear(folder: Path, table: str, manifest: Manifest, hours: set[str]) -> None:
    """Remove of these hours what no longer holds."""
    for hour in sorted(hours):
        for part in (folder / hour).glob("*=*"):
            if not manifest.holds(table, hour, part.name):
                shutil.rmtree(part, ignore_errors=True)


def _footer(path: Path, column: str) -> RunTable:
    """Rows of a file, and the greatest value of a time column; both stand in its footer."""
    metadata = pq.read_metadata(path)
    newest = [
        statistics.max
        for group in range(metadata.num_row_groups)
        if (statistics := _statistics(metadata, group, column)) and statistics.has_min_max
    ]
    return RunTable(metadata.num_rows, max(map(_ms, newest), default=None))


def _statistics(metadata: pq.FileMetaData, group: int, column: str) -> pq.Statistics | None:
    columns = metadata.row_group(group)
    index: Mapping[str, int] = {
        columns.column(i).path_in_schema: i for i in range(columns.num_columns)
    }
    return columns.column(index[column]).statistics


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
