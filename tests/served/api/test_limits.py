"""Nobody keeps a backend from answering by connections that say too little."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.connections.acceptor import Acceptor
from kshunt.backend.api.connections.connection_limits import (
    ConnectionLimits,
    Connections,
    Phase,
    peer_of,
)
from kshunt.backend.api.connections.http_protocol import DeadlineProtocol
from kshunt.backend.clock import SystemClock
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.limits import LIMITS, Limits
from tests.support.brokers.tls import make_tls_files
from tests.support.embedded.background import running
from tests.support.faults.slow_clients import (
    HALF_BODY,
    HALF_HEAD,
    HALF_HELLO,
    is_closed,
    more_descriptors,
    serving_with,
    slow_clients,
)
from tests.support.ports import free_ports
from tests.support.serving import serve_process
from tests.support.waiting import wait_until, wait_until_async

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    more_descriptors(4_096)
    with running(ClusterSpec(brokers=plain_brokers(1))) as cluster:
        yield cluster.bootstrap_servers


# --- deciding


@dataclass(eq=False)
class One:
    """A connection in words."""

    peer: str
    phase: Phase = Phase.HEAD
    dropped: bool = field(default=False)

    def drop(self) -> None:
        self.dropped = True


def held(room: ConnectionLimits, *ones: One) -> Connections:
    found = Connections(room)
    for one in ones:
        found.add(one)
    return found


ROOM = ConnectionLimits(4, 2, 2, 1)


@pytest.mark.parametrize("descriptors", [0, 16, 64, 256, 1_024, 4_096, 1_000_000])
def test_half_of_the_descriptors_are_the_backends_own(descriptors: int) -> None:
    room = ConnectionLimits.of(descriptors)
    assert room.in_all <= max(8, descriptors // 2)
    assert room.in_all <= LIMITS.connections
    assert 1 <= room.handshakes_per_peer <= room.handshakes <= room.per_peer <= room.in_all // 2


def test_a_peer_with_too_many_gives_up_its_own_that_has_got_least_far() -> None:
    other = One("b", Phase.HANDSHAKE)
    old, new = One("a", Phase.BODY), One("a", Phase.HEAD)
    assert held(ROOM, other, old, new).make_room("a", handshake=False)
    assert [each.dropped for each in (other, old, new)] == [False, False, True]


def test_of_equals_the_oldest_goes() -> None:
    old, new = One("a"), One("a")
    connections = held(ROOM, old, new)
    assert connections.make_room("a", handshake=False)
    assert (old.dropped, new.dropped) == (True, False)
    assert (len(connections), connections.given_up) == (1, 1)


def test_what_is_being_answered_stays_and_the_new_one_is_refused() -> None:
    busy = [One("a", Phase.ANSWER), One("a", Phase.ANSWER)]
    connections = held(ROOM, *busy)
    assert not connections.make_room("a", handshake=False)
    assert not any(each.dropped for each in busy)
    assert connections.refused == 1
    assert connections.make_room("b", handshake=False)


def test_when_all_places_are_taken_the_peer_with_the_most_gives_one_up() -> None:
    ones = [One("a"), One("b"), One("b"), One("c")]
    assert held(ROOM, *ones).make_room("d", handshake=False)
    assert [each.dropped for each in ones] == [False, True, False, False]


def test_handshakes_are_bounded_by_peer_and_in_all() -> None:
    ones = [One("a", Phase.HANDSHAKE), One("b", Phase.HANDSHAKE)]
    connections = held(ROOM, *ones)
    assert connections.make_room("b", handshake=True)
    assert [each.dropped for each in ones] == [False, True]
    connections = held(ROOM, One("a", Phase.HANDSHAKE), One("b", Phase.HANDSHAKE))
    assert connections.make_room("c", handshake=True)
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_ipv6_peer_is_a_network(host: str, peer: str) -> None:
    with socket.socket() as one:
        assert peer_of(one, (host, 1)) == peer


def test_a_peer_on_a_socket_is_its_user() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert peer_of(here, "").startswith("uid ")


# --- accepting


class Failing(socket.socket):
    """A listening socket whose next `failures` accepts fail for lack of descriptors."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def test_accepting_backs_off_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    config = uvicorn.Config(_nothing, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    with Failing(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        listener.failures = 4
        acceptor = Acceptor(
            listener,
            Connections(ConnectionLimits.of(1_024)),
            lambda: DeadlineProtocol(config, state, {}),
        )
        with caplog.at_level(logging.WARNING):
            port = listener.getsockname()[1]
            async with httpx.AsyncClient(timeout=DEADLINE_S) as http:
                assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 204
        acceptor.close()
        await acceptor.wait_closed()
        await wait_until_async(lambda: not state.connections, DEADLINE_S, "it is closed")
    said = [one for one in caplog.records if "cannot be accepted" in one.message]
    assert len(said) == 4


