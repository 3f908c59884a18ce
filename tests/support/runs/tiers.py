"""Which tests `make test` runs, which are of `make check`, and which wait for `make test-all`.

`CONTRIBUTING.md` has the table of tiers, and a test compares the folders that it names.

A folder decides, then a mark: `kafka`, `zookeeper`, `spark` and `slow` put a test of a quick folder
into the slow tier. Of a frame that is compared at two sizes, the large one is of the slow tier too.
Everything in `story` is quick, on real brokers too. What `house` holds reads the files of the
project, and is a tier of its own. A path or a name on the command line runs
whatever it names. Benchmarks are of no tier (`make bench`).

A module of `tui` or `unit` says in its text that it has slow tests: by such a mark, or by the sizes
of its frames. The slow tier leaves the others unread, as importing them takes longer than finding
that out. The quick tier reads all of them, and there a slow test that would be lost fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

OPTION: Final = "--tier"
QUICK: Final = "quick"
SLOW: Final = "slow"
HOUSE: Final = "house"
ALL: Final = "all"
TIERS: Final = (QUICK, SLOW, HOUSE, ALL)

SLOW_FOLDERS: Final = ("served", "kafka", "zookeeper", "spark")
STORY_FOLDER: Final = "story"
WHOLLY_QUICK_FOLDERS: Final = ("property", "story")
HOUSE_FOLDER: Final = "house"
SELDOM_SLOW_FOLDERS: Final = ("tui", "unit")
"""Of few of their modules the slow tier has any test."""
SLOW_MARKS: Final = ("kafka", "zookeeper", "spark", "slow")
LARGE_SIZE: Final = "160x50"
"""What the name of a test of a large terminal has in its brackets."""
NAMES_SLOW: Final = re.compile(
    rf"mark\.({'|'.join(SLOW_MARKS)})\b|sized|at_size|SIZES|{LARGE_SIZE}"
)
"""What the text of a module has that holds a slow test in a folder of few."""


def chosen(config: pytest.Config) -> str:
    """The tier of this run: as asked; else `quick`, or all of what the command line names."""
    asked: str | None = config.getoption(OPTION)
    if asked is not None:
        return asked
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return QUICK if whole and not config.option.markexpr else ALL


def left_out(path: Path, tier: str) -> bool:
    """Whether nothing in a folder of `tests` is of the tier, so that it need not be imported."""
    if not path.is_relative_to(ROOT / "tests") or path == ROOT / "tests":
        return False
    folder = path.relative_to(ROOT / "tests").parts[0]
    if tier == HOUSE:
        return folder != HOUSE_FOLDER
    if tier == SLOW and path.name.startswith("test_") and not _names_slow(path):
        return True
    unread: Mapping[str, Sequence[str]] = {
        QUICK: (*SLOW_FOLDERS, HOUSE_FOLDER, "bench"),
        SLOW: (*WHOLLY_QUICK_FOLDERS, HOUSE_FOLDER, "bench"),
        ALL: (),
    }
    return folder in unread[tier]


def is_of(item: pytest.Item, tier: str) -> bool:
    """Whether a test is of the tier."""
    if tier == ALL:
        return True
    folder = _folder_of(item.path)
    if HOUSE in (folder, tier):
        return folder == tier
    if folder == STORY_FOLDER:
        slow = False
    else:
        marked = any(mark.name in SLOW_MARKS for mark in item.iter_markers())
        marked = marked or item.name.endswith(f"{LARGE_SIZE}]")
        slow = folder in SLOW_FOLDERS or marked
    return slow == (tier == SLOW)


def is_lost(item: pytest.Item) -> bool:
    """Whether a test is slow, and the slow tier would not read its module."""
    return is_of(item, SLOW) and not _names_slow(item.path)


@cache
def _names_slow(path: Path) -> bool:
    """Whether a module may have slow tests."""
    if _folder_of(path) not in SELDOM_SLOW_FOLDERS:
        return True
    return NAMES_SLOW.search(path.read_text("utf-8")) is not None


@cache
def _folder_of(path: Path) -> str:
    """The folder of `tests` in which a module is, asked for each of its tests."""
    return path.relative_to(ROOT / "tests").parts[0]
