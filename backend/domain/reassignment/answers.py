"""What the backend answers: results by item, progress, verification. Plain values, no arrays."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one partition, broker or topic; `error_code` 0 is success."""

    item: str
    """`topic-partition`, a broker id, or a topic, as it is shown."""
    error_code: int
    error_name: str
    message: str

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error_code == 0

    def __str__(self) -> str:
        if self.ok:
            return f"{self.item}: done" + (f" ({self.message})" if self.message else "")
        return f"{self.item}: {self.error_name}" + (f": {self.message}" if self.message else "")


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The result of a change for each item, and whether it was only checked."""

    validate_only: bool
    operation_id: str | None
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    """What an operator should also know: skipped brokers, throttles that stay, undone writes."""
    rollback_plan: Mapping[str, Any] | None = None
    """For a reassignment: Kafka's JSON of its rollback plan."""
    warnings: tuple[str, ...] = ()
    """Reasons against it that do not forbid it; its preview has the same."""
    waiting: int = 0
    """Of the items, how many were accepted and have not begun."""
    already_moving: tuple[str, ...] = ()
    """Of the items, those that running operations move already, and keep."""

    @property
    def failures(self) -> tuple[Result, ...]:
        """The items that did not succeed."""
        return tuple(result for result in self.results if not result.ok)


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """One line of `--progress` (KIP-179): a replica that the plan names."""

    topic: str
    partition: int
    broker: int
    status: str
    """The seed's words."""
    lag_messages: int | None
    """None where there is no such replica or its lag is unknown."""
    in_sync: bool
    cause: str | None = None
    """Why it is stuck, a `Cause.key`; null where it is not, or where nobody has watched it."""
    reason: str = ""
    action: str = ""
    """What to do next."""
    matches: bool = True
    """False where the cluster has no such replica, which waiting does not change."""

    @property
    def name(self) -> TopicPartition:
        """Which partition."""
        return TopicPartition(self.topic, self.partition)


class VerifyState(enum.StrEnum):
    """What `--verify` says of a partition."""

    COMPLETED = "completed"
    IN_PROGRESS = "in_progress"
    DIFFERS = "differs"
    """Nothing moves it, and it is not where the plan wants it."""
    MISSING = "missing"
    """The cluster has no such topic or partition."""


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """One partition of `--verify`."""

    topic: str
    partition: int
    state: VerifyState
    replicas: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def name(self) -> TopicPartition:
        """Which partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One replica of `--verify` for which the plan names a log directory."""

    topic: str
    partition: int
    broker: int
    text: str
    """The state in Kafka's words."""
    done: bool
    moving: bool = False
    """Whether it is on its way to where the plan wants it."""


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    """The findings of `--verify`, and the throttles that it removed."""

    rows: tuple[VerifyRow, ...]
    log_dirs: tuple[LogDirRow, ...] = ()
    active_elsewhere: bool = False
    """True where other partitions still move, so that no throttle was touched."""
    cleared_brokers: tuple[int, ...] = ()
    cleared_topics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """True where every partition is where the plan wants it."""
        return all(row.state is VerifyState.COMPLETED for row in self.rows) and all(
            row.done for row in self.log_dirs
        )


@dataclass(frozen=True, slots=True)
class GeneratedPlan:
    """The two plans that `--generate` prints."""

    current: ReassignmentPlan
    proposed: ReassignmentPlan
    notes: tuple[str, ...] = ()
    """What was left out of both."""
