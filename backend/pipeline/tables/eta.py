"""When copies, and operations, will have come into the ISR: a range for each tick.

Copies that share a throttle or a broker are worked out together, so all rows of a tick are looked
at together: the kernel `eta` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.pipeline.result_columns import ETA, ETA_MODEL
from kshunt.backend.pipeline.kernels.eta_of_samples import eta as kernel
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from kshunt.backend.pipeline.spark.column_types import millis, select_as, struct_of

if TYPE_CHECKING:
    from collections.abc import Callable

_WANTING: Final = (
    "adding or not in_isr or operation_id is not null or removing or "
    "leader_throttle_bytes_per_s is not null or follower_throttle_bytes_per_s is not null"
)
"""Rows that the kernel concludes something from."""


def eta(rates: DataFrame, calibration: Calibration) -> DataFrame:
    """The table `eta`, of whole ticks of `rates`."""
    rows = rates.filter(_WANTING).select(*COLUMNS)
    # Ticks are worked out one by one; a minute of them together is handed over sooner.
    minute = F.floor(millis("tick") / F.lit(60_000)).alias("_minute")
    made = rows.groupBy(minute).applyInArrow(_kernel(calibration), struct_of(ETA.columns))
    return select_as(made, ETA)


def _kernel(calibration: Calibration) -> Callable[[Any], Any]:
    quantiles, model = calibration.quantiles(), ETA_MODEL

    def of_ticks(rows: Any) -> Any:
        return kernel(rows, quantiles, model)

    return of_ticks
