"""The sum of all that a feed has told: what the screens are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from kshunt.tui.feed.messages import (
    CONNECTING,
    AnswerArrived,
    AnswerFailed,
    AuditArrived,
    BackendConnection,
    Connected,
    ConnectionState,
    Disconnected,
    OperationsArrived,
    SnapshotArrived,
)
from kshunt.tui.feed.polled_facts import PolledFact

if TYPE_CHECKING:
    from textual.message import Message

    from kshunt.backend.domain.audit.shown_line import AuditLine
    from kshunt.backend.domain.cluster.metadata import ClusterInfo
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.snapshot import Snapshot

T = TypeVar("T")
AUDITS_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a feed has told so far."""

    snapshot: Snapshot | None = None
    received_s: float = 0.0
    """When the snapshot came, by the clock of the feed."""
    info: ClusterInfo | None = None
    connection: BackendConnection = CONNECTING
    operations: tuple[Operation, ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the polled fact."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Why a fact could not be read, by its name."""
    audits: Mapping[str, tuple[AuditLine, ...]] = field(default_factory=dict)
    """The audit of an operation, by its id."""

    def answer(self, fact: PolledFact[T]) -> T:
        """What the backend answered last; before that, what the fact says of the unknown."""
        return cast(T, self.answers.get(fact.name, fact.unknown))

    def answered(self, fact: PolledFact[Any]) -> bool:
        """Whether there was an answer at all: before, none is not nought."""
        return fact.name in self.answers

    @property
    def live(self) -> bool:
        """True while the backend answers."""
        return self.connection.state is ConnectionState.LIVE

    @property
    def lost(self) -> bool:
        """True while the backend does not answer any more."""
        return self.connection.state is ConnectionState.LOST

    @property
    def running(self) -> bool:
        """True while an operation has not ended."""
        return any(not operation.state.ended for operation in self.operations)

    @property
    def cluster_id(self) -> str:
        """The cluster of the snapshot, or empty while there is none."""
        return self.snapshot.cluster_id if self.snapshot is not None else ""

    @property
    def bootstrap_servers(self) -> str:
        """Where the backend reaches the cluster."""
        return self.info.bootstrap_servers if self.info is not None else ""

    def operation(self, key: object) -> Operation | None:
        """The operation with this id."""
        return next((one for one in self.operations if one.id == key), None)

    def after(self, message: Message, now_s: float) -> Scene:
        """The scene once `message` has come; other messages change nothing."""
        match message:
            case SnapshotArrived():
                return self._after_snapshot(message.snapshot, now_s)
            case OperationsArrived():
                return replace(self, operations=message.operations)
            case Connected():
                live = BackendConnection(ConnectionState.LIVE)
                return replace(self, info=message.info, connection=live)
            case Disconnected():
                return replace(
                    self, connection=BackendConnection(ConnectionState.LOST, message.reason)
                )
            case AnswerArrived():
                known = {k: v for k, v in self.unanswered.items() if k != message.about}
                answers = {**self.answers, message.about: message.answer}
                return replace(self, answers=answers, unanswered=known)
            case AnswerFailed():
                failed = {**self.unanswered, message.about: message.reason}
                return replace(self, unanswered=failed)
            case AuditArrived():
                return replace(self, audits=_with_audit(self.audits, message))
            case _:
                return self

    def _after_snapshot(self, snapshot: Snapshot, now_s: float) -> Scene:
        other = self.cluster_id not in ("", snapshot.cluster_id)
        # Another cluster's operations have ids of their own.
        audits = {} if other else self.audits
        return replace(self, snapshot=snapshot, received_s=now_s, audits=audits)


def _with_audit(
    audits: Mapping[str, tuple[AuditLine, ...]], message: AuditArrived
) -> dict[str, tuple[AuditLine, ...]]:
    others = {id: lines for id, lines in audits.items() if id != message.operation_id}
    others[message.operation_id] = message.lines
    return dict(list(others.items())[-AUDITS_KEPT:])
