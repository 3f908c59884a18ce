"""How long a recording is kept, and the hours that are put together.

Goals
    Few large files of what is over, whole hours dropped, and no row twice or missing for any
    reader at any moment, whatever is killed when.
Constraints
    An hour is put together only once no stream waits for its files any more: `after_s` later.
    A file that cannot be read stays where it is, and its hour as it is.
Algorithm
    See `kshunt.backend.telemetry.recording.layout` for which files count. To put an hour together:
    write the one file aside, make sure of it, rename it: from then on it counts, and what it was
    made from does not. Then remove these. Rows that come late for an hour (a clock that went back)
    lie next to it with higher numbers, and are put together with it the next time. To drop an hour:
    rename its folder to a name that nobody reads, written files first, and remove that.
    `clear` finishes what a crash left of either.
    Rows are sorted by replica and time within each row group, so that a query for one replica
    reads little, and the same values lie together.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kshunt.backend.arrow_rows import sorted_groups
from kshunt.backend.domain.pipeline.sample_columns import CLUSTER_KEY, DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.errors import KshuntError
from kshunt.backend.files import make_folder, refuse_link, sync_folder
from kshunt.backend.telemetry.recording.layout import (
    HOURS,
    SampleFile,
    SampleTable,
    file_name,
    hour_folders,
    left_over,
    together,
    written,
)
from kshunt.backend.telemetry.recording.schema import (
    SCHEMAS,
    broken,
    conform,
    open_file,
    parquet_writer,
)

log = logging.getLogger(__name__)

GROUP_ROWS: Final = 500_000
"""In a row group of an hour: some 60 MB of memory while it is sorted."""
JUMP_S: Final = 300.0
"""A clock that differs by more from the time that passed has been set."""
_GONE: Final = ".gone-"
_SORTED: Final = {
    SampleTable.REPLICAS: ("rid", "at"),
    SampleTable.BROKERS: ("broker", "at"),
    SampleTable.FORECASTS: ("operation_id", "made_at"),
}

Step = Callable[[str], None]


def _no_step(_: str) -> None:
    """Nothing happens between two steps."""


@dataclass(eq=False)
class Retention:
    """Looks after one recording; nothing else may, except the writer of new files."""

    folder: Path
    keep_days: int
    after_s: float | None
    """How long after its end an hour is put together; None: never."""
    step: Step = _no_step
    """Called with each step before it is made."""
    stopping: Callable[[], bool] = lambda: False
    """Asked now and then; what has begun is left undone where it says so."""
    _said: set[str] = field(default_factory=set)
    _last: tuple[int, float] | None = None

    def apply(self, now_ms: int, monotonic_s: float) -> None:
        """Drop what is too old, and put together what is over.

        Nothing is dropped at the first look, nor at the first one after the clock was set: a
        wrong clock would cost everything.

        Raises:
            OSError: a folder cannot be read or changed.
        """
        last, self._last = self._last, (now_ms, monotonic_s)
        if last and abs((now_ms - last[0]) / 1000 - (monotonic_s - last[1])) < JUMP_S:
            self.drop(now_ms - self.keep_days * DAY_MS)
        if self.after_s is not None:
            self.put_together(now_ms - round(self.after_s * 1000))

    def drop(self, before_ms: int) -> None:
        """Drop the hours that ended before a moment."""
        for table in SampleTable:
            for top in (self.folder / table, self.folder / HOURS / table):
                for hour_ms, path in list(hour_folders(top)):
                    if hour_ms + HOUR_MS <= before_ms:
                        self.step(f"drop {path.name}")
                        gone = path.with_name(_GONE + path.name)
                        if gone.exists():
                            _remove_tree(gone)
                        path.rename(gone)
                        self.step(f"remove {path.name}")
                        _remove_tree(gone)

    def put_together(self, before_ms: int) -> None:
        """Make one file a table of each hour that ended before a moment."""
        for table in SampleTable:
            hours = {part.hour_ms: part for part in together(self.folder, table)}
            fresh: dict[int, list[SampleFile]] = {}
            for part in left_over(written(self.folder, table), hours):
                fresh.setdefault(part.hour_ms, []).append(part)
            for hour_ms, parts in fresh.items():
                if hour_ms + HOUR_MS <= before_ms and not self.stopping():
                    older = [hours[hour_ms]] if hour_ms in hours else []
                    self._try(table, hour_ms, older + parts)

    def _try(self, table: SampleTable, hour_ms: int, parts: Sequence[SampleFile]) -> None:
        try:
            self._merge(table, hour_ms, parts)
        except KshuntError as error:
            if str(error) not in self._said:
                self._said.add(str(error))
                log.warning("An hour of the recording stays as it is: %s", error)

    def _merge(self, table: SampleTable, hour_ms: int, parts: Sequence[SampleFile]) -> None:
        folder = self.folder / HOURS / table / hour_folder(hour_ms)
        path = folder / file_name(hour_ms, max(part.number for part in parts))
        make_folder(folder)
        aside = path.with_name(f".{path.name}.tmp")
        self.step("write")
        try:
            if not self._write(table, parts, aside):
                return
            self.step("rename")
            aside.rename(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                aside.unlink()
        sync_folder(folder)
        for part in parts:
            self.step("remove")
            part.path.unlink(missing_ok=True)
        self.step("remove folder")
        _remove_empty(self.folder / table / hour_folder(hour_ms))

    def _write(self, table: SampleTable, parts: Sequence[SampleFile], aside: Path) -> bool:
        """Write the rows of some files to another; False where this was stopped."""
        cluster_id = _cluster_of(parts[-1].path, table)
        with open(aside, "wb", opener=refuse_link) as file:
            with parquet_writer(file, table, cluster_id) as writer:
                rows = (batch for part in parts for batch in _batches(table, part.path))
                for group in sorted_groups(rows, _SORTED[table], GROUP_ROWS):
                    if self.stopping():
                        return False
                    writer.write_table(group.select(SCHEMAS[table].names))
                    self.step("group")
            file.flush()
            os.fsync(file.fileno())
        return True


def _cluster_of(path: Path, table: SampleTable) -> str:
    with open_file(path, table) as file:
        return str((file.metadata.metadata or {}).get(CLUSTER_KEY.encode(), b"").decode())


def _batches(table: SampleTable, path: Path) -> Iterator[Any]:
    with open_file(path, table) as file:
        try:
            for group in range(file.num_row_groups):
                yield conform(file.read_row_group(group), table)
        except (pa.ArrowException, OSError) as error:
            raise broken(path, error) from None


def clear(folder: Path) -> None:
    """Remove what a crash left: files that were not complete, and those that count no more.

    Raises:
        OSError: a folder cannot be read or changed.
    """
    for table in SampleTable:
        for top in (folder / table, folder / HOURS / table):
            _clear_aside(top)
        hours = together(folder, table)
        newest = {part.hour_ms: part for part in hours}
        plain = written(folder, table)
        useful = {part.path for part in left_over(plain, newest)}
        useful |= {part.path for part in newest.values()}
        for part in plain + hours:
            if part.path not in useful:
                part.path.unlink(missing_ok=True)
                _remove_empty(part.path.parent)


def _clear_aside(top: Path) -> None:
    for day in _below(top):
        for path in _below(day):
            if path.name.startswith(_GONE):
                _remove_tree(path)
                continue
            for aside in _below(path):
                if aside.name.startswith(".") and aside.name.endswith(".tmp"):
                    aside.unlink(missing_ok=True)


def _below(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it is none."""
    return list(folder.iterdir()) if folder.is_dir() else []


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path)
    _remove_empty(path.parent)


def _remove_empty(folder: Path) -> None:
    """Remove an hour's or a day's folder, and the day's above it, while nothing is in them."""
    while "=" in folder.name:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
