"""A stretch of network between clients and servers on loopback that can be cut, as a cable is.

While it is cut nothing is refused and nothing arrives: connections stay open and silent, new ones
are not answered. It can be slow, too: each connection then carries a set number of bytes a second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536
TURNS = 5


class Network:
    """Forwards ports to ports; see the module's text."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._whole = asyncio.Event()
        self._whole.set()
        self._fast = asyncio.Event()
        self._fast.set()
        self._rate_bytes_per_s = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Let nothing through from here on."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        """Let everything through again, what waited first."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def slow(self, rate_bytes_per_s: int) -> None:
        """Carry no more than this in each direction of a connection from here on; 0: no limit."""

        def change() -> None:
            self._rate_bytes_per_s = rate_bytes_per_s
            if rate_bytes_per_s:
                self._fast.clear()
            else:
                self._fast.set()

        self._loop.call_soon_threadsafe(change)

    async def open(self, forwards: Mapping[int, int]) -> list[asyncio.Server]:
        """Listen on the keys, and pass on to the values."""

        def accepting(target: int) -> object:
            async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                # Ended with the network, it has nothing to tell the side that accepted it.
                with suppress(asyncio.CancelledError):
                    await self._pass(reader, writer, target)

            return accepted

        return [
            await asyncio.start_server(accepting(target), HOST, port)  # type: ignore[arg-type]
            for port, target in forwards.items()
        ]

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int
    ) -> None:
        await self._whole.wait()
        try:
            there, back = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._copy(reader, back), self._copy(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await reader.read(CHUNK_BYTES):
                    await self._whole.wait()
                    writer.write(data)
                    await writer.drain()
                    await self._pace(len(data))
        finally:
            writer.close()

    async def _pace(self, size_bytes: int) -> None:
        """Wait as long as a slow network needs for what it carried, or until it is fast."""
        if self._rate_bytes_per_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._fast.wait(), size_bytes / self._rate_bytes_per_s)


@contextmanager
def network(forwards: Mapping[int, int]) -> Iterator[Network]:
    """A network in a thread of its own, from ports to ports."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network", daemon=True)
    thread.start()

    async def begun() -> tuple[Network, list[asyncio.Server]]:
        found = Network(loop)
        return found, await found.open(forwards)

    async def ended() -> None:
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # A closed connection is gone after a turn of the loop.
        for _ in range(TURNS):
            await asyncio.sleep(0)

    opened, servers = asyncio.run_coroutine_threadsafe(begun(), loop).result(10)
    try:
        yield opened
    finally:
        asyncio.run_coroutine_threadsafe(ended(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
