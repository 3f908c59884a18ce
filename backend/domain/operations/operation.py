"""Operations: what an operator asked for, and how far it came."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from msgspec import Struct

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.operations.lifecycle import TRANSITIONS, OperationState
from kshunt.backend.domain.operations.team import Claim, Note
from kshunt.backend.domain.shrink.phases import ShrinkProgress
from kshunt.backend.domain.untrusted.json_codec import TimeMs, Whole
from kshunt.backend.errors import Conflict

__all__ = [
    "TRANSITIONS",
    "Operation",
    "OperationDetails",
    "OperationKind",
    "OperationState",
    "details_of_0_1",
]


class OperationKind(enum.StrEnum):
    """What kind of change an operation makes."""

    REASSIGN = "reassign"
    CANCEL = "cancel"
    THROTTLED_RATES = "throttled_rates"
    THROTTLED_REPLICAS = "throttled_replicas"
    ELECTION = "election"
    ADOPT = "adopt"
    """The throttle of moves that somebody else started was taken over."""
    ALTER_TOPICS = "alter_topics"
    DELETE_PARTITIONS = "delete_partitions"
    """Topics shrink by the cluster's own request (KIP-694)."""
    SHRINK = "shrink"
    """A topic is copied into one with fewer partitions; see
    `kshunt.backend.domain.shrink.phases`."""
    DRIFT = "drift"
    ORPHANS = "orphans"


ReturningRow: TypeAlias = tuple[str, int, tuple[int, ...] | None]
"""Topic and number of a partition, and the target that its move had; None where it had none."""
RestoredRow: TypeAlias = tuple[int | str, str, int | str | None, bool]
"""A broker or a topic, a setting, what is left there, and whether somebody else set it."""


class OperationDetails(Struct, frozen=True, omit_defaults=True):
    """What is known of an operation of some kinds only; what is empty is not written."""

    rollback_plan: Mapping[str, Any] | None = None
    """Where its partitions were before it moved them: a plan as Kafka's JSON.

    Of moves that kshunt took over too; Kafka does not tell the order of those replicas."""
    waiting_plan: Mapping[str, Any] | None = None
    """The targets of the waiting partitions, as the backend says."""
    proposal: str = ""
    """The id of the proposal that a second person approved."""
    shrink: ShrinkProgress | None = None
    """The progress of a shrink, as the backend says."""
    requested: Mapping[str, str] | None = None
    """The request, in words, by broker, topic, partition or setting."""
    returning: tuple[ReturningRow, ...] | None = None
    """Of a cancellation, the partitions to return."""
    preserve_throttles: bool | None = None
    """Of a cancellation, whether throttles stay."""
    put_back: tuple[RestoredRow, ...] | None = None
    """The value that remains at each setting that the operation throttled."""
    batch_size: int | None = None
    """Of a paced election: partitions in each batch."""
    pause_s: float | None = None
    """Of a paced election: seconds between two batches."""
    deadline_ms: int | None = None
    """Of a reassignment: the moment by which it is to be done, milliseconds since the epoch."""


NO_DETAILS = OperationDetails()


def details_of_0_1(written: Mapping[str, Any]) -> dict[str, Any]:
    """What version 0.1 or a later one wrote of details, as the later one writes it.

    Version 0.1 wrote what was requested of a broker or topic under its name, next to the rest.

    Raises:
        TypeError, ValueError: `requested` is no object.
    """
    words = {name: one for name, one in written.items() if type(one) is str and name != "proposal"}
    rest = {name: one for name, one in written.items() if name not in words}
    return rest | ({"requested": {**rest.get("requested", {}), **words}} if words else {})


@dataclass(frozen=True, slots=True)
class Operation:
    """One change to the cluster, from the request to its end."""

    id: str
    kind: OperationKind
    state: OperationState
    started_ms: TimeMs
    summary: str
    """One line for an operator: what it touches."""
    partitions: tuple[TopicPartition, ...] = ()
    throttle_bytes_per_s: Whole | None = None
    auto_remove_throttle: bool = True
    ended_ms: TimeMs | None = None
    outcome: str = ""
    """Its result, in words; set when it ends, or earlier if something needs attention."""
    outcome_is_progress: bool = False
    """Whether these words only say how far it is, and ask nothing of anybody."""
    details: OperationDetails = NO_DETAILS
    who: str = ""
    """The person who asked for it, as they gave their name."""
    reason: str = ""
    """The reason, as they gave it."""
    actions: tuple[str, ...] = ()
    """What can be done with it now, as the backend says: `pause`, `cancel`, ..."""
    waiting: Whole = 0
    """Of its partitions, how many wait for their turn, as the backend says."""
    claim: Claim | None = None
    """The person who claimed it, as the backend says; others must take it over first."""
    notes: tuple[Note, ...] = ()
    """What people remarked on it, oldest first, as the backend says."""
    forecasts: tuple[KeptForecast, ...] = ()
    """What was forecast of it on its way and how that turned out, as the backend says."""

    def with_outcome(self, outcome: str, *, is_progress: bool = False) -> Operation:
        """This operation with other words on how it goes; `is_progress`: they ask nothing."""
        return replace(self, outcome=outcome, outcome_is_progress=is_progress)

    def to(
        self, state: OperationState, *, at_ms: int, outcome: str = "", is_progress: bool = False
    ) -> Operation:
        """This operation in another state; with the words that it had where `outcome` is empty.

        Words that only said how far it was are gone: they were about the former state.

        Raises:
            Conflict: the move is not in `TRANSITIONS`.
        """
        if state not in TRANSITIONS[self.state]:
            raise Conflict(f"Operation {self.id} is {self.state} and cannot become {state}.")
        told = self.with_outcome("") if self.outcome_is_progress else self
        if outcome:
            told = self.with_outcome(outcome, is_progress=is_progress)
        return replace(told, state=state, ended_ms=at_ms if state.ended else None)
