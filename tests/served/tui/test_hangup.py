"""A dashboard whose terminal is gone ends, also where the system sends it no signal."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.support.terminal import terminal

DEADLINE_S = 30.0


@pytest.mark.parametrize("controlling", [True, False], ids=["a shell", "a container"])
def test_it_ends_with_its_terminal(tmp_path: Path, controlling: bool) -> None:
    command = [sys.executable, "-m", "backend", "--backend", f"unix:{tmp_path / 'nobody'}"]
    own = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with terminal(command, own, controlling=controlling) as shown:
        shown.until(b"no backend", DEADLINE_S)
        shown.hang_up()
        # It has closed its own side, so that there is nothing to read while it ends.
        assert shown.process.wait(DEADLINE_S) == -signal.SIGHUP
