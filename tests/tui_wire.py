"""The bytes of a scripted backend: HTTP answers, streams, and readers that go away."""

from __future__ import annotations

import asyncio
import json
from typing import Any


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
