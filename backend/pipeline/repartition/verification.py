"""Whether a copied topic has every record of its source once, and where each of them is.

Goals: to find any record that is missing, doubled, changed or out of order, by what both topics
hold and not by what the copy believes. To leave the offset map, by which groups are told where to
continue.

Algorithm: Spark's Kafka connector reads both topics, committed records only. A row of numbers is
kept of each record. The row has the record's place, and the place in the source that its header
tells. It also has the bucket of its key, and a hash over key, value, headers (but ours) and
timestamp. Both sides are then compared by count and checksum a bucket. A checksum is the sum modulo
2^64 of a hash over the record's and its place in the source, so it does not depend on the order. In
each target partition the offsets of a source partition have to ascend. Only where something differs
is looked for the records.

A copy without our header (`strip_header`) keeps each record in the partition of its number, so
there a record's place in the source is found by its rank.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.domain.shrink.offset_maps import OFFSET_MAP
from kshunt.backend.pipeline.kernels.copying import SOURCE_HEADER, Copying
from kshunt.backend.pipeline.repartition.topics_and_positions import Positions
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.spark.session import SparkFailed, first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BUCKETS: Final = 64
NO_KEY: Final = -1
"""The bucket of records without a key."""
EXAMPLES: Final = 10
_PLACE: Final = "([0-9]{1,9}):([0-9]{1,18})"
_LOW: Final = 0xFFFFFFFF
_SOURCE: Final = ["source_partition", "source_offset"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """What both topics have of the keys of one bucket."""

    bucket: int
    """`NO_KEY` for records without a key."""
    source_records: int
    source_checksum: int
    target_records: int
    target_checksum: int


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found."""

    equal: bool
    source_records: int
    target_records: int
    differing: Sequence[Bucket]
    misordered: int
    """Records of a source partition that come after a later one of it, or after themselves."""
    foreign: int
    """Records of the target that were not copied by this operation."""
    missing: Sequence[str]
    """Examples of records that only the source has, `3:1042`."""
    surplus: Sequence[str]
    """Examples of records that only the target has, or has changed, by their place in the source.
    """
    doubled: Sequence[str]
    """Examples of records that the target has more than once."""

    def as_json(self) -> dict[str, Any]:
        """For a line."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Side:
    """A topic, and which of its offsets count."""

    topic: str
    start: Positions
    end: Positions


def verify(
    session: SparkSession,
    plan: Copying,
    security: Mapping[str, str],
    source: Side,
    target: Side,
    folder: Path,
) -> Verified:
    """Compare two topics, and write the offset map.

    Args:
        session: With Spark's Kafka connector.
        plan: What was copied.
        security: Settings of the connector's client. They have Java's names.
        source: What was copied of the source.
        target: The whole of the target.
        folder: For the map. Rows of both topics are in it meanwhile.

    Raises:
        SparkFailed: a topic could not be read, or the folder not be written.
    """
    return _CopyVerification(session, plan, security, folder).verified(source, target)


@dataclass(frozen=True, slots=True)
class _CopyVerification:
    session: SparkSession
    plan: Copying
    security: Mapping[str, str]
    folder: Path

    def verified(self, source: Side, target: Side) -> Verified:
        try:
            ours = self._placed(self._numbers_of(source, "source"), of_source=True)
            copied = self._placed(self._numbers_of(target, "target"), of_source=False)
            self._write_map(ours, copied)
            return compared(ours, copied.where(self._counts(source)))
        except Exception as error:
            # Those of its gateway and of gRPC have no base in common.
            raise SparkFailed(
                f"Spark stopped the verification: {first_line(error)}. Nothing was changed.",
                advice="See the lines above, then start it again.",
            ) from error
        finally:
            for name in ("source", "target"):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def _numbers_of(self, side: Side, name: str) -> DataFrame:
        """The numbers of each record, in files: topics are read once."""
        path = str(self.folder / name)
        numbers(self._read(side)).write.mode("overwrite").parquet(path)
        return self.session.read.schema(_NUMBERS).parquet(literal(self.folder / name))

    def _read(self, side: Side) -> DataFrame:
        ranges = {p: at for p, at in side.start.items() if side.end[p] > at}
        if not ranges:
            return self.session.createDataFrame([], RECORD)
        options = {
            "assign": json.dumps({side.topic: sorted(ranges)}),
            "startingOffsets": _offsets(side.topic, ranges),
            "endingOffsets": _offsets(side.topic, {p: side.end[p] for p in ranges}),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.bootstrap.servers": str(self.plan.clients["bootstrap.servers"]),
            "kafka.isolation.level": "read_committed",
            **{f"kafka.{key}": value for key, value in self.security.items()},
        }
        return self.session.read.format("kafka").options(**options).load()

    def _placed(self, rows: DataFrame, *, of_source: bool) -> DataFrame:
        """With the place in the source; without our header the rank stands for the offset."""
        if self.plan.strip_header:
            order = Window.partitionBy("partition").orderBy("offset")
            return rows.withColumns(
                {"source_partition": F.col("partition"), "source_offset": _rank(order)}
            )
        return of_source_itself(rows) if of_source else rows

    def _counts(self, source: Side) -> Column:
        """Whether a copied record is one whose original is there; the first ones may be deleted."""
        if self.plan.strip_header:
            return F.lit(True)
        gone = F.lit(False)
        for partition, start in source.start.items():
            here = F.col("source_partition") == partition
            gone |= here & (F.col("source_offset") < start)
        return ~F.coalesce(gone, F.lit(False))

    def _write_map(self, ours: DataFrame, copied: DataFrame) -> None:
        rows = copied.where("source_offset is not null").select(
            *_SOURCE,
            F.col("partition").alias("target_partition"),
            F.col("offset").alias("target_offset"),
        )
        if self.plan.strip_header:
            ranked = ours.select(*_SOURCE, F.col("offset").alias("original"))
            rows = rows.join(ranked, _SOURCE).select(
                "source_partition",
                F.col("original").alias("source_offset"),
                "target_partition",
                "target_offset",
            )
        # Not by range: to find the ranges Spark would go through all rows once more.
        parted = rows.repartition("source_partition").sortWithinPartitions(*_SOURCE)
        parted.write.mode("overwrite").parquet(str(self.folder / OFFSET_MAP))


RECORD: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""A record as Spark's connector gives it."""
_NUMBERS: Final = T.StructType(
    [
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("bucket", T.IntegerType()),
        T.StructField("content", T.LongType()),
        T.StructField("source_partition", T.IntegerType()),
        T.StructField("source_offset", T.LongType()),
    ]
)


