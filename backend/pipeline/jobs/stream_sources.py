"""Where the streaming job's samples come from: files of a recording, or a topic.

Goals
    Every sample is given out once for each state that the job comes to, whatever was killed.
Constraints
    Files are put together two hours after their hour, and are gone then.
Algorithm
    Files of a recording are numbered, and a number is never used again and grows: what was seen is
    one number, kept with the job's state. Spark's file stream says when something is there; which
    files are new is told by their numbers alone, so a checkpoint that is lost costs nothing. The
    files are read like a backfill's, with what their footers say of their times. A file that
    cannot be used is set aside (`FileSieve`). Its number says nothing, so its name is remembered.
    Of a topic Spark's checkpoint says which records a batch is of, and the state which batch of
    which checkpoint was the last. Spark leaves out what retention took meanwhile, and says so to
    nobody but its log: what came is counted, and held beside what the checkpoint says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.clock import Clock
from kshunt.backend.delivered_files.result_files import read_manifest
from kshunt.backend.domain.pipeline.result_columns import RATES, Manifest
from kshunt.backend.domain.pipeline.sample_columns import (
    HOUR_MS,
    REPLICA_SAMPLES,
    Type,
    hour_folder,
)
from kshunt.backend.pipeline.kernels import stream_step
from kshunt.backend.pipeline.kernels.packed_rows import SAMPLES, RowGroups, as_text, pack
from kshunt.backend.pipeline.results.stream_state import Meta
from kshunt.backend.pipeline.samples.file_sieve import (
    FileAside,
    FileSieve,
    Footer,
    Sifted,
    fail_without_access,
)
from kshunt.backend.pipeline.spark.column_types import millis, moment, struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.spark.row_packing import PARCEL, SAMPLES_SCHEMA
from kshunt.backend.telemetry.recording import layout
from kshunt.backend.telemetry.recording.layout import SampleTable, together, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FILES_MOST: Final = 240
"""Files of a batch: a backlog is taken in pieces."""
ROWS_MOST: Final = 2_000_000
"""Samples of a batch, of files that are all of one moment a little more."""
RECORDS_MOST: Final = 2_000_000
BUCKETS: Final = 16
"""Into which replicas are parted; never to be changed for a state that is there."""
_TASKS: Final = 8


@dataclass(frozen=True, slots=True)
class Arrived:
    """Samples that were not seen before."""

    parcels: DataFrame
    """See `kernels.parcels`; each bucket has one at least."""
    newest_ms: int | None
    """Of those that are not ahead of this machine's clock; None: there is none."""
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


