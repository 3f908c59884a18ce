"""What one backend says to another about a request, and what it is worth to the other one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kshunt.backend.access.cluster_keys import ClusterKeys, Purpose
from kshunt.backend.access.roles import LOCAL, Caller, Role
from kshunt.backend.api.forwarding.outbound import FORWARDED_TO
from kshunt.backend.api.forwarding.peers import (
    ForeignSocket,
    check_listener,
    origin_of,
    peers_of,
    unreachable,
)
from kshunt.backend.api.forwarding.signatures import (
    ANSWER_SIGNED,
    FRESH_MS,
    NONCES_MAX,
    STATEMENT,
    AnswerStatement,
    Nonces,
    Site,
    Statement,
    digest_of,
    signed,
)
from kshunt.backend.api.http.paths import rebuilt_path, rebuilt_query
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer
from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import ConfigError
from tests.support.access.forward import (
    KEYS,
    Application,
    Place,
    Said,
    Tokens,
    at,
    beat,
    call,
    gated,
)

PATH = "/v1/throttles/rates"
BODY = b'{"who": "mallory"}'
HERE = Site("here", "boot", os.geteuid())
ASKS = AccessPolicy(credentials=(Tokens(),))
OWNERS = AccessPolicy(by_file=True)
ADA = Statement(
    *("asked", "acting", HERE, "", "ada", "token-1", "operator", "POST", PATH),
    *(digest_of(BODY), 0),
)
OWNER = replace(ADA, reach="owner", name="", caller="local", role="admin")


@dataclass
class Actor:
    """A backend that acts, and is told that another one passes requests on."""

    policy: AccessPolicy = ASKS
    app: Application = field(default_factory=lambda: Application("acting"))

    def __post_init__(self) -> None:
        self.layer = gated(self.app, Place(at("acting", "unix:/run/acting")), self.policy)

    async def take(
        self, statement: Statement | str, keys: ClusterKeys = KEYS, **about: Any
    ) -> Said:
        """Its answer to a request with this statement, or with this header."""
        if isinstance(statement, Statement):
            now_ms = SystemClock().now_ms()
            fresh = replace(statement, beat_ms=now_ms + statement.beat_ms)
            statement = signed(fresh, keys)
        request = {"body": BODY, "raw_path": PATH.encode(), "method": "POST", **about}
        headers = [(STATEMENT.encode(), statement.encode()), *request.pop("headers", ())]
        method, raw_path = request.pop("method"), request.pop("raw_path")
        return await call(self.layer, method, raw_path, headers=headers, **request)

    @property
    def callers(self) -> list[Caller]:
        """Of the requests that it answered."""
        return [one.caller for one in self.app.requests]


@pytest.mark.parametrize("policy", [ASKS, OWNERS, AccessPolicy()])
async def test_the_caller_is_whom_the_statement_names_whatever_the_policy(
    policy: AccessPolicy,
) -> None:
    actor = Actor(policy)
    answer = await actor.take(ADA)
    assert answer.status == 202
    assert actor.callers == [Caller("ada", Role.OPERATOR, "token-1")]
    said = AnswerStatement(ADA.nonce, 202, {"content-type": answer.headers["content-type"]}, "")
    assert replace(said, body_digest=digest_of(answer.body)).is_signed_by(
        answer.headers[ANSWER_SIGNED], KEYS
    )


async def test_a_viewer_who_was_passed_on_is_a_viewer_behind_an_open_door() -> None:
    actor = Actor(AccessPolicy())
    answer = await actor.take(replace(ADA, role="viewer"))
    assert answer.status == 403
    assert actor.callers == []
    assert ANSWER_SIGNED in answer.headers


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"meant": "another"}, 409, "was not its target"),
        ({"sender": "acting"}, 409, "was not its target"),
        ({"method": "GET"}, 403, "is not the request"),
        ({"target": "/v1/elections/unclean"}, 403, "is not the request"),
        ({"target": f"{PATH}?x=1"}, 403, "is not the request"),
        ({"body_digest": digest_of(b"{}")}, 403, "body is not the one that was signed"),
        ({"beat_ms": -FRESH_MS - 5_000}, 409, "too old"),
        ({"beat_ms": FRESH_MS + 60_000}, 409, "too old"),
        ({"name": ""}, 403, "does not name a caller"),
        ({"name": " "}, 403, "does not name a caller"),
        ({"caller": ""}, 403, "does not name a caller"),
        ({"caller": "local"}, 403, "does not name a caller"),
        ({"role": "root"}, 403, "does not name a caller"),
        ({"reach": "owner"}, 403, "does not name a caller"),
        (
            {"reach": "world", "name": "", "caller": "local", "role": "admin"},
            403,
            "does not name a caller",
        ),
    ],
)
async def test_a_statement_is_good_for_one_request_to_one_backend(
    changed: Mapping[str, Any], status: int, said: str
) -> None:
    actor = Actor()
    answer = await actor.take(replace(ADA, **changed))
    assert (answer.status, actor.callers) == (status, [])
    assert said in answer.body.decode()


async def test_a_statement_counts_once() -> None:
    actor = Actor()
    assert (await actor.take(ADA)).status == 202
    again = await actor.take(ADA)
    assert again.status == 409
    assert len(actor.callers) == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "e30=.00000000." + "0" * 64,
        "%%%.00000000." + "0" * 64,
        signed(ADA, ClusterKeys.new()),
        signed(ADA, KEYS)[:-1] + "x",
        "x" * 70_000,
    ],
    ids=["none", "empty", "not base64", "of another key", "changed", "too long"],
)
@pytest.mark.parametrize("policy", [ASKS, OWNERS, AccessPolicy()], ids=["asks", "owners", "open"])
async def test_what_no_key_of_the_cluster_signed_is_refused(
    header: str, policy: AccessPolicy
) -> None:
    actor = Actor(policy)
    admin = [(b"authorization", b"Bearer admin")]
    answer = await actor.take(header, headers=admin)
    assert (answer.status, actor.callers) == (403, [])
    assert ANSWER_SIGNED not in answer.headers
    assert "--cluster-keys" in answer.body.decode()


async def test_a_signature_for_another_purpose_is_worth_nothing() -> None:
    text = signed(ADA, KEYS).partition(".")[0]
    proof = KEYS.sign(Purpose.JOURNAL, text.encode())
    actor = Actor()
    assert (await actor.take(f"{text}.{proof.key_id}.{proof.mac}")).status == 403


@pytest.mark.parametrize("name", ["kshunt-forwarded-by", "kshunt-forwarded-to", STATEMENT])
async def test_headers_of_the_channel_alone_give_nothing(name: str) -> None:
    actor = Actor(AccessPolicy())
    headers = [(name.encode(), b"acting"), (name.encode(), b"acting")]
    answer = await call(actor.layer, "POST", PATH.encode(), headers=headers, body=BODY)
    assert (answer.status, actor.callers) == (403, [])


async def test_two_statements_are_none() -> None:
    actor = Actor()
    second = signed(replace(ADA, role="admin"), KEYS).encode()
    answer = await actor.take(ADA, headers=[(STATEMENT.encode(), second)])
    assert (answer.status, actor.callers) == (403, [])


@pytest.mark.parametrize(
    ("policy", "reach", "site", "status"),
    [
        (OWNERS, "owner", HERE, 202),
        (AccessPolicy(), "owner", HERE, 202),
        (AccessPolicy(), "group", HERE, 202),
        (AccessPolicy(), "host", HERE, 202),
        (AccessPolicy(by_file=True, for_group=True), "owner", HERE, 202),
        (AccessPolicy(by_file=True, for_group=True), "group", HERE, 403),
        (OWNERS, "group", HERE, 403),
        (OWNERS, "host", HERE, 403),
        (ASKS, "owner", HERE, 403),
        (OWNERS, "owner", replace(HERE, uid=HERE.uid + 1), 403),
        (OWNERS, "owner", replace(HERE, host="there"), 403),
        (OWNERS, "owner", replace(HERE, boot_id="another"), 403),
    ],
)
async def test_whoever_showed_no_credential_comes_in_only_where_they_could_have(
    policy: AccessPolicy, reach: str, site: Site, status: int
) -> None:
    actor = Actor(policy)
    answer = await actor.take(replace(OWNER, reach=reach, site=site))
    assert answer.status == status
    assert actor.callers == ([LOCAL] if status == 202 else [])
    assert status == 202 or "--backend" in answer.body.decode()


def test_nonces_are_remembered_while_they_could_be_fresh_and_are_bounded() -> None:
    nonces = Nonces()
    assert nonces.take("a", 0.0)
    assert not nonces.take("a", 2 * FRESH_MS / 1000)
    assert nonces.take("a", 2 * FRESH_MS / 1000 + 1)
    full = Nonces()
    assert all(full.take(str(number), 1.0) for number in range(NONCES_MAX))
    assert not full.take("one more", 1.0)


# The other end


@dataclass
class Impostor:
    """Answers at the address of the backend that acts, without a key of the cluster."""

    headers: list[tuple[bytes, bytes]]
    seen: list[Any] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": b'{"done": true}'})


def standby(
    app: Any, policy: AccessPolicy, active: Any, keys: ClusterKeys = KEYS
) -> tuple[AuthenticationLayer, Application]:
    """A backend that passes on to an application, and the application of its own."""
    here = Application("asked")
    asks = not policy.open
    place = Place(at("asked", "http://127.0.0.1:2", demands_credentials=asks), active)
    to = ("http://kshunt", httpx.ASGITransport(app))
    return gated(here, place, policy, keys=keys, reached=lambda _: to), here


BESIDE = at("acting", "http://127.0.0.1:1", demands_credentials=True)


@pytest.mark.parametrize(
    "headers", [[], [(ANSWER_SIGNED.encode(), b"00000000." + b"0" * 64)]], ids=["none", "forged"]
)
async def test_an_answer_that_is_not_signed_is_in_doubt(headers: list[Any]) -> None:
    impostor = Impostor(headers)
    layer, _ = standby(impostor, ASKS, beat(BESIDE))
    shown = [(b"authorization", b"Bearer operator"), (b"cookie", b"a=b"), (b"x-other", b"1")]
    answer = await call(layer, "POST", PATH.encode(), headers=shown, body=BODY)
    assert answer.status == 502
    assert "may have been carried out" in answer.body.decode()
    sent = {name for name, _ in impostor.seen[0]["headers"]}
    assert not sent & {b"authorization", b"cookie", b"x-other"}


async def test_an_answer_to_another_request_is_in_doubt() -> None:
    actor = Actor()
    kept = await actor.take(ADA)
    layer, _ = standby(
        Impostor([(ANSWER_SIGNED.encode(), kept.headers[ANSWER_SIGNED].encode())]),
        ASKS,
        beat(BESIDE),
    )
    shown = [(b"authorization", b"Bearer operator")]
    assert (await call(layer, "POST", PATH.encode(), headers=shown)).status == 502


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ({"demands_credentials": True}, {}, "asks callers for no credentials"),
        ({"two_person": ("shrink", "unclean")}, {"two_person": ("shrink",)}, "here (unclean)"),
    ],
)
async def test_a_laxer_backend_is_handed_nothing(
    mine: dict[str, Any], theirs: dict[str, Any], said: str
) -> None:
    actor = Actor(AccessPolicy())
    place = Place(at("asked", "http://127.0.0.1:2", **mine))
    place.active = beat(at("acting", "http://127.0.0.1:1", **theirs))
    to = ("http://kshunt", httpx.ASGITransport(actor.layer))
    layer = gated(Application("asked"), place, AccessPolicy(), reached=lambda _: to)
    answer = await call(layer, "POST", PATH.encode(), body=BODY)
    assert (answer.status, actor.callers) == (409, [])
    assert said in answer.body.decode()
    assert "--two-person" in answer.body.decode()


async def test_an_older_backend_counts_as_lax_and_one_with_other_keys_is_a_stranger() -> None:
    layer, _ = standby(Actor().layer, ASKS, beat(replace(BESIDE, demands_credentials=False)))
    shown = [(b"authorization", b"Bearer admin")]
    assert (await call(layer, "POST", PATH.encode(), headers=shown)).status == 409
    layer, _ = standby(Actor().layer, ASKS, beat(replace(BESIDE, key_id="00000000")))
    answer = await call(layer, "POST", PATH.encode(), headers=shown)
    assert answer.status == 409
    assert "--cluster-keys" in answer.body.decode()


async def test_what_is_sent_on_is_made_anew() -> None:
    actor = Actor()
    layer, _ = standby(actor.layer, ASKS, beat(BESIDE))
    shown = [(b"authorization", b"Bearer operator"), (b"content-type", b"a/b")]
    path = b"/v1/operations/a%62c%20%C3%BC/pause"
    answer = await call(layer, "POST", path, query=b"x=a/../b;c&y=%zz&z", headers=shown)
    assert answer.status == 202
    (one,) = actor.app.requests
    assert one.path == "/v1/operations/abc ü/pause"
    assert one.target.endswith("?x=a%2F..%2Fb%3Bc&y=%25zz&z=")
    assert ("content-type", "a/b") in one.headers
    assert answer.headers[FORWARDED_TO] == BESIDE.address
    assert rebuilt_path("/v1/t/{t}/x", {"t": "a/../b"}) == "/v1/t/a%2F..%2Fb/x"
    assert rebuilt_query(b"") == ""


async def test_what_does_not_fit_in_a_head_is_not_sent_on() -> None:
    actor = Actor()
    layer, here = standby(actor.layer, ASKS, beat(BESIDE))
    shown = [(b"authorization", b"Bearer operator")]
    answer = await call(layer, "POST", PATH.encode(), query=b"x=" + b"%" * 3_000, headers=shown)
    assert answer.status == 400
    assert "Nothing was changed" in answer.body.decode()
    assert actor.callers == []
    assert here.requests == []


async def test_a_web_socket_is_closed_before_anybody_is_asked() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    actor = Actor(AccessPolicy())
    await actor.layer({"type": "websocket", "path": PATH, "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert actor.callers == []


# Which address is used


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield server


def test_a_socket_is_one_of_this_user_on_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, path = at("asked", "unix:/x"), tmp_path / "s"
    with listening(path):
        other = beat(at("acting", f"unix:{path}"))
        assert unreachable(me, other) == ""
        assert "runs on here" in unreachable(me, replace(other, host="there"))
        assert "runs on here" in unreachable(me, replace(other, boot_id="another"))
        (tmp_path / "link").symlink_to(path)
        (tmp_path / "file").touch()
        for name in ("link", "file"):
            assert "not a socket" in unreachable(me, beat(at("a", f"unix:{tmp_path / name}")))
        for odd in ("unix:", "unix:relative", "unix:/a\0b"):
            assert unreachable(me, beat(at("a", odd)))
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        assert "another user" in unreachable(me, other)


async def test_a_process_of_another_user_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream:
        def get_extra_info(self, _: str) -> socket.socket:
            return client

    about = {"return_value": Stream()}
    with listening(tmp_path / "s"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        await check_listener("connection.connect_unix_socket.complete", about)
        monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "s").stat().st_uid + 1)
        await check_listener("http11.send_request_headers.started", {})
        with pytest.raises(ForeignSocket):
            await check_listener("connection.connect_unix_socket.complete", about)


@pytest.mark.parametrize(
    ("address", "same_host", "used"),
    [
        ("http://127.0.0.1:1", True, True),
        ("http://[::1]:1", True, True),
        ("http://localhost:1", True, True),
        ("https://127.0.0.1:1", True, True),
        ("http://127.0.0.1:1", False, False),
        ("https://127.0.0.1:1", False, False),
        ("https://kshunt.example.org:8095", False, True),
        ("https://KSHUNT.example.org.:8095", False, True),
        ("https://kshunt.example.org", False, False),
        ("https://other.example.org:8095", False, False),
        ("https://other.example.org:8095", True, False),
        ("http://kshunt.example.org:8095", False, False),
        ("http://kshunt.example.org:8095", True, False),
        ("https://kshunt.example.org:8095/x", False, False),
        ("https://a@kshunt.example.org:8095", False, False),
        ("https://kshunt.example.org:8095?x", False, False),
        ("https://kshunt.example.org:99999", False, False),
        ("http://169.254.169.254", False, False),
        ("ftp://kshunt.example.org:8095", False, False),
        ("", True, False),
    ],
)
def test_another_host_is_one_that_is_named(address: str, same_host: bool, used: bool) -> None:
    peers = peers_of(["https://kshunt.example.org:8095, https://[2001:db8::1]:1"])
    other = beat(at("acting", address, "here" if same_host else "there"))
    assert (unreachable(at("asked", "x"), other, peers) == "") == used


@pytest.mark.parametrize("text", ["http://a:1", "a:1", "", "https://a:1/x", "unix:/x", "https://"])
def test_what_names_no_other_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--peers"):
        peers_of([text])
    assert origin_of(text) is None or text.startswith("http:")
