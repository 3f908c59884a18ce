"""When what moves will be done, as the API answers it."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd


@dataclass(frozen=True, slots=True)
class Forecast:
    """When one operation, or all that moves, will be done."""

    operation: str | None
    """Its id; null: everything that moves, also moves started outside kshunt."""
    text: str
    """For people, by the backend's clock: `12:16 (12:14-12:20)`, and what it waits for."""
    end: ExpectedEnd


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecasts of one moment, that of all that moves first; none where nothing moves."""

    taken_ms: int
    """When the cluster was looked at last, milliseconds since the epoch."""
    forecasts: tuple[Forecast, ...]
    record: ForecastRecord | None = None
    """How often forecasts of this cluster were right, and what their ranges are made from."""
