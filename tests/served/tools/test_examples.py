"""The systemd unit and the Dockerfile: what they lock down, and that a backend runs like that."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.local_sockets import answers
from tests.support.embedded.background import running
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

UNIT = ROOT / "examples" / "kshunt.service"
DOCKERFILE = ROOT / "examples" / "Dockerfile"
DEADLINE_S = 60.0
SET_MDWE = 65
"""`PR_SET_MDWE` of prctl(2), Linux 6.3: what MemoryDenyWriteExecute= of systemd does."""


def test_the_base_of_an_image_has_to_be_named() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    assert "ARG BASE" in lines
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"${BASE}"}
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER 10001:10001"]


def test_an_image_gets_what_the_lock_names() -> None:
    text = DOCKERFILE.read_text()
    assert "COPY requirements.lock /src/" in text
    assert "--require-hashes -r /src/requirements.lock" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_understood_and_locked_down(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/opt/kshunt/bin/kshunt", "/bin/true")
    copy.write_text(text.replace("User=kshunt", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout


def test_a_backend_runs_where_memory_is_never_written_and_run(tmp_path: Path) -> None:
    probe = f"import ctypes; raise SystemExit(ctypes.CDLL(None).prctl({SET_MDWE}, 1, 0, 0, 0))"
    if subprocess.run([sys.executable, "-c", probe], check=False, timeout=DEADLINE_S).returncode:
        pytest.skip("this kernel has no PR_SET_MDWE")
    assert "MemoryDenyWriteExecute=yes" in UNIT.read_text()
    path = tmp_path / "k.sock"
    with running(ClusterSpec(brokers=plain_brokers(1))) as cluster:
        words = ["serve", "--bootstrap-server", cluster.bootstrap_servers, "--socket", str(path)]
        runs_like_that(words, path)


def runs_like_that(words: list[str], path: Path) -> None:
    """A backend comes to serve although it may not write memory and then run it."""
    library = ctypes.CDLL(None)
    backend = subprocess.Popen(
        [sys.executable, "-P", "-m", "kshunt", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(path.parent)},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: library.prctl(SET_MDWE, 1, 0, 0, 0),
    )
    try:
        wait_until(lambda: answers(path) or backend.poll() is not None, DEADLINE_S, "it serves")
        assert backend.poll() is None, backend.stderr and backend.stderr.read()
    finally:
        backend.terminate()
        backend.wait(DEADLINE_S)
        if backend.stderr is not None:
            backend.stderr.close()
