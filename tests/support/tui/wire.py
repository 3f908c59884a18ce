"""The bytes of a scripted backend: its connections, HTTP answers, and readers that go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LAST_ROUNDS = 10


class CuttableServer:
    """Listens on a Unix socket; can immediately cut every connection, even one on its way."""

    def __init__(
        self,
        path: Path,
        serve_one: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]],
    ) -> None:
        """`serve_one` answers a request, and says whether another one may follow."""
        self._path, self._serve_one = path, serve_one
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def listen(self) -> None:
        """Begin."""
        self._server = await asyncio.start_unix_server(self._connected, path=self._path)

    async def cut(self) -> None:
        """Abort every connection and listen no more."""
        if self._server is None:
            return
        server, self._server = self._server, None
        for writer in self._serving.values():
            writer.transport.abort()
        self._path.unlink(missing_ok=True)
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        # What was accepted just now becomes a connection in the next rounds. A server that is
        # closed before leaves its socket open (python/cpython#109564).
        await _rounds()
        server.close()

    async def close(self) -> None:
        """End what is served still: nobody waits for it any more."""
        serving = dict(self._serving)
        for task, writer in serving.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        # What was accepted at the last moment has yet to be known here, aborted and closed.
        await _rounds()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # It was on its way as the others were cut.
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving[task] = writer
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        # Here, and not in the task itself: one that is cancelled may never have begun.
        self._serving.pop(task).close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._serve_one(reader, writer):
                pass


async def _rounds() -> None:
    """Let the loop go round as often as what was accepted takes to be aborted and closed."""
    for _ in range(LAST_ROUNDS):
        await asyncio.sleep(0)


def respond(
    writer: asyncio.StreamWriter, status: int, media_type: str, document: dict[str, Any]
) -> None:
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} -\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)


def start_stream(writer: asyncio.StreamWriter, media_type: str) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head.encode())


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def next_or_gone(queue: asyncio.Queue[Any], gone: asyncio.Future[bytes]) -> Any:
    """The next item, or an error as soon as the reader has gone."""
    item = asyncio.ensure_future(queue.get())
    await asyncio.wait({item, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not item.done():
        item.cancel()
        raise ConnectionResetError
    return item.result()
