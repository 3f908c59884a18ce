"""House rules that no linter checks: sizes, what tests may not use, and what they may import."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.groups import LONGEST
from tests.support.runs.tiers import SLOW_FOLDERS

TESTS = ROOT / "tests"
SOURCES = sorted(
    path for part in ("src", "backend", "tui", "tests") for path in (ROOT / part).rglob("*.py")
)
FUNCTION_LINES_MAX = 70
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BANNED_IN_TESTS = ("unittest.mock", "time.sleep(", "asyncio.sleep(")
UNFINISHED = re.compile(r"#\s*(TODO|FIXME|XXX)\b")
QUICK_FOLDERS = ("unit", "property", "tui")
NOT_QUICK = re.compile(r"\bmark\.(?:kafka|spark|zookeeper)\b|\bflavours\(")
"""What makes a test wait for brokers or Spark."""


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@dataclass(frozen=True)
class Source:
    """What the rules ask of a file; its syntax tree takes a hundred times the room."""

    has_docstring: bool
    imports_from: tuple[str, ...]
    long_functions: dict[str, int]
    """Lines of those with too many."""


@cache
def source(path: Path) -> Source:
    tree = ast.parse(text_of(path))
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
    # One that is small with all that is in it is small without.
    sizes = {node.name: own_lines(node) for node in functions if lines(node) > FUNCTION_LINES_MAX}
    return Source(
        has_docstring=ast.get_docstring(tree) is not None,
        imports_from=tuple(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)),
        long_functions={name: n for name, n in sizes.items() if n > FUNCTION_LINES_MAX},
    )


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(function: ast.stmt) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def own_lines(function: ast.stmt) -> int:
    """Lines of a function without those of functions inside it, which are counted by themselves."""
    inner = [node for node in ast.walk(function) if isinstance(node, FUNCTIONS)]
    return lines(function) - sum(lines(node) for node in inner if node is not function)


def test_functions_stay_small() -> None:
    found = {named(path): source(path).long_functions for path in SOURCES}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_nothing_is_unfinished_mocked_or_slept_through() -> None:
    assert [named(path) for path in SOURCES if UNFINISHED.search(text_of(path))] == []
    found = {}
    for path in SOURCES:
        if path.is_relative_to(TESTS) and path != Path(__file__):
            # To sleep for no time is to let others run, and waits for nothing.
            waiting = text_of(path).replace("asyncio.sleep(0)", "")
            found[named(path)] = [word for word in BANNED_IN_TESTS if word in waiting]
    assert {name: words for name, words in found.items() if words} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [named(path) for path in SOURCES if not source(path).has_docstring] == []


def imported_tests(path: Path) -> list[str]:
    """The modules of tests that a file imports: what is shared lies in `tests.support`."""
    folders = ("tests.support", "tests.conformance")
    modules = source(path).imports_from
    return [name for name in modules if name.startswith("tests.") and not name.startswith(folders)]


def test_folders_of_tests_share_by_support_alone() -> None:
    tests = [path for path in SOURCES if path.is_relative_to(TESTS)]
    found = {named(path): imported_tests(path) for path in tests}
    assert {name: modules for name, modules in found.items() if modules} == {}
    quick = [path for folder in QUICK_FOLDERS for path in (TESTS / folder).rglob("*.py")]
    assert [named(path) for path in quick if NOT_QUICK.search(text_of(path))] == []


def test_tests_that_share_a_cluster_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    # Where they did not, every process would start brokers of its own.
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@tests/house/test_tidy.py")


def test_folders_that_a_quick_run_leaves_out_exist() -> None:
    assert [name for name in SLOW_FOLDERS if not (TESTS / name / "__init__.py").exists()] == []


def test_groups_that_begin_first_exist() -> None:
    places = [ROOT / group.rpartition(": ")[2] for group in LONGEST]
    assert [named(place) for place in places if not place.exists()] == []
