"""A webhook's receiver on a real socket, which answers as a test tells it to: well or badly."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

DEADLINE_S = 30.0
HEADER_LINES_MAX = 100


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver(ThreadingTCPServer):
    """Answers 204, but for the answers that are `next`, each of which serves once."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._tls = tls
        self.next: deque[Answer] = deque()
        self.always: Answer = says(204)
        self.received: list[Received] = []
        self.over = threading.Event()
        """Set at the end, so that nobody hangs on."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/hook?key=secret-of-the-path"

    @property
    def types(self) -> list[str]:
        """Of the messages that came, in their order; those that came again too."""
        return [request.document["type"] for request in tuple(self.received)]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(DEADLINE_S)
        if self._tls is not None:
            # The handshake is the handler's: a stranger's must not hold up the others.
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the tests want clients that are refused or that end the connection."""


class _Handler(StreamRequestHandler):
    server: Receiver

    def handle(self) -> None:
        request = self._read()
        if request is None:
            return
        self.server.received.append(request)
        queue = self.server.next
        answer = queue.popleft() if queue else self.server.always
        with suppress(OSError):
            answer(self)

    def _read(self) -> Received | None:
        words = self.rfile.readline(8192).decode("latin-1").split()
        headers: dict[str, str] = {}
        for _ in range(HEADER_LINES_MAX):
            line = self.rfile.readline(8192).decode("latin-1").strip()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if len(words) != 3:
            return None
        size = int(headers.get("content-length", "0"))
        body = self.rfile.read(size)
        # Who ends while it sends has sent nothing.
        return Received(words[1], headers, body) if len(body) == size else None


Answer = Callable[[_Handler], None]


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer that is whole."""
    lines = [f"HTTP/1.1 {status} As told", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode()
    return lambda handler: _send(handler, head + body)


def sends(content: bytes) -> Answer:
    """These bytes, and then the end: what is no HTTP, or not all of it."""
    return lambda handler: _send(handler, content)


def hangs(head: bytes = b"") -> Answer:
    """Nothing more after these bytes, and no end either."""

    def answer(handler: _Handler) -> None:
        _send(handler, head)
        handler.server.over.wait(DEADLINE_S)

    return answer


def resets() -> Answer:
    """The connection is torn down."""

    def answer(handler: _Handler) -> None:
        linger = (1).to_bytes(4, "little") + bytes(4)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.connection.close()

    return answer


def _send(handler: _Handler, content: bytes) -> None:
    handler.wfile.write(content)
    handler.wfile.flush()


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that serves meanwhile."""
    with Receiver(tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join(DEADLINE_S)
