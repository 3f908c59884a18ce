"""Copies under way, as the forecast's kernel reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.forecast.ranges import QUANTILES
from kshunt.backend.domain.pipeline.result_columns import ETA_MODEL
from kshunt.backend.pipeline.kernels.eta_of_samples import OUT, eta
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from tests.support.pipeline.recorded import START_MS, time_of

if TYPE_CHECKING:
    pass

MB = 1_000_000
PLAIN = np.zeros(QUANTILES)
Row = dict[str, Any]


def row(broker: int, remaining_mb: float | None, **others: Any) -> Row:
    """The rates of a copy from broker 1 that gets 10 MB/s of its follower's throttle."""
    return {
        "at": time_of(START_MS + 4_000),
        "tick": time_of(START_MS),
        "rid": 100 * others.get("partition", 0) + broker,
        "topic": "t",
        "partition": 0,
        "broker": broker,
        "leader": 1,
        "segment_start": time_of(START_MS - 100_000),
        "remaining_bytes": None if remaining_mb is None else int(remaining_mb * MB),
        "elapsed_s": 5.0,
        "advanced_bytes": 50 * MB,
        "span_5m_s": 100.0,
        "catch_up_30s_bytes_per_s": 10.0 * MB,
        "catch_up_5m_bytes_per_s": 10.0 * MB,
        "produced_30s_bytes_per_s": 0.0,
        "produced_5m_bytes_per_s": 0.0,
        "in_isr": False,
        "adding": True,
        "removing": False,
        "leader_throttle_bytes_per_s": None,
        "follower_throttle_bytes_per_s": 10 * MB,
        "cause": None,
        "operation_id": "op",
        **others,
    }


def table(*rows: Row) -> Any:
    types = {field.name: field.type for field in OUT}
    names = {
        "int32": ("partition", "broker", "leader"),
        "int64": ("rid", "remaining_bytes", "advanced_bytes", "leader_throttle_bytes_per_s",
                  "follower_throttle_bytes_per_s"),
        "string": ("topic", "cause", "operation_id"),
        "bool": ("in_isr", "adding", "removing"),
    }  # fmt: skip
    by_name = {name: pa.type_for_alias(alias) for alias, some in names.items() for name in some}
    columns = {}
    for name in COLUMNS:
        time = types["at"] if name in ("at", "tick", "segment_start") else pa.float64()
        columns[name] = pa.array([one[name] for one in rows], by_name.get(name, time))
    return pa.table(columns)


def forecast(*rows: Row, quantiles: Any = PLAIN) -> list[Row]:
    found: list[Row] = eta(table(*rows), quantiles, ETA_MODEL).to_pylist()
    return found
