"""Serves the API on a Unix-domain socket or a TCP port, until it is told to stop.

A private backend (`linger`) also stops by itself, once nobody has asked for anything for a while
and no operation of its own still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from kshunt.backend.access.socket_mode import ALONE, SocketFile
from kshunt.backend.addresses import is_loopback
from kshunt.backend.api.connections.acceptor import Acceptor
from kshunt.backend.api.connections.certificates import Certificates, Tls
from kshunt.backend.api.connections.http_protocol import DeadlineProtocol
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.forwarding.inbound import ForwardedRequests
from kshunt.backend.api.forwarding.outbound import Forward
from kshunt.backend.api.forwarding.peers import Origin
from kshunt.backend.api.http.request_bodies import RequestBodies
from kshunt.backend.api.http.route_roles import Declared
from kshunt.backend.api.server.app import create_app
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer, Credentials
from kshunt.backend.clock import Clock
from kshunt.backend.errors import ConfigError
from kshunt.backend.garbage_collection import Heap
from kshunt.backend.local_sockets import tcp_listener
from kshunt.backend.secret_files import refuse_open_folder

log = logging.getLogger(__name__)

SWITCH_S: Final = 0.001
"""A computing thread hands the interpreter on after this time. Python's own value is five
milliseconds: the event loop would wait that long for each of several threads, whenever it has
something to do."""
NOTICE_S: Final = 1.0
"""From the signal to stop until a port is closed; a socket's clients are not sent elsewhere."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to serve: a socket's path, or a host and a port."""

    path: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    """Of a port; None: without."""
    file: SocketFile = field(default_factory=SocketFile)
    """Of a socket."""

    @property
    def address(self) -> str:
        """What a client is given."""
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"


class OpenRequests:
    """Counts open requests, so that a private backend knows when it is alone. An ASGI layer."""

    def __init__(self, app: Any, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._open = 0
        self._last_s = clock.monotonic_s()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last_s = self._clock.monotonic_s()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while one is open."""
        return 0.0 if self._open else self._clock.monotonic_s() - self._last_s


def bind(listen: Listen) -> tuple[socket.socket, Listen]:
    """A listening socket, and where it listens.

    It creates a Unix-domain socket with mode 0600, under a mask, and opens it to a group only once
    it is that group's. So there is no moment in which somebody else could connect.

    Raises:
        ConfigError: another backend serves there, or the address cannot be used.
    """
    try:
        if listen.path is not None:
            return _bind_path(listen.path, listen.file), listen
        server = tcp_listener(listen.host, listen.port)
        return server, replace(listen, port=server.getsockname()[1])
    except OSError as error:
        raise ConfigError(f"Cannot serve on {listen.address}: {error.strerror or error}.") from None


def _bind_path(path: Path, file: SocketFile) -> socket.socket:
    refuse_open_folder(path, "The socket")
    if os.path.lexists(path):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path} exists and is not a socket; kshunt did not change it.")
        if _answers(path):
            raise ConfigError(
                f"Another backend serves on {path}.",
                advice="Use that backend, or give this one another --socket or --listen.",
            )
        # Left by a backend that was killed.
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        server.bind(str(path))
    except OSError:
        server.close()
        raise
    finally:
        os.umask(mask)
    try:
        if file.group is not None:
            os.chown(path, -1, file.group, follow_symlinks=False)
        path.chmod(file.mode)
        server.listen(128)
    except OSError:
        server.close()
        path.unlink()
        raise
    return server


