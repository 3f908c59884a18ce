"""Processes that kshunt starts run its own modules, whatever lies in the working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kshunt.backend.child_processes import begun, command_of, environment, line_of
from tests.support.foreign_module import PLANTED
from tests.support.paths import ROOT

DEADLINE_S = 240.0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that leave a mark where they are run."""
    for package in ("kshunt", "backend", "json", "pyarrow", "planted"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(PLANTED)
        (tmp_path / package / "__main__.py").write_text(PLANTED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_in(here: Path) -> list[Path]:
    """The modules of a working directory that were run."""
    return list(here.rglob("was-run"))


@pytest.mark.parametrize("search", [None, "", ".", ":", "::/no/such/folder", "relative:."])
async def test_the_working_directory_is_not_searched(
    here: Path, monkeypatch: pytest.MonkeyPatch, search: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if search is not None:
        monkeypatch.setenv("PYTHONPATH", search)
    process = await begun(command_of("--version"), together=True)
    assert process.stdout is not None
    assert (await line_of(process.stdout) or "").startswith("kshunt ")
    await process.wait()
    assert run_in(here) == []


def test_what_a_process_starts_in_turn_does_not_search_it_either(here: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "import json"], env=environment(), check=True, timeout=DEADLINE_S
    )
    assert run_in(here) == []


def test_absolute_entries_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", "b", "", "/c"]))
    assert environment()["PYTHONPATH"].split(os.pathsep) == [str(ROOT / "src"), "/a", "/c"]


WORKERS = """
from collections.abc import Iterator

import pyarrow

from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session

def look(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    import importlib.util
    for batch in batches:
        found = importlib.util.find_spec("planted") is not None
        yield pyarrow.RecordBatch.from_pydict({"found": [found]})

session = start_session(PipelineSettings(master="local[1]", memory="1g"))
rows = session.range(1).mapInArrow(look, "found boolean").collect()
print("found:", [row.found for row in rows])
session.stop()
"""


@pytest.mark.spark
def test_workers_of_spark_do_not_search_it(here: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", WORKERS],
        cwd=here,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert "found: [False]" in done.stdout, done.stderr
    assert run_in(here) == []
