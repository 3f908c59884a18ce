"""The lock files: one of what runs kshunt, one with what tests and checks also need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

RUN = ROOT / "requirements.lock"
DEV = ROOT / "requirements-dev.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILT_BY = {"hatchling"}


def versions(path: Path) -> dict[str, set[str]]:
    """The versions of each package of a lock file."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9_.-]+)==([^\s;]+)", path.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def names(requirements: list[str]) -> set[str]:
    """The packages that a list of requirements names."""
    return {re.split(r"[\[<>=]", line)[0] for line in requirements}


@pytest.mark.parametrize("path", [RUN, DEV], ids=lambda path: path.name)
def test_every_package_is_locked_by_hash(path: Path) -> None:
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    assert len(entries) > 20
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_what_runs_is_what_was_tested() -> None:
    run, dev = versions(RUN), versions(DEV)
    assert {name: dev.get(name) for name in run} == run


def test_each_holds_what_the_project_asks_for() -> None:
    project = PROJECT["project"]
    wanted = names(project["dependencies"])
    assert wanted | names(PROJECT["build-system"]["requires"]) <= versions(RUN).keys()
    development = names(project["optional-dependencies"]["dev"])
    assert development <= versions(DEV).keys()
    assert development & versions(RUN).keys() == BUILT_BY
