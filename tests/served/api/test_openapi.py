"""Every route against its own OpenAPI, with requests good and bad.

The embedded cluster gets many requests, each with an admin's token. There the backend refuses a
request without a token or with a wrong one. Real Kafka gets fewer, as each change takes a while.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.clock import SystemClock
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.limits import LIMITS
from tests.support.admin import connected, unthrottle
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import running
from tests.support.ports import free_ports
from tests.support.serving import serve_process
from tests.support.topics import create_topic

pytestmark = pytest.mark.slow

PHASES = {"embedded": ("coverage,fuzzing", "8"), "kafka": ("fuzzing", "3")}
"""By cluster: what is tried, and how many requests a route are made up at random."""
ANSWERS_S = "60"
"""How long the client waits for an answer on a busy machine. The first answer describes the
routes."""
ENDLESS = ("/v1/replicas/stream", "/v1/events")
"""Streams, which answer for ever; `tests/kafka/test_backend.py` and `test_server.py` read them."""


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bootstrap(flavour: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if flavour == "embedded":
        with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
            yield cluster.bootstrap_servers
        return
    kafka: RealKafka = request.getfixturevalue("kafka")
    yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def token(flavour: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An admin's, and the file that lets it in; an empty one where nobody is asked for any."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    if flavour != "embedded":
        return "", file
    return TokenFile(file, SystemClock()).create("schemathesis", Role.ADMIN)[1], file


@pytest.fixture(scope="module")
def address(
    flavour: str,
    bootstrap: str,
    token: tuple[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """A backend on a TCP port; whatever the requests throttled is lifted afterwards."""
    create_topic(bootstrap, "openapi", [[1], [2]])
    port = free_ports(1)[0]
    text, file = token
    options = ["--listen", f"127.0.0.1:{port}", *(["--tokens", str(file)] if text else [])]
    folder = tmp_path_factory.mktemp("openapi") / "backend"
    with serve_process(bootstrap, folder, *options), pytest.MonkeyPatch.context() as environment:
        url = f"http://127.0.0.1:{port}"
        if text:
            environment.setenv("KSHUNT_TOKEN", text)
        yield url
    if flavour == "kafka":
        asyncio.run(lifted(bootstrap))


async def lifted(bootstrap: str) -> None:
    """Take off what random requests throttled, whichever backend acted on them."""
    async with connected(bootstrap) as admin:
        await unthrottle(admin, (1, 2, 3))


def test_every_route_keeps_its_word(
    address: str, token: tuple[str, Path], flavour: str, tmp_path: Path
) -> None:
    phases, examples = PHASES[flavour]
    command = [str(Path(sys.executable).with_name("schemathesis"))]
    command += ["--config-file", str(Path(__file__).with_name("schemathesis.toml"))]
    command += ["run", f"{address}/openapi.json", "--generation-deterministic", "--no-color"]
    command += ["--max-examples", examples, "--phases", phases, "--warnings", "off"]
    # One route at a time: Python 3.11 cannot parse sources in several threads without fault, and
    # not more than one caller may have planners at work.
    command += ["--workers", "1", "--request-timeout", ANSWERS_S]
    # How soon a request is made up says how busy the machine is.
    command += ["--wait-for-schema", ANSWERS_S, "--suppress-health-check", "too_slow"]
    if token[0]:
        command += ["--header", f"Authorization: Bearer {token[0]}"]
        # Below what one credential may ask.
        command += ["--rate-limit", f"{LIMITS.requests_per_s * 0.9:.0f}/s"]
    for path in ENDLESS:
        command += ["--exclude-path", path]
    # Without it each request looks for proxies in all of the environment: a sixth of the work.
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6_000:]}\n{done.stderr[-1_000:]}"
    assert "No issues found" in done.stdout


def test_the_streams_are_described(address: str, token: tuple[str, Path]) -> None:
    shown = {"authorization": f"Bearer {token[0]}"} if token[0] else {}
    described = httpx.get(f"{address}/openapi.json", headers=shown).json()["paths"]
    for path in ENDLESS:
        assert "200" in described[path]["get"]["responses"]
