"""`kshunt web`: one dashboard a browser session, each a process of its own behind the guard.

textual-serve carries the terminal; its own page loads a font from elsewhere and asks nobody who
they are, so the page is ours and every request passes the guard first.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp_jinja2
from aiohttp import web
from textual_serve.server import Server

from backend.errors import ConfigError
from tui.web.guard import COOKIE, HEADERS, PARAMETER, Asked, Guard

SESSIONS_MOST: Final = 16
"""Browser sessions at once; each is a process."""
FONT_SIZE: Final = 16
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
        local = {f"{name}:{port}" for name in (*_NAMES, _bracketed(host))}
        self.guard = Guard(frozenset({*local, urlsplit(address).netloc}))
        self._sessions = 0

    @property
    def address(self) -> str:
        """What is opened in a browser; it holds the token."""
        return f"{self.public_url}/?{PARAMETER}={self.guard.token}"

    async def on_startup(self, app: web.Application) -> None:
        """Nothing is said before the port is open."""

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM.

        Raises:
            ConfigError: the port cannot be had.
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
                f"{self.host}:{self.port} cannot be listened on: {error.strerror or error}."
            ) from None
        else:
            sys.stdout.write(f"kshunt web: open {self.address}\n")
            sys.stdout.flush()
            await ended.wait()
        finally:
            await runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guarded())
        app.router.add_get("/focus.js", self.handle_focus)
        return app

    def _guarded(self) -> Callable[..., Awaitable[web.StreamResponse]]:
        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            verdict = self.guard.judge(_asked(request))
            if verdict.status == 303:
                return self._welcomed()
            if verdict.status != 200:
                return web.Response(status=verdict.status, text=verdict.reason, headers=HEADERS)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        return guarded

    def _welcomed(self) -> web.Response:
        """The token moves from the address into a cookie that no script can read."""
        response = web.Response(status=303, headers={**HEADERS, "Location": "/"})
        response.set_cookie(COOKIE, self.guard.token, httponly=True, samesite="Strict", path="/")
        return response

    @aiohttp_jinja2.template("app_index.html")
    async def handle_index(self, request: web.Request) -> dict[str, object]:
        """The page; its terminal is at the host under which the page was asked for."""
        scheme = "wss" if self.public_url.startswith("https:") else "ws"
        size = request.query.get("fontsize", "")
        return {
            "font_size": int(size) if size.isascii() and size.isdigit() else FONT_SIZE,
            "app_websocket_url": f"{scheme}://{request.host}/ws",
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
            return await super().handle_websocket(request)
        finally:
            self._sessions -= 1


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _asked(request: web.Request) -> Asked:
    return Asked(
        request.path,
        request.host,
        request.headers.get("Origin"),
        request.query.get(PARAMETER),
        request.cookies.get(COOKIE),
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
    server = WebServer([sys.executable, "-m", "backend", *options], host, port, public_url)
    asyncio.run(server.run())
