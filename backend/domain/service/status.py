"""What a backend says around operations: previews, drift, orphans, who acts, and its audit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveCaps:
    """Moves in flight, those that others started included."""

    per_broker: int
    in_cluster: int
    smallest_first: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would touch, by the cluster at one moment."""

    sentence: str
    """For an operator: touches 3 brokers and 2 topics, lifts 1 throttle, ..."""
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""
    """Sent with the change, which is refused where the cluster has changed since."""


@dataclass(frozen=True, slots=True)
class ShownDrift:
    """A throttle of ours that somebody else changed."""

    id: str
    """Another one as soon as either value is."""
    setting: str
    """Kafka's config name."""
    broker: int | None
    """Whose rate it is; None for a topic's list."""
    topic: str | None
    kind: str
    """`deleted`, `changed`, `widened` or `narrowed`."""
    wanted: str
    """`1000 B/s`, `no rate`, or a list of replicas."""
    found: str
    operations: tuple[str, ...] = ()
    """Ids of the operations that need it."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ShownOrphan:
    """A throttle that no move justifies."""

    id: str
    """Another one as soon as its value is."""
    setting: str
    broker: int | None
    topic: str | None
    value: str
    origin: str
    """Where it is likely to be from, in words."""
    operations: tuple[str, ...] = ()


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

    @property
    def follows(self) -> bool:
        """True where another backend acts, and this one passes changes on to it."""
        return self.acting not in ("", self.backend)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the audit, as far as the dashboard shows it."""

    time_ms: int | None
    """None where the line does not tell."""
    event: str
    who: str = ""
    text: str = ""
    operation: str = ""
    """The id of the operation that it is about; empty where it is about none."""
    kind: str = ""
    reason: str = ""
    outcome: str = ""
    touched: tuple[str, ...] = ()
    """One sentence for each kind of thing that was touched, with the first of them by name."""
    backend: str = ""
    """The id of the backend that saw to it."""