# --- serving


@pytest.mark.parametrize("said", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "head", "body"])
def test_slow_clients_do_not_keep_others_out(bootstrap: str, tmp_path: Path, said: bytes) -> None:
    path = tmp_path / "k.sock"
    with serving_with(256, bootstrap, path), slow_clients(str(path), 250, said):
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(
            base_url="http://kshunt", transport=transport, timeout=DEADLINE_S
        ) as http:
            for _ in range(3):
                assert http.get("/healthz").json() == {"status": "ok"}
                assert http.get("/readyz").status_code in (200, 503)
    log = (tmp_path / "k.log").read_text()
    assert log.count("\n") < 200
    assert "Too many open files" not in log


@dataclass(frozen=True)
class Place:
    """A backend over TLS, and a viewer's token."""

    port: int
    token: str
    ca: Path

    def connected(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.ca))
        plain = socket.create_connection(("127.0.0.1", self.port))
        plain.settimeout(DEADLINE_S)
        return context.wrap_socket(plain, server_hostname="localhost")


@pytest.fixture(scope="module")
def place(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("limits")
    files = make_tls_files(folder / "tls")
    tokens = TokenFile(folder / "tokens.json", SystemClock())
    text = tokens.create("vera", Role.VIEWER)[1]
    port = free_ports(1)[0]
    with serve_process(
        bootstrap,
        folder / "backend",
        *("--listen", f"127.0.0.1:{port}", "--tokens", str(folder / "tokens.json")),
        *("--tls-certificate", str(folder / "tls" / "broker.pem")),
        *("--tls-key", str(folder / "tls" / "broker.key")),
    ):
        yield Place(port, text, files.ca)


def test_half_a_handshake_is_ended_and_holds_up_nobody(place: Place) -> None:
    with slow_clients(("127.0.0.1", place.port), 200, HALF_HELLO) as half:
        with place.connected() as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"
        for each in half:
            each.settimeout(LIMITS.handshake_s + 30.0)
            assert is_closed(each)


def test_a_viewers_unfinished_body_is_refused_in_time(place: Place) -> None:
    head = HALF_BODY.replace(b"\r\n", b"\r\nauthorization: Bearer %s\r\n" % place.token.encode(), 1)
    with place.connected() as one:
        one.settimeout(LIMITS.body_grace_s + DEADLINE_S)
        one.sendall(head)
        assert one.recv(12) == b"HTTP/1.1 408"
        assert is_closed(one)


def test_a_refused_request_is_not_read_to_its_end(place: Place) -> None:
    head = HALF_BODY.replace(b"content-length: 1000", b"content-length: 15000000")
    with place.connected() as one:
        one.sendall(head)
        assert one.recv(12) == b"HTTP/1.1 401"
        one.settimeout(0.2)

        def closed() -> bool:
            with suppress(TimeoutError):
                try:
                    one.sendall(b" ")
                    return not one.recv(65_536) and is_closed(one)
                except (ConnectionError, ssl.SSLError):
                    return True
            return False

        wait_until(closed, DEADLINE_S, "the backend closes")


def test_a_connection_is_kept_where_a_refused_body_was_small(place: Place) -> None:
    verify = ssl.create_default_context(cafile=str(place.ca))
    with httpx.Client(base_url=f"https://127.0.0.1:{place.port}", verify=verify) as http:
        ports = set()
        for _ in range(3):
            answer = http.post("/v1/plans", json={})
            assert answer.status_code == 401
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
        assert len(ports) == 1


def test_limits_leave_room_for_many_dashboards() -> None:
    limits = Limits()
    assert limits.connections_per_peer > limits.streams
    assert ConnectionLimits.of(1_024).per_peer >= limits.connections_per_peer
