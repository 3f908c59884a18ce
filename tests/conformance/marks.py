"""Which test is marked with which statement, read from the source of the tests.

`@pytest.mark.conforms("kip-179:throttle", …)` says that a test holds kshunt to these statements.
The files are read and not run, so that the document is written in a second.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent.parent
MARK: Final = "pytest.mark.conforms"


def marked_tests(folder: Path = TESTS) -> dict[str, tuple[str, ...]]:
    """The tests by statement, each as `folder/test_file.py::test_name`, sorted.

    Raises:
        ValueError: a mark has something else than strings in it.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for statement, name in _marks(ast.parse(path.read_text("utf-8"))):
            found.setdefault(statement, []).append(f"{path.relative_to(folder)}::{name}")
    return {statement: tuple(sorted(set(tests))) for statement, tests in found.items()}


def _marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK:
                    yield from ((_text(one, node.name), node.name) for one in decorator.args)


def _text(argument: ast.expr, test: str) -> str:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    raise ValueError(f"the mark of {test} has something else than a string in it")
