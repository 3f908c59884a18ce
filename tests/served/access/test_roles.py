"""A backend on a TCP port: TLS, tokens, roles, and what it refuses to be."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kshunt.backend.access.roles import Caller, Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.http.route_roles import OPEN, ROLE, STREAM, Declared
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import BackendError, BackendUnreachable
from kshunt.backend.limits import LIMITS
from tests.support.brokers.tls import TlsFiles, make_tls_files
from tests.support.ports import free_ports
from tests.support.serving import refused_start, serve_process
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Served:
    """A backend over TLS with a token of each role."""

    port: int
    files: TlsFiles
    tokens: dict[str, str]
    file: TokenFile

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def http(self, token: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        verify = ssl.create_default_context(cafile=str(self.files.ca))
        return httpx.Client(base_url=self.url, headers=headers, verify=verify, timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3]])
    return bootstrap


@pytest.fixture(scope="module")
def served(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("access")
    files = make_tls_files(folder / "tls")
    file = TokenFile(folder / "tokens.json", SystemClock())
    tokens = {role.value: file.create(role.value, role)[1] for role in Role}
    port = free_ports(1)[0]
    with serve_process(
        bootstrap,
        folder / "backend",
        *("--listen", f"127.0.0.1:{port}", "--tokens", str(folder / "tokens.json")),
        *("--tls-certificate", str(folder / "tls" / "broker.pem")),
        *("--tls-key", str(folder / "tls" / "broker.key")),
    ):
        yield Served(port, files, tokens, file)


@pytest.fixture
def client(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[BackendClient]:
    """An operator's."""
    monkeypatch.setenv("KSHUNT_CA_FILE", str(served.files.ca))
    monkeypatch.setenv("KSHUNT_TOKEN", served.tokens["operator"])
    with BackendClient(served.url) as found:
        yield found


# Roles


def routes(served: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    with served.http(served.tokens["viewer"]) as http:
        paths = http.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield (
                method,
                path.replace("{topic}", "orders").replace("{operation_id}", "x"),
                operation,
            )


def test_every_route_lets_in_its_role_and_those_above(served: Served) -> None:
    seen = 0
    for method, path, operation in routes(served):
        needed = operation[ROLE]
        seen += 1
        for held in ("", *Role):
            # That body is right for no route: who is let in is told so, and nothing is done.
            with (
                served.http(served.tokens.get(held, "")) as http,
                http.stream(method, path, content=b"{") as answer,
            ):
                status = answer.status_code
            if needed == OPEN:
                assert status == 200, (method, path, held)
            elif not held:
                assert status == 401, (method, path, held)
            elif Role(held).may(Role(needed)):
                assert status not in (401, 403), (method, path, held)
            else:
                assert status == 403, (method, path, held)
    assert seen >= 40


def test_every_route_declares_what_it_takes(served: Served) -> None:
    for method, path, operation in routes(served):
        assert operation[ROLE] in {OPEN, *Role}, (method, path)
        assert ("security" in operation) == (operation[ROLE] != OPEN), (method, path)
        if method == "get" and operation[ROLE] != OPEN:
            assert operation[ROLE] == Role.VIEWER, path
        assert operation.get(STREAM, False) == path.endswith(("/stream", "/events")), path


def test_what_no_route_answers_is_told_to_nobody_unknown(served: Served) -> None:
    for path in ("/", "/v1/none", "/openapi.json", "/docs", "/v1/../v1/cluster"):
        with served.http() as http:
            answer = http.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "Bearer kshunt_000000000000_" + "A" * 43,
        "Bearer " + "x" * 20_000,
        "Bearer a.b.c",
    ],
)
def test_a_credential_that_is_none_lets_nobody_in(served: Served, header: str) -> None:
    with served.http() as http:
        answer = http.get("/v1/cluster", headers={"authorization": header})
    assert answer.status_code in (400, 401)


# The client


def test_the_client_shows_its_token_and_the_audit_names_its_holder(client: BackendClient) -> None:
    rates = {1: ThrottledRate(1_000_000, 1_000_000)}
    assert client.throttles.alter_rates(rates, Change(who="somebody else")).results[0].ok
    client.throttles.alter_rates({1: ThrottledRate(None, None)})
    _, rows = client.audit.rows()
    assert {row.who for row in rows if isinstance(row, AuditEntry)} == {"operator"}
    assert rows


