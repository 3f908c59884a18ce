"""What keeps a folder of results small for years: retention, compaction, roll-ups. Needs no Spark.

Compaction puts the files of a table's hour together into one, as a run that holds the same rows.
The streaming job writes thousands of small files an hour. Retention deletes hours of a table that
are older than its days, counted back from the newest hour of any table: a clock that jumps ahead
deletes nothing.

Both leave alone what the streaming job may still write, or read again: hours that ended less than
an hour before its last settled one. Who is killed in between leaves results that hold, and folders
that nobody reads; see `result_runs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa

from kshunt.backend.delivered_files.result_files import (
    HourFolder,
    ResultFile,
    files_of,
    hour_folders,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import RATES, TABLES, Manifest, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import ALL_TABLES
from kshunt.backend.domain.pipeline.sample_columns import (
    DAY_MS,
    HOUR_MS,
    hour_folder,
    hour_start_ms,
)
from kshunt.backend.domain.text.formatting import bytes_text
from kshunt.backend.pipeline.results.result_runs import Run, new_run
from kshunt.backend.pipeline.results.roll_ups import paths_before, roll_up
from kshunt.backend.pipeline.results.sorted_files import Stopped, until_stopped, write_sorted
from kshunt.backend.pipeline.results.stream_state import newest

REWRITTEN_MOST: Final = 6
"""A job with other things to do thins at most this many hours a run that are one file already."""


@dataclass(frozen=True, slots=True)
class KeptDays:
    """For how long results are kept, in days."""

    by_tick_days: int
    """Tables that have a row a tick, or a recorded row."""
    others_days: int

    def start_ms(self, table: ResultTable, newest_ms: int) -> int:
        """Hours of a table that end by then are too old."""
        return newest_ms - (self.by_tick_days if table.by_tick else self.others_days) * DAY_MS


@dataclass(slots=True)
class Maintained:
    """What was done to a folder of results."""

    compacted_hours: int = 0
    """Hours of a table."""
    files_before: int = 0
    """Of the compacted hours; each has one file now."""
    bytes_before: int = 0
    bytes_after: int = 0
    deleted_hours: int = 0
    """Hours of a table."""
    problems: list[str] = field(default_factory=list)
    """Hours that stay as they are, because a file of theirs cannot be read."""
    rolled_hours: int = 0
    """Hours of a table that were rolled up."""
    rewritten: int = 0
    """Hours of rates that were one file already, and were thinned."""
    rewritten_most: int = 0


def maintained_lines(done: Maintained) -> list[str]:
    """What was done, for an operator; none where there was nothing to do."""
    lines = []
    if done.compacted_hours:
        sizes = f"{bytes_text(done.bytes_before)} → {bytes_text(done.bytes_after)}"
        lines.append(f"Compacted: {done.files_before:,} files → {done.compacted_hours:,}, {sizes}.")
    if done.deleted_hours:
        lines.append(f"Deleted: {done.deleted_hours:,} files of hours that were too old.")
    if done.rolled_hours:
        lines.append(f"Rolled up: {done.rolled_hours:,} hours of tables.")
    lines += [f"An hour stays as it is: {problem}" for problem in done.problems]
    return lines


def maintain(
    folder: Path,
    kept: KeptDays,
    now_ms: Callable[[], int],
    is_stopped: Callable[[], bool] = lambda: False,
    is_at: Callable[[float, str], None] = lambda share, hour: None,
    rewritten_most: int = REWRITTEN_MOST,
) -> Maintained:
    """Delete the hours of a folder of results that are too old, compact the others, roll them up.

    Hours that are too old and are not rolled up yet are rolled up before.
    `is_at` is told before each hour which share of them is done, and the hour's name. Of hours of
    rates that are one file, and have all rows of replicas at rest, `rewritten_most` are thinned.

    Raises:
        ResultsBusy: a backfill makes results there; what was done until then stays.
        StreamState, UnreadableResults: the folder cannot be understood.
        OSError: it cannot be written.
    """
    done = Maintained(rewritten_most=rewritten_most)
    if not folder.is_dir():
        return done
    end_ms, owed = _settled(folder, now_ms())
    with suppress(Stopped):
        newest_ms = _newest_end_ms(folder, end_ms)
        too_old_ms = kept.start_ms(RATES, newest_ms)
        done.rolled_hours = roll_up(folder, too_old_ms, owed, now_ms, is_stopped)
        _delete_expired(folder, kept, end_ms, now_ms(), done)
        hours = _hours(folder, end_ms)
        for number, hour in enumerate(until_stopped(hours, is_stopped)):
            is_at(number / len(hours), hour)
            if hour not in owed:
                _compact(folder, hour, now_ms, is_stopped, done)
        done.rolled_hours += roll_up(folder, end_ms, owed, now_ms, is_stopped)
    return done


def _settled(folder: Path, now_ms: int) -> tuple[int, set[str]]:
    """Hours that end by a moment are settled, but for some that a backfill has to make again."""
    meta = newest(folder)
    if meta is None:
        return now_ms - now_ms % HOUR_MS, set()
    return (meta.final_ms or HOUR_MS) - HOUR_MS, {hour_folder(int(at)) for at in meta.owed}


def _hours(folder: Path, end_ms: int) -> list[str]:
    """Names of the hours of all tables that end by then, the oldest first."""
    return sorted(
        {
            hour.name
            for table in TABLES
            for hour in hour_folders(folder / table.name)
            if hour.start_ms + HOUR_MS <= end_ms
        }
    )


# Retention


def _delete_expired(
    folder: Path, kept: KeptDays, end_ms: int, now_ms: int, done: Maintained
) -> None:
    newest_ms = _newest_end_ms(folder, end_ms)
    # This also removes what a killed one has left.
    with new_run(folder, 0, end_ms, now_ms) as run:
        manifest = read_manifest(folder)
        expired: dict[str, Sequence[HourFolder]] = {}
        for table in ALL_TABLES:
            found = _expired(folder, table, kept.start_ms(table, newest_ms), manifest)
            if found:
                expired[table.name] = found
        if expired:
            done.deleted_hours += run.delete(expired)
        for table in ALL_TABLES:
            _remove_empty_days(folder / table.name, kept.start_ms(table, newest_ms))


def _expired(
    folder: Path, table: ResultTable, start_ms: int, manifest: Manifest
) -> list[HourFolder]:
    """Hours of a table that end by a moment.

    One that only the manifest names had no rows. Or a process was killed after it had deleted them.
    """
    there = {hour.name for hour in hour_folders(folder / table.name)}
    names = sorted(there | manifest.hours.get(table.name, {}).keys())
    return [
        HourFolder(name, folder / table.name / name)
        for name in names
        if hour_start_ms(name) + HOUR_MS <= start_ms
    ]


def _remove_empty_days(table: Path, start_ms: int) -> None:
    """Remove the folders of days before a moment that have no hour left."""
    first, _, _ = hour_folder(max(0, start_ms)).partition("/")
    for day in table.glob("date=*"):
        if day.name < first:
            with suppress(OSError):
                day.rmdir()


def kept_from_ms(folder: Path, table: ResultTable, kept: KeptDays, now_ms: int) -> int:
    """Hours of a table that end by then are deleted, or will be.

    Raises:
        StreamState: the folder cannot be understood.
    """
    end_ms, _ = _settled(folder, now_ms)
    return kept.start_ms(table, _newest_end_ms(folder, end_ms))


def _newest_end_ms(folder: Path, end_ms: int) -> int:
    """When the newest settled hour of all tables ends; 0 if no hour is settled."""
    names = _hours(folder, end_ms)
    return hour_start_ms(names[-1]) + HOUR_MS if names else 0


# Compaction


def _compact(
    folder: Path,
    name: str,
    now_ms: Callable[[], int],
    is_stopped: Callable[[], bool],
    done: Maintained,
) -> None:
    """Put the files of an hour together, a file a table; once for each run that they are of."""
    manifest = read_manifest(folder)
    wanting = _wanting(folder, name, manifest, done)

    def origin(found: _Wanting) -> str:
        return manifest.hours.get(found[0].name, {}).get(name, "")

    for run_id, some in groupby(sorted(wanting, key=origin), origin):
        start_ms = hour_start_ms(name)
        made_ms = now_ms()
        with new_run(folder, start_ms, start_ms + HOUR_MS, made_ms) as run:
            if read_manifest(folder) != manifest:
                # A backfill came in between: the next time will do.
                return
            fresh = Maintained(problems=done.problems)
            for table, hour, files in some:
                before = paths_before(folder, table, hour, manifest)
                _put_together(run, table, hour, files, before, is_stopped, fresh)
            run.publish_again(manifest.runs.get(run_id), made_ms)
            done.compacted_hours += fresh.compacted_hours
            done.files_before += fresh.files_before
            done.bytes_before += fresh.bytes_before
            done.bytes_after += fresh.bytes_after
            manifest = read_manifest(folder)


_Wanting = tuple[ResultTable, HourFolder, Sequence[ResultFile]]


def _wanting(folder: Path, name: str, manifest: Manifest, done: Maintained) -> list[_Wanting]:
    """The tables of an hour that are not one file, or rates whose resting rows are all there."""
    found: list[_Wanting] = []
    for table in TABLES:
        hour = HourFolder(name, folder / table.name / name)
        files = list(files_of(hour, table.name, manifest))
        run = manifest.run_of(table.name, name)
        is_dense = table is RATES and (run is None or not run.thinned)
        again = is_dense and len(files) == 1 and done.rewritten < done.rewritten_most
        if again:
            done.rewritten += 1
        if again or len(files) > 1:
            found.append((table, hour, files))
    return found


def _put_together(
    run: Run,
    table: ResultTable,
    hour: HourFolder,
    files: Sequence[ResultFile],
    hour_before: Sequence[Path],
    is_stopped: Callable[[], bool],
    done: Maintained,
) -> None:
    paths = [file.path for file in files]
    place = run.path(table) / hour.name
    place.mkdir(parents=True)
    target = place / "part-0.parquet"
    try:
        write_sorted(paths, target, table, is_stopped, hour_before)
    except (pa.ArrowException, ValueError) as error:
        target.unlink(missing_ok=True)
        done.problems.append(f"{table.name}/{hour.name}: {' '.join(str(error).split())[:200]}")
        return
    run.written(table)
    sizes = [path.stat() for path in paths]
    # Readers say by it how old the results are.
    newest_ns = max(size.st_mtime_ns for size in sizes)
    os.utime(target, ns=(newest_ns, newest_ns))
    done.compacted_hours += 1
    done.files_before += len(paths)
    done.bytes_before += sum(size.st_size for size in sizes)
    done.bytes_after += target.stat().st_size
