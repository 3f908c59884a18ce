"""New files of a recording: each is given out once for each state that a job comes to.

Goals
    Every sample is given out once, whatever was killed.
Constraints
    Files are put together two hours after their hour, and are gone then.
Algorithm
    Files of a recording are numbered, and a number is never used again and grows: what was seen is
    one number, kept with the job's state. A file that cannot be used is set aside (`FileSieve`).
    Its number says nothing, so its name is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.clock import Clock
from kshunt.backend.delivered_files.result_files import read_manifest
from kshunt.backend.domain.pipeline.result_columns import RATES, Manifest
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.kernels.packed_rows import RowGroups
from kshunt.backend.pipeline.results.stream_state import Meta
from kshunt.backend.pipeline.samples.file_sieve import (
    FileAside,
    FileSieve,
    Footer,
    Sifted,
    fail_without_access,
)
from kshunt.backend.telemetry.recording import layout
from kshunt.backend.telemetry.recording.layout import SampleTable, together, written

S = TypeVar("S")

FILES_MOST: Final = 240
"""Files of a batch: a backlog is taken in pieces."""
ROWS_MOST: Final = 2_000_000
"""Samples of a batch."""
BUCKETS: Final = 16
"""Into which replicas are parted; never to be changed for a state that is there."""


@dataclass(frozen=True, slots=True)
class Arrived(Generic[S]):
    """Samples that were not seen before."""

    samples: S
    """In the form that its job takes them in."""
    newest_ms: int | None
    """The newest sample that is not ahead of this machine's clock; None without one."""
    files_to: int = 0
    position: str = ""
    """What tells a topic's batch; see `Meta.position`."""
    gone: tuple[int, ...] = ()
    """Hours whose files were gone before they were read."""
    lacking: int = 0
    """Samples that a topic had, and had no more when they were read."""
    looked_at: int = 0
    """Files that were looked at."""
    aside: tuple[FileAside, ...] = ()
    """Those of them that were set aside."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Of all files that were set aside, those whose numbers are above `files_to`, by name."""
    cluster_id: str = ""
    """That the files are of; empty: not known."""
    release: Any = None
    """Called without arguments once the rows are not needed any more."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The written files of a recording."""

    folder: Path
    clock: Clock
    files_most: int = FILES_MOST
    """Of a batch."""
    rows_most: int = ROWS_MOST
    """Of a batch, but of files that are all of one moment a little more."""
    sieve: FileSieve = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sieve", FileSieve(self.folder))

    def arrivals(
        self, meta: Meta, form: Callable[[Sequence[RowGroups]], S]
    ) -> Iterator[Arrived[S]]:
        """What has come that `meta` has not seen, in pieces, each in the form that is wanted.

        Raises:
            UnreadableSamples: no file can be opened.
        """
        self.sieve.cluster_id = self.sieve.cluster_id or meta.cluster_id
        waiting = meta.files_aside
        parts = unseen(self.folder, meta.files_to)
        fresh = [part for part in parts if self._name(part.path) not in waiting]
        for files in self._pieces(fresh):
            arrived = self._arrived(files, waiting, form)
            waiting = arrived.waiting
            yield arrived

    def _pieces(self, parts: list[layout.SampleFile]) -> Iterator[list[_Known]]:
        self.sieve.forget_passed()
        piece: list[_Known] = []
        for part in parts:
            known = self._known(part)
            rows = sum(each.rows for each in piece)
            if piece and (len(piece) == self.files_most or rows + known.rows > self.rows_most):
                yield piece
                self.sieve.forget_passed()
                piece = []
            piece.append(known)
        if piece:
            yield piece

    def _known(self, part: layout.SampleFile) -> _Known:
        try:
            found = self.sieve.looked_at(SampleTable.REPLICAS, part.path, part.hour_ms)
        except FileNotFoundError:
            return _Known(part, None)
        return _Known(part, found)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder))

    def _arrived(
        self,
        files: list[_Known],
        waiting: Mapping[str, int],
        form: Callable[[Sequence[RowGroups]], S],
    ) -> Arrived[S]:
        there = [(known, footer) for known in files if (footer := known.footer) is not None]
        aside = [known.found for known in files if isinstance(known.found, FileAside)]
        if not there:
            fail_without_access(Sifted({}, tuple(aside)))
        newest = max((footer.newest_ms for _, footer in there if footer.newest_ms), default=None)
        now_ms = self.clock.now_ms()
        if newest is not None and newest > now_ms:
            # Some are ahead of this clock, and a footer does not say which come before them.
            paths = [known.part.path for known, _ in there]
            newest = max((_newest_before(path, now_ms) for path in paths), default=None)
        # The number of a file that is not ours may be anything: it is told by its name.
        numbers = [k.part.number for k in files if not isinstance(k.found, FileAside)]
        files_to = max(numbers, default=0)
        named = {
            self._name(k.part.path): k.part.number for k in files if isinstance(k.found, FileAside)
        }
        return Arrived(
            form([part for known, _ in there for part in known.parts]),
            newest or None,
            files_to,
            gone=tuple(sorted({known.part.hour_ms for known in files if known.found is None})),
            looked_at=len(files),
            aside=tuple(aside),
            waiting={n: at for n, at in {**waiting, **named}.items() if at > files_to},
            cluster_id=self.sieve.cluster_id,
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """A file, and what was found when it was looked at."""

    part: layout.SampleFile
    found: Footer | FileAside | None
    """None: it is gone."""

    @property
    def footer(self) -> Footer | None:
        """What its footer says; None where no row can be read of it."""
        return self.found if isinstance(self.found, Footer) else None

    @property
    def rows(self) -> int:
        """How many can be read of it."""
        return self.found.rows if isinstance(self.found, Footer) else 0

    @property
    def parts(self) -> list[RowGroups]:
        """Its row groups that can be read."""
        groups = self.found.groups if isinstance(self.found, Footer) else 0
        return [RowGroups(str(self.part.path), number, number + 1) for number in range(groups)]


def unseen(folder: Path, files_to: int) -> list[layout.SampleFile]:
    """The written files with higher numbers, in their order.

    They are listed twice: a file that is there when one with a higher number is seen may have come
    after its own folder was listed.
    """
    first = written(folder, SampleTable.REPLICAS, files_to)
    highest = max((part.number for part in first), default=0)
    parts = written(folder, SampleTable.REPLICAS, files_to) if first else []
    return sorted((part for part in parts if part.number <= highest), key=lambda p: p.number)


def unseen_hours(folder: Path, results: Path, meta: Meta) -> tuple[int, ...]:
    """Hours that were put together before all of their samples were seen, and not made since."""
    manifest = read_manifest(results)
    hours = {
        part.hour_ms
        for part in together(folder, SampleTable.REPLICAS)
        if part.number > meta.files_to and made_ms(manifest, part.hour_ms) < part.hour_ms + HOUR_MS
    }
    return tuple(sorted(hours))


def made_ms(manifest: Manifest, hour_ms: int) -> int:
    """When the backfill was published that an hour of rates is taken from; 0: from none."""
    run = manifest.run_of(RATES.name, hour_folder(hour_ms))
    return 0 if run is None or run.streamed else run.made_ms


def _newest_before(path: Path, now_ms: int) -> int:
    """The newest sample of a file that is not ahead of a clock; 0 without one.

    Whether the file is torn is for the worker that reads it to find out.
    """
    try:
        at = pq.read_table(path, columns=["at"])["at"].cast(pa.int64())
    except (pa.ArrowException, OSError):
        return 0
    return pc.max(at.filter(pc.less_equal(at, now_ms))).as_py() or 0
