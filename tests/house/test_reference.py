"""The pages of docs/reference are what the code says, and they are all of its pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kshunt.backend.cli.commands import whole_table
from tests.support.documents.reference import COMMAND, FOLDER, pages
from tests.support.paths import ROOT


@cache
def made() -> dict[Path, str]:
    """Each page as the code makes it; not at import, for every worker imports this file."""
    return dict(pages())


def words(text: str) -> list[str]:
    """The words of a page: versions of Python break the lines of a help text differently."""
    return text.split()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.name)
def test_a_page_is_what_the_code_says(path: Path) -> None:
    assert words(path.read_text("utf-8")) == words(made()[path]), f"run `{COMMAND}`"


def test_there_is_no_page_that_nothing_makes() -> None:
    assert set(FOLDER.glob("*.md")) == set(made())


def test_every_command_is_there() -> None:
    page = (FOLDER / "command-line.md").read_text("utf-8")
    titles = re.findall(r"^## `(.*)`$", page, re.MULTILINE)
    assert set(titles) == {command.prog for command in whole_table().every()}


def test_every_variable_of_the_environment_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "operating" / "settings.md").read_text()
    sources = [path for top in ("backend", "tui") for path in (ROOT / top).rglob("*.py")]
    used = {
        name for path in sources for name in re.findall(r"\bKSHUNT_[A-Z_]+\b", path.read_text())
    }
    assert {name for name in used if f"`{name}" not in manual} == set()
