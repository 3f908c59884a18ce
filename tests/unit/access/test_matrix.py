"""Nobody gets more than their role: every route, caller, way in and backend, and paths in disguise.

The cases are generated from the routes that are declared. For each request that reaches an
application, the test asks which routes its path could mean to the most careless reader. That reader
reads escapes twice, folds characters and case, drops parameters, and resolves dots.
"""

from __future__ import annotations

import posixpath
import re
import socket
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from fastapi.routing import APIRoute

from kshunt.backend.access.roles import LOCAL, Caller, Role
from kshunt.backend.api.http.route_roles import OPEN, ROLE
from kshunt.backend.api.server.authentication import AccessPolicy
from tests.support.access.forward import Application, Place, Tokens, at, beat, call, gated, real_app

pytestmark = pytest.mark.slow

HELD = ("", *(role.value for role in Role))
"""Tokens; the empty one is no credential."""
DOORS = ("socket", "open", "tokens", "two-person")
ASKS = frozenset({"tokens", "two-person"})
"""Those that ask for a credential."""


@dataclass(frozen=True)
class Case:
    """One request as it comes over the wire."""

    raw_path: bytes
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    plain: bool = False
    """Whether it is what a client of ours would send."""


def _middle(path: str, inserted: str) -> bytes:
    """A path with something after its first step."""
    first, _, rest = path[1:].partition("/")
    return f"/{first}/{inserted}/{rest}".encode()


def _headers(*pairs: tuple[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode()) for name, value in pairs)


VARIANTS: dict[str, Callable[[str], Case]] = {
    "plain": lambda path: Case(path.encode(), plain=True),
    "two dots": lambda path: Case(_middle(path, "x/..")),
    "one dot": lambda path: Case(_middle(path, ".")),
    "escaped dots": lambda path: Case(_middle(path, "x/%2e%2e")),
    "escaped dots, upper case": lambda path: Case(_middle(path, "x/%2E%2E")),
    "dots escaped twice": lambda path: Case(_middle(path, "x/%252e%252e")),
    "full-width dots": lambda path: Case(_middle(path, "x/%EF%BC%8E%EF%BC%8E")),
    "two-dot leader": lambda path: Case(_middle(path, "x/%E2%80%A5")),
    "escaped slash": lambda path: Case(path.encode()[:1] + path.encode()[1:].replace(b"/", b"%2f")),
    "escaped slash and dots": lambda path: Case(b"/v1/cluster%2f..%2f.." + path.encode()),
    "backslash": lambda path: Case(path.encode().replace(b"/", b"\\")),
    "escaped backslash": lambda path: Case(b"/v1/cluster%5c..%5c.." + path.encode()),
    "double slash": lambda path: Case(_middle(path, "")),
    "two slashes first": lambda path: Case(b"/" + path.encode()),
    "another host first": lambda path: Case(b"//127.0.0.1" + path.encode()),
    "absolute": lambda path: Case(b"http://127.0.0.1" + path.encode()),
    "trailing slash": lambda path: Case(path.encode() + b"/"),
    "trailing dot": lambda path: Case(path.encode() + b"/."),
    "parameters": lambda path: Case(path.encode() + b";a=b"),
    "parameters and dots": lambda path: Case(_middle(path, "x/..;a=b")),
    "mixed case": lambda path: Case(path.swapcase().encode()),
    "a letter escaped": lambda path: Case(path.encode()[:-1] + b"%%%02x" % path.encode()[-1]),
    "NUL": lambda path: Case(path.encode() + b"%00"),
    "a new line": lambda path: Case(path.encode() + b"%0d%0aX-Role:%20admin"),
    "a fragment": lambda path: Case(b"/v1/cluster#/.." + path.encode()),
    "a path in the query": lambda path: Case(
        b"/v1/cluster", b"/../../" + path.encode() + b"&_method=POST%0d%0aX: y"
    ),
    "another method": lambda path: Case(
        path.encode(), b"_method=POST", _headers(("x-http-method-override", "POST"))
    ),
    "another URL": lambda path: Case(
        b"/v1/cluster", b"", _headers(("x-original-url", path), ("x-rewrite-url", path))
    ),
    "somebody else": lambda path: Case(
        path.encode(),
        b"",
        _headers(
            ("x-forwarded-user", "root"), ("forwarded", "for=::1"), ("x-kshunt-role", "admin")
        ),
    ),
    "forwarded": lambda path: Case(
        path.encode(),
        b"",
        _headers(
            *(("kshunt-forwarded-by", "other"), ("kshunt-forwarded-to", "acting")),
            ("kshunt-forwarded-statement", "e30=.00000000." + "0" * 64),
        ),
    ),
    "two credentials": lambda path: Case(
        path.encode(), b"", _headers(("authorization", "Bearer admin"))
    ),
}


