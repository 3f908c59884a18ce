"""Breaks the code in one place at a time, and counts how often the quick tier notices.

    python -m tests.support.runs.mutants --seed 1 --count 10 backend/domain backend/wire

It works in a copy of the working tree and prints each mutant that no test noticed. The test files
that name the mutated module come first, then those of its package. What they let pass faces the
whole quick tier. `strict` of `zip` is not mutated: it asserts what holds.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
DEADLINE_S: Final = 1_800.0
LEFT_OUT: Final = (".git", ".venv", ".mypy_cache", ".hypothesis", ".pytest_cache", "libs")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of one file, and what stands there instead."""

    path: Path
    line: int
    before: str
    after: str
    source: str
    """The whole file with the mutant in it."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes below functions that can be mutated, each once."""
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS):
            for statement in function.body:
                yield from filter(_can_change, _own(statement))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, without functions in it and what cannot make a difference."""
    if isinstance(node, _FUNCTIONS) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own(child)


def _can_change(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[only]):
            return type(only) in COMPARISONS
        case ast.BinOp(left=ast.Constant(value=str())) | ast.BinOp(right=ast.JoinedStr()):
            return False
        case ast.BinOp(op=op):
            return type(op) in ARITHMETIC
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.IfExp():
            return True
        case ast.Constant(value=bool() | int()):
            return True
        case _:
            return False


def changed(node: ast.AST) -> ast.AST:
    """The node's opposite."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[only]):
            other.ops = [COMPARISONS[type(only)]()]
        case ast.BinOp(op=op):
            other.op = ARITHMETIC[type(op)]()
        case ast.BoolOp(op=op):
            other.op = ast.And() if isinstance(op, ast.Or) else ast.Or()
        case ast.UnaryOp(operand=operand):
            return operand
        case ast.IfExp(body=body, orelse=orelse):
            other.body, other.orelse = orelse, body
        case ast.Constant(value=bool() as value):
            other.value = not value
        case ast.Constant(value=int() as value):
            other.value = value + 1
        case _:
            raise ValueError(f"nothing to change in {ast.dump(node)}")
    return other


def mutants(folder: Path, count: int, chance: random.Random) -> list[Mutant]:
    """That many places of a folder, each as likely as any other that can be mutated."""
    found = [
        (path, node)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in places(ast.parse(path.read_text()))
    ]
    return [_mutant(path, node) for path, node in chance.sample(found, count)]


def _mutant(path: Path, node: ast.AST) -> Mutant:
    source = path.read_text()
    before = ast.get_source_segment(source, node)
    assert before is not None
    assert isinstance(node, ast.expr)
    after = f"({ast.unparse(changed(node))})"
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    text = (
        source.encode()[:start] + after.encode() + source.encode()[start + len(before.encode()) :]
    )
    return Mutant(path.relative_to(ROOT), node.lineno, before, after, text.decode())


def near(path: Path) -> tuple[list[str], list[str]]:
    """Quick test files that name a module; others that name its package, or lie in its folder."""
    module, package = ".".join(path.with_suffix("").parts), ".".join(path.parent.parts)
    folders = (Path("tests", *path.parent.parts), Path("tests/unit", *path.parent.parts[1:]))
    texts = {
        str(file.relative_to(ROOT)): file.read_text()
        for folder in ("unit", "property", "contract", "tui")
        for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    }
    naming = [file for file, text in texts.items() if module in text]
    beside = [
        file
        for file, text in texts.items()
        if f"{package}." in text or any(Path(file).is_relative_to(folder) for folder in folders)
    ]
    return naming, [file for file in beside if file not in naming]


def is_noticed(mutant: Mutant, copy_of_it: Path, *, near_only: bool) -> bool:
    """Whether a test of the quick tier fails, or cannot be read, with the mutant in the copy.

    `near_only` leaves it at the test files that are near the mutated module.
    """
    target = copy_of_it / mutant.path
    original = target.read_text()
    target.write_text(mutant.source)
    try:
        for files in filter(None, near(mutant.path)):
            if _failure(copy_of_it, "--tier", "quick", *files):
                return True
        if near_only:
            return False
        everything = ("-n", "5", "--dist", "loadgroup", "--no-loadscope-reorder")
        return bool(_failure(copy_of_it, *everything))
    finally:
        target.write_text(original)


def _failure(folder: Path, *arguments: str) -> str:
    """What pytest says at its end where a test fails; nothing where all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{folder}/src:{folder}"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return f"no end within {DEADLINE_S:g} s"
    if done.returncode in (0, 5):
        return ""
    return "\n".join((done.stdout + done.stderr).splitlines()[-12:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many mutants of each folder the tests notice.

    Returns:
        1 where that is fewer than nine of ten; 2 where tests fail without a mutant.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10, help="mutants of each folder")
    parser.add_argument("--near-only", action="store_true", help="spare survivors the whole tier")
    options = parser.parse_args(arguments)
    unnoticed = tried = 0
    with tempfile.TemporaryDirectory(prefix="kshunt-mutants-") as name:
        copy_of_it = Path(name, "kshunt")
        shutil.copytree(ROOT, copy_of_it, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for folder in options.folders:
            chosen = mutants(folder, options.count, random.Random(options.seed))
            asked = {file for mutant in chosen for files in near(mutant.path) for file in files}
            if said := _failure(copy_of_it, "--tier", "quick", *sorted(asked)):
                print(f"{folder}: this fails without a mutant:\n{said}")
                return 2
            left = [
                mutant
                for mutant in chosen
                if not is_noticed(mutant, copy_of_it, near_only=options.near_only)
            ]
            noticed = f"{len(chosen) - len(left)} of {len(chosen)} noticed"
            print(f"{folder}, seed {options.seed}: {noticed}", flush=True)
            for mutant in left:
                print(f"  {mutant}", flush=True)
            unnoticed, tried = unnoticed + len(left), tried + len(chosen)
    return int(unnoticed > tried / 10)


if __name__ == "__main__":
    sys.exit(main())
