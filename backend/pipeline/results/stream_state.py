"""What the streaming job has to remember, and how a batch becomes part of the results.

Goals
    Each sample counts once, whatever is killed when; what is on the disk after a batch was
    repeated is what it would have been.
Constraints
    Nothing but files and renames in the folder of results; no file is changed in place.
Algorithm
    A batch writes below a hidden folder. Then its parts are put in place, and at last its state:
    that rename is the moment from which on the batch counts. A job that begins removes first what a
    batch without a state has left, so it is as if that batch had never begun. A batch whose state
    is there is not done again, even if Spark was killed before it noted that.
    Next to the parts of batches each table may have one part `batch_id=open`: rows of what has not
    ended, which the next batch makes anew. Its files are replaced before the batch's other parts
    come: a reader may miss the newest rows for a moment, and finds none
    twice.

Layout, in the folder of results:

    .stream/checkpoint/            Spark's: which samples each batch is of
    .stream/state/batch_id=17/     what is remembered of replicas, and meta.json
    .streaming                     held by the job while it runs
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.delivered_files.result_files import BATCH, hour_folders
from kshunt.backend.domain.pipeline.result_columns import QUALITY
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.errors import KshuntError
from kshunt.backend.files import locked, make_folder

STATE_VERSION: Final = 4
"""To be raised with every change of the columns of a state, or of its files."""
VERSIONS_READ: Final = (2, 3, 4)
"""In version 2 each bucket of replicas has a file of its own. Before version 4 it is not known
whether a replica was being copied."""
STREAM: Final = ".stream"
LOCK: Final = ".streaming"
OPEN: Final = f"{BATCH}open"
"""The part of a table with the rows of what has not ended."""
COUNTED: Final = f"{BATCH}counted"
"""The part of `quality`: what was counted in an hour so far."""
FINAL_AFTER_MS: Final = 300_000
"""Rows may come to an hour for this time after all its ticks were closed; then it is settled."""
_ASIDE: Final = ".batch-"
_META: Final = "meta.json"
_PART: Final = "part-0.parquet"


class StreamState(KshuntError):
    """What the streaming job remembers cannot be understood; nothing was changed."""

    title = "The state of the stream"


@dataclass(frozen=True, slots=True)
class Meta:
    """What is remembered in addition to tables; times in milliseconds."""

    batch: int = -1
    """Its number among the results; -1 before the first."""
    closed_ms: int | None = None
    """Ticks that end by then are closed. None: nothing was seen yet."""
    newest_ms: int | None = None
    """Newest sample that was seen, of those that were not ahead of the clock."""
    files_to: int = 0
    """Highest number of a file whose samples were seen."""
    rows: int = 0
    """Samples that were seen."""
    position: str = ""
    """Of a topic: the checkpoint of Spark's by its id, a colon, and the last batch of it."""
    made_ms: Mapping[str, int] = field(default_factory=dict)
    """Of each table that is made by intervals: how far."""
    open_hours: Mapping[str, str] = field(default_factory=dict)
    """Of each table: the hour's folder that its open part lies in."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of the last hours, by when they begin: samples, and how many broke what."""
    owed: Mapping[str, int] = field(default_factory=dict)
    """Hours, by when they begin, that are to be made by a backfill: their samples were not all
    seen, or rows of theirs came after a backfill had made them. The value is the time since
    which they are owed."""
    files_aside: Mapping[str, int] = field(default_factory=dict)
    """Files that were set aside, by their paths in the recording, with numbers above
    `files_to`."""
    cluster_id: str = ""
    """That the samples are of; empty: not known."""
    version: int = STATE_VERSION
    """Of the columns of the state's tables."""

    @property
    def final_ms(self) -> int | None:
        """Hours that end by then get no rows any more."""
        if self.closed_ms is None:
            return None
        at_ms = self.closed_ms - FINAL_AFTER_MS
        return at_ms - at_ms % HOUR_MS

    @property
    def seen_position(self) -> tuple[str, int]:
        """The two parts of `position`."""
        checkpoint, _, batch = self.position.rpartition(":")
        return checkpoint, int(batch or -1)

    def to_json(self) -> str:
        """As it is kept."""
        # `asdict` would copy each value of its mappings.
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Meta:
        """What `to_json` wrote.

        Raises:
            ValueError: it is none.
        """
        content = json.loads(text)
        if not isinstance(content, dict) or not isinstance(content.get("batch"), int):
            raise ValueError("no state of a stream")
        known = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        return cls(**known)


