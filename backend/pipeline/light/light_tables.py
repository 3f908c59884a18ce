"""The tables that are made of rates alone, as the kernels and arrays make them.

Each has the rows that the function of the same name in `kshunt.backend.pipeline.tables` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.pipeline.result_columns import (
    ETA,
    ETA_MODEL,
    MOVE_PAIRS,
    PAIR_S,
    WINDOWS,
    ResultTable,
)
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.kernels.eta_of_samples import eta as kernel
from kshunt.backend.pipeline.kernels.replica_runs import NULL, ints, millis
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from kshunt.backend.pipeline.light.grouped import Groups, known_only, moments, numbers

Rates = Callable[[Sequence[str]], Any]
"""Rates of a time, in the columns that are asked for, as an Arrow table."""
_THROTTLES: Final = ("leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s")
_RATE: Final = f"catch_up_{WINDOWS[0].name}_bytes_per_s"
PAIR_COLUMNS: Final = (
    *("at", "broker", "copied_from", "copied_bytes", _RATE),
    *_THROTTLES,
)
"""What `move_pairs` is made of."""
_QUANTILES: Final = {"p10_bytes_per_s": 0.1, "p50_bytes_per_s": 0.5, "p90_bytes_per_s": 0.9}


def in_columns(table: ResultTable, columns: dict[str, Any]) -> Any:
    """Rows in a table's columns."""
    schema = pa.schema(arrow_of(table.columns))
    return pa.table({field.name: columns[field.name] for field in schema}).cast(schema)


def eta(rates: Rates) -> Any:
    """The table `eta`, of whole ticks of rates."""
    rows = rates(COLUMNS)
    known = [pc.is_valid(rows[name]) for name in ("operation_id", *_THROTTLES)]
    wanting = [rows["adding"], pc.invert(rows["in_isr"]), rows["removing"], *known]
    which = wanting[0]
    for more in wanting[1:]:
        which = pc.or_kleene(which, more)
    made = kernel(rows.filter(which), shipped_quantiles(), ETA_MODEL)
    return in_columns(ETA, {name: made[name] for name in ETA.names})


def move_pairs(rates: Rates) -> Any:
    """The table `move_pairs`, of replicas that are added or catch up with the ISR."""
    rows = rates(PAIR_COLUMNS)
    source, broker, speed = ints(rows["copied_from"]), ints(rows["broker"]), numbers(rows[_RATE])
    copied = ints(rows["copied_bytes"])
    copying = (source != NULL) & (~np.isnan(speed) | (copied != NULL))
    throttled = np.any([ints(rows[name]) != NULL for name in _THROTTLES], axis=0)
    start = millis(rows["at"]) // (PAIR_S * 1000) * (PAIR_S * 1000)
    copied = np.maximum(copied, 0)
    keys = [values[copying] for values in (start, source, broker, throttled.astype(np.int64))]
    start, source, broker, limited = keys
    pairs, speed = Groups.by(*keys), speed[copying]
    return in_columns(
        MOVE_PAIRS,
        {
            "start": moments(pairs.first(start)),
            "source": pairs.first(source),
            "destination": pairs.first(broker),
            "throttled": pairs.first(limited) == 1,
            "n": pairs.count(~np.isnan(speed)),
            "bytes": pairs.whole_sum(copied[copying]),
            **{n: known_only(pairs.percentile(speed, q)) for n, q in _QUANTILES.items()},
        },
    )
