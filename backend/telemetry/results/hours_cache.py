"""Results hour by hour, reduced to what is asked of them, and remembered.

Goals
    A question about days is answered within milliseconds, whatever lies on the disk: from what was
    read before, and as much of the rest as there is time for. The answer says how far back it goes.
Constraints
    Files come and go meanwhile, a streaming job writes one every few seconds, and some may be torn
    or not ours: those are said, and the others are read.
Algorithm
    A file is reduced to a small table once, and known by its path, size and time. Of an hour only
    the newest batches are looked at again, since no other is ever written anew. The others are put
    together. An hour that is over is not looked at again where its folder is as it was. Reading
    goes from the newest hour back until the time is over. A thread then reads the rest, also newest
    first.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kshunt.backend.clock import Clock
from kshunt.backend.delivered_files.result_files import (
    RUN,
    HourFolder,
    batch_of,
    files_in,
    hour_folders,
    newness,
    parts_of,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import Manifest, ResultTable
from kshunt.backend.errors import KshuntError

log = logging.getLogger(__name__)

BYTES_MOST: Final = 128 * 1024 * 1024
"""This much of what was read is remembered of a question."""
BUDGET_S: Final = 0.2
"""Reading may take this long while somebody waits."""
END_S: Final = 2.0
"""The end waits this long for a file that is being read."""
YOUNG_HOURS: Final = 2
"""The newest hours, whose files are looked at each time."""
YOUNG_BATCHES: Final = 16
"""The newest batches of an hour, which may be written again after a crash."""
PROBLEMS_SAID: Final = 3
UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, NotImplementedError)
"""What Arrow raises of a file that is torn, or none of ours."""

Reduce = Callable[[Path], Any]
"""A file to a small Arrow table; raises one of `UNREADABLE`."""
Combine = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class CachedHours:
    """What is known of some hours."""

    tables: tuple[Any, ...] = ()
    """Arrow tables, of an hour each, the oldest first."""
    since_ms: int | None = None
    """From then on everything is read; before it are rows that may lack. None where none lack."""
    problem: str = ""
    """Files that cannot be read, in words."""

    def all(self) -> Any:
        """In one table; None where nothing is known."""
        return pa.concat_tables(self.tables) if self.tables else None


@dataclass(slots=True, eq=False)
class _File:
    stamp: tuple[int, int]
    """Size and time."""
    table: Any
    """None where it cannot be read."""
    problem: str = ""


@dataclass(slots=True)
class _Hour:
    stamp: tuple[int, str]
    """Time of its folder, and its run."""
    parts: dict[str, dict[Path, _File]] = field(default_factory=dict)
    """Files of the parts that may change."""
    final: set[str] = field(default_factory=set)
    """Parts that do not change any more."""
    final_table: Any = None
    """All of them together."""
    final_problems: tuple[str, ...] = ()
    whole: bool = False
    """Every file has been looked at."""
    table: Any = None
    problems: tuple[str, ...] = ()
    files_read: int = 0


class HoursCache:
    """The hours of a table of results, reduced; for any thread."""

    def __init__(
        self, folder: Path, table: ResultTable, reduce: Reduce, combine: Combine, clock: Clock
    ) -> None:
        self._folder, self._table, self._clock = folder, table.name, clock
        self._folder_ms = table.folder_ms
        self._reduce, self._combine = reduce, combine
        self.batches: int | None = None
        """This many of the newest batches of an hour are enough; None: all are wanted."""
        self._lock = threading.Lock()
        self._hours: dict[str, _Hour] = {}
        self._latest = (0, math.inf), CachedHours()
        """The last answer, and of which moments it is."""
        self._filling: threading.Thread | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Begin to read no more files in the background."""
        self._stopped.set()

    def wait(self) -> None:
        """Once stopped, wait a little for the file that is being read."""
        if self._filling is not None:
            self._filling.join(END_S)

    def since(
        self, since_ms: int, budget_s: float = BUDGET_S, until_ms: float = math.inf
    ) -> CachedHours:
        """What is known of the hours between two moments; the rest is read from here on.

        Raises:
            UnreadableResults: the manifest cannot be understood.
        """
        if not self._lock.acquire(timeout=budget_s):
            of, found = self._latest
            unread = CachedHours(since_ms=self._clock.now_ms())
            return found if of == (since_ms, until_ms) else unread
        try:
            found = self._read(since_ms, until_ms, self._clock.monotonic_s() + budget_s)
        finally:
            self._lock.release()
        if found.since_ms is not None:
            self._fill(since_ms, until_ms)
        return found

    def _fill(self, since_ms: int, until_ms: float) -> None:
        if (self._filling is None or not self._filling.is_alive()) and not self._stopped.is_set():
            self._filling = threading.Thread(
                target=self._fill_all,
                args=(since_ms, until_ms),
                name=f"results-{self._table}",
                daemon=True,
            )
            self._filling.start()

    def _fill_all(self, since_ms: int, until_ms: float) -> None:
        """A step at a time, so that callers that ask meanwhile get an answer."""
        left = -1
        while not self._stopped.is_set():
            try:
                with self._lock:
                    found = self._read(since_ms, until_ms, self._clock.monotonic_s() + BUDGET_S)
                    known = sum(hour.files_read for hour in self._hours.values())
            except (OSError, KshuntError):
                return
            if found.since_ms is None or known == left:
                return
            left = known

    def _read(self, since_ms: int, until_ms: float, deadline_s: float) -> CachedHours:
        manifest = read_manifest(self._folder)
        hours = hour_folders(self._folder / self._table)[::-1]
        wanted = [
            (hour, number < YOUNG_HOURS)
            for number, hour in enumerate(hours)
            if hour.start_ms + self._folder_ms > since_ms and hour.start_ms < until_ms
        ]
        self._forget({hour.name for hour in hours})
        tables: list[Any] = []
        problems: list[str] = []
        used, reached = 0, None
        for number, (hour, young) in enumerate(wanted):
            if reached is None:
                state = self._hour(hour, manifest, deadline_s, young=young)
            elif (known := self._hours.get(hour.name)) is not None:
                # There is no time for more; what was read before is not forgotten.
                state = known
            else:
                continue
            if state.table is not None and len(state.table):
                tables.append(state.table)
                used += state.table.nbytes
            problems += state.problems
            if reached is None and not state.whole:
                # What is read of it may be any part: no moment of it is known as a whole.
                reached = hour.start_ms + self._folder_ms
            if used > BYTES_MOST and number + 1 < len(wanted):
                reached = hour.start_ms if reached is None else reached
                break
        found = CachedHours(tuple(reversed(tables)), reached, _said(problems))
        self._latest = (since_ms, until_ms), found
        return found

    def _forget(self, names: set[str]) -> None:
        for name in [name for name in self._hours if name not in names]:
            del self._hours[name]

    def _hour(
        self, hour: HourFolder, manifest: Manifest, deadline_s: float, *, young: bool
    ) -> _Hour:
        run = manifest.hours.get(self._table, {}).get(hour.name, "")
        stamp = (_changed_ns(hour.path), run)
        state = self._hours.get(hour.name)
        if state is not None and state.whole and state.stamp == stamp and not young:
            return state
        parts = parts_of(hour, self._table, manifest)
        if state is None or state.stamp[1] != run or not state.final.issubset(parts):
            state = _Hour(stamp)
        self._hours[hour.name] = state
        self._look(state, hour, parts, deadline_s)
        state.stamp = stamp
        return state

    def _look(
        self, state: _Hour, hour: HourFolder, parts: Sequence[str], deadline_s: float
    ) -> None:
        """Read what is new of an hour, the newest batches first, while there is time."""
        gone = [part for part in state.parts if part not in set(parts)]
        for part in gone:
            del state.parts[part]
        before, news, state.whole = state.files_read, bool(gone), True
        newest_first = sorted(parts, key=newness, reverse=True)
        if self.batches is not None:
            runs = [part for part in newest_first[self.batches :] if part.startswith(RUN)]
            newest_first = newest_first[: self.batches] + runs
        newest_first = [part for part in newest_first if part not in state.final]
        for part in newest_first:
            # At least one file each time: else a short time would never be enough.
            if state.files_read > before and self._clock.monotonic_s() > deadline_s:
                state.whole = False
                break
            news |= self._look_at(state, hour, part)
        if news or state.table is None:
            self._sum_up(state, max(map(batch_of, parts), default=-1))

    def _look_at(self, state: _Hour, hour: HourFolder, part: str) -> bool:
        """Read what is new of a part; True where anything is."""
        known, files = state.parts.get(part, {}), {}
        for file in files_in(hour, part):
            stamp = _stamp(file.path)
            if stamp is None:
                continue
            read = known.get(file.path)
            if read is None or read.stamp != stamp:
                read = self._file(file.path, stamp)
                state.files_read += 1
            if read is not None:
                files[file.path] = read
        state.parts[part] = files
        return files != known

    def _file(self, path: Path, stamp: tuple[int, int]) -> _File | None:
        """What is read of it; None where it is gone."""
        try:
            return _File(stamp, self._reduce(path))
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            name = path.relative_to(self._folder)
            why = " ".join(str(error).split())[:120] or type(error).__name__
            log.warning("%s is ignored: %s", path, why)
            return _File(stamp, None, f"{name} is ignored: {why}")

    def _sum_up(self, state: _Hour, newest: int) -> None:
        """Put together what is settled by now, and all."""
        final = [part for part in state.parts if -1 < batch_of(part) <= newest - YOUNG_BATCHES]
        if final:
            files = [file for part in final for file in state.parts.pop(part).values()]
            state.final.update(final)
            state.final_table = self._together(state.final_table, files)
            state.final_problems += tuple(file.problem for file in files if file.problem)
        files = [file for part in state.parts.values() for file in part.values()]
        state.table = self._together(state.final_table, files)
        problems = [file.problem for file in files if file.problem]
        state.problems = (*state.final_problems, *problems)

    def _together(self, table: Any, files: Sequence[_File]) -> Any:
        tables = [] if table is None else [table]
        tables += [file.table for file in files if file.table is not None and len(file.table)]
        return self._combine(pa.concat_tables(tables)) if tables else None


def _changed_ns(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None where it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _said(problems: Sequence[str]) -> str:
    more = len(problems) - PROBLEMS_SAID
    said = "; ".join(problems[:PROBLEMS_SAID])
    return f"{said}; and {more:,} more" if more > 0 else said
