"""What the dashboard learns, and from where: the messages of a feed.

Facts reach the app by these messages only, so that what recorded them can play them back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from textual.message import Message

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.audit.shown_line import AuditLine
    from kshunt.backend.domain.cluster.metadata import ClusterInfo
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.snapshot import Snapshot

T = TypeVar("T")


class ConnectionState(enum.Enum):
    """The state of the dashboard's connection to its backend."""

    CONNECTING = "connecting"
    LIVE = "live"
    LOST = "lost"
    """What is shown is frozen until the backend answers again."""


@dataclass(frozen=True, slots=True)
class BackendConnection:
    """The state of the connection, and why."""

    state: ConnectionState = ConnectionState.CONNECTING
    reason: str = ""


CONNECTING: Final = BackendConnection()


class Feed(Protocol):
    """Where questions and changes go: a backend, or a refusal while the past is shown."""

    async def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Put a question.

        Raises:
            KshuntError: it was refused, or there is no backend that could answer.
        """

    async def change(self, asked: ActionTaken, send: Callable[[BackendClient], T]) -> T:
        """Send a change, or look at one beforehand; both `asked` and the answer are told.

        Raises:
            KshuntError: it was refused, or there is no backend that could answer.
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
    """The backend answered a polled fact, named as in `kshunt.tui.feed.polled_facts`."""

    def __init__(self, about: str, answer: Any) -> None:
        super().__init__()
        self.about = about
        self.answer = answer


class AnswerFailed(Message):
    """A polled fact could not be read."""

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
    """The operator of this dashboard asked for a change, or got its answer."""

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
