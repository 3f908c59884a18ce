"""What the verification finds, on records that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kshunt.backend.pipeline.kernels.copying import SOURCE_HEADER
from kshunt.backend.pipeline.repartition.verification import (
    NO_KEY,
    RECORD,
    compared,
    numbers,
    of_source_itself,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Record = dict[str, Any]
BEGIN = datetime(2001, 9, 9, tzinfo=UTC)
EPOCH = datetime.fromtimestamp(0, UTC)


def record(partition: int, offset: int, **about: Any) -> Record:
    """A record as Spark's connector gives it."""
    usual: Record = {
        "key": b"key-%d" % (offset % 5),
        "value": b"%d-%d" % (partition, offset),
        "topic": "t",
        "partition": partition,
        "offset": offset,
        "timestamp": BEGIN + timedelta(seconds=offset),
        "timestampType": 0,
        "headers": None,
    }
    return usual | about


def frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    return numbers(spark.createDataFrame(records, RECORD))


def copies(records: Sequence[Record]) -> list[Record]:
    """All of them in one partition, with the header that a copy has."""
    made = []
    for at, original in enumerate(records):
        place = f"{original['partition']}:{original['offset']}".encode()
        header = {"key": SOURCE_HEADER, "value": place}
        headers = [*(original["headers"] or []), header]
        made.append(original | {"partition": 0, "offset": at + at // 3, "headers": headers})
    return made


@pytest.mark.spark
def test_records_that_differ_in_anything_differ_in_their_hash(spark: SparkSession) -> None:
    def with_headers(*headers: tuple[str, bytes | None]) -> Record:
        return record(0, 1, headers=[{"key": key, "value": value} for key, value in headers])

    some = [
        record(0, 1),
        record(0, 1, key=None),
        record(0, 1, key=b""),
        record(0, 1, value=None),
        record(0, 1, value=b""),
        record(0, 1, key=None, value=b"key-1"),
        record(0, 1, timestamp=BEGIN),
        record(0, 1, timestamp=EPOCH),
        record(0, 1, timestamp=EPOCH + timedelta(milliseconds=1)),
        record(0, 1, timestamp=EPOCH - timedelta(milliseconds=1)),
        with_headers(("a", b"")),
        with_headers(("a", b"x")),
        with_headers(("a", b"x"), ("a", b"x")),
        with_headers(("a", b"x"), ("b", b"y")),
        with_headers(("b", b"y"), ("a", b"x")),
    ]
    rows = frame(spark, some).collect()
    assert len({row["content"] for row in rows}) == len(some)
    assert [row["bucket"] for row in rows if row["bucket"] == NO_KEY] == [NO_KEY] * 2
    same = [
        record(0, 1),
        with_headers(),
        with_headers((SOURCE_HEADER, b"7:1042")),
        with_headers((SOURCE_HEADER, b"not:ours")),
        with_headers((SOURCE_HEADER, b"99999999999:1")),
    ]
    rows = frame(spark, same).collect()
    assert len({row["content"] for row in rows}) == 1
    places = [(row["source_partition"], row["source_offset"]) for row in rows]
    assert places == [(None, None), (None, None), (7, 1042), (None, None), (None, None)]


@pytest.mark.spark
def test_what_is_not_the_same_is_found_and_named(spark: SparkSession) -> None:
    records = [record(p, n) for n in range(12) for p in range(2)]
    ours = of_source_itself(frame(spark, records))
    good = copies(records)
    found = compared(ours, frame(spark, good))
    assert found.equal
    assert (found.source_records, found.target_records, list(found.differing)) == (24, 24, [])

    lacking = [row for row in good if row["value"] != b"1-7"]
    lacking[4] |= {"value": b"changed"}
    last = lacking[-1]["offset"]
    wrong = [
        *lacking,
        lacking[6] | {"offset": last + 1},
        record(0, last + 2, key=None),
    ]
    found = compared(ours, frame(spark, wrong))
    assert not found.equal
    assert (found.source_records, found.target_records) == (24, 25)
    changed = f"{records[4]['partition']}:{records[4]['offset']}"
    assert sorted(found.missing) == sorted([changed, "1:7"])
    assert list(found.surplus) == [changed]
    assert list(found.doubled) == [f"{records[6]['partition']}:{records[6]['offset']}"]
    assert (found.foreign, found.misordered) == (1, 1)
    assert NO_KEY in [bucket.bucket for bucket in found.differing]


@pytest.mark.spark
def test_the_same_records_in_another_order_are_not_the_same(spark: SparkSession) -> None:
    records = [record(0, n) for n in range(6)]
    swapped = copies(records)
    swapped[2]["offset"], swapped[3]["offset"] = swapped[3]["offset"], swapped[2]["offset"]
    found = compared(of_source_itself(frame(spark, records)), frame(spark, swapped))
    assert (found.equal, found.misordered, list(found.differing)) == (False, 1, [])
