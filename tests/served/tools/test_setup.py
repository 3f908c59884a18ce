"""What make says where the packages of a lock file cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DEADLINE_S = 120.0


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_set_up_without_an_index_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    done = subprocess.run(
        ["make", "demo", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env=inherited | nowhere,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert "installing what requirements.lock names" in done.stdout
    assert "No matching distribution found" in done.stderr
    assert "so it needs a network" in done.stderr
    assert not (tmp_path / "venv" / ".installed").exists()
