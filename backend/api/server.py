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
import ssl
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import uvicorn

from backend.api.app import create_app
from backend.api.backend import Backend
from backend.api.forward import Forward
from backend.api.gate import Credentials, Door, Gate, is_loopback
from backend.api.problems import problem
from backend.api.protocol import PatientProtocol
from backend.api.routes import Declared
from backend.clock import Clock
from backend.errors import ConfigError
from backend.settings import LIMITS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """What a backend shows to its clients."""

    certificate: Path
    """PEM, with the chain."""
    key: Path


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to serve: a socket's path, or a host and a port."""

    path: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    """Of a port; None: without."""

    @property
    def address(self) -> str:
        """What a client is given."""
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"


class Activity:
    """Counts open requests, so that a private backend knows when it is alone. An ASGI layer."""

    def __init__(self, app: Any, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._open = 0
        self._last_s = clock.monotonic_s()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and refuse one whose body is over the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._open += 1
        try:
            if _announced_bytes(scope) > LIMITS.request_body_bytes:
                answer = problem(413, "Too large", _TOO_LARGE, advice="Nothing was changed.")
                await answer(scope, receive, send)
            else:
                await self._app(scope, _limited(receive), send)
        finally:
            self._open -= 1
            self._last_s = self._clock.monotonic_s()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while one is open."""
        return 0.0 if self._open else self._clock.monotonic_s() - self._last_s


_TOO_LARGE: Final = f"A request may hold {LIMITS.request_body_bytes} bytes."


def _announced_bytes(scope: Any) -> int:
    """The body's length by its header; 0 where it has none that can be read."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _limited(receive: Any) -> Any:
    """`receive`, cut off where a body grows over `Limits.request_body_bytes`."""
    taken = 0

    async def counted() -> Any:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LIMITS.request_body_bytes:
            # What follows is not read; the parser then refuses the truncated body.
            return {"type": "http.request", "body": b"", "more_body": False}
        return message

    return counted


def bind(listen: Listen) -> tuple[socket.socket, Listen]:
    """A listening socket, and where it listens.

    A Unix-domain socket is created with mode 0600, under a mask, so that there is no moment in
    which somebody else could connect.

    Raises:
        ConfigError: another backend serves there, or the address cannot be used.
    """
    try:
        if listen.path is not None:
            return _bind_path(listen.path), listen
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        server = socket.create_server((listen.host, listen.port), family=family)
        return server, replace(listen, port=server.getsockname()[1])
    except OSError as error:
        raise ConfigError(f"Cannot serve on {listen.address}: {error.strerror or error}.") from None


def _bind_path(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if path.exists():
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise ConfigError(f"{path} exists and is not a socket; it was left alone.")
        if _answers(path):
            raise ConfigError(f"Another backend serves on {path}.")
        path.unlink()
    mask = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(mask)
    server.listen(128)
    return server


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


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


def load_certificate(tls: Tls) -> ssl.SSLContext:
    """What TLS 1.2 and later are served with.

    Raises:
        ConfigError: the files cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Nobody is there to type a passphrase.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        said = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{tls.certificate} and {tls.key} cannot be used: {said}.",
            advice="Give a certificate and its key, both PEM, the key without a passphrase.",
        ) from None
    return context


async def serve(
    backend: Backend,
    listen: Listen,
    credentials: Sequence[Credentials] = (),
    *,
    linger_s: float | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until nobody has asked for anything for `linger_s`.

    Prints one line, `kshunt serves CLUSTER at ADDRESS`, once connections are accepted.

    Raises:
        ConfigError: the address or the certificate cannot be used, or others could reach it and
            it asks for no credentials or has no certificate.
    """
    check_reach(listen, credentials)
    certificate = None if listen.tls is None else load_certificate(listen.tls)
    listener, listen = bind(listen)
    backend.address = listen.address
    door = Door(listen.path is not None, credentials)
    app = create_app(backend, secured=not door.open)
    gate = Gate(Forward(app, backend.seat), Declared(app), door, backend.clock)
    activity = Activity(gate, backend.clock)
    config = uvicorn.Config(
        activity,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
        # Idle keep-alive connections are the dashboard's and the tools' own.
        timeout_keep_alive=60,
        server_header=False,
        http=PatientProtocol,
    )
    config.load()
    config.ssl = certificate
    served = f"kshunt serves {backend.settings.bootstrap_servers} at {listen.address}"
    server = _Server(config, served)
    watchers = []
    if linger_s is not None:
        watchers.append(asyncio.create_task(_stop_when_alone(server, activity, backend, linger_s)))
    try:
        await server.serve(sockets=[listener])
    finally:
        for watcher in watchers:
            watcher.cancel()
        if listen.path is not None:
            with contextlib.suppress(FileNotFoundError):
                listen.path.unlink()


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and ends in an orderly way on a signal."""

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and say so on standard output."""
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(f"{self._ready}\n")
            sys.stdout.flush()


async def _stop_when_alone(
    server: uvicorn.Server, activity: Activity, backend: Backend, linger_s: float
) -> None:
    while activity.idle_s < linger_s or backend.busy:
        await backend.clock.wait_s(0.5)
    log.info("nobody has asked for anything for %g s; stopping", linger_s)
    server.should_exit = True
