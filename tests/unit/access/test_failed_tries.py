"""Refused tokens: who sent them is told, and a peer that sends many is slowed down."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastapi import FastAPI

from kshunt.backend.access.refused_tokens import LINES_PER_MINUTE, UNKNOWN, RefusedTokens, peer_of
from kshunt.backend.access.roles import Caller, Role
from kshunt.backend.api.http.route_roles import Declared
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer
from kshunt.backend.clock import SystemClock
from kshunt.backend.limits import LIMITS


class Moved(SystemClock):
    """A clock whose time changes only when a test sets it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic_s(self) -> float:
        """The moment that was set."""
        return self.now_s


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def tries(clock: Moved) -> RefusedTokens:
    return RefusedTokens(clock)


def test_many_refused_tokens_slow_their_peer_down(tries: RefusedTokens, clock: Moved) -> None:
    for _ in range(LIMITS.failed_tries):
        assert tries.wait_s("10.0.0.5", "wrong") == 0
        tries.failed("10.0.0.5", "wrong")
    assert tries.wait_s("10.0.0.5", "another") > 0
    assert tries.wait_s("10.0.0.6", "another") == 0
    clock.now_s += tries.wait_s("10.0.0.5", "another")
    assert tries.wait_s("10.0.0.5", "another") == 0


def test_who_shares_the_address_still_comes_in(tries: RefusedTokens) -> None:
    tries.passed("good")
    for _ in range(LIMITS.failed_tries):
        tries.failed("10.0.0.5", "wrong")
    assert tries.wait_s("10.0.0.5", "good") == 0
    assert tries.wait_s("10.0.0.5", "new") > 0
    # Once it is refused, it was good no longer.
    tries.failed("10.0.0.5", "good")
    assert tries.wait_s("10.0.0.5", "good") > 0


def test_the_log_names_the_peer_and_never_fills(
    tries: RefusedTokens, clock: Moved, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "kshunt_0123456789ab_" + "s" * 43
    with caplog.at_level(logging.INFO):
        for _ in range(500):
            tries.failed("10.0.0.5", secret)
        assert [record.getMessage() for record in caplog.records] == [
            "a token from 10.0.0.5 was rejected (token 0123456789ab)"
        ]
        clock.now_s += 61
        tries.failed("10.0.0.5", "x")
        assert caplog.messages[-1] == (
            "a token from 10.0.0.5 was rejected; 499 more since the last line"
        )
        for number in range(300):
            tries.failed(f"10.1.{number}.1", "x")
        assert len(caplog.records) == 1 + LINES_PER_MINUTE
        clock.now_s += 61
        tries.failed("10.9.9.9", "x")
    assert "291 more tokens of other peers were rejected in the last minute" in caplog.messages
    assert "s" * 43 not in caplog.text


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (("10.0.0.5", 1), "10.0.0.5"),
        (("::ffff:10.0.0.5", 1), "10.0.0.5"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1), "fe80::/64"),
        (("::1", 1), "::1"),
        (("", 0), UNKNOWN),
        ((), UNKNOWN),
        (None, UNKNOWN),
        (("a\nb", 1), UNKNOWN),
    ],
)
def test_who_is_a_peer(client: Any, peer: str) -> None:
    assert peer_of({"client": client}) == peer


class OneToken:
    """Credentials that know one token."""

    def __init__(self) -> None:
        self.checked = 0

    async def caller(self, text: str) -> Caller | None:
        """The caller who shows the token `good` is ada; any other token names nobody."""
        self.checked += 1
        return Caller("ada", Role.VIEWER, "token-1") if text == "good" else None


async def test_the_gate_asks_no_more_for_a_peer_that_tries(clock: Moved) -> None:
    app, known = FastAPI(), OneToken()
    layer = AuthenticationLayer(app, Declared(app), AccessPolicy(credentials=[known]), clock)

    async def status(token: str, client: str = "10.0.0.5") -> int:
        got: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            got.append(message)

        headers = [(b"authorization", b"Bearer " + token.encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/cluster",
            "raw_path": b"/v1/cluster",
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": (client, 1),
        }
        await layer(scope, receive, send)
        return int(got[0]["status"])

    assert await status("good") == 404
    assert [await status(f"wrong{n}") for n in range(LIMITS.failed_tries)] == (
        [401] * LIMITS.failed_tries
    )
    checked = known.checked
    assert await status("one more") == 429
    assert known.checked == checked
    assert await status("good") == 404
    assert await status("one more", "10.0.0.6") == 401
