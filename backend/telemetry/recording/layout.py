"""Where the files of a recording are, and which of them count.

Goals
    Any reader finds every row of an hour exactly once, at any moment, whatever was killed.
Constraints
    Paths alone say it: nothing has to be opened, and nothing but the standard library is needed.
    A reader that follows new files (Spark's file stream) never meets a row again.
Algorithm
    The writer numbers its files; a number is never used again in a recording, and grows. Files
    that were just written are in `replicas/`, `brokers/` and `forecasts/`: a stream follows these.
    Once an hour is over for long enough its files become one below `hours/`, in a folder that no
    stream follows. That file bears the highest number of the files it was made from. So of an hour
    count: the file below `hours/` with the highest number, and of those just written the ones with
    a higher number. One rename makes the change; what no longer counts is removed after it.
    A reader lists the written files first and those below `hours/` second: in this order no file
    is missed while it is replaced by another.
"""

from __future__ import annotations

import enum
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS

HOURS: Final = "hours"
"""The folder of what was put together, hour by hour."""
SUFFIX: Final = ".parquet"
CLUSTER: Final = "cluster.json"
"""Names the cluster that a recording is of."""
_HOUR: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)")
_NAME: Final = re.compile(r"[0-9TZ]+-(\d{10,18})\.parquet")


class SampleTable(enum.StrEnum):
    """The tables of a recording, by the names of their folders."""

    REPLICAS = "replicas"
    BROKERS = "brokers"
    FORECASTS = "forecasts"


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file of a recording."""

    path: Path
    hour_ms: int
    """When its hour begins, milliseconds since the epoch."""
    number: int
    """Its own, or the highest of those that it was made from."""


def recorded_cluster(folder: Path) -> str | None:
    """The cluster that a recording says it is of; None where it does not, "" where it is damaged.

    Raises:
        OSError: its file cannot be read.
    """
    try:
        document = json.loads((folder / CLUSTER).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return ""
    cluster_id = document.get("cluster_id") if isinstance(document, dict) else None
    return cluster_id if isinstance(cluster_id, str) else ""


def file_name(at_ms: int, number: int) -> str:
    """Of a file whose first row is of that moment: `20261122T030405123Z-0000000042.parquet`."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y%m%dT%H%M%S}{at_ms % 1000:03}Z-{number:010}{SUFFIX}"


def written(folder: Path, table: SampleTable, above: int = -1) -> list[SampleFile]:
    """Files as they were written, with numbers above one, by hour and number."""
    return _listed(folder / table, above)


def together(folder: Path, table: SampleTable) -> list[SampleFile]:
    """Files that hold an hour each, by hour and number."""
    return _listed(folder / HOURS / table)


def counted(folder: Path, table: SampleTable) -> dict[int, tuple[Path, ...]]:
    """The files that count, by hour; both in order. See the module's text.

    A file that is listed here may be gone a moment later, because its rows are in another one:
    who cannot open it lists again.

    Raises:
        OSError: a folder is there and cannot be read.
    """
    before = None
    while True:
        plain, hours = written(folder, table), together(folder, table)
        if hours == before:
            return _counted(plain, hours)
        before = hours


def _counted(
    plain: Sequence[SampleFile], hours: Sequence[SampleFile]
) -> dict[int, tuple[Path, ...]]:
    newest = {part.hour_ms: part for part in hours}
    found = {hour_ms: [part.path] for hour_ms, part in newest.items()}
    for part in left_over(plain, newest):
        found.setdefault(part.hour_ms, []).append(part.path)
    return {hour_ms: tuple(found[hour_ms]) for hour_ms in sorted(found)}


def within(
    files: Mapping[int, tuple[Path, ...]], start_ms: int, end_ms: int
) -> dict[int, tuple[Path, ...]]:
    """Of files by hour those of the hours that overlap [start_ms, end_ms)."""
    return {
        hour_ms: paths
        for hour_ms, paths in files.items()
        if hour_ms + HOUR_MS > start_ms and hour_ms < end_ms
    }


def left_over(plain: Sequence[SampleFile], newest: Mapping[int, SampleFile]) -> list[SampleFile]:
    """Of the written files those whose rows are in no file of an hour."""
    return [
        part
        for part in plain
        if part.hour_ms not in newest or part.number > newest[part.hour_ms].number
    ]


def highest_number(folder: Path) -> int:
    """Of all files, whether they count or not; 0 where there is none."""
    parts = (
        part for table in SampleTable for part in written(folder, table) + together(folder, table)
    )
    return max((part.number for part in parts), default=0)


def hour_folders(folder: Path) -> Iterator[tuple[int, Path]]:
    """The folders of hours below a table's, each with the moment at which its hour begins."""
    for day in _folders(folder):
        for path in _folders(day):
            match = _HOUR.fullmatch(f"{day.name}/{path.name}")
            if (
                match is not None
                and int(match[2]) < 24
                and (begin := _day_ms(match[1])) is not None
            ):
                yield begin + int(match[2]) * HOUR_MS, path


def _day_ms(day: str) -> int | None:
    try:
        return int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 1000
    except ValueError:
        return None


def _listed(folder: Path, above: int = -1) -> list[SampleFile]:
    found = []
    for hour_ms, path in hour_folders(folder):
        for name in _names(path):
            match = _NAME.fullmatch(name)
            if match is not None and (number := int(match[1])) > above:
                found.append(SampleFile(path / name, hour_ms, number))
    return sorted(found, key=lambda part: (part.hour_ms, part.number))


def _folders(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if "=" in name and (folder / name).is_dir()]


def _names(folder: Path) -> list[str]:
    """Names in a folder; none where it is gone, or was never made."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return []
