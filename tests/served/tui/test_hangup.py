"""A dashboard whose terminal is gone ends, also where the system sends it no signal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.terminal import terminal

DEADLINE_S = 30.0


NOHUP = ("sh", "-c", """trap "" HUP; exec "$@" """, "sh")


@pytest.mark.parametrize(
    ("before", "controlling"),
    [((), True), ((), False), (NOHUP, True)],
    ids=["a shell", "a container", "nohup"],
)
def test_it_ends_with_its_terminal(
    tmp_path: Path, before: Sequence[str], controlling: bool
) -> None:
    kshunt = [sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'nobody'}"]
    command = [*before, *kshunt]
    own = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with terminal(command, own, controlling=controlling) as shown:
        shown.until(b"no backend", DEADLINE_S)
        shown.hang_up()
        # It has closed its own side, so that there is nothing to read while it ends.
        assert shown.process.wait(DEADLINE_S) == -signal.SIGHUP
