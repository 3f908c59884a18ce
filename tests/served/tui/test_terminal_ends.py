"""A dashboard ends with its terminal; one that is ended or suspended gives the terminal back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.terminal import Terminal, terminal
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
NOHUP = ("sh", "-c", """trap "" HUP; exec "$@" """, "sh")
RESTORED = rb"\x1b\[\?1049l(?s:.*)\x1b\[\?25h"
"""The screen of the shell is back, and its cursor is shown."""
NO_MOUSE = rb"\x1b\[\?1003l"


@contextmanager
def dashboard(
    folder: Path, before: Sequence[str] = (), *, controlling: bool = True
) -> Iterator[Terminal]:
    """One that shows its first screen; no backend is there."""
    kshunt = [sys.executable, "-m", "kshunt", "--backend", f"unix:{folder / 'nobody'}"]
    with terminal([*before, *kshunt], folders(folder), controlling=controlling) as shown:
        shown.until(b"no backend", DEADLINE_S)
        yield shown


def folders(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


@pytest.mark.parametrize(
    ("before", "controlling"),
    [((), True), ((), False), (NOHUP, True)],
    ids=["a shell", "a container", "nohup"],
)
def test_it_ends_with_its_terminal(
    tmp_path: Path, before: Sequence[str], controlling: bool
) -> None:
    with dashboard(tmp_path, before, controlling=controlling) as shown:
        shown.hang_up()
        # It has closed its own side, so that there is nothing to read while it ends.
        assert shown.process.wait(DEADLINE_S) == -signal.SIGHUP


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_restores_the_terminal(tmp_path: Path, number: signal.Signals) -> None:
    with dashboard(tmp_path) as shown:
        shown.written = b""
        shown.process.send_signal(number)
        assert shown.ended(DEADLINE_S) == 128 + number
        shown.until(NO_MOUSE, DEADLINE_S)
        shown.until(RESTORED, DEADLINE_S)


def test_ctrl_z_suspends_it_and_a_continued_one_draws_again(tmp_path: Path) -> None:
    with dashboard(tmp_path) as shown:
        shown.written = b""
        shown.press(b"\x1a")
        shown.until(RESTORED, DEADLINE_S)
        wait_until(lambda: state_of(shown.process.pid) == "T", DEADLINE_S, "suspended")
        shown.written = b""
        shown.process.send_signal(signal.SIGCONT)
        shown.until(rb"\x1b\[\?1049h(?s:.*)no backend", DEADLINE_S)


def state_of(pid: int) -> str:
    """The letter of the state of a process, as `ps` has it."""
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("words", [["--backend", "unix:nobody"], ["demo"]])
def test_without_a_terminal_nothing_is_started(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **folders(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kshunt: The dashboard needs a terminal; this is none:")
    assert "Nothing was started." in done.stderr
    assert list(tmp_path.iterdir()) == []
