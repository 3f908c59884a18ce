"""Which files of the data pipeline's results hold: for code that writes results, or reads them.

The layout is that of `kshunt.backend.domain.pipeline.result_columns`; nothing is opened here but
the manifest.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from kshunt.backend.domain.pipeline.result_columns import MANIFEST, Manifest
from kshunt.backend.domain.pipeline.sample_columns import hour_start_ms
from kshunt.backend.errors import KshuntError

SUFFIX: Final = ".parquet"
BATCH: Final = "batch_id="
"""Begins the name of a folder that the streaming job wrote."""
RUN: Final = "run="
"""Begins the name of a folder that a backfill wrote."""
_DAY: Final = re.compile(r"date=\d{4}-\d\d-\d\d")
_HOUR: Final = re.compile(r"hour=[0-2]\d")


class UnreadableResults(KshuntError):
    """The folder of results holds what cannot be understood; nothing in it was changed."""

    title = "Unreadable results"


@dataclass(frozen=True, slots=True)
class HourFolder:
    """The folder of an hour of a table."""

    name: str
    """As the manifest has it: `date=2026-11-22/hour=03`."""
    path: Path

    @property
    def start_ms(self) -> int:
        """When the hour begins."""
        return hour_start_ms(self.name)


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file that holds."""

    path: Path
    part: str
    """The folder of its run or batch: `run=ID`, `batch_id=17`."""


def read_manifest(folder: Path) -> Manifest:
    """Which runs hold; empty where there is no manifest.

    Raises:
        UnreadableResults: it is there and cannot be understood.
    """
    path = folder / MANIFEST
    try:
        status = path.stat()
        return _parsed(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValueError) as error:
        raise UnreadableResults(
            f"{path} cannot be read: {error}.",
            advice="Remove the folder of results and make them again: kshunt pipeline backfill.",
        ) from None


@lru_cache(maxsize=8)
def _parsed(path: Path, _inode: int, _size_bytes: int, _changed_ns: int) -> Manifest:
    """A manifest as it was at a time; after two years it has 100,000 hours of tables."""
    return Manifest.from_json(path.read_text())


def current_files(folder: Path, table: str) -> tuple[Path, ...]:
    """The files of a table that hold, by hour. Lists again where a run was published meanwhile.

    Raises:
        UnreadableResults: see `read_manifest`.
    """
    while True:
        manifest = read_manifest(folder)
        files = tuple(
            file.path
            for hour in hour_folders(folder / table)
            for file in files_of(hour, table, manifest)
        )
        if read_manifest(folder) == manifest:
            return files


def hour_folders(table: Path) -> list[HourFolder]:
    """The folders of hours below a table's, the oldest first; none where there is no table."""
    return [
        HourFolder(f"{day}/{hour}", table / day / hour)
        for day in _names(table)
        if _DAY.fullmatch(day)
        for hour in _names(table / day)
        if _HOUR.fullmatch(hour)
    ]


def files_of(hour: HourFolder, table: str, manifest: Manifest) -> Iterator[ResultFile]:
    """The files of an hour that hold, by part and name."""
    for part in parts_of(hour, table, manifest):
        yield from files_in(hour, part)


def parts_of(hour: HourFolder, table: str, manifest: Manifest) -> list[str]:
    """The folders of an hour that hold, by name."""
    return [part for part in _names(hour.path) if manifest.holds(table, hour.name, part)]


def files_in(hour: HourFolder, part: str) -> list[ResultFile]:
    """The files of such a folder, by name."""
    return [
        ResultFile(hour.path / part / name, part)
        for name in _names(hour.path / part)
        if name.endswith(SUFFIX) and name[0] not in "._"
    ]


def newness(part: str) -> int:
    """Greater for a part whose rows are newer: what has not ended, then batches, then runs."""
    number = batch_of(part)
    return sys.maxsize if number < 0 and part.startswith(BATCH) else number


def batch_of(part: str) -> int:
    """The number of a batch, from the name of its folder.

    -1 for a run, and for what the streaming job makes anew with each batch (`batch_id=open`).
    """
    number = part.removeprefix(BATCH)
    return int(number) if part.startswith(BATCH) and number.isdecimal() else -1


def _names(folder: Path) -> list[str]:
    """Names in a folder, in order; none where it is gone, is none, or was never made."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
