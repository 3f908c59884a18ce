"""Lets in who belongs: an ASGI layer before everything else that answers.

Goals
    Every request has a caller before anything of it is read, and is refused where the caller's role
    is not enough. What one backend passes on to another has the caller that it had there. One
    caller cannot take what others need.
Constraints
    A browser can be made to send requests to a loopback port by any page that it shows: without
    credentials only requests that no page can send are answered.
Algorithm
    1. A path that could mean two things (`kshunt.backend.api.http.paths`) is refused.
    2. A request that another backend passed on has the caller that its statement names
       (`kshunt.backend.api.forwarding.inbound`), or is refused.
    3. The socket of a file, and a loopback port without credentials: the caller is local. There a
       request whose `Host` is somebody else's, or that a web page sent, is refused.
    4. Otherwise the bearer token names the caller: one of the file's, or signed claims.
    5. The role that the route declares (`routes.Declared`) has to be among the caller's. What no
       route answers takes a viewer's, so that a stranger does not learn what there is.
    6. Each credential has a bucket of requests that fills at `Limits.requests_per_s`, and a limit
       of streams at the same time.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.access.refused_tokens import RefusedTokens, peer_of
from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import LOCAL, Caller, Role
from kshunt.backend.addresses import is_loopback
from kshunt.backend.api.client.sending.credential import TOKEN_BYTES_MAX
from kshunt.backend.api.forwarding.inbound import ForwardedRequests, is_passed_on
from kshunt.backend.api.forwarding.signatures import Reach
from kshunt.backend.api.http.paths import fault_of
from kshunt.backend.api.http.problems import problem
from kshunt.backend.api.http.route_roles import OPEN, Declared
from kshunt.backend.clock import Clock
from kshunt.backend.error_codes import (
    SASL_AUTHENTICATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
)
from kshunt.backend.errors import ConfigError
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.lease.lease_manager import BackendIdentity

log = logging.getLogger(__name__)

Application = Callable[[Any, Any, Any], Awaitable[None]]

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""Of `Sec-Fetch-Site`: what no page of another site sends. Every port has a site of its own here,
so `same-site` is another program's page on this machine."""
CALLERS_MAX: Final = 10_000
"""Buckets that are kept; the one that was used longest ago goes first."""


class Credentials(Protocol):
    """What bearer tokens mean."""

    async def caller(self, text: str) -> Caller | None:
        """Who holds a token; None where it lets nobody in."""
        ...


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """How a backend is reached, and what a caller has to show there."""

    by_file: bool = False
    """By a socket, which the mode of its file guards."""
    credentials: Sequence[Credentials] = ()
    """Those that count, each asked in turn; none: every client that reaches the port comes in."""
    for_group: bool = False
    """Whether a group may open the socket."""

    @property
    def reach(self) -> Reach | None:
        """Who comes in without a credential; None: nobody."""
        if not self.open:
            return None
        if not self.by_file:
            return Reach.HOST
        return Reach.GROUP if self.for_group else Reach.OWNER

    @property
    def open(self) -> bool:
        """Whether nobody is asked for credentials."""
        return self.by_file or not self.credentials


@dataclass(slots=True)
class _EndedStream:
    """Whether a stream was ended because its reader may not read any longer."""

    ended: bool = False


@dataclass(slots=True)
class _TokenBucket:
    left: float
    at_s: float


