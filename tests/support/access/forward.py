"""Backends that pass changes on to one another, with an application that says what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx
import uvicorn
from fastapi import FastAPI

from kshunt.backend.access.cluster_keys import ClusterKeys
from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import Caller, Role
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.forwarding.inbound import ForwardedRequests
from kshunt.backend.api.forwarding.outbound import Forward, Leadership
from kshunt.backend.api.forwarding.peers import Origin, reached_at
from kshunt.backend.api.http.route_roles import Declared
from kshunt.backend.api.server.app import create_app
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer
from kshunt.backend.api.server.listener import Listen, bind
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.errors import NotActive
from kshunt.backend.operations.journal.entries import Heartbeat
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.lease.lease_manager import BackendIdentity
from kshunt.backend.settings import Settings
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0
KEYS = ClusterKeys.new()
"""Of the cluster that the backends here are of."""


@cache
def real_app() -> FastAPI:
    """The application whose routes count; nothing is asked of it."""
    settings, clock = Settings("127.0.0.1:1"), SystemClock()

    def no_journal(*_: str) -> Any:
        raise AssertionError("this backend is never started")

    return create_app(Backend(settings, KafkaAdmin(settings), clock, no_journal))


@dataclass
class Place:
    """A backend that knows who acts because it was told."""

    me: BackendIdentity
    active: Heartbeat | None = None
    patience_s: float = 6.0
    duty: LeaseState = LeaseState.ACT
    wins: Heartbeat | None = None
    """Who else begins to act as this one tries to."""

    async def other(self, timeout_s: float) -> Heartbeat | None:
        return self.active

    async def ready(self, timeout_s: float) -> None:
        if self.wins is not None:
            self.active = self.wins
            raise NotActive("Another backend is active. Nothing was changed.", active=self.wins)
        self.duty = LeaseState.ACT


@dataclass
class ReceivedRequest:
    """One request that reached an application."""

    target: str
    method: str
    path: str
    caller: Caller
    headers: list[tuple[str, str]]


@dataclass
class Application:
    """Answers with its name and what it was asked; it can be told to hold its answer back."""

    name: str
    requests: list[ReceivedRequest] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Requests whose client went away."""
    holds: bool = False

    @property
    def asked(self) -> list[str]:
        """Path and query of each request."""
        return [one.target for one in self.requests]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        target = scope["path"] + "?" + scope["query_string"].decode("latin-1")
        headers = [(name.decode("latin-1"), v.decode("latin-1")) for name, v in scope["headers"]]
        self.requests.append(
            ReceivedRequest(target, scope["method"], scope["path"], CURRENT_CALLER.get(), headers)
        )
        if self.holds:
            assert (await receive())["type"] == "http.disconnect"
            self.left.append(target)
            return
        said = {"by": self.name, "body": body.decode(), "headers": dict(headers)}
        media = [(b"content-type", b"application/kshunt+json")]
        await send({"type": "http.response.start", "status": 202, "headers": media})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})


@dataclass(frozen=True)
class Tokens:
    """Credentials: a role's name is its token, and `the` with it the name of who holds it."""

    async def caller(self, text: str) -> Caller | None:
        roles = {role.value: role for role in Role}
        if text not in roles:
            return None
        return Caller(f"the {text}", roles[text], f"token-{text}")


def gated(
    app: Any,
    place: Leadership,
    policy: AccessPolicy,
    *,
    keys: ClusterKeys = KEYS,
    peers: Collection[Origin] = (),
    clock: Clock | None = None,
    reached: Any = reached_at,
) -> AuthenticationLayer:
    """What a backend serves, in front of an application."""
    clock, declared = clock or SystemClock(), Declared(real_app())
    forward = Forward(app, declared, place, keys, reach=policy.reach, peers=peers, reached=reached)
    return AuthenticationLayer(
        forward,
        declared,
        policy,
        clock,
        ForwardedRequests(keys, lambda: place.me, policy.reach, clock),
    )


class Server(uvicorn.Server):
    """Leaves the signals of the test's process alone."""

    def install_signal_handlers(self) -> None:
        pass


@asynccontextmanager
async def served(app: Any, listen: Listen) -> AsyncIterator[Listen]:
    """The address at which an application is served meanwhile."""
    listener, listen = bind(listen)
    server = Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    task = asyncio.create_task(server._serve([listener]))
    await wait_until_async(lambda: server.started, DEADLINE_S, "it serves")
    try:
        yield listen
    finally:
        server.should_exit = True
        await task


def at(name: str, address: str, host: str = "here", **demands: Any) -> BackendIdentity:
    """A backend at an address."""
    return BackendIdentity(name, host, address, 1_700_000_000_000, "boot", **demands)


def beat(me: BackendIdentity, beat_ms: int | None = None) -> Heartbeat:
    """Its heartbeat; of this moment, unless told otherwise."""
    now_ms = SystemClock().now_ms() if beat_ms is None else beat_ms
    return Heartbeat(
        *(me.backend, me.host, me.address, me.started_ms, now_ms, me.boot_id),
        *(me.demands_credentials, me.two_person, me.key_id),
    )


async def ask(listen: Listen, method: str, target: str, **about: Any) -> httpx.Response:
    """The answer to a request at an address."""
    transport = None if listen.path is None else httpx.AsyncHTTPTransport(uds=str(listen.path))
    base = "http://kshunt" if listen.path is not None else listen.address
    async with httpx.AsyncClient(transport=transport, base_url=base, trust_env=False) as client:
        return await client.request(method, target, timeout=DEADLINE_S, **about)


@dataclass
class Said:
    """An answer of an ASGI application."""

    status: int
    headers: dict[str, str]
    body: bytes


async def call(
    app: Any,
    method: str,
    raw_path: bytes,
    *,
    query: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes = b"",
) -> Said:
    """The answer to a request that is written as it would come over the wire."""
    sent: list[Any] = []
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]
    waits = asyncio.Event()

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await waits.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"},
        **{"method": method, "raw_path": raw_path, "query_string": query, "root_path": ""},
        # As uvicorn reads it.
        "path": unquote(raw_path.decode("ascii", "replace")),
        "headers": [(b"host", b"127.0.0.1"), *headers],
        **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)},
    }
    await app(scope, receive, send)
    start = sent[0]
    found = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Said(start["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))
