"""Passes changes on to the backend that acts, so that any backend of a cluster can be asked.

Goals
    An operator need not know which of several backends acts. Where a change cannot be passed on,
    the answer says who acts, where, since when, and what to do. Who asks, and their role, are the
    same at the backend that acts.
Constraints
    A path of a Unix socket, or a loopback address, means something on its own host only. A change
    must not go round between backends, nor reach a backend that took over another's address, nor
    one that demands less of callers than this one. A credential never leaves the backend that it
    was shown to.
Algorithm
    An ASGI layer behind the gate. Reads, and changes while no other backend acts, go to the
    application. If no backend acts, this one tries to; if another was first, it passes the request
    on. What a proposal would do counts as a change, for it has to be what the one that acts finds.
    Any other change is forwarded once. This layer makes its path anew from its route, and its query
    from its parameters. It sends only the headers in `PASSED`, and a signed statement of who asks
    (`kshunt.backend.api.forwarding.signatures`). An answer that the active backend did not
    sign is dropped. `kshunt.backend.api.forwarding.inbound` is the other end,
    `kshunt.backend.api.forwarding.peers` says which address is used.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx
from fastapi.responses import Response

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import LOCAL
from kshunt.backend.api.forwarding.inbound import SENDER, returned, site_of
from kshunt.backend.api.forwarding.peers import (
    ForeignSocket,
    Origin,
    check_listener,
    reached_at,
    unreachable,
)
from kshunt.backend.api.forwarding.signatures import (
    ANSWER_SIGNED,
    SIGNED_HEADERS,
    STATEMENT,
    AnswerStatement,
    Reach,
    Statement,
    digest_of,
    signed,
)
from kshunt.backend.api.http.body_replay import buffer_body, replayed
from kshunt.backend.api.http.paths import rebuilt_query
from kshunt.backend.api.http.problems import problem
from kshunt.backend.api.http.route_roles import Declaration, Declared
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.error_codes import REASSIGNMENT_IN_PROGRESS, REQUEST_TIMED_OUT
from kshunt.backend.errors import KshuntError, NotActive
from kshunt.backend.operations.journal.entries import Heartbeat
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.lease.lease_manager import GLANCE_S, BackendIdentity

log = logging.getLogger(__name__)

FORWARDED_TO: Final = "kshunt-forwarded-to"
"""In an answer: the address that it came from."""
PASSED: Final = ("content-type", "accept", "idempotency-key")
"""Headers that a forwarded request keeps; of each the first."""
DECIDE_S: Final = 8.0
"""A backend that has just started may need this long to see whether another one lives."""
BEGIN_S: Final = 15.0
"""A backend tries for this long to be the one that acts."""
CONNECT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
TARGET_MAX: Final = 4_000
"""Of path and query: they are sent on in the statement too, and a head has 16 KiB."""

_ACTORS: Final = "/v1/proposals/{proposal_id}/preview"
"""What an approval is held against. Backends may have seen different things of a broker that is
gone, so that only who would carry it out can say."""
_VERIFY: Final = "/v1/reassignments/verify"

Application = Callable[[Any, Any, Any], Awaitable[None]]
Reached = Callable[[str], tuple[str, httpx.AsyncBaseTransport]]
"""The URL of a backend by its address, and what carries requests there."""


class Leadership(Protocol):
    """Who acts; `kshunt.backend.operations.lease.lease_manager.LeaseManager` knows."""

    @property
    def me(self) -> BackendIdentity:
        """This backend."""

    @property
    def patience_s(self) -> float:
        """For how much longer the one that acts has to be silent for this one to take over."""

    @property
    def duty(self) -> LeaseState:
        """What this backend has to do."""

    async def other(self, timeout_s: float) -> Heartbeat | None:
        """The other backend that acts, if any."""

    async def ready(self, timeout_s: float) -> None:
        """Want to act, and return once this backend does.

        Raises:
            NotActive: another backend acts, or who acts was not settled in time.
            KshuntError: the journal needs an operator's help.
        """


def is_change(found: Declaration, document: Any) -> bool:
    """Whether a request may change the cluster, by its route and its body."""
    asks = document if isinstance(document, dict) else {}
    only_looks = found.template == _VERIFY and asks.get("preserve_throttles") is True
    return found.changes and not only_looks and asks.get("validate_only") is not True


def _is_for_actor(found: Declaration, document: Any) -> bool:
    """Whether a request belongs to the backend that acts."""
    return found.template == _ACTORS or is_change(found, document)


class _PassedRequest:
    """One request that this backend forwards."""

    def __init__(self, scope: Any, found: Declaration, body: bytes) -> None:
        query = rebuilt_query(scope["query_string"])
        self.method: str = scope["method"]
        self.target = f"{found.path}?{query}" if query else found.path
        self.body = body
        came = {name.decode("latin-1"): value for name, value in reversed(scope["headers"])}
        self.headers = {name: came[name].decode("latin-1") for name in PASSED if name in came}


class Forward:
    """The layer; see the module's text."""

    def __init__(
        self,
        app: Application,
        declared: Declared,
        leadership: Leadership,
        keys: ClusterKeys,
        *,
        reach: Reach | None = None,
        peers: Collection[Origin] = (),
        reached: Reached = reached_at,
    ) -> None:
        """`reach` says who comes in without a credential, None: nobody; `peers` what is named."""
        self._app = app
        self._declared = declared
        self._leadership = leadership
        self._keys = keys
        self._reach = reach
        self._peers = peers
        self._reached = reached

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request here, or have it answered where it belongs."""
        found = self._declared.of(scope) if scope["type"] == "http" else None
        if found is None or not _is_for_actor(found, None):
            await self._app(scope, receive, send)
            return
        other = await self._leadership.other(DECIDE_S)
        if other is None and self._leadership.duty is not LeaseState.ACT and not scope.get(SENDER):
            await self._begin(found, scope, receive, send)
        elif other is None:
            await self._app(scope, receive, send)
        elif sender := scope.get(SENDER, ""):
            acts = f" {other.backend} is active, at {other.address}."
            await returned(sender, self._leadership.me.backend, acts)(scope, receive, send)
        else:
            await self._pass_on(other, found, scope, receive, send)

    async def _begin(self, found: Declaration, scope: Any, receive: Any, send: Any) -> None:
        """Nobody acts, as before a cluster's first change: of several that are asked, one wins.

        This one tries to, before anything is done. The others pass on to the one that won.
        """
        body = await buffer_body(receive)
        if body is None:
            return
        received = replayed(body, receive)
        if is_change(found, _document(body)):
            try:
                await self._leadership.ready(BEGIN_S)
            except NotActive:
                if (winner := await self._leadership.other(DECIDE_S)) is not None:
                    await self._pass_on(winner, found, scope, received, send)
                    return
            except KshuntError as failed:
                # The application asks again, and says why.
                log.info("No backend is active yet: %s", failed)
        await self._app(scope, received, send)

    async def _pass_on(
        self, other: Heartbeat, found: Declaration, scope: Any, receive: Any, send: Any
    ) -> None:
        body = await buffer_body(receive)
        if body is None:
            return
        if not _is_for_actor(found, _document(body)):
            await self._app(scope, replayed(body, receive), send)
            return
        request = _PassedRequest(scope, found, body)
        if len(request.target) > TARGET_MAX:
            await _too_long()(scope, receive, send)
            return
        asking = asyncio.create_task(self._answered(other, request))
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
            await self._app(scope, replayed(body, receive), send)
        else:
            await answer(scope, receive, send)

    async def _answered(self, other: Heartbeat, request: _PassedRequest) -> Response | None:
        """The answer of the active backend; None if no other backend is active any more.

        One that cannot be reached may have ended a moment ago: then another takes its place.
        """
        answer, final = await self._asked(other, request)
        if final:
            return answer
        give_up_s = asyncio.get_running_loop().time() + DECIDE_S
        while present := await self._leadership.other(DECIDE_S):
            if present.backend != other.backend:
                answer, _ = await self._asked(present, request)
                return answer
            if asyncio.get_running_loop().time() > give_up_s:
                return answer
            await asyncio.sleep(GLANCE_S)
        return None

    async def _asked(self, other: Heartbeat, request: _PassedRequest) -> tuple[Response, bool]:
        """The answer of one backend, and whether it stands: false where it was not reached."""
        me = self._leadership.me
        reason = unreachable(me, other, self._peers) or self._stranger(other)
        if reason:
            return self._refused(other, reason), True
        if answer := _laxer(me, other) or _nameless(me, other):
            return answer, True
        statement = self._statement(other, request)
        url, transport = self._reached(other.address)
        # An answer may take as long as a paced election; who asks has a timeout of its own.
        timeout = httpx.Timeout(None, connect=CONNECT_S)
        try:
            async with httpx.AsyncClient(
                transport=transport, timeout=timeout, trust_env=False
            ) as client:
                answer = await self._exchanged(client, url, request, statement)
        except ForeignSocket as failed:
            return self._refused(other, str(failed)), True
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as failed:
            return self._refused(other, f"it cannot be reached ({failed or 'no answer'})"), False
        except (httpx.HTTPError, OSError) as failed:
            return _doubtful(other, str(failed) or type(failed).__name__), True
        if answer is None:
            return _doubtful(other, "the answer is not signed by a backend of this cluster"), True
        answer.headers[FORWARDED_TO] = quote(other.address, safe="/:[]")
        return answer, True

    async def _exchanged(
        self, client: httpx.AsyncClient, url: str, request: _PassedRequest, statement: Statement
    ) -> Response | None:
        """The answer to a request, to be given on; None where it is not signed as it should."""
        headers = {**request.headers, STATEMENT: signed(statement, self._keys)}
        about = {"trace": check_listener}
        async with client.stream(
            request.method,
            httpx.URL(url).copy_with(raw_path=request.target.encode("ascii")),
            content=request.body,
            headers=headers,
            extensions=about,
        ) as answer:
            content = bytearray()
            async for part in answer.aiter_raw():
                content += part
                if len(content) > ANSWER_BYTES_MAX:
                    return None
        signed_headers = {
            name: answer.headers[name] for name in SIGNED_HEADERS if name in answer.headers
        }
        said = AnswerStatement(
            statement.nonce, answer.status_code, signed_headers, digest_of(bytes(content))
        )
        if not said.is_signed_by(answer.headers.get(ANSWER_SIGNED, ""), self._keys):
            return None
        return Response(bytes(content), answer.status_code, headers=signed_headers)

    def _statement(self, other: Heartbeat, request: _PassedRequest) -> Statement:
        caller, me = CURRENT_CALLER.get(), self._leadership.me
        return Statement(
            sender=me.backend,
            meant=other.backend,
            site=site_of(me),
            reach=(self._reach or Reach.HOST).value if caller == LOCAL else "",
            name=caller.name,
            caller=caller.id,
            role=caller.role.value,
            method=request.method,
            target=request.target,
            body_digest=digest_of(request.body),
            beat_ms=other.beat_ms,
        )

    def _stranger(self, other: Heartbeat) -> str:
        """Why the answers of a backend cannot be believed; empty where they can."""
        known = {key.id for key in self._keys.keys}
        if not other.key_id or other.key_id in known:
            return ""
        return "it has other keys; give all backends of the cluster the same --cluster-keys"

    def _refused(self, other: Heartbeat, reason: str) -> Response:
        patience_s = max(1, round(self._leadership.patience_s))
        return problem(
            409,
            "Another backend is active",
            f"Backend {other.backend} is the active backend of this cluster, on host "
            f"{other.host}, at {other.address}, since {moment_text(other.started_ms)}. The change "
            f"was not forwarded to it: {reason}. Nothing was changed.",
            advice=f"Run your tool with --backend {other.address}, or stop that backend: this one "
            f"takes over {patience_s} s later.",
            kafka_code=REASSIGNMENT_IN_PROGRESS,
        )


def _laxer(me: BackendIdentity, other: Heartbeat) -> Response | None:
    """The refusal to hand a change to a backend that demands less than this one."""
    lacks = []
    if me.demands_credentials and not other.demands_credentials:
        lacks.append("asks callers for no credentials")
    if missing := sorted(set(me.two_person) - set(other.two_person)):
        lacks.append(
            f"does not need a second person for changes that need one here ({', '.join(missing)})"
        )
    if not lacks:
        return None
    return problem(
        409,
        "The active backend has weaker rules",
        f"Backend {other.backend} on host {other.host}, at {other.address}, is the active backend "
        f"of this cluster. It {' and '.join(lacks)}, unlike this backend. Nothing was changed.",
        advice="Start that backend with the same --tokens, --oidc-… and --two-person as this "
        "one. Or stop it: then this one takes over.",
        kafka_code=REASSIGNMENT_IN_PROGRESS,
    )


def _nameless(me: BackendIdentity, other: Heartbeat) -> Response | None:
    """The refusal to hand on a change of somebody whom nobody asked a credential."""
    if CURRENT_CALLER.get() != LOCAL or not other.demands_credentials:
        return None
    return problem(
        409,
        "The active backend asks for credentials",
        f"Backend {other.backend} on host {other.host}, at {other.address}, is the active backend "
        "of this cluster. It accepts changes only from callers with a credential, and "
        f"{me.backend} did not ask you for one. Nothing was changed.",
        advice=f"Run your tool with --backend {other.address} and --token-file.",
        kafka_code=REASSIGNMENT_IN_PROGRESS,
    )


def _too_long() -> Response:
    return problem(
        400,
        "Too long",
        f"The path and the query of a change may have {TARGET_MAX} characters. Nothing was "
        "changed.",
        advice="Remove parameters that the route does not have.",
    )


def _doubtful(other: Heartbeat, reason: str) -> Response:
    return problem(
        502,
        "The active backend did not answer",
        f"The change was forwarded to backend {other.backend} on host {other.host}, at "
        f"{other.address}, but no answer came back ({reason}).",
        advice="The change may have been carried out: check the operations before you ask again. "
        "All backends of the cluster need the same --cluster-keys.",
        kafka_code=REQUEST_TIMED_OUT,
    )


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _gone(receive: Any) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
