"""Takes in what another backend passes on: the end of the channel at the backend that acts.

Goals
    A request that another backend passes on has exactly the caller and the role that it had there,
    whatever this backend itself asks for. Nothing that a client writes by itself gives it more.
Constraints
    A caller of whom nobody asked a credential is an admin without a name, and must not become one
    where they could not have come in by themselves.
Algorithm
    A request with a header `kshunt-forwarded-…` and without one valid statement
    (`kshunt.backend.api.forwarding.signatures`) is refused. So is one for another backend, target
    or body, one that is stale, and one whose nonce was used.
    A caller without a credential is accepted under three conditions. This backend asks for none
    either. The sender runs on this host as this user. Only its owner may open the sender's socket,
    or everybody on the host may ask this backend anyway. The answer is held until it is
    whole, and signed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fastapi.responses import Response

from kshunt.backend.access.cluster_keys import ClusterKeys, SignatureVerdict
from kshunt.backend.access.roles import LOCAL, Caller
from kshunt.backend.api.forwarding.signatures import (
    ANSWER_SIGNED,
    PASSED_ON,
    SIGNED_HEADERS,
    STATEMENT,
    AnswerStatement,
    Nonces,
    Reach,
    Site,
    Statement,
    digest_of,
    is_fresh,
    read,
)
from kshunt.backend.api.http.body_replay import buffer_body, replayed
from kshunt.backend.api.http.paths import target_of
from kshunt.backend.api.http.problems import problem
from kshunt.backend.clock import Clock
from kshunt.backend.error_codes import (
    REASSIGNMENT_IN_PROGRESS,
    TOPIC_AUTHORIZATION_FAILED,
)
from kshunt.backend.operations.lease.lease_manager import BackendIdentity

SENDER: Final = "kshunt.sender"
"""In a scope: the id of the backend that passed the request on."""
_DIRECTLY: Final = (
    "Send the request to this backend directly, with --backend and a valid credential."
)


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A request that was passed on: who asks, or why it is refused."""

    caller: Caller
    refusal: Response | None
    scope: Any
    receive: Any
    send: Any


def site_of(me: BackendIdentity) -> Site:
    """Where a backend of this process runs."""
    return Site(me.host, me.boot_id, os.geteuid())


def is_passed_on(scope: Any) -> bool:
    """Whether a request says that another backend passed it on."""
    return any(name.startswith(PASSED_ON.encode()) for name, _ in scope["headers"])


class ForwardedRequests:
    """See the module's text."""

    def __init__(
        self,
        keys: ClusterKeys,
        me: Callable[[], BackendIdentity],
        reach: Reach | None,
        clock: Clock,
    ) -> None:
        """`reach` says who comes in without a credential; None: nobody."""
        self._keys = keys
        self._me = me
        self._reach = reach
        self._clock = clock
        self._nonces = Nonces()

    async def take(self, scope: Any, receive: Any, send: Any) -> ForwardedRequest:
        """A request that was passed on, with the `receive` and `send` that go with it."""
        found = self._statement(scope)
        if not isinstance(found, Statement):
            return ForwardedRequest(LOCAL, found, scope, receive, send)
        send = _signing(send, found.nonce, self._keys)
        if refusal := self._fault(found, scope):
            return ForwardedRequest(LOCAL, refusal, scope, receive, send)
        body = await buffer_body(receive)
        if body is None or digest_of(body) != found.body_digest:
            return ForwardedRequest(
                LOCAL, _forged("its body is not the one that was signed"), scope, receive, send
            )
        if not self._nonces.take(found.nonce, self._clock.monotonic_s()):
            return ForwardedRequest(LOCAL, _again(found), scope, receive, send)
        scope = {**scope, SENDER: found.sender}
        return ForwardedRequest(found.who or LOCAL, None, scope, replayed(body, receive), send)

    def _statement(self, scope: Any) -> Statement | Response:
        headers = [value for name, value in scope["headers"] if name == STATEMENT.encode()]
        if len(headers) != 1:
            return _forged("it has no signed statement about the caller")
        found = read(headers[0].decode("latin-1"), self._keys)
        if found is SignatureVerdict.UNKNOWN_KEY:
            return _forged("its statement is signed with a key that this backend does not have")
        return (
            found
            if isinstance(found, Statement)
            else _forged("the signed statement about the caller is not valid")
        )

    def _fault(self, found: Statement, scope: Any) -> Response | None:
        me = self._me()
        if found.meant != me.backend or found.sender == me.backend:
            return returned(found.sender, me.backend, "")
        if (found.method, found.target) != (scope["method"], target_of(scope)):
            return _forged("it is not the request that was signed")
        if not is_fresh(found.beat_ms, self._clock.now_ms()):
            return _again(found)
        if found.who is None:
            return _forged("its statement does not name a caller")
        why = _too_far(found, site_of(me), self._reach) if found.reach else ""
        return _outside(found, why) if why else None


def _too_far(found: Statement, here: Site, reach: Reach | None) -> str:
    """Why a caller without a credential may not come in here; empty where they may."""
    if reach is None:
        return f"asks for a credential, but {found.sender} did not ask for one"
    if found.site != here:
        return f"does not run on the same host and as the same user as {found.sender}"
    if found.reach != Reach.OWNER and reach is not Reach.HOST:
        return f"is open to fewer people than {found.sender}"
    return ""


def _signing(send: Any, nonce: str, keys: ClusterKeys) -> Any:
    """`send`, which holds an answer until it is whole, and signs it."""
    start: dict[str, Any] = {}
    parts: list[bytes] = []

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        parts.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = b"".join(parts)
        headers = [(name.lower(), value) for name, value in start.get("headers", ())]
        shown = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        signed_headers = {name: shown[name] for name in SIGNED_HEADERS if name in shown}
        proof = AnswerStatement(nonce, start["status"], signed_headers, digest_of(body)).signature(
            keys
        )
        headers.append((ANSWER_SIGNED.encode(), proof.encode()))
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return sent


def returned(sender: str, me: str, acts: str) -> Response:
    """The refusal of a request that is not for this backend.

    Args:
        sender: id of the backend that passed it on.
        me: id of this backend.
        acts: who acts instead, as a sentence; empty where that is not known.
    """
    return problem(
        409,
        "Forwarded to the wrong backend",
        f"Backend {sender} forwarded this change to {me}, which was not its target or is not "
        f"active any more.{acts} Nothing was changed.",
        advice="Try again: another backend of this cluster is taking over.",
        kafka_code=REASSIGNMENT_IN_PROGRESS,
        retriable=True,
    )


def _forged(why: str) -> Response:
    return problem(
        403,
        "Not from a backend of this cluster",
        f"The request says that another backend forwarded it, but {why}. Nothing was done.",
        advice="Give all backends of the cluster the same --cluster-keys and the same version of "
        "kshunt. A client must not send these headers.",
        kafka_code=TOPIC_AUTHORIZATION_FAILED,
    )


def _again(found: Statement) -> Response:
    return problem(
        409,
        "Already forwarded",
        f"The statement of backend {found.sender} about this request is too old, or was already "
        "used. Nothing was done.",
        advice="Check the operations, then try again.",
        kafka_code=REASSIGNMENT_IN_PROGRESS,
        retriable=True,
    )


def _outside(found: Statement, why: str) -> Response:
    return problem(
        403,
        "Not allowed",
        f"The active backend {why}. Nothing was changed.",
        advice=_DIRECTLY,
        kafka_code=TOPIC_AUTHORIZATION_FAILED,
    )
