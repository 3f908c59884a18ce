"""Where `kshunt serve` serves when nobody says, and what it says of a port that asks nobody."""

from __future__ import annotations

import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.local_sockets import served_path
from tests.support.runs.forked import ForkedProgram

DEADLINE_S = 60.0


@contextmanager
def serve(bootstrap: str, log: Path, *options: str) -> Iterator[str]:
    """The line that says where it serves; what else it says is in the log."""
    with log.open("w") as output:
        arguments = ["serve", "--bootstrap-server", bootstrap, *options]
        process = ForkedProgram("kshunt", arguments, output)
    try:
        select.select([process.stdout], [], [], DEADLINE_S)
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        process.stdout.close()


def test_where_nobody_says_it_is_a_socket_of_the_cluster(
    bootstrap: str, own_runtime_dir: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with serve(bootstrap, log) as said:
        address = said.rpartition(" at ")[2].strip()
        with BackendClient(address) as client:
            path = served_path(client.cluster().cluster_id)
        assert address == f"unix:{path}"
        assert path.is_relative_to(own_runtime_dir)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with serve(bootstrap, tmp_path / "second") as nothing:
            assert nothing == ""
    assert "Another backend serves" in (tmp_path / "second").read_text()
    assert not path.exists()
    assert "Warning" not in log.read_text()


def test_an_id_is_safe_in_a_name(own_runtime_dir: Path) -> None:
    path = served_path("../" + "x" * 200)
    assert path.parent.is_relative_to(own_runtime_dir)
    assert path.name == "___" + "x" * 37 + ".sock"


def test_a_port_that_asks_nobody_is_warned_of_in_one_line(bootstrap: str, tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json", SystemClock()).create("ada", Role.VIEWER)
    told_apart = ("--tokens", str(tmp_path / "tokens.json"))
    for options, lines in (((), 1), (told_apart, 0)):
        with serve(bootstrap, tmp_path / "log", "--listen", "127.0.0.1:0", *options) as said:
            assert "http://127.0.0.1:" in said
        warned = [line for line in (tmp_path / "log").read_text().splitlines() if "Warning" in line]
        assert len(warned) == lines
        assert all("every user of this host is an admin" in line for line in warned)


def test_credentials_are_for_a_port_that_is_named(bootstrap: str, tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json", SystemClock()).create("ada", Role.VIEWER)
    with serve(bootstrap, tmp_path / "log", "--tokens", str(tmp_path / "tokens.json")) as said:
        assert said == ""
    assert "Give --listen HOST:PORT" in (tmp_path / "log").read_text()


def test_a_peer_is_named_by_https(bootstrap: str, tmp_path: Path) -> None:
    with serve(bootstrap, tmp_path / "log", "--peers", "https://a:1,http://b:1") as said:
        assert said == ""
    assert "--peers 'http://b:1'" in (tmp_path / "log").read_text()


def test_a_page_of_another_site_is_refused_and_none_is_served(
    bootstrap: str, tmp_path: Path
) -> None:
    with serve(bootstrap, tmp_path / "log", "--listen", "127.0.0.1:0") as said:
        url = said.rpartition(" at ")[2].strip()
        for site, status in (
            *(("cross-site", 403), ("same-site", 403), ("Cross-Site", 403), ("x", 403)),
            *(("same-origin", 200), ("none", 200)),
        ):
            headers = {"sec-fetch-site": site}
            assert httpx.get(f"{url}/healthz", headers=headers).status_code == status, site
        twice = [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]
        assert httpx.get(f"{url}/healthz", headers=twice).status_code == 403
        for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
            assert httpx.get(f"{url}{path}").status_code == 404
        described = httpx.get(f"{url}/openapi.json")
        assert described.headers["content-type"] == "application/json"
