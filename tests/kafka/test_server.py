"""The serving process: its socket, its end, its loneliness, and its API against its own words."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.errors import BackendError, BackendUnreachable
from kshunt.backend.limits import LIMITS
from tests.support.brokers.launcher import RealKafka
from tests.support.paths import ROOT
from tests.support.serving import serve_process
from tests.support.waiting import wait_until


def serve_words(*options: str) -> tuple[int, str]:
    """Exit code and standard error of a backend that must not start."""
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", "serve", *options],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.kafka
def test_the_socket_is_for_its_owner_alone(kafka: RealKafka, tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with serve_process(kafka.bootstrap_servers, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        code, words = serve_words(
            "--bootstrap-server", kafka.bootstrap_servers, "--socket", str(path)
        )
        assert code == 1
        assert "Another backend serves" in words
        with BackendClient(f"unix:{path}") as client:
            assert client.cluster().brokers == 3


@pytest.mark.kafka
def test_a_killed_backends_socket_is_taken_over(kafka: RealKafka, tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with serve_process(kafka.bootstrap_servers, path) as process:
        process.kill()
        process.wait(10)
        assert path.exists()
    with serve_process(kafka.bootstrap_servers, path), BackendClient(f"unix:{path}") as client:
        assert client.cluster().brokers == 3


@pytest.mark.kafka
def test_sigterm_ends_open_streams_and_removes_the_socket(kafka: RealKafka, tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    ended: list[str] = []
    started = threading.Event()

    def read() -> None:
        try:
            with BackendClient(f"unix:{path}") as client:
                for _ in client.snapshots():
                    started.set()
            ended.append("ended")
        except BackendUnreachable as error:
            ended.append(error.title)

    with serve_process(kafka.bootstrap_servers, path) as process:
        reader = threading.Thread(target=read)
        reader.start()
        assert started.wait(20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        reader.join(10)
    assert len(ended) == 1
    assert not path.exists()


@pytest.mark.kafka
def test_a_private_backend_ends_when_nobody_needs_it(kafka: RealKafka, tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with serve_process(
        kafka.bootstrap_servers, path, "--linger", "--linger-seconds", "1"
    ) as process:
        with BackendClient(f"unix:{path}") as client:
            client.cluster()
        assert process.wait(20) == 0
    assert not path.exists()


@pytest.mark.kafka
def test_a_body_over_the_limit_is_refused(backend_address: str) -> None:
    transport = httpx.HTTPTransport(uds=backend_address.removeprefix("unix:"))
    with httpx.Client(base_url="http://kshunt", transport=transport, timeout=30) as http:
        large = b" " * (LIMITS.request_body_bytes + 1)
        assert http.post("/v1/reassignments", content=large).status_code == 413
        # Without a length beforehand too.
        unannounced = http.post("/v1/reassignments", content=iter([large]))
        assert unannounced.status_code == 413
        assert http.get("/healthz").json() == {"status": "ok"}


@pytest.mark.kafka
def test_there_are_only_so_many_streams(kafka: RealKafka, tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    with serve_process(kafka.bootstrap_servers, path), ExitStack() as stack:
        streams = [
            stack.enter_context(BackendClient(f"unix:{path}")).snapshots()
            for _ in range(LIMITS.streams)
        ]
        for stream in streams:
            next(stream)
        with BackendClient(f"unix:{path}") as late:
            with pytest.raises(BackendError, match="replica streams are open") as refused:
                next(late.snapshots())
            assert refused.value.status == 503
            streams.pop().close()
            wait_until(lambda: _is_served(late), 60, "a place is free again")
        for stream in streams:
            stream.close()


def _is_served(client: BackendClient) -> bool:
    stream = client.snapshots()
    try:
        next(stream)
    except BackendError:
        return False
    finally:
        stream.close()
    return True


@pytest.mark.kafka
def test_garbage_on_the_socket_does_not_stop_it(backend_address: str) -> None:
    path = backend_address.removeprefix("unix:")
    for garbage in (b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/x HTTP/1.1\r\n", b"\r\n"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
            raw.connect(path)
            raw.sendall(garbage)
    with BackendClient(backend_address) as client:
        assert client.cluster().brokers == 3


def test_no_address_but_loopback_is_served() -> None:
    code, words = serve_words("--bootstrap-server", "127.0.0.1:1", "--listen", "0.0.0.0:9999")
    assert code == 1
    assert "not a loopback address" in words


def test_an_unreachable_cluster_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    code, words = serve_words(
        "--bootstrap-server", f"127.0.0.1:{port}", "--socket", str(tmp_path / "k.sock")
    )
    assert code == 1
    assert f"127.0.0.1:{port}" in words
    assert "Traceback" not in words


def test_nobody_answers_is_said_plainly(tmp_path: Path) -> None:
    with (
        BackendClient(f"unix:{tmp_path / 'none.sock'}") as client,
        pytest.raises(BackendUnreachable, match="No backend answers"),
    ):
        client.cluster()


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a statement loads in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("statement", ["import kshunt.tui", "import kshunt.backend.cli.main"])
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    heavy = {"pyspark", "numpy", "pyarrow", "fastapi", "kafka", "confluent_kafka", "plotext"}
    assert not loaded_by(statement) & heavy


def test_the_client_loads_no_data_library() -> None:
    assert not loaded_by("import kshunt.backend.api.client.backend_client") & {
        "numpy",
        "pyarrow",
        "fastapi",
        "kafka",
    }


def test_help_needs_no_cluster_and_names_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("serve", "kafka-reassign-partitions"):
        assert command in done.stdout


def test_neither_or_both_addresses_is_a_usage_error() -> None:
    for options in ([], ["--backend", "unix:/x", "--bootstrap-server", "h:1"]):
        done = subprocess.run(
            [sys.executable, "-m", "kshunt", *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "either --bootstrap-server, --backend or --context" in done.stderr


def test_wait_until_is_not_vacuous() -> None:
    with pytest.raises(AssertionError, match="never"):
        wait_until(lambda: False, 0.01, "never")
