"""Two processes that serve one cluster: what is asked of one and carried out by the other."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from kshunt.backend.access.cluster_keys import ClusterKeys, write_keys
from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.forwarding.outbound import FORWARDED_TO
from kshunt.backend.clock import SystemClock
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.brokers.tls import make_tls_files
from tests.support.embedded.background import running
from tests.support.ports import free_ports
from tests.support.serving import serve_process
from tests.support.topics import create_topic

DEADLINE_S = 60.0
SHAPES = (
    "/v1/x/../elections/unclean",
    "/v1/x/%2e%2e/elections/unclean",
    "/v1/./elections/unclean",
    "/v1//elections/unclean",
    "/x/../v1/elections/unclean",
    "/v1/elections/preferred/../unclean",
)
RATE = {"rates": [{"broker": 1, "leader_bytes_per_s": 1_000_000, "follower_bytes_per_s": None}]}
UNCLEAN = {"partitions": [{"topic": "orders", "partition": 0}], "confirm": ["orders-0"]}


@dataclass
class Two:
    """A stand-by, and the backend that acts."""

    asked: str
    """Address of the stand-by."""
    active: str
    tokens: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: object, held: str = "") -> httpx.Response:
        """The stand-by's answer to a caller with the token of the role `held`, or with none."""
        headers = {"authorization": f"Bearer {self.tokens[held]}"} if held else {}
        with _http(self.asked) as http:
            return http.post(path, json=body, headers=headers)


def _http(address: str) -> httpx.Client:
    if address.startswith("https:"):
        verify = ssl.create_default_context(cafile=os.environ["KSHUNT_CA_FILE"])
        return httpx.Client(base_url=address, timeout=DEADLINE_S, verify=verify)
    if address.startswith("unix:"):
        transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
        return httpx.Client(transport=transport, base_url="http://kshunt", timeout=DEADLINE_S)
    return httpx.Client(base_url=address, timeout=DEADLINE_S)


@contextmanager
def two(
    folder: Path, active: tuple[str, ...], standby: tuple[str, ...], authority: str = ""
) -> Iterator[Two]:
    """Two backends of a cluster of their own; the first acts. `PORT` and `TOKENS` stand for such
    of theirs; the stand-by believes an authority of its own where one is named."""
    file = TokenFile(folder / "tokens.json", SystemClock())
    tokens = {role.value: file.create(role.value, role)[1] for role in Role}
    addresses = []
    with ExitStack() as stack:
        cluster = stack.enter_context(running(ClusterSpec(brokers=plain_brokers(3))))
        bootstrap = cluster.bootstrap_servers
        create_topic(bootstrap, "orders", [[1, 2], [2, 3]])
        for name, options in (("acts", active), ("asked", standby)):
            port = free_ports(1)[0]
            meant = {"PORT": f"127.0.0.1:{port}", "TOKENS": str(folder / "tokens.json")}
            words = [meant.get(word, word) for word in options]
            if name == "asked" and authority:
                os.environ["KSHUNT_CA_FILE"] = authority
            stack.enter_context(serve_process(bootstrap, folder / f"{name}.sock", *words))
            by_port = "--listen" in words
            scheme = "https" if "--tls-key" in words else "http"
            addresses.append(
                f"{scheme}://127.0.0.1:{port}" if by_port else f"unix:{folder / name}.sock"
            )
            if name == "acts":
                shown = {"authorization": f"Bearer {tokens['admin']}"}
                with _http(addresses[0]) as http:
                    begun = http.post("/v1/throttles/rates", json=RATE, headers=shown)
                assert begun.status_code == 200, begun.text
        yield Two(addresses[1], addresses[0], tokens)


TOLD_APART = ("--listen", "PORT", "--tokens", "TOKENS")


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """The stand-by asks for tokens and for two people; who acts has a private socket."""
    folder = tmp_path_factory.mktemp("lax")
    with two(folder, (), (*TOLD_APART, "--two-person", "unclean,shrink")) as found:
        yield found


def answer_to(address: str, path: str, token: str) -> str:
    """What comes back for a POST whose path nobody has tidied up."""
    host, _, port = address.removeprefix("http://").partition(":")
    body = b"{}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        connection.sendall(head.encode() + body)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer.decode()


