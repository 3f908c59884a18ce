"""What the dashboard learns, and from where: the messages of a feed, and the sum of them.

Facts reach the app by these messages only, so that what recorded them can play them back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from textual.message import Message

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.audit.shown_line import AuditLine
    from kshunt.backend.domain.cluster.metadata import ClusterInfo
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.snapshot import Snapshot

T = TypeVar("T")
AUDITS_KEPT: Final = 32


class ConnectionState(enum.Enum):
    """How the dashboard stands with its backend."""

    CONNECTING = "connecting"
    LIVE = "live"
    LOST = "lost"
    """What is shown is frozen until the backend answers again."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The state of the connection, and why."""

    state: ConnectionState = ConnectionState.CONNECTING
    reason: str = ""


CONNECTING: Final = Connection()


class Feed(Protocol):
    """Where facts come from, and where questions go."""

    @property
    def address(self) -> str:
        """What the head of the screen calls it."""

    def start(self) -> None:
        """Begin to post messages; returns at once."""

    def stop(self) -> None:
        """Post nothing more; may block for a moment."""

    async def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Put a question.

        Raises:
            KshuntError: it was refused, or there is nobody who could answer.
        """


class SnapshotArrived(Message):
    """The cluster looks like this now."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest snapshot matters."""
        return isinstance(message, SnapshotArrived)


class OperationsArrived(Message):
    """What the backend was asked to do, as it stands now."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        super().__init__()
        self.operations = operations

    def can_replace(self, message: Message) -> bool:
        """The list is whole each time."""
        return isinstance(message, OperationsArrived)


class Connected(Message):
    """The backend answers; snapshots follow."""

    def __init__(self, info: ClusterInfo) -> None:
        super().__init__()
        self.info = info


class Disconnected(Message):
    """The backend does not answer, or has fallen silent."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def can_replace(self, message: Message) -> bool:
        """Only the newest reason matters."""
        return isinstance(message, Disconnected)


class AlertArrived(Message):
    """The backend has something to say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class AnswerArrived(Message):
    """The answer to one of the periodic questions (`kshunt.tui.data.questions`)."""

    def __init__(self, about: str, answer: Any) -> None:
        super().__init__()
        self.about = about
        self.answer = answer


class AnswerFailed(Message):
    """One of the periodic questions was refused."""

    def __init__(self, about: str, reason: str) -> None:
        super().__init__()
        self.about = about
        self.reason = reason


class AuditArrived(Message):
    """The audit of one operation."""

    def __init__(self, operation_id: str, lines: tuple[AuditLine, ...]) -> None:
        super().__init__()
        self.operation_id = operation_id
        self.lines = lines


class ActionTaken(Message):
    """Somebody at this dashboard asked for a change, or was answered."""

    def __init__(self, stage: str, text: str, who: str = "", reason: str = "") -> None:
        super().__init__()
        self.stage = stage
        """`previewed`, `rehearsed`, `sent`, `answered` or `refused`."""
        self.text = text
        """What was asked, or what became of it, in words."""
        self.who = who
        self.reason = reason


class RecordingStopped(Message):
    """Nothing is recorded any more; of the dashboard itself, not of a feed."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a feed has told so far: what the screens are made of."""

    snapshot: Snapshot | None = None
    received_s: float = 0.0
    """When the snapshot came, by the clock of the feed."""
    info: ClusterInfo | None = None
    connection: Connection = CONNECTING
    operations: tuple[Operation, ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)
    """By what the question is about."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    audits: Mapping[str, tuple[AuditLine, ...]] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """True while an operation has not ended."""
        return any(not operation.state.ended for operation in self.operations)

    def after(self, message: Message, now_s: float) -> Scene:
        """The scene once `message` has come; other messages change nothing."""
        match message:
            case SnapshotArrived():
                return self._after_snapshot(message.snapshot, now_s)
            case OperationsArrived():
                return replace(self, operations=message.operations)
            case Connected():
                live = Connection(ConnectionState.LIVE)
                return replace(self, info=message.info, connection=live)
            case Disconnected():
                return replace(self, connection=Connection(ConnectionState.LOST, message.reason))
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
        other = self.snapshot is not None and self.snapshot.cluster_id != snapshot.cluster_id
        # Another cluster's operations have ids of their own.
        audits = {} if other else self.audits
        return replace(self, snapshot=snapshot, received_s=now_s, audits=audits)


def _with_audit(
    audits: Mapping[str, tuple[AuditLine, ...]], message: AuditArrived
) -> dict[str, tuple[AuditLine, ...]]:
    kept = {id: lines for id, lines in audits.items() if id != message.operation_id}
    kept[message.operation_id] = message.lines
    return dict(list(kept.items())[-AUDITS_KEPT:])
