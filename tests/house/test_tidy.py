"""House rules that no linter checks: sizes, and what tests may not use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCES = sorted(
    path for part in ("backend", "tui", "tests") for path in (ROOT / part).rglob("*.py")
)
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
BANNED_IN_TESTS = ("unittest.mock", "time.sleep(", "asyncio.sleep(")
UNFINISHED = re.compile(r"#\s*(TODO|FIXME|XXX)\b")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without those of functions inside it, which are counted by themselves."""
    inner = [node for node in functions(function) if node is not function]
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - sum((node.end_lineno or 0) - node.lineno + 1 for node in inner)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX
    large = {f.name: own_lines(f) for f in functions(ast.parse(text))}
    assert {name: n for name, n in large.items() if n > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unfinished_mocked_or_slept_through(path: Path) -> None:
    text = path.read_text()
    assert not UNFINISHED.search(text)
    if path.is_relative_to(ROOT / "tests") and path != Path(__file__):
        # To sleep for no time is to let others run, and waits for nothing.
        waiting = text.replace("asyncio.sleep(0)", "")
        assert [word for word in BANNED_IN_TESTS if word in waiting] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [p for p in SOURCES if ast.get_docstring(ast.parse(p.read_text())) is None]
    assert silent == []


def test_tests_that_share_a_cluster_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    # Where they did not, every process would start brokers of its own.
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@test_tidy.py")
