"""`kshunt web`: one dashboard a browser session, each a process of its own behind the guard.

textual-serve carries the terminal. Its own page loads a font from elsewhere and lets every browser
in. So the page is ours, and every request passes the guard first.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp_jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from kshunt.backend.child_processes import command_of, environment
from kshunt.backend.errors import ConfigError
from kshunt.tui.web.guard import HEADERS, PARAMETER, Guard, WebRequest

SESSIONS_MOST: Final = 16
"""Browser sessions at the same time; each is a process."""
FONT_SIZE: Final = 16
HEARTBEAT_S: Final = 15.0
MESSAGE_BYTES_MAX: Final = 1 << 20
"""The most bytes that somebody can type or paste in one message."""
CELLS_DIGITS: Final = 5
TEMPLATES: Final = Path(__file__).parent / "templates"
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class WebServer(Server):
    """Serves the dashboard that a command starts."""

    def __init__(self, command: Sequence[str], host: str, port: int, public_url: str = "") -> None:
        """`public_url` is how a browser reaches it through a tunnel or a proxy."""
        address = public_url.rstrip("/") or f"http://{_bracketed(host)}:{port}"
        super().__init__(
            shlex.join(command),
            host,
            port,
            title="kshunt",
            public_url=address,
            templates_path=TEMPLATES,
        )
        at = urlsplit(address)
        local = {f"{name}:{port}" for name in (*_NAMES, _bracketed(host))}
        self.guard = Guard({*local, at.netloc}, port, secure=at.scheme == "https")
        self._words = tuple(command)
        self._sessions = 0

    @property
    def address(self) -> str:
        """What the next browser opens; it holds the token."""
        return f"{self.public_url}/?{PARAMETER}={self.guard.token}"

    async def on_startup(self, app: web.Application) -> None:
        """Nothing is said before the port is open."""

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM.

        Raises:
            ConfigError: kshunt cannot listen on the port.
        """
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        runner = web.AppRunner(await self._make_app(), access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
        except OSError as error:
            raise ConfigError(
                f"kshunt cannot listen on {self.host}:{self.port}: {error.strerror or error}."
            ) from None
        else:
            self._print_address()
            await ended.wait()
        finally:
            await runner.cleanup()

    def _print_address(self) -> None:
        sys.stdout.write(f"kshunt web: open {self.address}\n")
        sys.stdout.flush()

    async def _make_app(self) -> web.Application:
        inner = await super()._make_app()
        inner.router.add_get("/focus.js", self.handle_focus)
        app = web.Application(middlewares=[self._guarded()])
        app.add_subapp(self.guard.folder, inner)
        return app

    def _guarded(self) -> Callable[..., Awaitable[web.StreamResponse]]:
        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            admission = self.guard.judge(_asked(request, self.guard.cookie))
            if admission.status == 303:
                return self._welcomed(admission.session)
            if admission.status != 200:
                return web.Response(status=admission.status, text=admission.reason, headers=HEADERS)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        return guarded

    def _welcomed(self, session: str) -> web.Response:
        """The token was exchanged for a session, and the next browser needs another address."""
        guard = self.guard
        response = web.Response(status=303, headers={**HEADERS, "Location": guard.folder})
        response.set_cookie(
            guard.cookie,
            session,
            path=guard.folder,
            httponly=True,
            secure=guard.secure,
            samesite="Strict",
        )
        self._print_address()
        return response

    @aiohttp_jinja2.template("app_index.html")
    async def handle_index(self, request: web.Request) -> dict[str, object]:
        """The page; its terminal is at the host under which the page was asked for."""
        scheme = "wss" if self.public_url.startswith("https:") else "ws"
        return {
            "font_size": _cells(request, "fontsize", FONT_SIZE),
            "app_websocket_url": f"{scheme}://{request.host}{self.guard.folder}ws",
            "application": {"name": self.title},
        }

    async def handle_focus(self, request: web.Request) -> web.FileResponse:
        """A script of ours; the page's policy allows none within it."""
        return web.FileResponse(TEMPLATES / "focus.js")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One session; refused where too many are open."""
        if self._sessions >= SESSIONS_MOST:
            raise web.HTTPServiceUnavailable(
                text=f"{self._sessions} dashboards are open; close one first."
            )
        self._sessions += 1
        try:
            return await self._carried(request)
        finally:
            self._sessions -= 1

    async def _carried(self, request: web.Request) -> web.WebSocketResponse:
        """Carry a terminal until the browser or the dashboard leaves."""
        websocket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_BYTES_MAX)
        await websocket.prepare(request)
        session = BrowserSession(
            self._words,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,
            download_manager=self.download_manager,
        )
        await session.start(_cells(request, "width", 80), _cells(request, "height", 24))
        try:
            await self._process_messages(websocket, session)
        # A message that is no such: its session ends, and others continue.
        except (ValueError, TypeError, LookupError, AttributeError, AssertionError):
            await websocket.close()
        finally:
            await session.stop()
        return websocket


class BrowserSession(AppService):
    """The process of one terminal."""

    def __init__(self, words: Sequence[str], **carried: Any) -> None:
        """`carried` is as in textual-serve."""
        super().__init__(shlex.join(words), **carried)
        self._words = words

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start it without a shell, and without modules of the working directory."""
        self._process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**self._build_environment(width, height), **_search()},
        )
        self._stdin = self._process.stdin
        return self._process

    async def on_meta(self, data: bytes) -> None:
        """Have the page open a download by an address of its own folder.

        textual-serve's page asks for it at the root, where no session is known.
        """
        said = json.loads(data)
        if said.get("type") != "deliver_file_start":
            await super().on_meta(data)
            return
        key = str(said["key"])
        await self._download_manager.create_download(
            app_service=self,
            delivery_key=key,
            file_name=Path(said["path"]).name,
            open_method=said["open_method"],
            mime_type=said["mime_type"],
            encoding=said["encoding"],
        )
        opened = {"url": f"download/{key}", "new_tab": True}
        await self.remote_write_str(json.dumps(["open_url", opened]))


def _search() -> dict[str, str]:
    ours = environment()
    return {name: ours[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH")}


def _cells(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, "")
    known = text.isascii() and text.isdigit() and len(text) < CELLS_DIGITS
    return int(text) if known else otherwise


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _asked(request: web.Request, cookie: str) -> WebRequest:
    return WebRequest(
        request.path,
        request.host,
        request.headers.get("Origin"),
        request.query.get(PARAMETER),
        request.cookies.get(cookie),
        "Upgrade" in request.headers,
    )


def serve(options: Sequence[str], host: str, port: int, public_url: str = "") -> None:
    """Serve until it is interrupted.

    Args:
        options: of the dashboard that each session starts.
        host: a loopback address.
        port: 1 to 65535.
        public_url: how a browser reaches it, where that is not `http://HOST:PORT`.
    """
    # A browser shows 16 million colours and Unicode, whatever started this server.
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8")
    os.environ.pop("NO_COLOR", None)
    server = WebServer(command_of(*options), host, port, public_url)
    asyncio.run(server.run())