def numbers(records: DataFrame) -> DataFrame:
    """Records of Spark's connector as rows of numbers."""
    headers = F.coalesce(
        F.col("headers"), F.expr("array()").cast(records.schema["headers"].dataType)
    )
    others = F.filter(headers, lambda header: header["key"] != SOURCE_HEADER)
    own = F.filter(headers, lambda header: header["key"] == SOURCE_HEADER)
    place = F.try_element_at(own, F.lit(-1))["value"].cast("string")
    # Spark's hash ignores nulls, so they are told apart.
    content = F.xxhash64(
        F.col("key").isNull(),
        "key",
        F.col("value").isNull(),
        "value",
        F.unix_millis("timestamp"),
        F.size(others),
        others,
    )
    bucket = F.when(F.col("key").isNull(), NO_KEY).otherwise(
        F.pmod(F.xxhash64("key"), F.lit(BUCKETS)).cast("int")
    )
    return records.select(
        "partition",
        "offset",
        bucket.alias("bucket"),
        content.alias("content"),
        _part(place, 1).cast("int").alias("source_partition"),
        _part(place, 2).cast("long").alias("source_offset"),
    )


def of_source_itself(rows: DataFrame) -> DataFrame:
    """Rows of the source, with their own place."""
    return rows.withColumns(
        {"source_partition": F.col("partition"), "source_offset": F.col("offset")}
    )


def compared(ours: DataFrame, copied: DataFrame) -> Verified:
    """What differs between two topics, of which `numbers` are kept and places are known."""
    differing, records = _differing(ours, copied)
    foreign = copied.where("source_offset is null").count()
    misordered = _misordered(copied)
    return Verified(
        equal=not (differing or foreign or misordered),
        source_records=records[0],
        target_records=records[1],
        differing=differing,
        misordered=misordered,
        foreign=foreign,
        missing=_examples(ours, copied) if differing else [],
        surplus=_examples(copied, ours) if differing else [],
        doubled=_doubled(copied) if differing else [],
    )


def _part(place: Column, number: int) -> Column:
    found = F.regexp_extract(place, f"^{_PLACE}$", number)
    return F.when(found != "", found)


def _rank(order: Any) -> Column:
    return F.row_number().over(order).cast("long") - 1


def _offsets(topic: str, offsets: Positions) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in offsets.items()}})


def _sums(rows: DataFrame) -> dict[int, tuple[int, int]]:
    """Of each bucket: how many records, and their checksum."""
    of_record = F.xxhash64("content", *_SOURCE, F.col("source_offset").isNull())
    halves = rows.select(
        "bucket",
        of_record.bitwiseAND(F.lit(_LOW)).alias("low"),
        F.shiftrightunsigned(of_record, 32).alias("high"),
    )
    # Neither half overflows for the records that a topic can have.
    found = halves.groupBy("bucket").agg(F.count("*"), F.sum("low"), F.sum("high"))
    return {
        bucket: (count, ((high << 32) + low) % (1 << 64))
        for bucket, count, low, high in found.collect()
    }


def _differing(ours: DataFrame, copied: DataFrame) -> tuple[list[Bucket], tuple[int, int]]:
    """The buckets that are not the same, and how many records both sides have."""
    source, target = _sums(ours), _sums(copied)
    nothing = (0, 0)
    differing = [
        Bucket(bucket, *source.get(bucket, nothing), *target.get(bucket, nothing))
        for bucket in sorted(source | target)
        if source.get(bucket) != target.get(bucket)
    ]
    return differing, (_count(source), _count(target))


def _count(sums: Mapping[int, tuple[int, int]]) -> int:
    return sum(count for count, _ in sums.values())


def _misordered(copied: DataFrame) -> int:
    order = Window.partitionBy("partition", "source_partition").orderBy("offset")
    before = copied.where("source_offset is not null").select(
        "source_offset", F.lag("source_offset").over(order).alias("before")
    )
    return before.where("before >= source_offset").count()


def _examples(rows: DataFrame, others: DataFrame) -> list[str]:
    """Some that the others have not."""
    return _some(rows.join(others, [*_SOURCE, "content"], "left_anti"))


def _doubled(copied: DataFrame) -> list[str]:
    return _some(copied.groupBy(*_SOURCE).count().where("count > 1"))


def _some(rows: DataFrame) -> list[str]:
    """A few of these, by their place in the source."""
    placed = rows.where("source_offset is not null").select(*_SOURCE)
    some = placed.orderBy(*_SOURCE).limit(EXAMPLES).collect()
    return [f"{partition}:{offset}" for partition, offset in some]