def test_a_token_from_a_file_or_a_command_is_shown(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSHUNT_CA_FILE", str(served.files.ca))
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("kshunt_old\n")
    monkeypatch.setenv("KSHUNT_TOKEN_FILE", str(path))
    with BackendClient(served.url) as client:
        with pytest.raises(BackendError, match="not valid"):
            client.cluster()
        # What was renewed on disk is shown when the old one is refused.
        path.write_text(served.tokens["viewer"] + "\n")
        assert client.cluster().brokers == 4
    monkeypatch.delenv("KSHUNT_TOKEN_FILE")
    monkeypatch.setenv("KSHUNT_TOKEN_COMMAND", f"cat {path}")
    with BackendClient(served.url) as client:
        assert client.cluster().brokers == 4


def test_a_certificate_that_nobody_vouches_for_is_not_believed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSHUNT_TOKEN", served.tokens["viewer"])
    with (
        BackendClient(served.url) as client,
        pytest.raises(BackendUnreachable, match="certificate"),
    ):
        client.cluster()


def test_streams_reach_a_client_over_tls(client: BackendClient) -> None:
    with closing(client.snapshots()) as snapshots:
        assert next(snapshots).topics


def test_a_token_that_is_revoked_is_out_and_its_streams_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, text = served.file.create("brief", Role.VIEWER)
    with (
        served.http(text) as http,
        http.stream("GET", "/v1/events", timeout=LIMITS.credential_s + DEADLINE_S) as stream,
    ):
        assert stream.status_code == 200
        served.file.revoke(token.id)
        assert http.get("/v1/cluster").status_code == 401
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in stream.iter_bytes():
                pass


# Limits


def test_one_that_asks_too_often_waits_and_others_do_not(served: Served) -> None:
    _, text = served.file.create("eager", Role.VIEWER)
    with served.http(text) as http, served.http(served.tokens["viewer"]) as other:
        refused: list[httpx.Response] = []
        while not refused:
            # Together they ask far more often than one may.
            with ThreadPoolExecutor(16) as asking:
                answers = asking.map(lambda _: http.get("/v1/none"), range(500))
                refused = [each for each in answers if each.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1
        assert other.get("/v1/cluster").status_code == 200


async def test_nothing_is_kept_of_those_who_have_no_stream_open() -> None:
    class Everybody:
        async def caller(self, text: str) -> Caller:
            return Caller(text, Role.VIEWER, text)

    asked = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)

    async def nothing(*_: Any) -> None:
        return None

    layer = AuthenticationLayer(
        app, Declared(FastAPI()), AccessPolicy(credentials=[Everybody()]), SystemClock()
    )
    for number in range(50):
        headers = [(b"authorization", b"Bearer %d" % number)]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        await layer(scope, nothing, nothing)
    assert len(asked) == 50
    assert not layer._streams


def test_one_has_only_so_many_streams(served: Served) -> None:
    _, text = served.file.create("many", Role.VIEWER)
    with served.http(text) as http:
        open_ones = []
        for _ in range(LIMITS.streams_per_caller):
            request = http.build_request("GET", "/v1/events")
            open_ones.append(http.send(request, stream=True))
        assert [each.status_code for each in open_ones] == [200] * len(open_ones)
        assert http.get("/v1/events").status_code == 429
        open_ones.pop().close()

        def has_room() -> bool:
            with http.stream("GET", "/v1/events") as answer:
                return answer.status_code == 200

        wait_until(has_room, DEADLINE_S, "its place is free again")
        for each in open_ones:
            each.close()


def test_a_connection_that_says_too_little_is_closed(served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.files.ca))
    with (
        socket.create_connection(("127.0.0.1", served.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as slow,
    ):
        slow.settimeout(LIMITS.header_s + DEADLINE_S)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: lo")
        assert slow.recv(1) == b""


# A port without credentials


@pytest.fixture(scope="module")
def plain(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_ports(1)[0]
    folder = tmp_path_factory.mktemp("plain")
    with serve_process(bootstrap, folder / "backend", "--listen", f"127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:1"}, 200),
        ({"host": "rebound.example.org"}, 403),
        ({"host": "127.0.0.1.example.org"}, 403),
        ({"host": "a]b"}, 403),
        ({"origin": "https://example.org"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_a_web_page_cannot_ask(plain: str, headers: dict[str, str], status: int) -> None:
    assert httpx.get(f"{plain}/v1/cluster", headers=headers).status_code == status


# What it refuses to be

WRONG_USAGE = {
    *("must be given together", "not an https address", "are for a TCP port"),
    "not in the form HOST:PORT",
}
"""The flags contradict each other, whatever is in files and on the network."""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "0.0.0.0:0"], "TLS (--tls-certificate and --tls-key) and credentials"),
        (["--listen", "kshunt:0"], "kshunt is not a loopback address"),
        (["--listen", "0.0.0.0:0", "--tokens", "TOKENS"], "TLS"),
        (["--listen", "0.0.0.0:0", "--tls-certificate", "CERT", "--tls-key", "KEY"], "credentials"),
        (["--listen", "127.0.0.1:0", "--tls-certificate", "CERT"], "must be given together"),
        (["--listen", "127.0.0.1:0", "--tls-certificate", "KEY", "--tls-key", "CERT"], "cannot be"),
        (
            ["--listen", "127.0.0.1:0", "--tls-certificate", "CERT", "--tls-key", "NONE"],
            "cannot be",
        ),
        (["--listen", "127.0.0.1:0", "--tokens", "NONE"], "cannot be read"),
        (["--listen", "127.0.0.1:0", "--oidc-issuer", "https://x"], "must be given together"),
        (
            [
                *("--listen", "127.0.0.1:0", "--oidc-issuer", "https://x"),
                *("--oidc-audience", "k", "--oidc-keys", "http://id.example.org/keys"),
            ],
            "not an https address",
        ),
        (["--socket", "SOCKET", "--tokens", "TOKENS"], "are for a TCP port"),
        (["--listen", "nowhere"], "not in the form HOST:PORT"),
        (["--listen", "127.0.0.1:²"], "not in the form HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "not in the form HOST:PORT"),
    ],
)
def test_it_does_not_start(
    bootstrap: str, served: Served, tmp_path: Path, options: list[str], said: str
) -> None:
    folder = served.files.ca.parent
    named = {
        "TOKENS": str(folder.parent / "tokens.json"),
        "CERT": str(folder / "broker.pem"),
        "KEY": str(folder / "broker.key"),
        "NONE": str(tmp_path / "none"),
        "SOCKET": str(tmp_path / "k.sock"),
    }
    words = [named.get(word, word) for word in options]
    done = refused_start("--bootstrap-server", bootstrap, *words)
    assert done.returncode == (2 if said in WRONG_USAGE else 1), done.stderr
    assert said in done.stderr


def test_what_is_logged_holds_no_secret(served: Served) -> None:
    log = (served.files.ca.parent.parent / "backend.log").read_text()
    for text in served.tokens.values():
        assert text.split("_", 2)[2] not in log
    assert json.dumps("authorization") not in log