@pytest.mark.parametrize("path", SHAPES)
def test_a_viewer_reaches_no_other_route_through_a_stand_by(lax: Two, path: str) -> None:
    answer = answer_to(lax.asked, path, lax.tokens["viewer"])
    assert answer.startswith("HTTP/1.1 400 "), answer
    assert "Nothing was done" in answer
    # The backend that acts would have taken the viewer for its owner.
    assert FORWARDED_TO not in answer


def test_a_change_is_not_handed_to_a_backend_that_asks_nobody_who_they_are(lax: Two) -> None:
    answer = lax.post("/v1/throttles/rates", {**RATE, "who": "mallory"}, "operator")
    assert answer.status_code == 409
    assert "asks callers for no credentials" in answer.json()["detail"]
    assert "--tokens" in answer.json()["advice"]
    with BackendClient(lax.active) as client:
        assert "mallory" not in {row.who for row in client.audit.rows()[1] if hasattr(row, "who")}


def test_a_lone_admin_runs_no_unclean_election_where_the_stand_by_wants_two(lax: Two) -> None:
    answer = lax.post("/v1/elections/unclean", UNCLEAN, "admin")
    assert answer.status_code == 409
    assert "changes that need one here (shrink, unclean)" in answer.json()["detail"]


def test_an_operator_keeps_their_name_and_a_viewer_their_role(tmp_path: Path) -> None:
    with two(tmp_path, TOLD_APART, TOLD_APART) as found:
        answer = found.post("/v1/throttles/rates", {**RATE, "who": "mallory"}, "operator")
        assert answer.status_code == 200, answer.text
        assert answer.headers[FORWARDED_TO] == found.active
        assert found.post("/v1/throttles/rates", RATE, "viewer").status_code == 403
        shown = {"authorization": f"Bearer {found.tokens['viewer']}"}
        with _http(found.active) as http:
            said = http.get("/v1/audit", headers=shown).json()["entries"]
        assert "mallory" not in {one["who"] for one in said}
        assert {"admin", "operator"} <= {one["who"] for one in said}


@pytest.mark.parametrize("believed", [True, False])
def test_the_certificate_of_the_backend_that_acts_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believed: bool
) -> None:
    files = make_tls_files(tmp_path / "tls")
    monkeypatch.setenv("KSHUNT_CA_FILE", str(files.ca))
    tls = (
        *("--tls-certificate", str(tmp_path / "tls" / "broker.pem")),
        *("--tls-key", str(tmp_path / "tls" / "broker.key")),
    )
    other = [] if believed else [str(make_tls_files(tmp_path / "other").ca)]
    with two(tmp_path, (*TOLD_APART, *tls), TOLD_APART, *other) as found:
        answer = found.post("/v1/throttles/rates", RATE, "operator")
        assert answer.status_code == (200 if believed else 409), answer.text
        assert believed or "CERTIFICATE_VERIFY_FAILED" in answer.text


def test_two_private_backends_of_one_user_work_together(tmp_path: Path) -> None:
    with two(tmp_path, (), ()) as found:
        answer = found.post("/v1/throttles/rates", {**RATE, "who": "ada"})
        assert answer.status_code == 200, answer.text
        assert answer.headers[FORWARDED_TO] == found.active
        with BackendClient(found.active) as client:
            assert "ada" in {row.who for row in client.audit.rows()[1] if hasattr(row, "who")}


def test_whoever_shows_nothing_does_not_become_an_admin_elsewhere(tmp_path: Path) -> None:
    with two(tmp_path, TOLD_APART, ()) as found:
        answer = found.post("/v1/throttles/rates", RATE)
        assert answer.status_code == 409
        assert "only from callers with a credential" in answer.json()["detail"]
        assert "--token-file" in answer.json()["advice"]


def test_everybody_on_a_host_is_not_the_owner_of_a_socket(tmp_path: Path) -> None:
    with two(tmp_path, (), ("--listen", "PORT")) as found:
        answer = found.post("/v1/throttles/rates", RATE)
        assert answer.status_code == 403
        assert "open to fewer people" in answer.json()["detail"]


def test_backends_with_other_keys_hand_each_other_nothing(tmp_path: Path) -> None:
    write_keys(tmp_path / "others", ClusterKeys.new())
    with two(tmp_path, (), ("--cluster-keys", str(tmp_path / "others"))) as found:
        answer = found.post("/v1/throttles/rates", RATE)
        assert answer.status_code == 409
        assert "--cluster-keys" in answer.text
