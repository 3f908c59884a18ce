"""The dashboard shows what a backend says in sentences, and reads only facts: enums and numbers.

Sentences are told by the names of the fields that hold them. A function that takes one under
another name is not seen here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

TUI = ROOT / "tui"
TOLD_BY = (*(ROOT / "backend" / "domain").rglob("*.py"), *(ROOT / "backend" / "api").rglob("*.py"))

PATTERNS: Final[Mapping[str, str]] = {
    "changes/plan/diff_grid.py": "signs in cells that the dashboard wrote itself",
    "changes/plan/fields.py": "what an operator types",
    "changes/wizard/parsing.py": "what an operator types",
    "facts/filter_terms.py": "what an operator types",
    "film/moving_picture.py": "parts of a picture of the screen",
    "handover_notes/notes.py": "escapes for Markdown",
    "handover_notes/writer.py": "a file's name from a cluster's id",
    "recorder/retention.py": "a folder's name from a cluster's id",
    "terminal/screen_diff.py": "cells that the dashboard wrote itself",
    "text/picture.py": "texts of a picture of the screen",
    "views/audit/table.py": "what an operator types",
    "views/partitions/filter_masks.py": "what an operator types, on names of topics",
}
"""Modules that look for patterns, and in what."""

SENTENCES: Final = frozenset(
    {
        "advice",
        "detail",
        "foreseen",
        "last_error",
        "meaning",
        "message",
        "notes",
        "outcome",
        "problem",
        "problems",
        "reason",
        "remarks",
        "remedy",
        "sentence",
        "settled_reason",
        "summary",
        "unreadable",
        "warnings",
        "why",
        "words",
    }
)
"""Fields in which a backend tells something in words."""
READING: Final = frozenset(
    {
        "casefold",
        "count",
        "endswith",
        "find",
        "index",
        "lower",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rpartition",
        "rsplit",
        "split",
        "splitlines",
        "startswith",
        "upper",
    }
)
"""Methods that look into a text, or take it apart."""
PATTERN_METHODS: Final = frozenset({"findall", "finditer", "fullmatch", "match", "search", "sub"})
ALLOWED: Final[Mapping[str, str]] = {
    "changes/wizard/screen.py:_ask": "whether an operator has typed another reason",
    "data/polling.py:_ask": "whether a failure is another one: the same is told once",
    "views/attention.py:_status": "a capital letter where a line begins",
    "views/operations/screen.py:_ask_audit": "whether anything is new: then the audit is asked",
    "views/table_screen.py:_show_hint": "the dashboard's own hint",
    "views/throttles/details.py:_advice": "a code of the pipeline: raise, lower, keep",
    "views/throttles/details.py:advice_lines": "a code of the pipeline: raise, lower, keep",
}
"""Functions that look into such a field, or compare it, and why they may."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TUI.rglob("*.py")):
        yield str(path.relative_to(TUI)), tree_of(path)


def imports_patterns(tree: ast.Module) -> bool:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names}
    return "re" in names or any(getattr(node, "module", "") == "re" for node in nodes)


def test_patterns_are_looked_for_in_nothing_that_a_backend_says() -> None:
    assert sorted(name for name, tree in modules() if imports_patterns(tree)) == sorted(PATTERNS)


def test_every_field_that_is_called_a_sentence_is_there() -> None:
    nodes = [node for path in TOLD_BY for node in ast.walk(tree_of(path))]
    targets = [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    assert SENTENCES - {target.id for target in targets if isinstance(target, ast.Name)} == set()


class Reader(ast.NodeVisitor):
    """Finds where a function looks into a sentence."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        """Names that hold one."""
        self.found: list[str] = []

    def is_said(self, node: ast.AST | None) -> bool:
        match node:
            case ast.Attribute(attr=name):
                return name in SENTENCES
            case ast.Name(id=name):
                return name in self.said
            case ast.Subscript(value=value) | ast.Starred(value=value):
                return self.is_said(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
                return any(map(self.is_said, parts))
            case ast.IfExp(body=body, orelse=other):
                return self.is_said(body) or self.is_said(other)
            case ast.NamedExpr(value=value):
                return self.is_said(value)
        return False

    def _bind(self, target: ast.AST, value: ast.AST | None) -> None:
        if isinstance(target, ast.Name) and self.is_said(value):
            self.said.add(target.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            looks = called.attr in READING and self.is_said(called.value)
            keyed = called.attr == "get" or called.attr in PATTERN_METHODS
            if looks or (keyed and any(map(self.is_said, node.args))):
                self.found.append(ast.unparse(node))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        empty = any(isinstance(side, ast.Constant) and not side.value for side in sides)
        if any(map(self.is_said, sides)) and not empty:
            self.found.append(ast.unparse(node))
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        if self.is_said(node.subject):
            self.found.append(f"match {ast.unparse(node.subject)}")
        self.generic_visit(node)


def found_in(tree: ast.Module) -> dict[str, list[str]]:
    """Where the functions of a module look into sentences."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            reader = Reader()
            for _ in range(2):
                # Once more: a comprehension says first what it makes, and then of what.
                reader.found.clear()
                for statement in node.body:
                    reader.visit(statement)
            if reader.found:
                found[node.name] = reader.found
    return found


def readings() -> dict[str, list[str]]:
    """The same of the whole dashboard."""
    return {
        f"{name}:{function}": how
        for name, tree in modules()
        for function, how in found_in(tree).items()
    }


def test_no_sentence_of_a_backend_is_read() -> None:
    found = readings()
    assert {place: how for place, how in found.items() if place not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "what is allowed is still done"


@pytest.mark.parametrize(
    "body",
    [
        "return operation.outcome.startswith('waits')",
        "text = error.message\n    return 'broker' in text",
        "return [note for note in answer.notes if note not in known]",
        "return _RATE.search(result.message)",
        "head, _, rest = (one.reason or one.outcome).partition(': ')",
        "return _TONES.get(operation.outcome)",
        "match progress.words:\n        case 'copies': pass",
        "return now.words != progress.words",
    ],
)
def test_a_sentence_that_is_read_is_found(body: str) -> None:
    assert found_in(ast.parse(f"def show(*_):\n    {body}"))


@pytest.mark.parametrize(
    "body",
    [
        "return f'{operation.outcome}.'",
        "return [line for line in answer.notes if line]",
        "return operation.outcome != ''",
        "return operation.state == 'done'",
    ],
)
def test_a_sentence_that_is_shown_is_not_found(body: str) -> None:
    assert not found_in(ast.parse(f"def show(*_):\n    {body}"))
