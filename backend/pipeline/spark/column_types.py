"""Column types of Spark for what `domain` says of samples and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kshunt.backend.domain.pipeline.result_columns import ResultTable
from kshunt.backend.domain.pipeline.sample_columns import SampleColumn, Type

_TYPES: Final[dict[Type, type[T.DataType]]] = {
    Type.TIME: T.TimestampType,
    Type.STRING: T.StringType,
    Type.INT: T.IntegerType,
    Type.LONG: T.LongType,
    Type.DOUBLE: T.DoubleType,
    Type.BOOL: T.BooleanType,
}


def struct_of(columns: Sequence[SampleColumn]) -> T.StructType:
    """The columns as Spark reads them from a file.

    All are nullable: what a file of an older version lacks is null, and whether a key is null is
    for `quality` to find out.
    """
    return T.StructType([T.StructField(c.name, _TYPES[c.type]()) for c in columns])


def select_as(rows: DataFrame, table: ResultTable) -> DataFrame:
    """The columns of a table in their order and types: the last step of every transform."""
    return rows.select(*(F.col(c.name).cast(_TYPES[c.type]()).alias(c.name) for c in table.columns))


def millis(column: str) -> Column:
    """A time as milliseconds since the epoch, which windows can reckon with."""
    return F.unix_millis(F.col(column))


def moment(column: Column | str) -> Column:
    """The time of milliseconds since the epoch."""
    return F.timestamp_millis(F.col(column) if isinstance(column, str) else column)


def with_hour(rows: DataFrame, table: ResultTable) -> DataFrame:
    """With the two columns that a row's folder is named by; the session's time zone is UTC."""
    hour = F.hour(table.hour_of).cast("string")
    return rows.withColumns({"date": F.to_date(table.hour_of), "hour": F.lpad(hour, 2, "0")})