HARMLESS = (
    *("plain", "mixed case", "a letter escaped", "a path in the query", "another method"),
    *("another URL", "somebody else", "forwarded", "two credentials"),
)
DISGUISES = sorted(set(VARIANTS) - set(HARMLESS))
"""Variants that no path may have."""


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of each route, filled in."""
    for route in real_app().routes:
        if isinstance(route, APIRoute):
            path = re.sub(r"\{[^}]+\}", "orders", route.path_format)
            yield from ((method, path) for method in sorted(route.methods or ()))


def careless(target: str) -> str:
    """A path as the most careless reader takes it."""
    text = unicodedata.normalize("NFKC", unquote(unquote(target))).replace("\\", "/")
    text = re.sub(r"^[a-z]+://[^/]*", "", text, flags=re.IGNORECASE)
    text = re.sub(r";[^/]*", "", text.partition("#")[0].partition("?")[0]).replace("\0", "")
    return posixpath.normpath("/" + text.lstrip("/")).lower()


def needed(method: str, path: str) -> str:
    """The highest role of the routes with this path; `OPEN` where there is none."""
    rank = {OPEN: 0, **{role.value: at for at, role in enumerate(Role, 1)}}
    found = [
        str((route.openapi_extra or {}).get(ROLE, Role.ADMIN.value))
        for route in real_app().routes
        if isinstance(route, APIRoute)
        and method in (route.methods or ())
        and route.path_regex.match(path)
    ]
    return max(found, key=lambda role: rank[role], default=OPEN)


def policy_of(name: str) -> AccessPolicy:
    return AccessPolicy(name == "socket", (Tokens(),) if name in ASKS else ())


def place_of(name: str, way_in: str, folder: Path) -> Place:
    """Where a backend is reached; its socket is there."""
    address = "http://127.0.0.1:1"
    if way_in == "socket":
        path = folder / name
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        address = f"unix:{path}"
    rule = ("shrink", "unclean") if way_in == "two-person" else ()
    return Place(at(name, address, demands_credentials=way_in in ASKS, two_person=rule))


def credential(case: Case, held: str) -> str:
    """The token of a request; none where it has more than one."""
    shown = [held] if held else []
    shown += [value.decode().split()[1] for name, value in case.headers if name == b"authorization"]
    return shown[0] if len(shown) == 1 else ""


def caller_of(way_in: str, held: str) -> Caller | None:
    """The caller of a way in, with the role that is held; None if a credential is missing."""
    if way_in not in ASKS:
        return LOCAL
    return Caller(f"the {held}", Role(held), f"token-{held}") if held else None


class Setting:
    """A backend that is asked, and perhaps another one that acts."""

    def __init__(self, asked: str, active: str, folder: Path) -> None:
        self.asked, self.active = asked, active
        self.here, self.there = Application("asked"), Application("acting")
        place = place_of("asked", asked, folder)
        if active:
            actor = place_of("acting", active, folder)
            place.active = beat(actor.me)
            other = gated(self.there, actor, policy_of(active))
            self.layer = gated(
                *(self.here, place, policy_of(asked)),
                reached=lambda _: ("http://kshunt", httpx.ASGITransport(other)),
            )
        else:
            self.layer = gated(self.here, place, policy_of(asked))

    @property
    def is_laxer(self) -> bool:
        """Whether who acts demands less than who is asked, or takes no caller without a name."""
        ranks = {"open": 0, "socket": 1, "tokens": 2, "two-person": 3}
        lets_fewer_in = self.active in ASKS or self.active == "socket"
        unnamed = self.asked not in ASKS
        crosses = unnamed and (self.active in ASKS or (self.asked == "open" and lets_fewer_in))
        loses = self.asked in ASKS and ranks[self.active] < ranks[self.asked]
        return crosses or loses

    async def ask(self, method: str, case: Case, held: str) -> int:
        """The status of the answer."""
        shown = _headers(("authorization", f"Bearer {held}")) if held else ()
        body = b'{"who": "mallory", "reason": "x"}'
        # A bucket of its own for each request: how often one may ask is not the question here.
        self.layer._buckets.clear()
        answer = await call(
            *(self.layer, method, case.raw_path),
            query=case.query,
            headers=(*shown, *case.headers, (b"content-type", b"application/json")),
            body=body,
        )
        return answer.status

    def check(self, method: str, case: Case, held: str, name: str) -> None:
        """Each request that an application got is within the caller's role and in their name."""
        about = (method, case.raw_path, held or "nobody", name, self.asked, self.active)
        expected = caller_of(self.asked, credential(case, held))
        for app in (self.here, self.there):
            for one in app.requests:
                # The application reads a path exactly; what is sent on may meet another reader.
                path = one.path if app is self.here else careless(one.path)
                role = needed(one.method, path)
                if role == OPEN and app is self.here:
                    continue
                assert one.caller == expected, about
                assert one.caller.role.may(Role(role)), about
                assert app is self.here or not self.is_laxer, about
                assert app is self.here or posixpath.normpath(one.path) == one.path, about
                sent = {header for header, _ in one.headers}
                assert app is self.here or not sent & {"authorization", "cookie"}, about
        self.here.requests.clear()
        self.there.requests.clear()


