"""Texts in the code that the product shows.

Goals
    Each text that a user may read is found once, with its file and its line.
Constraints
    A docstring is not shown, and is found apart. SQL and a list of names such as `a.b.c` are no
    texts. A help text has tables: a line of a table is a sentence of its own.
Algorithm
    Literals are read from the syntax tree. Each field of an f-string, and each one of a log line,
    counts as one word. A text is cut into paragraphs, and a paragraph with columns into lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.documents.prose import Kind, Sentence

FIELD = "X"
"""In a text: a field that is filled in."""
WORDS_MIN = 2
"""A literal with fewer words is a label or a name."""

_WORD = re.compile(r"(?<![\w.-])[A-Za-z]{2,}(?![\w.-]*\w)")
_NAME = re.compile(r"\w[._/-]\w")
_FIELDS = re.compile(r"%(?:\([^)]*\))?[-#0 +]*\d*(?:\.\d+)?[srdfga]|\{[a-z_.]*\}")
_CODE = re.compile(r"\x1b|^\s*(?:SELECT|CREATE|INSERT|UPDATE|WITH|SET|COPY) |^\s*</?[a-z!]")
_COLUMNS = re.compile(r"\S {2,}\S")
_ENTRY = re.compile(r"^\s+(\**\w+(?:, \**\w+)*: )")
"""Of a list in a docstring, such as its arguments."""
_ENDS = re.compile(r"""(?<=[.!?;])["”)]?\s+""")


@dataclass(frozen=True, slots=True)
class Text:
    """One literal of the code that has words."""

    line: int
    text: str
    """Each field of it is `X`."""


def texts(code: str) -> list[Text]:
    """Every text of a module, in its order."""
    found = [one for one in _literals(ast.parse(code)) if _is_prose(one.text)]
    return sorted(found, key=lambda one: one.line)


def sentences_of(text: Text) -> Iterator[Sentence]:
    """The sentences of a text; a line of a table is one too."""
    for paragraph in re.split(r"\n\s*\n", text.text):
        lines = paragraph.splitlines()
        tabular = any(_COLUMNS.search(line.strip()) for line in lines)
        for block in lines if tabular else [paragraph]:
            kind = Kind.CELL if tabular else Kind.TEXT
            for part in _ENDS.split(" ".join(block.split())):
                if any(c.isalnum() for c in part):
                    yield Sentence(text.line, kind, part)


def docstrings(code: str) -> list[Text]:
    """Every docstring of a module, those of attributes too, as Markdown: entries are items."""
    tree = ast.parse(code)
    passed = set(_docstrings(tree))
    found = [
        Text(node.lineno, _as_markdown(node.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) in passed
    ]
    return sorted(found, key=lambda one: one.line)


def _as_markdown(text: str) -> str:
    """Without literal blocks, and with each entry of `Args:` and the like as an item."""
    lines: list[str] = []
    literal: int | None = None
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if literal is not None and (not line.strip() or depth > literal):
            continue
        literal = depth if line.rstrip().endswith("::") else None
        lines.append(_ENTRY.sub(r"- \1", line))
    return "\n".join(lines)


def texts_below(*folders: Path) -> Iterator[tuple[Path, Text]]:
    """The texts of every module in these folders."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for text in texts(path.read_text()):
                yield path, text


def _literals(tree: ast.Module) -> Iterator[Text]:
    passed = set(_docstrings(tree))
    for node in ast.walk(tree):
        if id(node) in passed:
            continue
        if isinstance(node, ast.JoinedStr):
            passed.update(id(part) for part in node.values)
            yield Text(node.lineno, "".join(_piece(part) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(node.lineno, _FIELDS.sub(FIELD, node.value))


def _piece(part: ast.expr) -> str:
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return _FIELDS.sub(FIELD, part.value)
    return FIELD


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """Strings that are statements: those of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def _is_prose(text: str) -> bool:
    """Whether it has words enough, and more of them than names such as `a.b.c`."""
    words = len(_WORD.findall(text))
    return words >= WORDS_MIN and not _CODE.search(text) and words >= len(_NAME.findall(text))