def newest(results: Path) -> Meta | None:
    """What the last batch left; None where no stream ever ran.

    Raises:
        StreamState: it is there and cannot be understood.
    """
    number = None
    while True:
        former, number = number, max((n for n, _ in _batches(_states(results))), default=None)
        if number is None:
            return None
        path = state_folder(results, number) / _META
        try:
            return Meta.from_json(path.read_text())
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, FileNotFoundError) and number != former:
                # The next batch may have replaced it since the folder was listed.
                continue
            raise StreamState(
                f"{path} cannot be read: {error}.",
                advice=f"Move {results / STREAM} away: the stream then begins again, and results "
                "stay.",
            ) from None


def begin(results: Path) -> Meta:
    """What is remembered where no stream ever ran; parts of one that was forgotten stay."""
    meta = Meta(highest_batch(results))
    aside = _states(results) / f".{BATCH}{meta.batch}"
    shutil.rmtree(aside, ignore_errors=True)
    make_folder(aside)
    (aside / _META).write_text(meta.to_json())
    aside.rename(state_folder(results, meta.batch))
    return meta


def state_folder(results: Path, batch: int) -> Path:
    """Where the state after a batch lies."""
    return _states(results) / f"{BATCH}{batch}"


def checkpoint(results: Path) -> Path:
    """Spark's own folder."""
    return results / STREAM / "checkpoint"


def streaming_until(results: Path) -> int | None:
    """From when on the hours are a running stream's; None: no stream runs there.

    Raises:
        OSError, StreamState: it cannot be told.
    """
    if not (results / LOCK).exists():
        return None
    lock = locked(results / LOCK)
    if lock is not None:
        lock.close()
        return None
    meta = newest(results)
    return 0 if meta is None else meta.final_ms or 0


@dataclass(slots=True)
class StreamBatch:
    """A batch in the making; `publish` makes it count."""

    results: Path
    number: int
    attempt: str
    """Tells its folder from that of a job that was killed, whose workers may be at work still."""
    open_parts: dict[str, tuple[str, Path]] = field(default_factory=dict)
    """Of each table: the hour's folder, and where the files of its open part are."""
    counted: tuple[str, Any] | None = None
    """The hour's folder and the rows of `quality`."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of each table that are written."""

    @classmethod
    def begun(cls, results: Path, number: int) -> StreamBatch:
        """A batch of which nothing is written."""
        batch = cls(results, number, secrets.token_hex(4))
        make_folder(batch.aside)
        return batch

    @property
    def aside(self) -> Path:
        """Where it writes until it is published."""
        return self.results / f"{_ASIDE}{self.number}-{self.attempt}"

    @property
    def state(self) -> Path:
        """Where its state is to be written."""
        return self.aside / STREAM

    def table(self, name: str) -> Path:
        """Where a table is to be written, by `date` and `hour`."""
        return self.aside / name

    def write(self, name: str, hour_of: str, rows: Any) -> None:
        """Write a table that is small enough for this process."""
        for hour, some in by_hour(rows, hour_of):
            folder = self.table(name) / hour
            folder.mkdir(parents=True)
            pq.write_table(some, folder / _PART, compression="zstd")

    def publish(self, meta: Meta, former: Meta) -> Meta:
        """Put everything in its place; what is remembered from here on."""
        for name, (hour, files) in self.open_parts.items():
            replace_part(self.results / name / hour / OPEN, files)
            old = former.open_hours.get(name, hour)
            if old != hour:
                shutil.rmtree(self.results / name / old / OPEN, ignore_errors=True)
        if self.counted is not None:
            hour, rows = self.counted
            files = self.aside / ".counted"
            files.mkdir()
            pq.write_table(rows, files / _PART, compression="zstd")
            replace_part(self.results / QUALITY.name / hour / COUNTED, files)
        for table in sorted(self.aside.iterdir()):
            if not table.name.startswith("."):
                self.rows[table.name] = self._publish_parts(table)
        (self.state / _META).write_text(meta.to_json())
        make_folder(_states(self.results))
        self.state.rename(state_folder(self.results, self.number))
        shutil.rmtree(self.aside, ignore_errors=True)
        for number, path in _batches(_states(self.results)):
            if number != self.number:
                shutil.rmtree(path, ignore_errors=True)
        return meta

    def open_hours(self, former: Meta) -> dict[str, str]:
        """Where open parts lie after this batch."""
        return {**former.open_hours, **{name: hour for name, (hour, _) in self.open_parts.items()}}

    def _publish_parts(self, table: Path) -> int:
        rows = 0
        for hour in hour_folders(table):
            found = sum(_rows(path) for path in hour.path.glob("[!._]*.parquet"))
            if found:
                place = self.results / table.name / hour.name / f"{BATCH}{self.number}"
                make_folder(place.parent)
                hour.path.rename(place)
            rows += found
        return rows