SETTINGS = [(asked, active) for asked in DOORS for active in ("", *DOORS)]


@pytest.mark.parametrize(("asked", "active"), SETTINGS)
async def test_nobody_gets_more_than_their_role(asked: str, active: str, tmp_path: Path) -> None:
    setting = Setting(asked, active, tmp_path)
    handed_on = answered = 0
    for method, path in routes():
        for name, variant in VARIANTS.items():
            for held in HELD:
                case = variant(path)
                status = await setting.ask(method, case, held)
                handed_on += len(setting.there.requests)
                answered += case.plain and status == 202
                setting.check(method, case, held, name)
    assert answered
    assert (handed_on > 0) == (bool(active) and not setting.is_laxer)


@pytest.mark.parametrize("asked", DOORS)
async def test_a_path_in_disguise_is_refused_before_anything_else(
    asked: str, tmp_path: Path
) -> None:
    setting = Setting(asked, "", tmp_path)
    for method, path in routes():
        for name in DISGUISES:
            case = VARIANTS[name](path)
            if case.raw_path == path.encode():
                # A path of one step has no slash to hide.
                continue
            status = await setting.ask(method, case, "admin")
            assert status == 400, (method, path, name)
            assert not setting.here.requests


@pytest.mark.parametrize("held", [role.value for role in Role])
async def test_whoever_may_is_answered_by_the_backend_that_acts(held: str, tmp_path: Path) -> None:
    setting = Setting("tokens", "tokens", tmp_path)
    for method, path in routes():
        role = needed(method, path)
        status = await setting.ask(method, VARIANTS["plain"](path), held)
        may = role == OPEN or Role(held).may(Role(role))
        assert status == (202 if may else 403), (method, path)
        moved = [one.caller for one in setting.there.requests]
        assert len(moved) <= 1
        if may and role not in (OPEN, Role.VIEWER):
            assert moved == [caller_of("tokens", held)], (method, path)
        setting.there.requests.clear()
