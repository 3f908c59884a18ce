"""Where the streaming job's samples come from: files of a recording, or a topic.

Goals
    Every sample is given out once for each state that the job comes to, whatever was killed.
Algorithm
    Spark's file stream says when something is there; which files are new is told by their numbers
    alone (`kshunt.backend.pipeline.batches.arrivals`), so a checkpoint that is lost costs nothing.
    Of a topic Spark's checkpoint says which records a batch is of, and the state which batch of
    which checkpoint was the last. Spark leaves out what retention deleted meanwhile, and
    says so only in its log. So this counts what came, and compares it with what the checkpoint
    says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.clock import Clock
from kshunt.backend.domain.pipeline.sample_columns import REPLICA_SAMPLES, Type
from kshunt.backend.pipeline.batches.arrivals import BUCKETS, FILES_MOST, Arrived, FolderFiles
from kshunt.backend.pipeline.kernels import stream_step
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.packed_rows import SAMPLES, RowGroups, as_text, pack
from kshunt.backend.pipeline.results.stream_state import Meta
from kshunt.backend.pipeline.samples.file_sieve import FileSieve
from kshunt.backend.pipeline.spark.column_types import millis, moment, struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.spark.row_packing import PARCEL
from kshunt.backend.telemetry.recording.layout import SampleTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

RECORDS_MOST: Final = 2_000_000
_TASKS: Final = 8


class Source(Protocol):
    """Where samples come from."""

    def reader(self, session: SparkSession) -> DataFrame:
        """The stream that says when something is there."""
        ...

    def arrivals(
        self, session: SparkSession, rows: DataFrame, number: int, meta: Meta
    ) -> Iterator[Arrived[DataFrame]]:
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
    files: FolderFiles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", FolderFiles(self.folder, self.clock, self.files_most))

    @property
    def sieve(self) -> FileSieve:
        """What parts its files."""
        return self.files.sieve

    def reader(self, session: SparkSession) -> DataFrame:
        """See `Source.reader`."""
        stream: DataStreamReader = session.readStream.schema(struct_of(REPLICA_SAMPLES))
        followed = f"{literal(self.folder / SampleTable.REPLICAS)}/date=*/hour=*"
        return stream.option("maxFilesPerTrigger", self.files_most).parquet(followed)

    def arrivals(
        self, session: SparkSession, rows: DataFrame, number: int, meta: Meta
    ) -> Iterator[Arrived[DataFrame]]:
        """See `Source.arrivals`."""
        return self.files.arrivals(meta, lambda parts: _parcels(session, parts))

    def is_any_torn(self) -> bool:
        """See `Source.is_any_torn`."""
        return self.sieve.is_any_torn()


def _parcels(session: SparkSession, parts: Sequence[RowGroups]) -> DataFrame:
    """The samples of some files, which workers read; each bucket has a parcel at least."""

    def packed(batches: Iterable[Any]) -> Iterator[Any]:
        return stream_step.parcels_of(batches, SAMPLES_SCHEMA, BUCKETS)

    tasks = [parts[i::_TASKS] for i in range(min(_TASKS, len(parts)))] or [[]]
    texts = session.createDataFrame([(as_text(some),) for some in tasks], "parts string")
    return texts.repartition(len(tasks)).mapInArrow(packed, PARCEL)


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
    ) -> Iterator[Arrived[DataFrame]]:
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