def replace_part(part: Path, files: Path) -> None:
    """Let a part have the files of another folder, one after another.

    A replica's rows are in the file of the same name each time, so none is there twice. Another
    job may part them otherwise: its files go first.
    """
    make_folder(part)
    names = sorted(path.name for path in files.glob("[!._]*.parquet"))
    for path in part.glob("*.parquet"):
        if path.name not in names:
            path.unlink()
    for name in names:
        os.replace(files / name, part / name)


def by_hour(rows: Any, hour_of: str) -> Iterator[tuple[str, Any]]:
    """An Arrow table by the folders of its rows' hours."""
    if not len(rows):
        return
    hours = rows[hour_of].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy() // HOUR_MS
    for hour in sorted(set(hours.tolist())):
        yield hour_folder(hour * HOUR_MS), rows.filter(pa.array(hours == hour))


def sweep(results: Path, meta: Meta) -> None:
    """Remove what a batch that never came to count has left."""
    for path in results.glob(f"{_ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in _states(results).glob(".*"):
        shutil.rmtree(path, ignore_errors=True)
    since = hour_folder(max(0, (meta.closed_ms or 0) - 2 * HOUR_MS))
    for table in _tables(results):
        for hour in hour_folders(table):
            if hour.name >= since:
                for number, path in _batches(hour.path):
                    if number > meta.batch:
                        shutil.rmtree(path, ignore_errors=True)
                if meta.open_hours.get(table.name) != hour.name:
                    shutil.rmtree(hour.path / OPEN, ignore_errors=True)


def highest_batch(results: Path) -> int:
    """Of all batches whose parts lie there; -1 where there is none."""
    found = (
        number
        for table in _tables(results)
        for hour in hour_folders(table)
        for number, _ in _batches(hour.path)
    )
    return max(found, default=-1)


def parts_between(
    results: Path, name: str, start_ms: int, end_ms: int, batch: StreamBatch
) -> Sequence[Path]:
    """Folders of a table's batches in the hours that overlap a time, that of `batch` included."""
    found = []
    for hour in hour_folders(results / name):
        if _overlaps(hour.start_ms, start_ms, end_ms):
            found += [path for _, path in _batches(hour.path)]
    for hour in hour_folders(batch.table(name)):
        if _overlaps(hour.start_ms, start_ms, end_ms):
            found.append(hour.path)
    return [path for path in found if any(path.glob("[!._]*.parquet"))]


def _overlaps(hour_ms: int, start_ms: int, end_ms: int) -> bool:
    return hour_ms < end_ms and hour_ms + HOUR_MS > start_ms


def _states(results: Path) -> Path:
    return results / STREAM / "state"


def _tables(results: Path) -> Iterable[Path]:
    if not results.is_dir():
        return []
    return [path for path in results.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _batches(folder: Path) -> list[tuple[int, Path]]:
    """Folders of batches, with their numbers; none where there is no folder."""
    found = ((path.name.removeprefix(BATCH), path) for path in folder.glob(f"{BATCH}*"))
    return [(int(number), path) for number, path in found if number.lstrip("-").isdecimal()]


def _rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)
