"""The installed package: links to the folders, one version, and its name before each module's."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshunt import __version__
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "kshunt"
FOLDERS = ("backend", "tui", "themes")
SOURCES = sorted(
    path for part in ("src", "backend", "tui", "tests") for path in (ROOT / part).rglob("*.py")
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NO_MODULES = ("test_package.py", "test_coverage_table.py")
"""Files of tests in which such names stand for something else."""
MODULE = re.compile(rf"(?<![\w./-])({'|'.join(FOLDERS)})\.(\w+)")


def bare(text: str) -> list[str]:
    """Modules that a text names without the package that they are in."""
    return [found[0] for found in MODULE.finditer(text) if _is_there(found[1], found[2])]


def _is_there(folder: str, name: str) -> bool:
    return any((ROOT / folder / f"{name}{end}").exists() for end in ("", ".py"))


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_folders_of_the_repository_are_in_it_by_relative_links() -> None:
    links = {path.name: os.readlink(path) for path in PACKAGE.iterdir() if path.is_symlink()}
    assert links == {name: f"../../{name}" for name in FOLDERS}
    assert (PACKAGE / "py.typed").exists()


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == __version__


def test_strings_name_modules_by_the_package() -> None:
    named = [path for path in SOURCES if path.name not in NO_MODULES]
    # Few files name one at all, and those are parsed.
    looked = [path for path in named if bare(path.read_text())]
    found = {str(path.relative_to(ROOT)): bare("\n".join(strings(path))) for path in looked}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_documents_name_modules_by_the_package() -> None:
    found = {path.name: bare(path.read_text()) for path in DOCUMENTS}
    assert {name: modules for name, modules in found.items() if modules} == {}


@pytest.mark.parametrize("text", ["see backend.clock", "tui.app:KshuntApp"])
def test_a_bare_name_is_noticed(text: str) -> None:
    assert bare(text)


@pytest.mark.parametrize("text", ["kshunt.backend.clock", "backend.acts", "backend/clock.py"])
def test_other_words_are_none(text: str) -> None:
    assert not bare(text)