class Source(Protocol):
    """Where samples come from."""

    def reader(self, session: SparkSession) -> DataFrame:
        """The stream that says when something is there."""
        ...

    def arrivals(
        self, session: SparkSession, rows: DataFrame, number: int, meta: Meta
    ) -> Iterator[Arrived]:
        """What has come that `meta` has not seen, in pieces; the batch `number` of Spark's.

        Raises:
            UnreadableSamples: no file can be opened.
        """
        ...

    def is_any_torn(self) -> bool:
        """Whether a file that was given out cannot be read, and will not be given out again."""
        ...


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The written files of a recording."""

    folder: Path
    clock: Clock
    files_most: int = FILES_MOST
    """Of a batch."""
    sieve: FileSieve = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sieve", FileSieve(self.folder))

    def reader(self, session: SparkSession) -> DataFrame:
        """See `Source.reader`."""
        stream: DataStreamReader = session.readStream.schema(struct_of(REPLICA_SAMPLES))
        followed = f"{literal(self.folder / SampleTable.REPLICAS)}/date=*/hour=*"
        return stream.option("maxFilesPerTrigger", self.files_most).parquet(followed)

    def arrivals(
        self, session: SparkSession, rows: DataFrame, number: int, meta: Meta
    ) -> Iterator[Arrived]:
        """See `Source.arrivals`."""
        self.sieve.cluster_id = self.sieve.cluster_id or meta.cluster_id
        waiting = meta.files_aside
        parts = unseen(self.folder, meta.files_to)
        fresh = [part for part in parts if self._name(part.path) not in waiting]
        for files in self._pieces(fresh):
            arrived = self._arrived(session, files, waiting)
            waiting = arrived.waiting
            yield arrived

    def is_any_torn(self) -> bool:
        """See `Source.is_any_torn`."""
        return self.sieve.is_any_torn()

    def _pieces(self, parts: list[layout.SampleFile]) -> Iterator[list[_Known]]:
        self.sieve.forget_passed()
        piece: list[_Known] = []
        for part in parts:
            known = self._known(part)
            rows = sum(each.rows for each in piece)
            if piece and (len(piece) == self.files_most or rows + known.rows > ROWS_MOST):
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
        self, session: SparkSession, files: list[_Known], waiting: Mapping[str, int]
    ) -> Arrived:
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
            _parcels(session, [known for known, _ in there]),
            newest or None,
            files_to,
            gone=tuple(sorted({known.part.hour_ms for known in files if known.found is None})),
            looked_at=len(files),
            aside=tuple(aside),
            waiting={n: at for n, at in {**waiting, **named}.items() if at > files_to},
            cluster_id=self.sieve.cluster_id,
        )


def _parcels(session: SparkSession, files: list[_Known]) -> DataFrame:
    """The samples of some files, which workers read."""

    def packed(batches: Iterable[Any]) -> Iterator[Any]:
        return stream_step.parcels_of(batches, SAMPLES_SCHEMA, BUCKETS)

    parts = [RowGroups(str(f.part.path), i, i + 1) for f in files for i in range(f.groups)]
    tasks = [parts[i::_TASKS] for i in range(min(_TASKS, len(parts)))] or [[]]
    texts = session.createDataFrame([(as_text(some),) for some in tasks], "parts string")
    return texts.repartition(len(tasks)).mapInArrow(packed, PARCEL)


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
    def groups(self) -> int:
        """The same of row groups."""
        return self.found.groups if isinstance(self.found, Footer) else 0


def unseen(folder: Path, files_to: int) -> list[layout.SampleFile]:
    """The written files with higher numbers, in their order.

    They are listed twice: a file that is there when one with a higher number is seen may have come
    after its own folder was listed.
    """
    highest = max((part.number for part in written(folder, SampleTable.REPLICAS)), default=0)
    parts = written(folder, SampleTable.REPLICAS)
    return sorted(
        (part for part in parts if files_to < part.number <= highest), key=lambda p: p.number
    )


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


# Topics


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The topic of replica samples; a row is a JSON object, its times milliseconds."""

    bootstrap_servers: str
    topic: str
    """As it was given to `kshunt serve --samples-topic`."""
    checkpoint: Path
    clock: Clock
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of Kafka's Java client: security."""

    def reader(self, session: SparkSession) -> DataFrame:
        """See `Source.reader`."""
        stream = session.readStream.format("kafka").options(
            **{f"kafka.{name}": value for name, value in self.client.items()}
        )
        return stream.options(
            **{
                "kafka.bootstrap.servers": self.bootstrap_servers,
                "subscribe": f"{self.topic}-{SampleTable.REPLICAS}",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(RECORDS_MOST),
                # What retention took before it was read cannot be had again by stopping.
                "failOnDataLoss": "false",
            }
        ).load()

    def arrivals(
        self, session: SparkSession, rows: DataFrame, number: int, meta: Meta
    ) -> Iterator[Arrived]:
        """See `Source.arrivals`."""
        checkpoint, last = meta.seen_position
        here = _checkpoint_id(self.checkpoint)
        if here == checkpoint and number <= last:
            return
        samples = decoded(rows).persist()
        at = millis("at")
        past = F.max(F.when(at <= self.clock.now_ms(), at))
        newest, came = samples.agg(past, F.count(F.lit(1))).collect()[0]

        def packed(batches: Iterable[Any]) -> Iterator[Any]:
            yield stream_step.nothing(BUCKETS)
            yield from pack(batches, schema=SAMPLES_SCHEMA, kind=SAMPLES, buckets=BUCKETS)

        parcels = samples.select(*SAMPLES_SCHEMA.names).mapInArrow(packed, PARCEL)
        yield Arrived(
            parcels,
            newest,
            position=f"{here}:{number}",
            lacking=max(0, planned(self.checkpoint, number) - came),
            release=samples.unpersist,
        )

    def is_any_torn(self) -> bool:
        """There are no files."""
        return False


def decoded(records: DataFrame) -> DataFrame:
    """The samples of records; of one that is none all columns are null."""
    fields = [
        T.StructField(f.name, T.LongType() if c.type is Type.TIME else f.dataType)
        for f, c in zip(struct_of(REPLICA_SAMPLES), REPLICA_SAMPLES, strict=True)
    ]
    read = F.from_json(F.col("value").cast("string"), T.StructType(fields)).alias("sample")
    samples = records.select(read).select("sample.*")
    return samples.select(
        *(
            moment(c.name).alias(c.name) if c.type is Type.TIME else F.col(c.name)
            for c in REPLICA_SAMPLES
        )
    )


def planned(checkpoint: Path, number: int) -> int:
    """How many records a batch is of, by what Spark noted of a topic when it planned the batch."""
    noted = checkpoint / "offsets"
    since = noted / str(number - 1) if number else checkpoint / "sources" / "0" / "0"
    before = _offsets(since)
    return sum(
        max(0, offset - before.get(place, 0))
        for place, offset in _offsets(noted / str(number)).items()
    )


def _offsets(noted: Path) -> dict[tuple[str, str], int]:
    """What Spark noted in a file, of which the last line is an object of topics and partitions."""
    topics = json.loads(noted.read_text().splitlines()[-1])
    return {
        (topic, partition): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def _checkpoint_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