class AuthenticationLayer:
    """The layer; see the module's text."""

    def __init__(
        self,
        app: Application,
        declared: Declared,
        policy: AccessPolicy,
        clock: Clock,
        arrivals: ForwardedRequests | None = None,
    ) -> None:
        """`arrivals` takes in what other backends pass on; None: it is refused."""
        self._app = app
        self._arrivals = arrivals or ForwardedRequests(ClusterKeys.new(), _alone, None, clock)
        self._declared = declared
        self._policy = policy
        self._clock = clock
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()
        self._streams = Counter[str]()
        self._failed = RefusedTokens(clock)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "websocket":
            # No route is one, and nobody was asked who they are.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if fault := fault_of(scope):
            await _misspelt(fault)(scope, receive, send)
            return
        found = self._declared.of(scope)
        role, stream = (Role.VIEWER.value, False) if found is None else (found.role, found.stream)
        if is_passed_on(scope):
            arrival = await self._arrivals.take(scope, receive, send)
            scope, receive, send = arrival.scope, arrival.receive, arrival.send
            caller, refusal = arrival.caller, arrival.refusal or _short_of(arrival.caller, role)
        else:
            caller, refusal = await self._admitted(scope, role)
        if refusal is None and caller is not LOCAL and role != OPEN:
            refusal = self._too_much(caller, stream)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        mark = CURRENT_CALLER.set(caller)
        self._streams[caller.id] += stream
        struck = _EndedStream()
        if stream and caller is not LOCAL:
            send = self._while_valid(scope, role, send, struck)
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            if not struck.ended:
                raise
        finally:
            self._streams[caller.id] -= stream
            if not self._streams[caller.id]:
                del self._streams[caller.id]
            CURRENT_CALLER.reset(mark)

    def _while_valid(self, scope: Any, role: str, send: Any, struck: _EndedStream) -> Any:
        """`send`, which fails as if the reader had gone once its credential counts no more."""
        looked_s = self._clock.monotonic_s()

        async def sent(message: Any) -> None:
            nonlocal looked_s
            if self._clock.monotonic_s() - looked_s > LIMITS.credential_s:
                looked_s = self._clock.monotonic_s()
                if (await self._admitted(scope, role))[1] is not None:
                    struck.ended = True
                    raise OSError("the credential is not valid any more")
            await send(message)

        return sent

    async def _admitted(self, scope: Any, role: str) -> tuple[Caller, Response | None]:
        if self._policy.open:
            return LOCAL, _foreign(scope, by_file=self._policy.by_file)
        if role == OPEN:
            return LOCAL, None
        given, peer = _bearer(scope), peer_of(scope)
        if given and (wait_s := self._failed.wait_s(peer, given)):
            return LOCAL, _slower(f"Too many tokens from {peer} were rejected.", wait_s)
        try:
            for credentials in self._policy.credentials if given else ():
                caller = await credentials.caller(given)
                if caller is not None:
                    self._failed.passed(given)
                    return caller, _short_of(caller, role)
        except ConfigError as error:
            log.error("credentials cannot be checked: %s", error)
            return LOCAL, _unchecked()
        if given:
            self._failed.failed(peer, given)
        return LOCAL, _unknown(given)

    def _too_much(self, caller: Caller, stream: bool) -> Response | None:
        now_s = self._clock.monotonic_s()
        bucket = self._buckets.setdefault(caller.id, _TokenBucket(LIMITS.requests_at_once, now_s))
        self._buckets.move_to_end(caller.id)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        filled = bucket.left + (now_s - bucket.at_s) * LIMITS.requests_per_s
        bucket.left, bucket.at_s = min(filled, LIMITS.requests_at_once), now_s
        if stream and self._streams[caller.id] >= LIMITS.streams_per_caller:
            return _slower(f"{caller.name} has {LIMITS.streams_per_caller} streams open.", 5)
        if bucket.left < 1:
            return _slower(
                f"{caller.name} sends more than {LIMITS.requests_per_s:g} requests a second.", 1
            )
        bucket.left -= 1
        return None


def _alone() -> BackendIdentity:
    """A backend that no other one knows."""
    return BackendIdentity("", "", "", 0)


def _short_of(caller: Caller, role: str) -> Response | None:
    """The refusal of a caller whose role is not enough."""
    enough = role == OPEN or caller.role.may(Role(role))
    return None if enough else _forbidden(caller, role)


def _misspelt(fault: str) -> Response:
    return problem(
        400,
        "Invalid path",
        f"The path of the request {fault}. Nothing was done.",
        advice="Send paths as they are in /openapi.json.",
    )


def _bearer(scope: Any) -> str:
    """The token of a request; empty where it has none, or not exactly one."""
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(found) != 1 or len(found[0]) > TOKEN_BYTES_MAX:
        return ""
    scheme, _, text = found[0].decode("latin-1").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _foreign(scope: Any, *, by_file: bool) -> Response | None:
    """A refusal of what a web page of somebody else could have sent.

    A page reaches a socket too, where somebody has a tunnel from a port to it. Who connects to the
    socket itself names any host; a page that is rebound to the port names one with a dot.
    """
    headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
    hosts = [value for name, value in headers if name == b"host"]
    try:
        names = [urlsplit(f"//{host}").hostname or "" for host in hosts]
        local = all(is_loopback(name) or (by_file and "." not in name) for name in names)
    except ValueError:
        local = False
    if local and not any(_is_of_page(name, value) for name, value in headers):
        return None
    return problem(
        403,
        "Request from elsewhere",
        "The request is for another host, or a web page sent it.",
        advice="Use 127.0.0.1 or localhost, and do not use a browser.",
    )


def _is_of_page(name: bytes, value: str) -> bool:
    """Whether a header says that a web page of another site sent the request."""
    return name == b"origin" or (
        name == b"sec-fetch-site" and value.strip().lower() not in _OWN_SITES
    )


def _unknown(given: str) -> Response:
    detail = (
        "The token is not valid: unknown, expired or revoked."
        if given
        else "This backend needs a token, but the request has none."
    )
    answer = problem(
        401,
        "Unauthorized",
        detail,
        advice="Give a valid token by --token-file, --token-command or KSHUNT_TOKEN; `kshunt "
        "tokens` creates one.",
        kafka_code=SASL_AUTHENTICATION_FAILED,
    )
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def _unchecked() -> Response:
    return problem(
        503,
        "No credential can be checked",
        "This backend cannot read its file of tokens.",
        advice="See its log. Changes that it has started continue.",
        retriable=True,
    )


def _forbidden(caller: Caller, role: str) -> Response:
    return problem(
        403,
        "Not allowed",
        f"{caller.name} has the role {caller.role}, but this request needs {role}. Nothing was "
        "done.",
        advice="Ask a person with that role, or ask for another role.",
        kafka_code=TOPIC_AUTHORIZATION_FAILED,
    )


def _slower(detail: str, retry_s: int) -> Response:
    answer = problem(429, "Too many requests", detail, advice="Try again later.", retriable=True)
    answer.headers["retry-after"] = str(retry_s)
    return answer
