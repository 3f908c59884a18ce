"""The only module that touches the network: facts in, intents out.

Two daemon threads read the backend's streams, reconnect with growing pauses, and resume where they
were; each posts Textual messages and touches nothing else. Questions run in threads of their own.
Questions to planners may take minutes, and a caller can give them up: `ask_planner`.
httpx and the data libraries are loaded in these threads, after the first paint.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from textual.message import Message

from kshunt.backend.errors import BackendError, BackendUnreachable, KshuntError
from kshunt.tui.feed.change_messages import with_messages
from kshunt.tui.feed.messages import (
    ActionTaken,
    AlertArrived,
    Connected,
    Disconnected,
    OperationsArrived,
    SnapshotArrived,
)

if TYPE_CHECKING:
    import httpx

    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.api.client.events import Event
    from kshunt.backend.domain.operations.operation import Operation

__all__ = [
    "RETRY_S",
    "AlertArrived",
    "Connected",
    "Disconnected",
    "Link",
    "OperationsArrived",
    "PlannerConnection",
    "SnapshotArrived",
    "ask_planner",
]

T = TypeVar("T")

RETRY_S: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Pauses between attempts; the last one repeats."""
_CONNECTED: Final = (
    "connection.connect_unix_socket.complete",
    "connection.connect_tcp.complete",
    "connection.start_tls.complete",
)
"""What the transport calls the moments at which there is a socket."""


@dataclass
class _Pauses:
    """How long to wait before the next attempt."""

    pauses: Sequence[float]
    failures: int = 0

    def after_failure(self) -> float:
        pause = self.pauses[min(self.failures, len(self.pauses) - 1)]
        self.failures += 1
        return pause


