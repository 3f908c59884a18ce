"""A backend's part among those of its cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.backend.forecast_record import ForecastRecord


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """A backend's part among those of its cluster."""

    backend: str
    duty: str
    acting: str = ""
    """The id of the backend that acts; empty where none does."""
    host: str = ""
    """Where that one runs."""
    remarks: tuple[str, ...] = ()
    """What an operator should know of the journal."""
    unreadable: tuple[str, ...] = ()
    """Entries of the journal that are not acted upon, each with the reason."""
    not_offered: tuple[tuple[str, str], ...] = ()
    """What cannot be done by the way that it reaches the cluster, and why."""

    forecast_record: ForecastRecord | None = None
    """How often forecasts were right here, and what their ranges are made from."""

    @property
    def follows(self) -> bool:
        """True where another backend acts, and this one passes changes on to it."""
        return self.acting not in ("", self.backend)
