"""Questions to the planners of a backend, which may take minutes and can be given up.

Each has a connection of its own: the backend ends its work when that connection is gone.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from backend.api.client.backend_client import BackendClient
from backend.errors import BackendError, BackendUnreachable, KshuntError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_CONNECTED: Final = (
    "connection.connect_unix_socket.complete",
    "connection.connect_tcp.complete",
    "connection.start_tls.complete",
)
"""What the transport calls the moments at which there is a socket."""


class PlannerClient(BackendClient):
    """A client that can be left, from another thread, while it waits for its answer."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._sockets: list[socket.socket] = []
        self._left = False
        self._lock = threading.Lock()
        self._http.event_hooks = {"request": [self._watch]}

    def leave(self) -> None:
        """Wait no longer. Closing a socket would not wake the thread that reads from it."""
        with self._lock:
            self._left = True
            for one in self._sockets:
                _shut(one)

    def _watch(self, request: httpx.Request) -> None:
        if self._left:
            raise BackendUnreachable("Nobody waits for the answer any more.")
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
    """The answer; whoever is cancelled while waiting for it ends the backend's work, too.

    Raises:
        KshuntError: the backend refused, or does not answer.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    client = PlannerClient(address)
    # A daemon, not a worker of the loop's pool: leaving does not wait for a slow answer.
    threading.Thread(
        target=_answer, args=(client, question, loop, answer), name="kshunt-plan", daemon=True
    ).start()
    try:
        return await answer
    finally:
        client.leave()


def _answer(
    client: PlannerClient,
    question: Callable[[BackendClient], T],
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[T],
) -> None:
    found: list[T] = []
    failure: Exception | None = None
    try:
        with client:
            found.append(question(client))
    except KshuntError as error:
        failure = error
    # An answer that cannot be read is the backend's failure, not the dashboard's end.
    except Exception as error:  # noqa: BLE001
        failure = BackendError(f"The backend's answer is unusable: {error!r}.")

    def settle() -> None:
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(found[0])

    # The loop may have been closed while this waited.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle)
