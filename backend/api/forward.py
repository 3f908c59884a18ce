"""Passes changes on to the backend that acts, so that any backend of a cluster can be asked.

Goals
    An operator need not know which of several backends acts. Where a change cannot be passed on,
    the answer says who acts, where, since when, and what to do.
Constraints
    A path of a Unix socket, or a loopback address, means something on its own host only. A change
    must not go round between backends, nor reach a backend that took over another's address.
Algorithm
    An ASGI layer. Reads, and changes while no other backend acts, go to the application; what a
    proposal would do counts as a change, for it has to be what the one that acts finds. Any other
    change goes on once, as it came, with the ids of the sender and of the backend that is meant;
    who gets one that is not for it, or that it cannot carry out itself, refuses it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import httpx
from fastapi.responses import Response

from backend.api.bearer import trusted
from backend.api.problems import problem
from backend.operations.journal_codec import Heartbeat
from backend.operations.keeper import GLANCE_S, Self

FORWARDED_TO: Final = "kshunt-forwarded-to"
"""In a request the id of the backend that is meant; in an answer, the address it came from."""
FORWARDED_BY: Final = "kshunt-forwarded-by"
"""In a request: the id of the backend that passed it on."""
DECIDE_S: Final = 8.0
"""So long a backend that has just started may need to see whether another one lives."""
CONNECT_S: Final = 3.0

_READS: Final = frozenset(
    {
        "/v1/reassignments/progress",
        "/v1/reassignments/generate",
        "/v1/replicas/status",
        "/v1/topics/describe",
        "/v1/plans",
        "/v1/rehearsals",
        "/v1/presence",
    }
)
_ACTORS: Final = re.compile(r"/v1/proposals/[^/]+/preview")
"""What an approval is held against. Backends may have seen different things of a broker that is
gone, so that only who would carry it out can say."""
_ENDS: Final = frozenset({"preview"})
"""The last step of paths that only say what a change would do."""
_HOP: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that belong to one connection."""

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Leadership(Protocol):
    """Who acts; `backend.operations.keeper.Keeper` knows."""

    @property
    def me(self) -> Self:
        """This backend."""

    @property
    def patience_s(self) -> float:
        """For how much longer the one that acts has to be silent for this one to take over."""

    async def other(self, timeout_s: float) -> Heartbeat | None:
        """The other backend that acts, if any."""


def is_change(method: str, path: str, document: Any) -> bool:
    """Whether a request may change the cluster, by all that it says."""
    if method in ("GET", "HEAD", "OPTIONS") or not path.startswith("/v1/"):
        return False
    if path in _READS or path.rsplit("/", 1)[-1] in _ENDS:
        return False
    asks = document if isinstance(document, dict) else {}
    only_looks = path == "/v1/reassignments/verify" and asks.get("preserve_throttles") is True
    return not only_looks and asks.get("validate_only") is not True


def _is_for_actor(scope: Any, document: Any) -> bool:
    """Whether a request belongs to the backend that acts."""
    changes = is_change(scope["method"], scope["path"], document)
    return changes or _ACTORS.fullmatch(scope["path"]) is not None


