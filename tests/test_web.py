"""The dashboard in a browser: who is let in, and a whole session over a real socket."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import (
    ClientSession,
    ClientWebSocketResponse,
    CookieJar,
    WSMsgType,
    WSServerHandshakeError,
)

from tests.kafka.config import free_ports
from tests.screen_support import Emulator
from tests.tui_backend import ScriptedBackend
from tests.tui_cluster import incident
from tui.web.guard import Asked, Guard

ROOT = Path(__file__).parent.parent
DEADLINE_S = 30.0
HOST = "127.0.0.1:8096"
GUARD = Guard({HOST, "localhost:8096"}, "secret")
FINE = Asked("/ws", HOST, f"http://{HOST}", None, "secret")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"path": "/", "origin": None}, 200),
        ({"origin": "https://localhost:8096"}, 200),
        ({"path": "/", "cookie": None, "token": "secret"}, 303),
        ({"path": "/", "cookie": None, "token": "wrong"}, 401),
        ({"path": "/", "cookie": None, "token": ""}, 401),
        ({"path": "/", "cookie": None, "token": "geheimnis\u00df"}, 401),
        ({"cookie": None}, 401),
        ({"cookie": "secre"}, 401),
        ({"path": "/static/js/textual.js", "cookie": None}, 401),
        # A token in the address opens the page alone, so that it cannot be tried elsewhere.
        ({"cookie": None, "token": "secret"}, 401),
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": f"http://{HOST}.evil.example"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": ""}, 421),
    ],
)
def test_who_is_let_in(changes: Mapping[str, str | None], status: int) -> None:
    assert GUARD.judge(replace(FINE, **changes)).status == status  # type: ignore[arg-type]


def test_each_server_has_a_token_of_its_own() -> None:
    tokens = {Guard({HOST}).token for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) >= 32 for token in tokens)


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[str]:
    """`kshunt web`; yields the address that it printed."""
    command = [sys.executable, "-m", "backend", "web", *options]
    process = await asyncio.create_subprocess_exec(
        *command, "--listen", f"127.0.0.1:{free_ports(1)[0]}", cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        found = re.search(r"open (http://\S+)", line.decode())
        assert found is not None, line
        yield found[1]
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE_S)


class Page:
    """The terminal of a page: what a browser would show."""

    def __init__(self, terminal: ClientWebSocketResponse) -> None:
        self._terminal = terminal
        self._screen = Emulator(80, 24)

    async def resize(self, width: int, height: int) -> None:
        """The window becomes larger or smaller."""
        self._screen.resize(width, height)
        await self._terminal.send_json(["resize", {"width": width, "height": height}])

    async def press(self, keys: str) -> None:
        """Type."""
        await self._terminal.send_json(["stdin", keys])

    async def shows(self, text: str) -> None:
        """Wait until this text is on the screen."""
        async with asyncio.timeout(DEADLINE_S):
            while text not in self._screen.text():
                message = await self._terminal.receive()
                assert message.type in (WSMsgType.BINARY, WSMsgType.TEXT), self._screen.text()
                if message.type is WSMsgType.BINARY:
                    self._screen.write(message.data.decode())


async def test_a_session_in_a_browser(tmp_path: Path) -> None:
    async with (
        ScriptedBackend(tmp_path / "s", incident()) as backend,
        served("--backend", backend.address) as address,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser,
    ):
        base = address.partition("/?")[0]
        origin = {"Origin": base}
        stranger = await browser.get(f"{base}/")
        assert stranger.status == 401
        assert "holds the token" in await stranger.text()
        with pytest.raises(WSServerHandshakeError, match="401"):
            await browser.ws_connect(f"{base}/ws", headers=origin)
        opened = await browser.get(address)
        assert opened.status == 200
        assert str(opened.url) == f"{base}/", "the token does not stay in the address"
        assert "default-src 'self'" in opened.headers["Content-Security-Policy"]
        body = await opened.text()
        assert not re.search(r"https?://", body), "nothing is loaded from elsewhere"
        for path in re.findall(r'(?:src|href)="(/[^"]+[.](?:js|css))"', body):
            assert (await browser.get(base + path)).status == 200
        with pytest.raises(WSServerHandshakeError, match="403"):
            await browser.ws_connect(f"{base}/ws", headers={"Origin": "http://evil.example"})
        async with browser.ws_connect(f"{base}/ws?width=80&height=24", headers=origin) as terminal:
            page = Page(terminal)
            await page.shows("READ-ONLY")
            await page.press("2")
            await page.shows("audit-log")
            await page.resize(120, 40)
            await page.shows("Catch-up")
            await page.press("q")
            async with asyncio.timeout(DEADLINE_S):
                while not terminal.closed:
                    await terminal.receive()
        assert backend.changes == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "unix:/x", "--listen", "0.0.0.0:80"), "not a loopback address"),
        (("--backend", "unix:/x", "--listen", "nonsense"), "no HOST:PORT"),
        ((), "give either --bootstrap-server or --backend"),
    ],
)
def test_what_it_cannot_do_is_said(options: tuple[str, ...], words: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "backend", "web", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert ran.returncode != 0
    assert words in ran.stderr