class Link:
    """The live feed: one backend. `post` is called from other threads."""

    def __init__(
        self,
        address: str,
        post: Callable[[Message], object],
        *,
        retry_s: Sequence[float] = RETRY_S,
        revive: Callable[[], object] | None = None,
    ) -> None:
        """Connect later, in `start`.

        Args:
            address: `unix:/path/to.sock` or `http://host:port`.
            post: Takes a message. Any thread may call it.
            retry_s: Pauses between attempts; the last one repeats.
            revive: Starts a private backend again that has gone; None for a shared one.
        """
        self.address = address
        self._revive = revive
        self._post_message = post
        self._retry_s = retry_s
        self._stopped = threading.Event()
        self._client: BackendClient | None = None
        self._client_lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start reading; returns immediately."""
        for target in (self._follow_snapshots, self._follow_events):
            thread = threading.Thread(target=target, name=f"kshunt{target.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stop reading, and wait for the threads a little; may block for a moment."""
        self._stopped.set()
        with self._client_lock:
            if self._client is not None:
                self._client.close()
        for thread in self._threads:
            thread.join(2.0)

    async def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Put a question to the backend in a thread.

        Raises:
            KshuntError: the backend refused, or does not answer.
        """
        return await _asked(lambda: question(self._connection()), "kshunt-ask")

    async def change(self, asked: ActionTaken, send: Callable[[BackendClient], T]) -> T:
        """Send a change, or look at one beforehand; both `asked` and the answer are told.

        They are told from the thread that sends, so that a caller may be gone by then.

        Raises:
            KshuntError: the backend refused, or does not answer.
        """
        return await self.ask(with_messages(self._post, asked, send))

    def _connection(self) -> BackendClient:
        from kshunt.backend.api.client.backend_client import BackendClient

        with self._client_lock:
            if self._client is None:
                self._client = BackendClient(self.address)
            return self._client

    # Facts in

    def _follow_snapshots(self) -> None:
        """Snapshots until the end; this thread alone says whether the backend is there."""
        pauses = _Pauses(self._retry_s)
        while not self._stopped.is_set():
            reason = self._read_snapshots(pauses)
            if self._stopped.is_set():
                return
            self._post(Disconnected(reason))
            self._revive_backend()
            self._stopped.wait(pauses.after_failure())

    def _revive_backend(self) -> None:
        """Have a private backend started again, or say why it cannot be."""
        if self._revive is None:
            return
        try:
            self._revive()
        except KshuntError as error:
            self._post(Disconnected(error.message))

    def _read_snapshots(self, pauses: _Pauses) -> str:
        """Read one stream to its end; why it ended."""
        try:
            client = self._connection()
            info = client.cluster()
            for number, snapshot in enumerate(client.snapshots()):
                if not number:
                    self._post(Connected(info))
                    pauses.failures = 0
                self._post(SnapshotArrived(snapshot))
        except KshuntError as error:
            return error.message
        # The edge between a stream of bytes and the screen: whatever breaks here must not end
        # the thread, or the dashboard would stay frozen with a healthy backend.
        except Exception as error:  # noqa: BLE001
            return f"The stream from {self.address} was interrupted: {error!r}."
        return f"The backend at {self.address} ended the stream."

    def _follow_events(self) -> None:
        """Operations and alerts until the end, resumed after the last event that was seen."""
        pauses = _Pauses(self._retry_s)
        ledger = _Ledger()
        said = ""
        while not self._stopped.is_set():
            failure = self._read_events(ledger, pauses)
            if failure and failure != said:
                self._post(AlertArrived(f"Operations may be out of date: {failure}"))
            said = failure
            self._stopped.wait(pauses.after_failure())

    def _read_events(self, ledger: _Ledger, pauses: _Pauses) -> str:
        """Read one stream to its end; why it broke, where the other thread does not say so."""
        try:
            client = self._connection()
            if ledger.last_event_id is None:
                self._read_list(client, ledger)
            for event in client.events(ledger.last_event_id or 0):
                pauses.failures = 0
                self._take_event(client, ledger, event)
        except BackendUnreachable:
            return ""
        # As in `_read_snapshots`.
        except Exception as error:  # noqa: BLE001
            return error.message if isinstance(error, KshuntError) else repr(error)
        return ""

    def _read_list(self, client: BackendClient, ledger: _Ledger) -> None:
        ledger.replace(client.operations.list())
        self._post(OperationsArrived(ledger.newest_first()))

    def _take_event(self, client: BackendClient, ledger: _Ledger, event: Event) -> None:
        ledger.last_event_id = event.id
        if event.kind == "operation":
            ledger.take(event.operation)
            self._post(OperationsArrived(ledger.newest_first()))
        elif event.kind == "reset":
            self._read_list(client, ledger)
        elif event.kind == "alert":
            self._post(AlertArrived(str(event.document.get("message", ""))))

    def _post(self, message: Message) -> None:
        """Post to the app, unless it is gone."""
        if self._stopped.is_set():
            return
        try:
            self._post_message(message)
        except RuntimeError:
            # The event loop was closed between the check and the call.
            self._stopped.set()


class _Ledger:
    """The operations, and the last event that changed them."""

    def __init__(self) -> None:
        self.last_event_id: int | None = None
        self._operations: dict[str, Operation] = {}

    def replace(self, operations: Sequence[Operation]) -> None:
        self._operations = {operation.id: operation for operation in operations}

    def take(self, operation: Operation) -> None:
        """An operation that has ended never changes again: an older event cannot reopen it."""
        known = self._operations.get(operation.id)
        if known is None or not known.state.ended or operation.state.ended:
            self._operations[operation.id] = operation

    def newest_first(self) -> tuple[Operation, ...]:
        return tuple(
            sorted(self._operations.values(), key=lambda o: (o.started_ms, o.id), reverse=True)
        )


class PlannerConnection:
    """A connection of its own, which can be left from another thread while an answer is awaited.

    The backend ends its work when the connection is gone.
    """

    def __init__(self, address: str) -> None:
        """Connect later, in `ask`; `address` is as that of a `Link`."""
        self._address = address
        self._sockets: list[socket.socket] = []
        self._left = False
        self._lock = threading.Lock()

    def ask(self, question: Callable[[BackendClient], T]) -> T:
        """Put one question, and wait for its answer.

        Raises:
            KshuntError: the backend refused, does not answer, or this was left.
        """
        from kshunt.backend.api.client.backend_client import BackendClient

        with BackendClient(self._address) as client:
            client.sender.watch_requests(self._watch)
            return question(client)

    def leave(self) -> None:
        """Wait no longer. Closing a socket would not wake the thread that reads from it."""
        with self._lock:
            self._left = True
            for one in self._sockets:
                _shut(one)

    def _watch(self, request: httpx.Request) -> None:
        if self._left:
            raise BackendUnreachable("The answer is not needed any more.")
        request.extensions = {**request.extensions, "trace": self._traced}

    def _traced(self, event: str, info: Mapping[str, Any]) -> None:
        if event not in _CONNECTED:
            return
        with self._lock:
            self._sockets.append(info["return_value"].get_extra_info("socket"))
            if self._left:
                _shut(self._sockets[-1])


def _shut(one: socket.socket) -> None:
    # It may have ended by itself in the meantime.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


async def ask_planner(address: str, question: Callable[[BackendClient], T]) -> T:
    """The answer. A caller that is cancelled while it waits ends the backend's work, too.

    Raises:
        KshuntError: the backend refused, or does not answer.
    """
    connection = PlannerConnection(address)
    try:
        return await _asked(lambda: connection.ask(question), "kshunt-plan")
    finally:
        connection.leave()


async def _asked(ask: Callable[[], T], name: str) -> T:
    """What `ask` answers, in a thread of that name."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    # A daemon, not a worker of the loop's pool: leaving does not wait for a slow answer.
    threading.Thread(target=_answer, args=(ask, loop, answer), name=name, daemon=True).start()
    return await answer


def _answer(
    ask: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]
) -> None:
    found: list[T] = []
    failure: Exception | None = None
    try:
        found.append(ask())
    except KshuntError as error:
        failure = error
    # An answer that cannot be read is the backend's failure, not the dashboard's end.
    except Exception as error:  # noqa: BLE001
        failure = BackendError(f"The backend's answer cannot be used: {error!r}.")

    def fulfil() -> None:
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(found[0])

    # The loop may have been closed while this waited.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(fulfil)
