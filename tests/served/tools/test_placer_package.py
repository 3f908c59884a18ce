"""A placer of one's own: installed as a package, found by the name of its entry point."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

USE = """
from kshunt.backend.placement.placer import UsableBroker, load_placer
from kshunt.backend.placement.placer_calls import PlacementRequest, place_with

placer = load_placer("rack-first", {"rack.first": "b"})
racks = {1: "a", 2: "b", 3: "c", 4: "b"}
brokers = [UsableBroker(number, rack, fenced=False) for number, rack in racks.items()]
assert place_with(placer, "rack-first", PlacementRequest(0, 2, 3, brokers)) == [(2, 4, 1)] * 2
"""


def run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package `rack_first` installed into it, without a network."""
    source = shutil.copytree(
        ROOT / "tests" / "support" / "packages" / "rack_first", tmp_path / "source"
    )
    target = tmp_path / "target"
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    result = run("-m", "pip", "install", "-q", *flags, "--target", str(target), str(source))
    assert result.returncode == 0, result.stderr
    return target


def test_an_installed_placer_is_found_by_its_name_and_places(installed: Path) -> None:
    assert (installed / "rack_first.py").exists()
    found = run("-c", USE, PYTHONPATH=os.pathsep.join([str(installed), str(ROOT / "src")]))
    assert found.returncode == 0, found.stderr
    absent = run("-c", USE, PYTHONPATH=str(ROOT / "src"))
    assert "'rack-first' is not a placer: no installed package has it." in absent.stderr
