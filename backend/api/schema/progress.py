"""How far a plan is, as the API answers it."""

from __future__ import annotations

from msgspec import Struct

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.reassignment.answers import ProgressRow
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd


class ProgressRows(Struct, frozen=True):
    """The lines of `--progress`."""

    rows: tuple[ProgressRow, ...]
    expected_end: ExpectedEnd | None = None
    """When the plan will be done, with whatever its operation moves; null where nothing of it
    moves, or where nobody has watched it."""
    forecast_record: ForecastRecord | None = None
    """How often forecasts of this cluster were right; null without a backend."""
