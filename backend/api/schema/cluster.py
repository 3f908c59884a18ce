"""A backend's part among those of its cluster, as the API answers it."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.backend.backend_status import BackendStatus
from kshunt.backend.domain.backend.forecast_record import ForecastRecord


@dataclass(frozen=True, slots=True)
class ActingBackend:
    """The active backend."""

    backend: str
    host: str
    address: str
    started_ms: int


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry of the journal that the backend ignores and keeps."""

    key: str
    why: str
    detail: str


@dataclass(frozen=True, slots=True)
class NotOfferedAction:
    """An action that is not supported, because of the way this backend reaches the cluster."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class BackendPart:
    """This backend's part among those of its cluster."""

    backend: str
    duty: str
    """`act`: it changes the cluster; `idle`: nobody has to."""
    acting: ActingBackend | None
    journal_topic: str
    """The journal's topic; through ZooKeeper, its znode."""
    remarks: tuple[str, ...]
    unreadable: tuple[UnreadableEntry, ...]
    not_offered: tuple[NotOfferedAction, ...] = ()
    """Through ZooKeeper; else empty."""
    forecast_record: ForecastRecord | None = None
    """How often forecasts of this cluster were right, and what their ranges are made from."""

    def status(self) -> BackendStatus:
        """As the dashboard shows it."""
        return BackendStatus(
            self.backend,
            self.duty,
            acting="" if self.acting is None else self.acting.backend,
            host="" if self.acting is None else self.acting.host,
            remarks=self.remarks,
            unreadable=tuple(f"{one.key} ({one.why}): {one.detail}" for one in self.unreadable),
            not_offered=tuple((one.what, one.why) for one in self.not_offered),
            forecast_record=self.forecast_record,
        )
