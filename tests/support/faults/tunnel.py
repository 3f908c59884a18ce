"""A tunnel as `ssh -L` makes one: a loopback port, and bytes passed on to a port or a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

CHUNK_BYTES = 65_536


class _Tunnel(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, there: tuple[str, int] | Path) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.there = there


class _Passing(BaseRequestHandler):
    server: _Tunnel

    def handle(self) -> None:
        there = self.server.there
        family = socket.AF_UNIX if isinstance(there, Path) else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as onward:
            onward.connect(str(there) if isinstance(there, Path) else there)
            back = threading.Thread(target=_pass, args=(onward, self.request), daemon=True)
            back.start()
            _pass(self.request, onward)
            back.join()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def tunnel(there: tuple[str, int] | Path) -> Iterator[int]:
    """A port that leads there."""
    with _Tunnel(there) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