def _answers(path: Path) -> bool:
    """Whether somebody serves on a socket, also one who is too busy to answer.

    Raises:
        OSError: it cannot be told: the socket is somebody else's, or of another kind.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (BlockingIOError, TimeoutError):
            return True
        return True


@contextlib.contextmanager
def _removed(path: Path | None) -> Iterator[None]:
    """Remove our socket at the end, and not one that somebody has put in its place meanwhile."""
    if path is None:
        yield
        return
    ours = path.lstat()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.path.samestat(path.lstat(), ours):
                path.unlink()


def check_reach(listen: Listen, credentials: Sequence[Credentials]) -> None:
    """Refuse to serve what others could reach and read, or ask without a credential.

    Raises:
        ConfigError: they could.
    """
    if listen.path is not None or is_loopback(listen.host):
        return
    lacks = [
        what
        for what, given in (
            ("TLS (--tls-certificate and --tls-key)", listen.tls is not None),
            ("credentials (--tokens or --oidc-issuer)", bool(credentials)),
        )
        if not given
    ]
    if lacks:
        raise ConfigError(
            f"{listen.host} is not a loopback address, and {' and '.join(lacks)} "
            f"{'are' if len(lacks) > 1 else 'is'} not given.",
            advice="Give what is missing, or serve on 127.0.0.1 and use an SSH tunnel.",
        )


def gated(
    app: FastAPI, backend: Backend, policy: AccessPolicy, peers: Collection[Origin] = ()
) -> AuthenticationLayer:
    """The application of a backend behind what lets callers in, and what passes changes on."""
    declared, membership = Declared(app), backend.membership
    forward = Forward(app, declared, membership, backend.keys, reach=policy.reach, peers=peers)
    arrivals = ForwardedRequests(backend.keys, lambda: membership.me, policy.reach, backend.clock)
    return AuthenticationLayer(
        RequestBodies(forward, declared), declared, policy, backend.clock, arrivals
    )


async def serve(
    backend: Backend,
    listen: Listen,
    credentials: Sequence[Credentials] = (),
    *,
    linger_s: float | None = None,
    peers: Collection[Origin] = (),
) -> None:
    """Serve until SIGINT or SIGTERM, or until nobody has asked for anything for `linger_s`.

    Prints one line, `kshunt serves CLUSTER at ADDRESS`, once connections are accepted.

    Raises:
        ConfigError: the address or the certificate cannot be used, or others could reach it and
            it asks for no credentials or has no certificate.
    """
    check_reach(listen, credentials)
    certificates = None if listen.tls is None else Certificates(listen.tls)
    listener, listen = bind(listen)
    backend.address = listen.address
    backend.peers = frozenset(peers)
    policy = AccessPolicy(listen.path is not None, credentials, listen.file.mode != ALONE)
    backend.demands_credentials = not policy.open
    application = gated(create_app(backend, secured=not policy.open), backend, policy, peers)
    activity = OpenRequests(application, backend.clock)
    config = uvicorn.Config(
        activity,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
        # Idle keep-alive connections are the dashboard's and the tools' own.
        timeout_keep_alive=60,
        server_header=False,
        http=DeadlineProtocol,
        ws="none",
    )
    config.load()
    config.ssl = None if certificates is None else certificates.context
    served = f"kshunt serves {backend.settings.bootstrap_servers} at {listen.address}"
    notice_s = 0.0 if listen.path is not None else NOTICE_S
    server = _ApiServer(config, served, backend, notice_s)
    watchers = []
    if linger_s is not None:
        watchers.append(asyncio.create_task(_stop_when_alone(server, activity, backend, linger_s)))
    if certificates is not None:
        watchers.append(asyncio.create_task(certificates.watch(backend.clock)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, certificates.reload)
    try:
        with _removed(listen.path):
            await server.serve(sockets=[listener])
    finally:
        for watcher in watchers:
            watcher.cancel()
        server.heap.stop()


class _ApiServer(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and ends in an orderly way on a signal.

    A client of several backends learns by `/readyz` that this one stops, and has `notice_s` to send
    its requests elsewhere. Then the server accepts no connection, and ends streams.
    """

    def __init__(
        self, config: uvicorn.Config, ready: str, backend: Backend, notice_s: float
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._backend = backend
        self._notice_s = notice_s
        self.heap = Heap()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM.

        uvicorn's own version raises the signal again once it has stopped, which would end the
        process before it has removed its socket.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def handle_exit(self, _number: int, _frame: FrameType | None) -> None:
        """Give notice, then stop; a second signal shortens the notice.

        However many come, the end is in order: uvicorn's own version takes a second SIGINT for a
        wish to end without, and the lease would not be left to others.
        """
        notice_s = 0.0 if self._backend.stopping.is_set() else self._notice_s
        asyncio.get_running_loop().call_later(notice_s, self._exit)
        self._backend.stopping.set()

    def _exit(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the connections, then the backend."""
        self._backend.ending.set()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and say so on standard output."""
        await super().startup([])
        if self.started:
            self.heap.start()
            sys.setswitchinterval(SWITCH_S)
            for listener in sockets or []:
                self.servers.append(self._acceptor(listener))  # type: ignore[arg-type]
            sys.stdout.write(f"{self._ready}\n")
            sys.stdout.flush()

    def _acceptor(self, listener: socket.socket) -> Acceptor:
        """uvicorn's own way to accept has no limits."""

        def protocol() -> DeadlineProtocol:
            return DeadlineProtocol(self.config, self.server_state, self.lifespan.state)

        return Acceptor(listener, self._backend.connections, protocol, self.config.ssl)


async def _stop_when_alone(
    server: uvicorn.Server, activity: OpenRequests, backend: Backend, linger_s: float
) -> None:
    while activity.idle_s < linger_s or backend.busy:
        await backend.clock.wait_s(0.5)
    log.info("no request came for %g s; stopping", linger_s)
    server.should_exit = True
