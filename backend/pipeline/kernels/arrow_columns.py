"""Arrow's types for what `domain` says of samples and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from kshunt.backend.domain.pipeline.sample_columns import REPLICA_SAMPLES, SampleColumn, Type

_ARROW: Final[dict[Type, Any]] = {
    Type.TIME: pa.timestamp("us", "UTC"),
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
}


def arrow_of(columns: Sequence[SampleColumn]) -> list[Any]:
    """Columns as Spark hands them to Python."""
    return [pa.field(column.name, _ARROW[column.type]) for column in columns]


SAMPLES_SCHEMA: Final = pa.schema(arrow_of(REPLICA_SAMPLES))
