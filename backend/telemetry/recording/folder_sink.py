"""Samples as Parquet files in a folder; see `kshunt.backend.domain.pipeline.sample_columns` for its
layout.

Goals
    A file is complete or is not there. A crash costs what was not flushed, and is said at the
    next start.
Constraints
    One recorder a folder, and one cluster. Nothing here changes a file once it has its name.
Algorithm
    Rows of one hour (UTC, by their own time) become one file of one row group. The sink makes it in
    memory, writes it under a name that begins with a dot, and fsyncs it. Then it renames the file,
    and fsyncs the folder. A lock
    on `.lock` keeps a second recorder out and ends with the process, however that ends.
"""

from __future__ import annotations

import errno
import json
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.errors import Conflict, WrongCluster
from kshunt.backend.files import locked, make_folder, replace_file
from kshunt.backend.telemetry.recording.gaps import (
    Gap,
    GapLog,
    GapReason,
    RecordingState,
    end_state,
    read_state,
    write_state,
)
from kshunt.backend.telemetry.recording.layout import (
    CLUSTER,
    SampleTable,
    file_name,
    highest_number,
    recorded_cluster,
)
from kshunt.backend.telemetry.recording.retention import clear
from kshunt.backend.telemetry.recording.schema import parquet

log = logging.getLogger(__name__)

LOCK: Final = ".lock"


class Sink(Protocol):
    """Where samples go. One thread uses it at a time."""

    def open(self, cluster_id: str, now_ms: int) -> Sequence[Gap]:
        """Get ready, or ready again; what is found to lack of the last run.

        Raises:
            OSError, KshuntError: it is not ready; to be tried again.
        """
        ...

    def pieces(self, table: SampleTable, rows: Any) -> list[Any]:
        """Rows in pieces, each of which is written as a whole or not at all."""
        ...

    def write(self, table: SampleTable, piece: Any) -> None:
        """Write one piece.

        Raises:
            OSError, KshuntError: it is not written; to be tried again.
        """
        ...

    def note_written(self, gaps: Sequence[Gap], written_ms: int) -> None:
        """Everything until then is written; these gaps are new.

        Raises:
            OSError, KshuntError: it is not known to be; to be tried again.
        """
        ...

    def lost(self) -> Sequence[Gap]:
        """What was written and got lost after all, since this was last asked."""
        ...

    def end(self) -> None:
        """A clean end.

        Raises:
            OSError, KshuntError: it will look like a crash.
        """
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(eq=False)
class _LockedFolder:
    """The folder, while it is ours."""

    cluster_id: str
    lock: IO[str]
    gaps: GapLog


class FolderSink:
    """A recording in a folder; see the module's text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run = secrets.token_hex(8)
        self._started_ms = 0
        self._written_ms = 0
        self._number = 0
        self._held: _LockedFolder | None = None

    def open(self, cluster_id: str, now_ms: int) -> Sequence[Gap]:
        """See `Sink.open`.

        Raises:
            Conflict: another recorder writes there.
            WrongCluster: the recording is of another cluster.
            OSError: the folder cannot be used.
        """
        self.close()
        make_folder(self._folder)
        held = _LockedFolder(cluster_id, _locked(self._folder), GapLog(self._folder))
        try:
            _claim(self._folder, cluster_id)
            if not self._started_ms:
                clear(self._folder)
            self._number = max(self._number, highest_number(self._folder))
            gaps = self._found(read_state(self._folder), now_ms)
            held.gaps.append(gaps)
            self._started_ms = self._started_ms or now_ms
            self._written_ms = self._written_ms or now_ms
            write_state(self._folder, RecordingState(self._run, self._started_ms, self._written_ms))
        except BaseException:
            held.lock.close()
            raise
        self._held = held
        return gaps

    def _found(self, state: RecordingState | None, now_ms: int) -> list[Gap]:
        if state is None or state.run == self._run:
            return []
        text = "The recorder did not end cleanly"
        if state.written_ms == UNKNOWN:
            text = f"{text}, and the start of the gap is unknown."
            return [Gap(now_ms, now_ms, GapReason.CRASH, text)]
        text = (
            f"{text}: the rows from {moment_text(state.written_ms)} on were not written and "
            "are lost."
        )
        return [Gap(state.written_ms, max(now_ms, state.written_ms), GapReason.CRASH, text)]

    def pieces(self, table: SampleTable, rows: Any) -> list[Any]:
        """Rows by their hour."""
        hours = rows["at"].cast(pa.int64()).to_numpy() // HOUR_MS
        found = np.unique(hours)
        return [rows] if len(found) == 1 else [rows.filter(pa.array(hours == h)) for h in found]

    def write(self, table: SampleTable, piece: Any) -> None:
        """See `Sink.write`."""
        held = self._ready()
        at_ms = piece["at"][0].value
        folder = self._folder / table / hour_folder(at_ms)
        # A number that was not used up is of no harm; one that is used twice is.
        self._number += 1
        path = folder / file_name(at_ms, self._number)
        content = parquet(piece, table, held.cluster_id)
        try:
            _write_into(folder, path, content)
        except FileNotFoundError:
            # An hour that is over may be put together meanwhile, and its empty folder removed.
            self._ready()
            _write_into(folder, path, content)

    def note_written(self, gaps: Sequence[Gap], written_ms: int) -> None:
        """See `Sink.note_written`."""
        self._ready().gaps.append(gaps)
        write_state(self._folder, RecordingState(self._run, self._started_ms, written_ms))
        self._written_ms = written_ms

    def lost(self) -> Sequence[Gap]:
        """Nothing: what is on the disk stays there."""
        return ()

    def forget_gaps(self, before_ms: int) -> None:
        """Leave out gaps that ended before a moment.

        Raises:
            OSError: they stay.
        """
        if self._held is not None:
            self._held.gaps.forget(before_ms)

    def end(self) -> None:
        """See `Sink.end`."""
        if self._held is not None:
            end_state(self._folder)

    def close(self) -> None:
        """Let others record there."""
        held, self._held = self._held, None
        if held is not None:
            held.lock.close()

    def _ready(self) -> _LockedFolder:
        if self._held is None or not (self._folder / CLUSTER).exists():
            raise FileNotFoundError(
                errno.ENOENT,
                "The folder does not exist any more, or was replaced by another",
                str(self._folder),
            )
        return self._held


def _write_into(folder: Path, path: Path, content: bytes) -> None:
    make_folder(folder)
    replace_file(path, content)


def _locked(folder: Path) -> IO[str]:
    lock = locked(folder / LOCK)
    if lock is None:
        raise Conflict(
            f"Another backend records to {folder}.",
            advice="Give each backend a folder of its own, or stop the other one.",
        )
    return lock


def _claim(folder: Path, cluster_id: str) -> None:
    """The recording is of this cluster, from its first moment on."""
    there = recorded_cluster(folder)
    if there is None:
        replace_file(folder / CLUSTER, json.dumps({"cluster_id": cluster_id}).encode() + b"\n")
    elif there != cluster_id:
        raise WrongCluster(
            f"The recording in {folder} is from cluster {there or '?'}, but this is {cluster_id}.",
            advice="Nothing was written; give each cluster a folder of its own (--samples).",
        )
