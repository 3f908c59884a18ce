"""A connection to an embedded listener, as bytes."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kshunt.backend.embedded.net.api import KAFKA_APIS, SEED_APIS
from kshunt.backend.embedded.net.server import BrokerServer

DEADLINE_S = 60.0
METADATA, PRODUCE, DESCRIBE_CLUSTER = 3, 0, 60


class Client:
    """A connection, as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(
        self, correlation_id: int, key: int = METADATA, version: int = 1, **fields: Any
    ) -> None:
        """Send a request with these fields."""
        api = (KAFKA_APIS | SEED_APIS)[key]
        body = bytes(api.request(version=version, **fields).encode(version=version))
        end = b"\x00" if api.flexible(version) else b""
        self.send(struct.pack(">hhih", key, version, correlation_id, -1) + end + body)

    def send(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def answer(self) -> tuple[int, bytes]:
        """Correlation id and the rest of the next answer."""
        async with asyncio.timeout(DEADLINE_S):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            frame = await self.reader.readexactly(size)
        return int.from_bytes(frame[:4], "big"), frame[4:]

    async def ends(self) -> bytes:
        """What comes until the server closes."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read()


@asynccontextmanager
async def connected(server: BrokerServer) -> AsyncIterator[Client]:
    """A connection to a listener, dropped afterwards."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
