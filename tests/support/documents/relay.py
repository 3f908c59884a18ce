"""What `ssh -N -L` does for a page of the manual, without another host: it passes bytes on.

The end of the tunnel is on this machine. Everything else of `ssh` is left out: a test that uses
this shows what kshunt does at the other end of a tunnel, and that the command has `ssh`'s form.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PIECE_BYTES = 65_536
PORTS = re.compile(r"(?P<here>\d+):(?P<host>[^:/]+):(?P<port>\d+)")
SOCKETS = re.compile(r"(?P<here>/[^:]+):(?P<there>/[^:]+)")


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def _relay(tunnel: str) -> None:
    """Serve one end of a tunnel until this process ends.

    Raises:
        ValueError: the tunnel has neither of the two forms.
    """

    def each(connect: Callable[[], Awaitable[Streams]]) -> Callable[..., Awaitable[None]]:
        async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await connect()
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))

        return passed

    if found := PORTS.fullmatch(tunnel):
        host, port = found["host"], int(found["port"])
        server = await asyncio.start_server(
            each(lambda: asyncio.open_connection(host, port)), "localhost", int(found["here"])
        )
    elif found := SOCKETS.fullmatch(tunnel):
        path = found["there"]
        server = await asyncio.start_unix_server(
            each(lambda: asyncio.open_unix_connection(path)), found["here"]
        )
    else:
        raise ValueError(f"not a tunnel: {tunnel}")
    async with server:
        sys.stdout.write("relays\n")
        sys.stdout.flush()
        await server.serve_forever()


def main() -> None:
    """Read `ssh`'s command line, as far as the manual uses it."""
    parser = argparse.ArgumentParser(prog="ssh")
    parser.add_argument("-N", action="store_true", required=True)
    parser.add_argument("-L", required=True)
    parser.add_argument("host")
    asyncio.run(_relay(parser.parse_args().L))


if __name__ == "__main__":
    main()
