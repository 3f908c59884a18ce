"""The page that compares the keys of tasks says what the test of the tasks presses."""

from __future__ import annotations

import re
from typing import Final

from tests.support.paths import ROOT

PAGE: Final = ROOT / "docs" / "architecture" / "terminal-peers.md"
TASKS: Final = ROOT / "tests" / "served" / "tui" / "test_tasks.py"
TITLE: Final = "\n## Fifteen tasks in keys, before and after\n"
COUNT: Final = 15
_ROW: Final = re.compile(r"^\| (\w[\w ]*) \| (\d+|not possible) \| (\d+) \| .+ \|$", re.MULTILINE)
_TASK: Final = re.compile(r'^    Task\("[\w.-]+", (\w+), (\d+)', re.MULTILINE)
_ALONE: Final = re.compile(r"^def (\w+)\(folder: Path\)(?:.+\n|\n)*?.+shown\.keys == (\d+)$", re.M)
"""The task that needs clusters of its own."""


def pressed(source: str) -> list[tuple[str, int]]:
    """Each task of the test with its keys: its function's name is its title."""
    found = (*_TASK.findall(source), *_ALONE.findall(source))
    return [(name.replace("_", " "), int(keys)) for name, keys in found]


def written(page: str) -> list[tuple[str, int]]:
    """Each task of the page with its keys of today."""
    section = page.split(TITLE)[1].split("\n## ")[0]
    return [(task.lower(), int(after)) for task, _, after in _ROW.findall(section)]


def test_the_page_has_the_keys_that_the_test_presses() -> None:
    found = written(PAGE.read_text("utf-8"))
    assert found == pressed(TASKS.read_text("utf-8"))
    assert len(found) == COUNT


def test_tasks_and_rows_are_read() -> None:
    source = """\
TASKS = (
    Task("drain", a_move_ends, 2, most=4),
)
def a_move_begins(folder: Path) -> None:
    with emulated() as shown:

        assert shown.keys == 3
"""
    assert pressed(source) == [("a move ends", 2), ("a move begins", 3)]
    head = "| Task | Before | After | How |\n|---|---|---|---|\n"
    page = f"{TITLE}{head}| A move ends | 5 | 2 | `y`. |\n"
    assert written(page) == [("a move ends", 2)]
