"""The dashboard in a browser: who is let in, and a whole session over a real socket."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from aiohttp import (
    ClientResponse,
    ClientSession,
    ClientWebSocketResponse,
    CookieJar,
    DummyCookieJar,
    WSMsgType,
    WSServerHandshakeError,
)
from yarl import URL

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.tui.web.guard import Guard, WebRequest
from tests.support.foreign_module import PLANTED
from tests.support.paths import ROOT
from tests.support.ports import free_ports
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import START_MS, ScriptedCluster, incident, running_move
from tests.support.tui.screen import Emulator

DEADLINE_S = 60.0
AGAIN_S = 5.0
"""The test waits this long before it presses a key again that did nothing."""
CTRL_U = "\x15"
"""Empties a field."""
PORT = 8096
HOST = f"127.0.0.1:{PORT}"
INSIDE = "/s0/"
"""The folder of a guard whose secrets are s0, s1, ..."""
FINE = WebRequest(f"{INSIDE}ws", HOST, f"http://{HOST}", None, "s2", terminal=True)


def guarding(*, secure: bool = False) -> Guard:
    """A guard whose folder is s0, whose first token is s1, and whose first session will be s3."""
    numbers = itertools.count()
    return Guard(
        {HOST, f"localhost:{PORT}"}, PORT, secure=secure, secret=lambda: f"s{next(numbers)}"
    )


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"path": INSIDE, "origin": None, "terminal": False}, 200),
        ({"origin": f"http://localhost:{PORT}"}, 200),
        ({"path": "/", "cookie": None, "token": "s2"}, 303),
        ({"path": "/", "cookie": None, "token": "wrong"}, 401),
        ({"path": "/", "cookie": None, "token": ""}, 401),
        ({"path": "/", "cookie": None, "token": "geheimnis\u00df"}, 401),
        ({"path": "/", "cookie": None, "token": "\ud800"}, 401),
        ({"path": "/"}, 401),
        ({"cookie": None}, 401),
        ({"cookie": "s"}, 401),
        ({"cookie": ""}, 401),
        # A token is no session, and a session is no token.
        ({"cookie": "s2"}, 401),
        ({"path": "/", "token": "s3"}, 401),
        ({"path": f"{INSIDE}static/js/textual.js", "cookie": None}, 401),
        # Only below the folder whose name other servers on this host do not know.
        ({"path": "/ws"}, 401),
        ({"path": "/s0"}, 401),
        ({"cookie": None, "token": "s2"}, 401),
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": f"http://{HOST}.evil.example"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": ""}, 421),
    ],
)
def test_who_is_let_in(changes: Mapping[str, str | None], status: int) -> None:
    guard = guarding()
    assert guard.judge(WebRequest("/", HOST, None, "s1", None)).session == "s3"
    assert guard.token == "s2"
    asked = replace(FINE, **{"cookie": "s3", **changes})  # type: ignore[arg-type]
    assert guard.judge(asked).status == status


def test_a_token_lets_one_browser_in() -> None:
    guard = guarding()
    first = WebRequest("/", HOST, None, guard.token, None)
    assert guard.judge(first).status == 303
    assert guard.judge(first).status == 401
    second = guard.judge(replace(first, token=guard.token))
    assert second.status == 303
    assert guard.judge(replace(FINE, cookie=second.session)).status == 200


def test_each_server_has_secrets_of_its_own() -> None:
    guards = [Guard({HOST}, PORT) for _ in range(50)]
    secrets = {text for one in guards for text in (one.token, one.folder)}
    assert len(secrets) == 100
    assert all(len(text) >= 40 for text in secrets)
    assert guards[0].judge(WebRequest("/", HOST, None, guards[1].token, None)).status == 401


def test_over_tls_the_cookie_and_the_page_are_for_tls_alone() -> None:
    assert guarding(secure=True).cookie == f"__Secure-kshunt-{PORT}"
    assert guarding().cookie == f"kshunt-{PORT}"
    assert guarding(secure=True).origins == {f"https://{HOST}", f"https://localhost:{PORT}"}


@asynccontextmanager
async def served(*options: str, cwd: Path = ROOT) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """`kshunt web`; yields what waits for the next address that it prints."""
    # As the installed command does it: the working directory is no place to look for modules.
    command = [sys.executable, "-P", "-m", "kshunt", "web", *options]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--listen",
        f"127.0.0.1:{free_ports(1)[0]}",
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
    )

    async def address() -> str:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        found = re.search(r"open (http://\S+)", line.decode())
        assert found is not None, line
        return found[1]

    try:
        yield address
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE_S)


class Page:
    """The terminal of a page: what a browser would show."""

    def __init__(
        self, terminal: ClientWebSocketResponse, width: int = 80, height: int = 24
    ) -> None:
        self._terminal = terminal
        self._screen = Emulator(width, height)

    async def resize(self, width: int, height: int) -> None:
        """The window becomes larger or smaller."""
        self._screen.resize(width, height)
        await self._terminal.send_json(["resize", {"width": width, "height": height}])

    async def press(self, keys: str) -> None:
        """Type."""
        await self._terminal.send_json(["stdin", keys])

    async def shows(self, text: str) -> None:
        """Wait until this text is on the screen."""
        until_s = asyncio.get_running_loop().time() + DEADLINE_S
        while text not in self._screen.text():
            assert await self._told(until_s) is None, self._screen.text()

    async def opens(self, key: str) -> str:
        """Press a key until the page is told to open an address.

        A question is not answered by a key that comes while it is being painted.
        """
        until_s = asyncio.get_running_loop().time() + DEADLINE_S
        said: str | None = None
        while said is None:
            await self.press(key)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    while (said := await self._told(until_s)) is None:
                        pass
        kind, about = json.loads(said)
        assert kind == "open_url"
        return str(about["url"])

    async def _told(self, until_s: float) -> str | None:
        """What the page is told next; None, and it is painted, where that is for the screen."""
        try:
            async with asyncio.timeout_at(until_s):
                message = await self._terminal.receive()
        except TimeoutError:
            raise AssertionError(f"too late, the page shows:\n{self._screen.text()}") from None
        assert message.type in (WSMsgType.BINARY, WSMsgType.TEXT), self._screen.text()
        if message.type is WSMsgType.TEXT:
            return str(message.data)
        self._screen.write(message.data.decode())
        return None


async def test_a_session_in_a_browser(tmp_path: Path) -> None:
    async with (
        ScriptedBackend(tmp_path / "s", incident()) as backend,
        served("--backend", backend.address) as printed,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser,
    ):
        address = await printed()
        base = address.partition("/?")[0]
        origin = {"Origin": base}
        stranger = await browser.get(f"{base}/")
        assert stranger.status == 401
        assert "does not give access" in await stranger.text()
        opened = await browser.get(address)
        assert opened.status == 200
        inside = str(opened.url)
        assert inside.startswith(f"{base}/")
        assert "token" not in inside, "the token does not stay in the address"
        assert "default-src 'self'" in opened.headers["Content-Security-Policy"]
        body = await opened.text()
        assert not re.search(r"https?://", body), "nothing is loaded from elsewhere"
        for path in re.findall(r'(?:src|href)="([^"]+[.](?:js|css))"', body):
            assert (await browser.get(inside + path)).status == 200
        evil = {"Origin": "http://evil.example"}
        with pytest.raises(WSServerHandshakeError, match="403"):
            await browser.ws_connect(f"{inside}ws", headers=evil)
        terminal_at = f"{inside}ws?width=80&height=24"
        async with browser.ws_connect(terminal_at, headers=origin) as terminal:
            page = Page(terminal)
            await page.shows("READ-ONLY")
            await page.press("2")
            await page.shows("following")
            await page.press("f")
            await page.shows("audit-log")
            await page.resize(120, 40)
            await page.shows("Catch-up")
            await page.press("q")
            async with asyncio.timeout(DEADLINE_S):
                while not terminal.closed:
                    await terminal.receive()
        assert backend.changes == []


async def test_the_cookie_is_a_session_that_other_servers_of_the_host_are_not_sent(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedBackend(tmp_path / "s", incident()) as backend,
        served("--backend", backend.address) as printed,
        ClientSession(cookie_jar=DummyCookieJar()) as browser,
    ):
        address = await printed()
        base, _, query = address.partition("/?")
        token = query.partition("=")[2]
        welcome = await browser.get(address, allow_redirects=False)
        (cookie,) = welcome.cookies.values()
        assert token not in cookie.value
        assert cookie.key == f"kshunt-{base.rpartition(':')[2]}"
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        # A browser sends a cookie to every port of a host, but only for this folder.
        folder = welcome.headers["Location"]
        assert cookie["path"] == folder
        assert len(folder) > 40
        again = await browser.get(address, allow_redirects=False)
        assert again.status == 401, "an address is good for one browser"
        sent = {"Cookie": f"{cookie.key}={cookie.value}"}
        assert (await browser.get(base + folder, headers=sent)).status == 200
        stolen = {"Cookie": f"{cookie.key}={token}"}
        assert (await browser.get(base + folder, headers=stolen)).status == 401
        second = await browser.get(await printed(), allow_redirects=False)
        assert second.status == 303
        assert second.cookies[cookie.key].value != cookie.value


async def test_a_folder_of_the_working_directory_is_not_run(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for package in ("kshunt", "backend", "textual"):
        (here / package).mkdir(parents=True)
        (here / package / "__init__.py").write_text(PLANTED)
        (here / package / "__main__.py").write_text(PLANTED)
    async with (
        ScriptedBackend(tmp_path / "s", incident()) as backend,
        served("--backend", backend.address, cwd=here) as printed,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser,
    ):
        opened = await browser.get(await printed())
        origin = {"Origin": str(opened.url.origin())}
        async with browser.ws_connect(f"{opened.url}ws", headers=origin) as terminal:
            await Page(terminal).shows("READ-ONLY")
    assert list(here.rglob("was-run")) == []


@asynccontextmanager
async def opened_page(
    socket: Path, cluster: ScriptedCluster, here: Path, audit: Sequence[tuple[str, AuditLine]] = ()
) -> AsyncIterator[tuple[Page, Callable[[str], Awaitable[ClientResponse]]]]:
    """A page of 120x40 on the dashboard in a browser, and what fetches its addresses."""
    async with (
        ScriptedBackend(socket, cluster) as backend,
        served("--backend", backend.address, cwd=here) as printed,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser,
    ):
        backend.audit = list(audit)
        opened = await browser.get(await printed())
        origin = {"Origin": str(opened.url.origin())}
        async with browser.ws_connect(
            f"{opened.url}ws?width=120&height=40", headers=origin
        ) as terminal:
            page = Page(terminal, 120, 40)
            await page.shows("READ-ONLY")
            yield page, lambda address: browser.get(opened.url.join(URL(address)))


async def test_what_a_browser_writes_is_downloaded(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    cluster = incident()
    running_move(cluster)
    audit = [("op-1", AuditLine(START_MS, "started"))]
    async with opened_page(tmp_path / "s", cluster, here, audit) as (page, fetched):
        await page.shows("op-1")
        await page.press("5")
        await page.shows("w write audit")
        await page.press("w")
        await page.shows("[1 Goal]")
        await page.press("\r")
        await page.shows("[2 Choices]")
        await page.press("\r")
        await page.shows("Validated, nothing changed yet")
        await page.shows("y: Write it")
        address = await page.opens("y")
        got = await fetched(address)
        assert got.status == 200
        assert "attachment" in got.headers["Content-Disposition"]
        assert "started" in await got.text()
    assert list(here.iterdir()) == []


async def test_a_table_is_downloaded_in_figures(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    async with opened_page(tmp_path / "s", incident(), here) as (page, fetched):
        await page.press("3")
        await page.shows("up, controller")
        await page.press("E")
        await page.shows("Enter downloads it, Esc downloads nothing")
        await page.press(f"{CTRL_U}../brokers.parquet")
        await page.shows("../brokers.parquet")
        await page.press("\r")
        await page.shows("Type a name for the download")
        await page.press(f"{CTRL_U}brokers.parquet")
        await page.shows("> brokers.parquet")
        address = await page.opens("\r")
        got = await fetched(address)
        assert got.status == 200
        assert "brokers.parquet" in got.headers["Content-Disposition"]
        table = pq.read_table(io.BytesIO(await got.read()))
    assert table["Broker"].to_pylist() == [1, 2, 3, 4, 5]
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "unix:/x", "--listen", "0.0.0.0:80"), "not a loopback address"),
        (("--backend", "unix:/x", "--listen", "nonsense"), "not in the form HOST:PORT"),
        ((), "give either --bootstrap-server, --backend or --context"),
    ],
)
def test_what_it_cannot_do_is_said(options: tuple[str, ...], words: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "kshunt", "web", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert ran.returncode != 0
    assert words in ran.stderr