class Forward:
    """The layer; see the module's text."""

    def __init__(self, app: Application, leadership: Leadership) -> None:
        self._app = app
        self._leadership = leadership

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request here, or have it answered where it belongs."""
        if scope["type"] != "http" or not _is_for_actor(scope, None):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        sender, meant = (
            headers.get(name.encode(), b"").decode("latin-1")
            for name in (FORWARDED_BY, FORWARDED_TO)
        )
        other = await self._leadership.other(DECIDE_S)
        if sender and (other is not None or meant != self._leadership.me.backend):
            await self._returned(sender, other)(scope, receive, send)
        elif other is None:
            await self._app(scope, receive, send)
        else:
            await self._pass_on(other, scope, receive, send)

    async def _pass_on(self, other: Heartbeat, scope: Any, receive: Any, send: Any) -> None:
        body = await _read(receive)
        if body is None:
            return
        if not _is_for_actor(scope, _document(body)):
            await self._app(scope, _replayed(body, receive), send)
            return
        reason = unreachable(self._leadership.me, other)
        if reason:
            await self._refused(other, reason)(scope, receive, send)
            return
        asking = asyncio.create_task(self._answered(other, scope, body))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return
            answer = asking.result()
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)
        if answer is None:
            await self._app(scope, _replayed(body, receive), send)
        else:
            await answer(scope, receive, send)

    async def _answered(self, other: Heartbeat, scope: Any, body: bytes) -> Response | None:
        """The answer of whoever acts; None where that is nobody else any more.

        One that cannot be reached may have ended a moment ago: then another takes its place.
        """
        answer, reached = await self._asked(other, scope, body)
        if reached:
            return answer
        give_up_s = asyncio.get_running_loop().time() + DECIDE_S
        while present := await self._leadership.other(DECIDE_S):
            if present.backend != other.backend:
                answer, _ = await self._asked(present, scope, body)
                return answer
            if asyncio.get_running_loop().time() > give_up_s:
                return answer
            await asyncio.sleep(GLANCE_S)
        return None

    async def _asked(self, other: Heartbeat, scope: Any, body: bytes) -> tuple[Response, bool]:
        """The answer of one backend, and whether it was reached."""
        url, transport = _reached_at(other.address)
        # An answer may take as long as a paced election; who asks has a timeout of its own.
        timeout = httpx.Timeout(None, connect=CONNECT_S)
        headers = [(name, value) for name, value in scope["headers"] if name not in _HOP]
        headers.append((FORWARDED_BY.encode(), self._leadership.me.backend.encode()))
        headers.append((FORWARDED_TO.encode(), other.backend.encode()))
        try:
            async with httpx.AsyncClient(
                base_url=url, transport=transport, timeout=timeout, trust_env=False
            ) as client:
                answer = await client.request(
                    scope["method"], _target(scope), content=body, headers=headers
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as failed:
            return self._refused(other, f"it cannot be reached ({failed or 'no answer'})"), False
        except (httpx.HTTPError, OSError) as failed:
            return _doubtful(other, str(failed) or type(failed).__name__), True
        return _relayed(answer, other), True

    def _refused(self, other: Heartbeat, reason: str) -> Response:
        patience_s = max(1, round(self._leadership.patience_s))
        return problem(
            409,
            "Another backend acts",
            f"Backend {other.backend} acts for this cluster, on host {other.host}, at "
            f"{other.address}, since {_since(other)}. The change was not passed on to it: {reason}."
            " Nothing was changed.",
            advice=f"Run your tool there, with --backend {other.address}, or stop that backend: "
            f"this one takes over {patience_s} s after it is gone.",
            kafka_code=60,
        )

    def _returned(self, sender: str, other: Heartbeat | None) -> Response:
        acts = "" if other is None else f" {other.backend} acts, at {other.address}."
        return problem(
            409,
            "Not the backend that was meant",
            f"Backend {sender} passed this change on to {self._leadership.me.backend}, which was "
            f"not meant or does not act any more.{acts} Nothing was changed.",
            advice="Try again: the backends of this cluster are changing places.",
            kafka_code=60,
            retriable=True,
        )


def unreachable(me: Self, other: Heartbeat) -> str:
    """Why another backend's address cannot be one here; empty where it can."""
    if other.address.startswith("unix:"):
        local = "that is a socket of its own host"
    elif not other.address.startswith(("http://", "https://")):
        return "that is no address of a backend"
    elif _is_own(other.address):
        local = "that address is good on its own host only"
    else:
        return ""
    return "" if me.shares_host_with(other) else f"{local}, and this backend runs on {me.host}"


def _is_own(address: str) -> bool:
    """Whether an address means the machine that it is used on."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def _reached_at(address: str) -> tuple[str, httpx.AsyncHTTPTransport]:
    if address.startswith("unix:"):
        # No TLS runs over the socket.
        path = address.removeprefix("unix:")
        return "http://kshunt", httpx.AsyncHTTPTransport(uds=path, verify=False)
    verify = trusted() if address.startswith("https:") else False
    return address, httpx.AsyncHTTPTransport(verify=verify)


def _target(scope: Any) -> str:
    path = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("ascii", "replace")
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _relayed(answer: httpx.Response, other: Heartbeat) -> Response:
    kept = ("content-type", "retry-after", "allow")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    headers[FORWARDED_TO] = quote(other.address, safe="/:[]")
    return Response(answer.content, answer.status_code, headers=headers)


def _doubtful(other: Heartbeat, reason: str) -> Response:
    return problem(
        502,
        "The acting backend did not answer",
        f"The change was passed on to backend {other.backend} on host {other.host}, at "
        f"{other.address}, and no answer came back ({reason}).",
        advice="It may have been carried out: look at the operations before asking again.",
        kafka_code=7,
    )


def _since(other: Heartbeat) -> str:
    try:
        started = datetime.fromtimestamp(other.started_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{other.started_ms} ms"
    return started.strftime("%Y-%m-%d %H:%M:%S UTC")


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _read(receive: Any) -> bytes | None:
    """The whole body, or None where the client went away."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Any) -> Any:
    """A `receive` that gives a body that was read already, and then what comes after it."""
    first: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return first.pop() if first else await receive()

    return again


async def _gone(receive: Any) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
