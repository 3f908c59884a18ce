"""Which files of a recording can be read, and which are set aside.

Goals
    One file that is damaged or not ours stops nothing, and is said: the others of its batch count.
Constraints
    To read every file twice would double what a batch costs.
Algorithm
    A file's footer says of what version, table and cluster it is, and which columns it has. That
    is looked at before workers read it. A file whose footer is whole and whose pages are not makes
    Spark fail. Only then are the files that passed read to their ends, and those that cannot be
    are set aside from then on.
    A recording is of the cluster that it says (`cluster.json`), else of that of its first file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from kshunt.backend.domain.pipeline.file_faults import FileFault
from kshunt.backend.domain.pipeline.sample_columns import CLUSTER_KEY, HOUR_MS
from kshunt.backend.telemetry.recording.layout import SampleTable, recorded_cluster, within
from kshunt.backend.telemetry.recording.schema import UnreadableSamples, broken, open_file


@dataclass(frozen=True, slots=True)
class FileAside:
    """A file that was set aside."""

    table: SampleTable
    path: Path
    hour_ms: int
    """When the hour of its folder begins, milliseconds since the epoch."""
    fault: FileFault
    detail: str
    """What was found, in a sentence."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a file says that can be read."""

    rows: int
    groups: int
    """Row groups."""
    newest_ms: int
    """Of its samples; 0: not known."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """Files of a time, by hour, and those of them that were set aside."""

    good: Mapping[int, tuple[Path, ...]]
    aside: tuple[FileAside, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All good ones, in order."""
        return tuple(path for paths in self.good.values() for path in paths)

    def within(self, start_ms: int, end_ms: int) -> Sifted:
        """Those of the hours that overlap [start_ms, end_ms)."""
        aside = (one for one in self.aside if start_ms - HOUR_MS < one.hour_ms < end_ms)
        return Sifted(within(self.good, start_ms, end_ms), tuple(aside))

    @property
    def looked_at(self) -> int:
        """How many files there were."""
        return len(self.paths) + len(self.aside)


@dataclass(slots=True)
class FileSieve:
    """Parts the files of one recording; see the module's text."""

    folder: Path
    cluster_id: str = ""
    """Empty: not known before a file was looked at."""
    _passed: dict[Path, tuple[SampleTable, int]] = field(default_factory=dict)
    """Table and hour of the files that passed and may have to be looked at closely."""
    _torn: dict[Path, FileAside] = field(default_factory=dict)
    """Those that could not be read to their ends."""

    def __post_init__(self) -> None:
        self.cluster_id = recorded_cluster(self.folder) or self.cluster_id

    def looked_at(self, table: SampleTable, path: Path, hour_ms: int) -> Footer | FileAside:
        """What a file's footer says, or why the file is set aside.

        Raises:
            FileNotFoundError: it is gone.
        """
        if path in self._torn:
            return self._torn[path]
        try:
            with open_file(path, table) as file:
                about = file.metadata
                cluster_id = about.metadata.get(CLUSTER_KEY.encode(), b"")
                self._check_cluster(path, cluster_id.decode(errors="replace"))
                footer = Footer(about.num_rows, about.num_row_groups, _newest_ms(file))
        except UnreadableSamples as error:
            return _aside(table, path, hour_ms, error)
        self._passed[path] = table, hour_ms
        return footer

    def sifted(self, table: SampleTable, hours: Mapping[int, Sequence[Path]]) -> Sifted:
        """The files of some hours, parted; one that is gone is in neither part."""
        good: dict[int, list[Path]] = {}
        aside: list[FileAside] = []
        for hour_ms, paths in hours.items():
            for path in paths:
                try:
                    found = self.looked_at(table, path, hour_ms)
                except FileNotFoundError:
                    continue
                if isinstance(found, FileAside):
                    aside.append(found)
                else:
                    good.setdefault(hour_ms, []).append(path)
        return Sifted({hour: tuple(paths) for hour, paths in good.items()}, tuple(aside))

    def is_any_torn(self) -> bool:
        """Read the files that passed to their ends: whether one has to be set aside after all."""
        found = False
        for path, (table, hour_ms) in list(self._passed.items()):
            error = _read_to_its_end(path, table)
            if error is not None:
                del self._passed[path]
                self._torn[path] = _aside(table, path, hour_ms, error)
                found = True
        return found

    def forget_passed(self) -> None:
        """What passed so far was read, and does not have to be looked at closely any more."""
        self._passed.clear()

    def _check_cluster(self, path: Path, cluster_id: str) -> None:
        self.cluster_id = self.cluster_id or cluster_id
        if cluster_id != self.cluster_id:
            raise UnreadableSamples(
                f"{path} is from cluster {cluster_id}, and the recording is from "
                f"{self.cluster_id}.",
                advice="Keep the recording of each cluster in its own folder.",
                fault=FileFault.OTHER_CLUSTER,
            )


def rows_of_aside(aside: Iterable[FileAside], folder: Path, found_ms: int) -> list[dict[str, Any]]:
    """The rows of `quarantine_files`, of a recording in this folder."""
    return [
        {
            "start": datetime.fromtimestamp(one.hour_ms / 1000, UTC),
            "of": one.table.value,
            "file": str(one.path.relative_to(folder)),
            "fault": one.fault.value,
            "detail": one.detail,
            "size_bytes": one.size_bytes,
            "found": datetime.fromtimestamp(found_ms / 1000, UTC),
        }
        for one in aside
    ]


def fail_without_access(files: Sifted) -> None:
    """See that it is not the file system that is at fault.

    Raises:
        UnreadableSamples: no file can be opened; nothing is to be concluded of the files.
    """
    refused = [one for one in files.aside if one.fault is FileFault.INACCESSIBLE]
    if refused and len(refused) == files.looked_at:
        raise UnreadableSamples(
            refused[0].detail,
            advice="Check the permissions of the recording, and its disk.",
            fault=FileFault.INACCESSIBLE,
        )


def _aside(table: SampleTable, path: Path, hour_ms: int, error: UnreadableSamples) -> FileAside:
    return FileAside(table, path, hour_ms, error.fault, error.message, path.stat().st_size)


def _newest_ms(file: Any) -> int:
    place = file.schema_arrow.get_field_index("at")
    groups = [file.metadata.row_group(i).column(place) for i in range(file.num_row_groups)]
    newest = [
        round(group.statistics.max.timestamp() * 1000)
        for group in groups
        if group.statistics is not None and group.statistics.has_min_max
    ]
    return max(newest, default=0)


def _read_to_its_end(path: Path, table: SampleTable) -> UnreadableSamples | None:
    """Why a file cannot be read to its end; None where it can, or is gone."""
    try:
        with open_file(path, table) as file:
            for _ in file.iter_batches(use_threads=False):
                pass
    except FileNotFoundError:
        return None
    except UnreadableSamples as error:
        return error
    except (pa.ArrowException, OSError) as error:
        return broken(path, error)
    return None
