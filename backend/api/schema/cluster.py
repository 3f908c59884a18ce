"""A backend's part among those of its cluster, as the API answers it."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.service.backend_status import BackendStatus


@dataclass(frozen=True, slots=True)
class ActingBackend:
    """The backend that acts."""

    backend: str
    host: str
    address: str
    started_ms: int


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry of the journal that is neither acted upon nor written over."""

    key: str
    why: str
    detail: str


@dataclass(frozen=True, slots=True)
class NotOfferedAction:
    """What cannot be done on this cluster by the way that this backend reaches it."""

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
        )
